"""Store and target on one engine: a release is one transaction, and so is a call."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from shop import Order, Policy, change, declare, open_shop
from sqlalchemy import event
from stores import asked, proposal, transit

from lastlook import (
    Applied,
    EffectBlocked,
    EffectContended,
    Gate,
    KeyReused,
    Outcome,
    State,
    StoreBusy,
    arg,
    block_unless,
)
from lastlook.commands import Apply, Now
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock, events, failpoint, interpose
from lastlook_connectors.sql import Sql, SqlPermit, row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """The shop's engine, on a file."""
    made = open_shop(tmp_path / "shop.db")
    yield made
    made.dispose()


@pytest.fixture
def shop(engine: Engine) -> tuple[Gate, Any]:
    """The shop's gate, whose store is in the shop's own database, and its refund."""
    gate, refund = declare(engine, engine)
    gate.install()
    return gate, refund


def statements(engine: Engine) -> list[str]:
    """Every statement that the connections of the engine execute from now on, whoever sends it."""
    found: list[str] = []

    def listen(connection: Any, *_: Any) -> None:
        connection.set_trace_callback(found.append)

    event.listen(engine, "checkout", listen)
    return found


def journals(engine: Engine) -> dict[str, list[str]]:
    """The kinds of every intent's records."""
    store = SqlStore(engine)
    for intent_id in store.intents():
        store.verify(intent_id)
    return {intent_id: [entry.kind for entry in store.journal(intent_id)] for intent_id in store.intents()}


def refunded(engine: Engine) -> bool:
    """Whether the shop's order is."""
    return bool(asked(str(engine.url.database), "SELECT refunded FROM orders")[0][0])


def test_a_release_is_one_transaction(engine: Engine, shop: tuple[Gate, Any]) -> None:
    """Check, body, effect row and record begin and commit together, once."""
    gate, refund = shop
    intent = refund.propose("o-1", amount=Decimal(80))
    sent = statements(engine)
    verdict = gate(intent)
    assert verdict.committed
    assert [sql for sql in sent if sql.startswith(("BEGIN IMMEDIATE", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    assert list(journals(engine).values()) == [["PROPOSED", "COMMITTED"]]
    assert gate(intent).result() == "o-1: 80"


def test_a_call_is_one_transaction(engine: Engine, shop: tuple[Gate, Any]) -> None:
    """Proposal, check, body, effect row and record of a call begin and commit together, once."""
    gate, refund = shop
    sent = statements(engine)
    with events(gate) as told:
        assert refund("o-1", amount=Decimal(80)) == "o-1: 80"
    assert [sql for sql in sent if sql.startswith(("BEGIN IMMEDIATE", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    assert list(journals(engine).values()) == [["PROPOSED", "COMMITTED"]]
    assert gate.pending() == []
    assert type(told[0]).__name__ == "IntentProposed"


def test_a_call_that_is_refused_is_recorded_and_withdrawn(engine: Engine, shop: tuple[Gate, Any]) -> None:
    """A refused call leaves its proposal, the refusal and the withdrawal, as one in memory does."""
    gate, refund = shop
    change(engine, Policy, "uk", limit=Decimal(50))
    with pytest.raises(EffectBlocked) as stop:
        refund("o-1", amount=Decimal(80))
    intent = stop.value.verdict.intent
    assert intent is not None
    assert journals(engine) == {intent.id: ["PROPOSED", "VERDICT", "WITHDRAWN"]}
    assert (stop.value.verdict.state, gate(intent).state) == (State.WITHDRAWN, State.WITHDRAWN)
    assert not refunded(engine)


@pytest.mark.parametrize("at", ["before", "after", "body"])
def test_a_call_that_dies_before_its_commit_leaves_nothing(engine: Engine, shop: tuple[Gate, Any], at: str) -> None:
    """Until the one commit there is neither an intent nor an effect, and after it there are both."""
    gate, refund = shop

    def die(*_: object) -> Any:
        raise Crash

    where: dict[str, Any] = {"before": die} if at == "before" else {"after": die}
    if at == "body":
        event.listen(engine, "before_cursor_execute", lambda _c, _k, sql, *_: die() if "UPDATE ord" in sql else None)
        where = {}
    with pytest.raises(Crash), failpoint(gate, Apply, **where) if where else contextlib.nullcontext():
        refund("o-1", amount=Decimal(80))
    if at == "after":
        assert (list(journals(engine).values()), refunded(engine)) == ([["PROPOSED", "COMMITTED"]], True)
    else:
        assert (journals(engine), refunded(engine), gate.pending()) == ({}, False, [])
        assert asked(str(engine.url.database), "SELECT count(*) FROM lastlook_effect") == [(0,)]


def test_a_call_that_races_with_a_change_is_judged_anew(engine: Engine, shop: tuple[Gate, Any]) -> None:
    """Where bound evidence moves between look and effect, the refusal stores the intent; another look decides."""
    gate, refund = shop
    with interpose(gate, lambda: change(engine, Policy, "uk", limit=Decimal(90))):
        assert refund("o-1", amount=Decimal(80)) == "o-1: 80"
    assert list(journals(engine).values()) == [["PROPOSED", "VERDICT", "COMMITTED"]]


def test_a_call_whose_body_raises_is_recorded_as_failed(engine: Engine) -> None:
    """The body's own exception comes through; the intent says why nothing happened."""
    gate = Gate(Sql(engine, Order), store=engine)
    gate.install()
    order = row(Order, arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def cancel(permit: SqlPermit, order_id: str) -> str:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cancel("o-1")
    assert list(journals(engine).values()) == [["PROPOSED", "VERDICT", "WITHDRAWN"]]


def test_a_call_key_taken_meanwhile_is_looked_at_again(engine: Engine, shop: tuple[Gate, Any]) -> None:
    """Two calls of one key, the second between the first's look and its effect: one effect, and both get its result."""
    gate, refund = shop
    other, again = declare(engine, engine)
    results: list[str] = []
    keyed, twin = refund.options(key="k"), again.options(key="k")
    with interpose(gate, lambda: results.append(twin("o-1", amount=Decimal(80)))):
        results.append(keyed("o-1", amount=Decimal(80)))
    assert results == ["o-1: 80", "o-1: 80"]
    assert list(journals(engine).values()) == [["PROPOSED", "COMMITTED"]]
    assert other.pending() == []


def test_a_call_key_taken_meanwhile_for_something_else_is_refused(engine: Engine, shop: tuple[Gate, Any]) -> None:
    """A call whose key another call with other arguments took meanwhile gets neither its effect nor its result."""
    gate, refund = shop
    _, again = declare(engine, engine)
    twin = again.options(key="k")
    with (
        pytest.raises(KeyReused),
        interpose(gate, lambda: twin.propose("o-1", amount=Decimal(70))),
    ):
        refund.options(key="k")("o-1", amount=Decimal(80))
    assert list(journals(engine).values()) == [["PROPOSED"]]
    assert not refunded(engine)


def test_an_expired_call_ends_as_expired(engine: Engine) -> None:
    """A call whose time is over before its effect is stored as expired, in one transaction."""
    clock = FakeClock()
    gate, refund = declare(engine, engine, clock=clock)
    gate.install()
    hour = dt.timedelta(hours=1)
    with (
        pytest.raises(EffectBlocked, match="expired"),
        failpoint(gate, Now, before=lambda _: clock.advance(hour)),
    ):
        refund.options(expires=hour)("o-1", amount=Decimal(80))
    assert list(journals(engine).values()) == [["PROPOSED", "EXPIRED"]]


def test_a_locked_database_is_contended_and_leaves_nothing(engine: Engine) -> None:
    """A writer that does not end makes a call contended, not failed: nothing is stored, and it can be made again."""
    store = SqlStore(engine, lock_timeout=0.01)
    gate, refund = declare(engine, store, clock=FakeClock(), lock_timeout=0.01)
    gate.install()
    intent = refund.propose("o-1", amount=Decimal(80))
    with contextlib.closing(sqlite3.connect(str(engine.url.database), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(EffectContended, match="safe to try again") as stop:
            refund("o-1", amount=Decimal(80))
        assert (stop.value.verdict.applied, stop.value.retryable) == (Applied.BUSY, True)
        verdict = gate(intent)
        assert (verdict.outcome, verdict.applied, verdict.state) == (Outcome.KEEP, Applied.BUSY, State.OPEN)
        change_limit = 'UPDATE policies SET "limit" = 50'
        other.execute(change_limit)
        other.execute("COMMIT")
        other.execute("BEGIN IMMEDIATE")
        unrecorded = gate(intent)
        assert (unrecorded.outcome, unrecorded.applied) == (Outcome.BLOCK, Applied.BUSY)
        assert "was locked by another transaction for too long" in unrecorded.explain()
        with pytest.raises(StoreBusy):
            gate.withdraw(intent)
        other.execute("ROLLBACK")
    assert journals(engine) == {intent.id: ["PROPOSED"]}
    assert gate(intent).outcome is Outcome.BLOCK
    change(engine, Policy, "uk", limit=Decimal(100))
    assert refund("o-1", amount=Decimal(80)) == "o-1: 80"


def test_an_override_by_a_durable_system_stores_with_its_engine(engine: Engine, tmp_path: Path) -> None:
    """In a test with a database of its own, intents go there, and nothing of it is left at the gate."""
    gate, refund = declare(engine, engine)
    gate.install()
    other = open_shop(tmp_path / "other.db")
    with gate.override(Sql(other, Order, Policy)):
        gate.install()
        assert refund("o-1", amount=Decimal(80)) == "o-1: 80"
    assert (refunded(other), refunded(engine)) == (True, False)
    assert (list(journals(other).values()), journals(engine)) == ([["PROPOSED", "COMMITTED"]], {})
    other.dispose()


def test_a_call_whose_lane_is_held_is_in_progress_and_withdrawn(engine: Engine, shop: tuple[Gate, Any]) -> None:
    """A call that finds another intent's open attempt on its lane releases nothing, then or later."""
    gate, refund = shop
    intent = refund.propose("o-1", amount=Decimal(80))
    store = SqlStore(engine)
    stored = store.load(intent.id)
    assert stored is not None
    now = FakeClock().now()
    assert store.create(proposal("holder", lane=stored.record.lane), now, None).ok
    assert store.append(transit("holder", 0, "ATTEMPT", State.ATTEMPT, attempt=1, deadline_us=2**60), now).ok
    with pytest.raises(EffectContended, match="holder") as stop:
        refund("o-1", amount=Decimal(80))
    verdict = stop.value.verdict
    assert (verdict.applied, verdict.state) == (Applied.IN_PROGRESS, State.WITHDRAWN)
    assert not refunded(engine)
    assert store.append(transit("holder", 1, "CLOSED", attempt=1), now).ok
    assert verdict.intent is not None
    assert gate(verdict.intent).state is State.WITHDRAWN
    assert gate(intent).committed
