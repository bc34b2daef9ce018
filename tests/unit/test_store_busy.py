"""A store that is locked at one moment of a release: what the caller is told is true, and nothing is lost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from shop import Policy, change, declare, open_shop
from stores import proposal, transit

from lastlook import (
    Applied,
    EffectBlocked,
    EffectContended,
    Gate,
    Memory,
    MemoryPermit,
    Outcome,
    State,
    StoreBusy,
    arg,
    block_unless,
    resource,
)
from lastlook.commands import Apply, Create, Transit
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock, failpoint, interpose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """The shop's engine."""
    made = open_shop(tmp_path / "shop.db")
    yield made
    made.dispose()


def locked_at(*kinds: str) -> Callable[[Any], None]:
    """The store is locked when a record of one of these kinds is to be written, or a proposal of its own."""

    def before(command: Any) -> None:
        kind = command.append.kind if isinstance(command, Transit) else "PROPOSED"
        if kind in kinds:
            raise StoreBusy("the store is locked")

    return before


def apart() -> tuple[Memory, Gate, Any]:
    """A world that is another engine than its store."""
    world = Memory(orders={"o-1": {"refunded": False}}).options(separate=True)
    gate = Gate(world)
    order = resource("orders", arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str) -> str:
        permit.change("orders", order_id, refunded=True)
        return "refunded"

    return world, gate, refund


def test_an_attempt_that_cannot_be_opened_is_busy() -> None:
    """Where ATTEMPT cannot be written nothing is sent, and the intent can be released later."""
    world, gate, refund = apart()
    intent = refund.propose("o-1")
    with failpoint(gate, Transit, before=locked_at("ATTEMPT")):
        verdict = gate(intent)
    assert (verdict.outcome, verdict.applied, verdict.state) == (Outcome.KEEP, Applied.BUSY, State.OPEN)
    assert (isinstance(verdict.error, StoreBusy), dict(world.effects)) == (True, {})
    assert gate(intent).committed


def test_a_commit_that_only_the_close_tells_of_is_a_commit() -> None:
    """The answer is lost, the close says committed, and the record cannot be written: the verdict says committed."""
    _, gate, refund = apart()
    intent = refund.propose("o-1")

    def lost(_command: Any, _reply: Any) -> Any:
        raise ConnectionError

    with failpoint(gate, Apply, after=lost), failpoint(gate, Transit, before=locked_at("COMMITTED")):
        verdict = gate(intent)
    assert (verdict.applied, verdict.state, verdict.result()) == (Applied.COMMITTED, State.ATTEMPT, "refunded")
    assert isinstance(verdict.error, StoreBusy)
    assert gate(intent).state is State.COMMITTED


def test_a_call_key_taken_for_the_same_call_gives_its_result(engine: Engine) -> None:
    """The same call, proposed otherwise by a twin between look and effect, is released once, and told of twice."""
    gate, refund = declare(engine, engine)
    gate.install()
    _, again = declare(engine, engine)
    twin = again.options(key="k", expires=dt.timedelta(hours=1))
    results: list[str] = []
    with interpose(gate, lambda: results.append(twin("o-1", amount=Decimal(80)))):
        results.append(refund.options(key="k")("o-1", amount=Decimal(80)))
    assert results == ["o-1: 80", "o-1: 80"]
    assert len(list(SqlStore(engine).intents())) == 1


def test_a_refused_call_that_cannot_be_withdrawn_says_so(engine: Engine) -> None:
    """The refusal is raised, and the store's error with it says which intent stays pending."""
    gate, refund = declare(engine, engine)
    gate.install()
    change(engine, Policy, "uk", limit=Decimal(50))
    with pytest.raises(EffectBlocked) as stop, failpoint(gate, Transit, before=locked_at("WITHDRAWN")):
        refund("o-1", amount=Decimal(80))
    verdict = stop.value.verdict
    assert verdict.state is State.OPEN
    assert verdict.error is not None
    assert verdict.intent is not None
    assert verdict.error.__notes__ == [f"intent {verdict.intent.id} stays pending: withdraw it when the store is free"]
    assert gate.pending() == [verdict.intent]


def test_a_call_that_could_not_even_be_stored_leaves_nothing(engine: Engine) -> None:
    """Its lane is held, and then the store is locked: there is no intent, so nothing can be released later."""
    gate, refund = declare(engine, engine)
    gate.install()
    store, now = SqlStore(engine), FakeClock().now()
    model = store.load(refund.propose("o-1", amount=Decimal(80)).id)
    assert model is not None
    store.create(proposal("holder", lane=model.record.lane), now, None)
    store.append(transit("holder", 0, "ATTEMPT", State.ATTEMPT, attempt=1, deadline_us=2**60), now)
    before = list(store.intents())
    with pytest.raises(EffectContended) as stop, failpoint(gate, Create, before=locked_at("PROPOSED")):
        refund("o-1", amount=Decimal(80))
    assert (stop.value.verdict.applied, stop.value.verdict.state) == (Applied.IN_PROGRESS, State.WITHDRAWN)
    assert list(store.intents()) == before
