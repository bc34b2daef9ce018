"""What is done with an intent beside its release, while others are at work on it: withdraw, reconcile, assert."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from systems import Crash, Desk, DeskPermit, Shop, order

from lastlook import (
    Applied,
    EffectStopped,
    Gate,
    InFlight,
    Intent,
    MemoryStore,
    Outcome,
    State,
    block_unless,
)
from lastlook.commands import Apply, Load, Transit
from lastlook.errors import UnknownEffect
from lastlook.testing import FakeClock, failpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


def state_of(store: MemoryStore, intent: Intent[Any]) -> State:
    """Where an intent stands."""
    stored = store.load(intent.id)
    assert stored is not None
    return stored.row.state


def meanwhile(gate: Gate, command: type[Any], act: Callable[[], object]) -> AbstractContextManager[None]:
    """Let another gate act once, just before this gate's next command of a kind."""
    pending = [act]

    def once(_: object) -> None:
        if pending:
            pending.pop()()

    return failpoint(gate, command, before=once)


def crash(shop: Shop, intent: Intent[str]) -> None:
    """Release an intent, and lose the process between the open attempt and its apply."""

    def die(_: Apply) -> None:
        raise Crash

    with failpoint(shop.gate, Apply, before=die), pytest.raises(Crash):
        shop.gate(intent)
    assert state_of(shop.store, intent) is State.ATTEMPT


def refuse(shop: Shop, intent: Intent[str]) -> None:
    """Let another gate validate the intent and refuse it: its journal moves, and it stays open."""
    other = shop.again()
    limit = shop.world.row("policies", "refund")
    shop.world.change("policies", "refund", limit=1)
    verdict = other.gate(other.gate.intent(intent.id))
    shop.world.change("policies", "refund", limit=(limit or {})["limit"])
    assert (verdict.outcome, verdict.applied) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED)


# --- Withdrawing ------------------------------------------------------------------------------------------------------


def test_a_dead_attempt_is_closed_before_its_intent_is_withdrawn() -> None:
    """Withdrawing closes an attempt that nobody makes any more, so that it can never commit afterwards."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    crash(shop, intent)
    shop.gate.withdraw(intent)
    assert [entry.kind for entry in shop.store.journal(intent.id)] == ["PROPOSED", "ATTEMPT", "CLOSED", "WITHDRAWN"]
    assert shop.world.effects[intent.id]["floor"] == 2


def test_a_withdrawal_outlasts_another_gate_at_work() -> None:
    """A withdrawal that loses the race for the next record tries again on what it then finds, and holds."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    with meanwhile(shop.gate, Transit, lambda: refuse(shop, intent)):
        shop.gate.withdraw(intent)
    assert [entry.kind for entry in shop.store.journal(intent.id)] == ["PROPOSED", "VERDICT", "WITHDRAWN"]


def test_a_withdrawal_that_lost_to_a_commit_says_so() -> None:
    """Where another gate released the intent first, withdrawing it raises with the recorded verdict."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    other = shop.again()
    with (
        meanwhile(shop.gate, Transit, lambda: other.gate(other.gate.intent(intent.id))),
        pytest.raises(EffectStopped, match="committed already") as stop,
    ):
        shop.gate.withdraw(intent)
    assert stop.value.verdict.committed
    assert stop.value.verdict.result() == "refunded o-1"


# --- Reconciling ------------------------------------------------------------------------------------------------------


def test_a_sweep_passes_over_what_ended_meanwhile() -> None:
    """A sweep says nothing of an intent that another gate ended after it was listed."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    other = shop.again()
    with meanwhile(shop.gate, Load, lambda: other.gate.withdraw(other.gate.intent(intent.id))):
        assert shop.gate.reconcile() == []
    assert state_of(shop.store, intent) is State.WITHDRAWN


def test_a_sweep_leaves_effects_of_other_processes_alone() -> None:
    """A process that does not declare an effect neither ends nor loses its open intents."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    bare = Gate(shop.world, store=shop.store, clock=shop.clock)
    assert bare.reconcile() == []
    assert shop.gate(intent).committed


def test_a_commit_is_told_where_its_effect_is_not_declared() -> None:
    """A process that does not declare an effect tells of its commit by the stored result."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    assert shop.gate(intent).committed
    bare = Gate(shop.world, store=shop.store, clock=shop.clock)
    verdict = bare(bare.intent(intent.id))
    assert (verdict.committed, verdict.result()) == (True, "refunded o-1")


def test_an_open_intent_of_an_undeclared_effect_is_not_released() -> None:
    """A process that does not declare an effect cannot release it, and says what to do."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    bare = Gate(shop.world, store=shop.store, clock=shop.clock)
    with pytest.raises(UnknownEffect, match="import the module that declares it"):
        bare(bare.intent(intent.id))
    assert state_of(shop.store, intent) is State.OPEN


# --- Asserting --------------------------------------------------------------------------------------------------------


def desk_gate(desk: Desk, store: MemoryStore, clock: FakeClock) -> tuple[Gate, Any]:
    """A gate over a desk, with one effect."""
    gate = Gate(desk, store=store, clock=clock)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: DeskPermit, order_id: str) -> str:
        permit.put("orders", order_id, refunded=True)
        return order_id

    return gate, refund


def test_of_two_persons_only_one_asserts_an_outcome() -> None:
    """An assertion that another one overtook is refused, and does not overwrite it."""
    desk, store, clock = Desk(orders={"o-1": {"refunded": False}}), MemoryStore(), FakeClock()
    gate, refund = desk_gate(desk, store, clock)
    other, _ = desk_gate(desk, store, clock)
    desk.loses, desk.closes = "before", False
    intent = refund.propose("o-1")
    assert gate(intent).applied is Applied.UNKNOWN
    clock.advance(dt.timedelta(minutes=1))  # so that the other gate may resolve it too

    def overtake() -> None:
        other.assert_outcome(other.intent(intent.id), committed=False, by="the shift lead", note="seen at the desk")

    with (
        meanwhile(gate, Transit, overtake),
        pytest.raises(InFlight, match="moved while its outcome was"),
    ):
        gate.assert_outcome(intent, committed=True, by="the clerk", note="heard of it")
    assert state_of(store, intent) is State.OPEN
