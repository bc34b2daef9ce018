"""Several processes, and many intents, on one file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, event, insert
from stores import asked, proposal, transit

from lastlook import Change, Gate, Memory, MemoryPermit, Outcome, State, arg, block_unless, resource
from lastlook.store import tables
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
NOW = FakeClock().now()

RACER = """
import sys
from lastlook.records import State
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock
from stores import proposal, transit

url, me = sys.argv[1:]
store, now = SqlStore(url), FakeClock().now()
store.namespace

def one_intent(n):
    return store.append(transit("shared", n, body={"by": me}), now).ok

def different(n):
    return store.create(proposal(f"{me}-{n}"), now, None).ok and store.append(transit(f"{me}-{n}", 0), now).ok

def one_id(n):
    return store.create(proposal(f"id-{n}", effect=me), now, None).ok

def one_lane(n):
    name = f"{me}-lane-{n}"
    store.create(proposal(name, lane="one"), now, None)
    won = store.append(transit(name, 0, "ATTEMPT", State.ATTEMPT, attempt=1, owner=me), now).ok
    return won and store.append(transit(name, 1, "CLOSED", attempt=1), now).ok

for act in (one_intent, different, one_id, one_lane):
    print("ready", flush=True)
    sys.stdin.readline()
    print(sum(act(n) for n in range(10)), flush=True)
"""

FRESH = """
import json, sys
from lastlook import Change, Gate, Memory, MemoryPermit, arg, block_unless, resource

url, intent_id, limit = sys.argv[1:]
world = Memory(orders={"o-1": {"refunded": False}}, policies={"refund": {"limit": int(limit)}})
gate = Gate(world, store=url)
order, policy = resource("orders", arg.order_id), resource("policies", "refund")

@gate.effect(target=order, premises=[block_unless(~order.refunded), block_unless(arg.amount <= policy.limit)])
def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
    permit.change("orders", order_id, refunded=True)
    return f"{order_id}: {amount}"

hinted = [(p.intent.id, p.outcome.name) for p in gate.affected(Change("policies", "refund", "limit"))]
verdict = gate(gate.intent(intent_id))
result = verdict.committed and verdict.result()
print(json.dumps([hinted, verdict.outcome.name, verdict.applied.name, list(verdict.checked), result]))
"""


def started(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of its own with this project's modules."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join([*sys.path, str(ROOT)])},
    )


def race(processes: Sequence[subprocess.Popen[str]]) -> list[int]:
    """How often each of some processes wins the next race, which they start together."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [int(process.stdout.readline()) for process in processes if process.stdout is not None]


@pytest.mark.parametrize("wal", [True, False])
def test_processes_on_one_file(tmp_path: Path, wal: bool) -> None:
    """Every record of one intent has one writer; other intents do not stand in each other's way; all chains hold."""
    file = tmp_path / "store.db"
    if not wal:
        file.touch()  # a file that is there keeps its rollback journal
    store = SqlStore(f"sqlite:///{file}")
    store.install()
    store.create(proposal("shared"), NOW, None)
    processes = [started(RACER, f"sqlite:///{file}", name) for name in ("a", "b", "c")]
    assert sum(race(processes)) == len(store.journal("shared")) - 1
    assert race(processes) == [10, 10, 10]
    assert sum(race(processes)) == 10
    assert sum(race(processes)) > 0
    for process in processes:
        assert process.communicate(timeout=60)[0] == ""
        assert process.returncode == 0
    for intent_id in store.intents():
        store.verify(intent_id)
    assert len(list(store.intents())) == 1 + 30 + 10 + 30
    kinds = asked(file, "SELECT kind FROM lastlook_journal WHERE intent_id LIKE '%-lane-%' ORDER BY rowid")
    attempts = 0
    for (kind,) in kinds:
        attempts += {"ATTEMPT": 1, "CLOSED": -1}.get(kind, 0)
        assert attempts in (0, 1), "two attempts were open on one lane"
    store.close()


@pytest.mark.parametrize(("limit", "outcome"), [(100, Outcome.KEEP), (50, Outcome.BLOCK)])
def test_a_fresh_process_gates_what_another_proposed(tmp_path: Path, limit: int, outcome: Outcome) -> None:
    """Plan, index and verdict come from the records alone: only what changed is judged again, and hints find it."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    world = Memory(orders={"o-1": {"refunded": False}}, policies={"refund": {"limit": 100}})
    gate = Gate(world, store=url)
    gate.install()
    order, policy = resource("orders", arg.order_id), resource("policies", "refund")

    @gate.effect(target=order, premises=[block_unless(~order.refunded), block_unless(arg.amount <= policy.limit)])
    def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
        return ""

    intent = refund.propose("o-1", amount=80)
    said, _ = started(FRESH, url, intent.id, str(limit)).communicate(timeout=60)
    hinted, said_outcome, applied, checked, result = json.loads(said)
    assert hinted == [[intent.id, outcome.name]]
    if outcome is Outcome.KEEP:
        assert (said_outcome, applied, checked, result) == ("KEEP", "COMMITTED", [], "o-1: 80")
    else:
        assert (said_outcome, applied, len(checked), result) == ("BLOCK", "NOT_ATTEMPTED", 1, False)
    assert gate.pending() == ([] if outcome is Outcome.KEEP else [intent])


# Many intents.


def filled(file: Path, count: int) -> None:
    """A store of so many pending intents, made at once from one of them."""
    engine = create_engine(f"sqlite:///{file}")
    store = SqlStore(engine)
    store.install()
    for name in ("model", "other"):
        store.create(proposal(name), NOW, None)
    with engine.begin() as connection:
        row = dict(connection.execute(tables.intent.select()).mappings().first() or {})
        record = dict(connection.execute(tables.journal.select()).mappings().first() or {})
        names = [f"bulk-{n}" for n in range(count)]
        connection.execute(insert(tables.intent), [{**row, "intent_id": name, "lane": name} for name in names])
        connection.execute(insert(tables.journal), [{**record, "intent_id": name} for name in names])
    engine.dispose()


def cost(file: Path) -> tuple[list[str], int]:
    """The statements that opening the store and gating one intent take, and how many steps SQLite's machine makes."""
    engine = create_engine(f"sqlite:///{file}")
    statements: list[str] = []
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def listen(connection: Any, *_: object) -> None:
        connection.set_trace_callback(statements.append)
        connection.set_progress_handler(step, 1)

    event.listen(engine, "connect", listen)
    world = Memory(orders={"o-1": {"refunded": False}})
    gate = Gate(world, store=engine)
    order = resource("orders", arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str) -> str:
        permit.change("orders", order_id, refunded=True)
        return "refunded"

    intent = refund.propose("o-1")
    assert gate(intent).committed
    engine.dispose()
    return [re.split(r" WHERE | VALUES | SET ", sql)[0] for sql in statements], steps[0]


def constant(tmp_path: Path, few: int, many: int) -> None:
    """Nothing that grows with the store is executed or read."""
    costs = []
    for count in (few, many):
        filled(tmp_path / f"{count}.db", count)
        costs.append(cost(tmp_path / f"{count}.db"))
    (statements, steps), (as_many, more_steps) = costs
    assert statements == as_many
    # A tree of more levels costs a step or two each, never one a row.
    assert abs(more_steps - steps) < 50


def test_opening_a_store_and_gating_one_reads_nothing_that_grows(tmp_path: Path) -> None:
    """With 2,000 and with 20,000 pending intents the same statements are executed in as many steps."""
    constant(tmp_path, 2_000, 20_000)


@pytest.mark.slow
def test_opening_a_large_store_reads_nothing_that_grows(tmp_path: Path) -> None:
    """The same of 100,000 pending intents."""
    constant(tmp_path, 1_000, 100_000)


def test_a_hint_reads_only_what_is_new_and_what_it_reaches(tmp_path: Path) -> None:
    """After the first hint, another one costs the same however many intents are pending that it does not reach."""
    costs: list[int] = []
    for count in (200, 2_000):
        file = tmp_path / f"{count}.db"
        filled(file, count)
        engine = create_engine(f"sqlite:///{file}")
        steps = [0]
        gate = Gate(Memory(orders={"o-1": {"refunded": False}}), store=engine)
        order = resource("orders", arg.order_id)

        @gate.effect(target=order, premises=[block_unless(~order.refunded)], name="watch")
        def watch(permit: MemoryPermit, order_id: str) -> None:
            permit.no_write()

        assert gate.affected(Change("orders", "o-1")) == []
        other = SqlStore(engine)
        other.create(proposal("new", effect="watch"), NOW, None)
        intent = watch.propose("o-1")

        def step(steps: list[int] = steps) -> int:
            steps[0] += 1
            return 0

        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(step, 1)
        assert [preview.intent for preview in gate.affected(Change("orders", "o-1", "refunded"))] == [intent]
        driver.set_progress_handler(None, 1)
        costs.append(steps[0])
        engine.dispose()
    assert abs(costs[0] - costs[1]) < 50


def test_the_plans_of_the_queries_use_an_index(tmp_path: Path) -> None:
    """No statement of the store scans a table, but for the three rows that describe it."""
    file = tmp_path / "store.db"
    store = SqlStore(f"sqlite:///{file}")
    store.install()
    operations = store._operations
    for name in ("_load", "_stand", "_find", "_move", "_pending", "_since", "_newest", "_page", "_alive", "_records"):
        statement = getattr(operations, name)
        plans = asked(file, f"EXPLAIN QUERY PLAN {statement.sql}", *["1"] * len(statement.names))
        told = [detail for *_, detail in plans]
        assert not [detail for detail in told if detail.startswith("SCAN")], (name, told)
        assert ("lastlook_intent_pending" in "".join(told)) == (name in ("_pending", "_since")), (name, told)
    store.close()


def test_a_transition_of_an_intent_that_ended_elsewhere_is_lost(tmp_path: Path) -> None:
    """What another process ended, this one does not move."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    here, there = SqlStore(url), SqlStore(url)
    here.install()
    here.create(proposal("i-1"), NOW, None)
    assert there.append(transit("i-1", 0, "WITHDRAWN", State.WITHDRAWN), NOW).ok
    assert not here.append(transit("i-1", 0, "ATTEMPT", State.ATTEMPT, attempt=1), NOW).ok
    assert list(here.gone(["i-1", "i-2"])) == ["i-1", "i-2"]
    for each in (here, there):
        each.close()
