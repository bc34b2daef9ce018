"""The parts of the evaluation that need a database: durable cells, races, and the binding boundary."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import Gate, arg, block_unless, resource
from lastlook.errors import DeclarationError
from lastlook_connectors.sql import Sql, SqlPermit, row
from lastlook_scenarios import boundary, cells, durable, durable_baselines, durable_shop, oracle, races

if TYPE_CHECKING:
    from pathlib import Path

    from lastlook_scenarios.raw import DurableRow

ALL_CELLS = [(of, change) for of in cells.PATTERNS for change in of.changes]
NAMES = [f"{of.name}-{change.name}" for of, change in ALL_CELLS]


# --- Durable cells ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> list[DurableRow]:
    """One trial of every cell by every method."""
    return [answer for of in cells.PATTERNS for answer in durable.trials(of, [1], alone=False)]


def by_method(rows: list[DurableRow], method: str) -> list[DurableRow]:
    """The rows of one method."""
    return [answer for answer in rows if answer.method == method]


def test_there_are_ten_cells_with_six_premises(found: list[DurableRow]) -> None:
    """Two patterns of five changes, each answered once by each of four methods; FullScan evaluates six rules."""
    assert len(ALL_CELLS) == 10
    assert Counter(answer.method for answer in found) == dict.fromkeys(durable.METHODS, 10)
    assert {answer.premises for answer in by_method(found, "FullScan")} == {6}


def test_atr_and_full_scan_match_every_cell(found: list[DurableRow]) -> None:
    """Outcome, reasons and effect are the declared ones, and the business rules agree; the others match less."""
    for method in ("ATR", "FullScan"):
        for answer in by_method(found, method):
            assert (answer.outcome, answer.reasons) == (answer.expected, answer.expected_reasons), answer
            assert answer.released == (answer.oracle in ("KEEP", "REFRESH")), answer
    assert [answer.objection for answer in found if answer.objection] == []
    assert [answer for answer in found if answer.expected != answer.oracle] == []
    assert sum(answer.outcome == answer.expected for answer in by_method(found, "NoCheck")) == 4
    assert sum(answer.outcome == answer.expected for answer in by_method(found, "VersionAbort")) == 2


def test_a_resumed_gate_runs_only_what_the_change_touches(found: list[DurableRow]) -> None:
    """After a restart the irrelevant and the presentation-only change run nothing, each other change one premise."""
    ran = {(answer.pattern, answer.change): answer.premises for answer in by_method(found, "ATR")}
    for of in cells.PATTERNS:
        assert [ran[of.name, change.name] for change in of.changes] == [0, 0, 1, 1, 1]


@pytest.mark.slow
def test_a_process_for_each_cell_answers_the_same(found: list[DurableRow]) -> None:
    """Whether a fresh process resumes one file or several makes no difference."""
    (office, _) = cells.PATTERNS
    alone = list(durable.trials(office, [1], alone=True))
    assert alone == [answer for answer in found if answer.pattern == "office"]


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    """A resumption that fails names the method and gives the process's own words."""
    with pytest.raises(
        durable.ResumptionFailed, match=r"FullScan on office ended with exit status 1: [\s\S]*no such table"
    ):
        durable._resumed("FullScan", cells.PATTERNS[0], [tmp_path / "empty.db"])


@pytest.mark.parametrize(("of", "change"), ALL_CELLS, ids=NAMES)
def test_the_business_rules_say_what_each_change_demands(of: cells.Pattern, change: cells.Change) -> None:
    """The oracle, which knows no premise and no rule of the baselines, gives the declared outcome."""
    with closing(sqlite3.connect(":memory:")) as world:
        cells.create(world, of)
        shown = cells.tables(world, of)
        cells.make(world, change)
        assert oracle.judge(of.name, shown, cells.tables(world, of), of.arguments) == change.outcome


BREAKING: list[tuple[str, str, str, str, Any, str, str]] = [
    ("office", "meetings", "m-1", "state", "cancelled", "REPLAN", "the meeting is not agreed"),
    ("office", "rooms", "r-1", "in_service", False, "REPLAN", "the room is out of service"),
    ("office", "rooms", "r-1", "seats", 7, "REPLAN", "the room is too small"),
    ("office", "meetings", "m-1", "invited", True, "BLOCK", "already invited"),
    ("office", "policies", "office", "most_invited", 7, "BLOCK", "more than may be invited unasked"),
    ("office", "policies", "office", "assistant_may_invite", False, "BLOCK", "no authority to invite"),
    ("cloud", "incidents", "i-1", "state", "resolved", "REPLAN", "the incident is not open"),
    ("cloud", "services", "checkout", "healthy", 2, "REPLAN", "too few healthy instances"),
    ("cloud", "incidents", "i-1", "restarted", True, "BLOCK", "already restarted"),
    ("cloud", "policies", "operations", "freeze", True, "BLOCK", "a maintenance freeze is on"),
    ("cloud", "policies", "operations", "most_restarted", 2, "BLOCK", "more than may be restarted at once"),
    ("cloud", "policies", "operations", "agent_may_restart", False, "BLOCK", "no restart authority"),
]


@pytest.mark.parametrize("broken", BREAKING, ids=[f"{one[0]}-{one[6]}" for one in BREAKING])
def test_each_of_the_six_premises_decides(tmp_path: Path, broken: tuple[str, str, str, str, Any, str, str]) -> None:
    """Each premise, each rule of FullScan and the oracle stop the effect when that alone is broken, and name it."""
    name, table, key, column, value, outcome, reason = broken
    of, file = cells.pattern(name), str(tmp_path / "cell.db")
    change = cells.Change("other", table, key, column, value, outcome)
    with closing(sqlite3.connect(file)) as first:
        cells.create(first, of)
        shown = cells.tables(first, of)
        durable_baselines.checkpoint(first, of)
    durable_shop.checkpoint(file, name)
    with closing(sqlite3.connect(file)) as second:
        cells.make(second, change)
        assert oracle.judge(name, shown, cells.tables(second, of), of.arguments) == outcome
        answer = durable_baselines.resume(second, "FullScan")
        assert (answer.outcome, answer.reasons, answer.applied) == (outcome, [reason], False)
    resumed = durable_shop.resume(file, name)
    assert (resumed["outcome"], resumed["reasons"], resumed["applied"]) == (outcome, [reason], False)


# --- Races ------------------------------------------------------------------------------------------------------------


def test_exactly_one_of_two_gates_commits() -> None:
    """Two processes on two connections, over one intent and over one lane: one effect each time, in the ledger."""
    rows = list(races.run(20))
    assert [one.commits for one in rows] == [1] * 20
    assert Counter(one.over for one in rows) == {"intent": 10, "lane": 10}
    for one in rows:
        said = (one.first, one.second).count("COMMITTED")
        assert said == 1 if one.over == "lane" else said >= 1, one


def test_a_dead_racer_is_told(tmp_path: Path) -> None:
    """A racer whose database is gone ends the race with an error, and leaves nobody waiting."""
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    racer = context.Process(target=races.Racer(str(tmp_path / "no.db"), context.Barrier(2), ["x"]), args=(sending,))
    racer.start()
    sending.close()
    with pytest.raises(races.RaceFailed, match="ended before its race"):
        races._received(receiving)()
    racer.join()
    assert racer.exitcode == 1


# --- The binding boundary ---------------------------------------------------------------------------------------------


def test_the_boundary_is_where_the_binding_ends() -> None:
    """Bound, every stale effect is rejected and then blocked; with the target alone checked, every one is committed."""
    rows = list(boundary.histories(3))
    assert all(one.stale for one in rows)
    assert {(one.policy, one.binding, one.applied, one.outcome, one.released) for one in rows} == {
        ("same database", "bound", "REJECTED", "BLOCK", 0),
        ("same database", "target only", "COMMITTED", "KEEP", 1),
        ("another database", "target only", "COMMITTED", "KEEP", 1),
    }
    assert len(rows) == 9


def test_the_unbound_histories_need_a_written_acceptance(tmp_path: Path) -> None:
    """Without `accept=`, an effect whose policy the target cannot check is refused when it is declared."""
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{tmp_path / 'orders.db'}")
    desk = boundary.PolicyDesk(sqlite3.connect(":memory:"))
    gate = Gate(Sql(engine, boundary.Order), desk, store=engine)
    order, policy = row(boundary.Order, arg.order_id), resource("policies", "refund")
    with pytest.raises(DeclarationError, match="could never be released"):

        @gate.effect(target=order, premises=[block_unless(arg.amount <= policy.most, "over the refund limit")])
        def refund(permit: SqlPermit, order_id: str, amount: int) -> str:
            return f"{order_id} {amount}"

    desk._connection.close()
    engine.dispose()
