"""A release among other gates, and against targets that stall, raise or answer late."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Any

import pytest
from systems import Crash, Desk, DeskPermit, Shelf, Shop, order, shop_rows

from lastlook import (
    UNBOUND,
    Applied,
    EffectBlocked,
    Gate,
    Intent,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    State,
    arg,
    block_unless,
    resource,
)
from lastlook.commands import Apply, Close, Read, Transit
from lastlook.events import AttemptClosed
from lastlook.ports import ApplyResult, CloseResult
from lastlook.records import EffectRow
from lastlook.testing import FakeClock, events, failpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lastlook.ports import Attempt, Journal


def meanwhile(gate: Gate, command: type[Any], act: Callable[[], object]) -> AbstractContextManager[None]:
    """Let another gate act once, just before this gate's next command of a kind."""
    pending = [act]

    def once(_: object) -> None:
        if pending:
            pending.pop()()

    return failpoint(gate, command, before=once)


def kinds(store: MemoryStore, intent: Intent[Any]) -> list[str]:
    """The kinds of an intent's records."""
    return [entry.kind for entry in store.journal(intent.id)]


def refuse(shop: Shop, intent: Intent[str]) -> None:
    """Let another gate validate the intent and refuse it: its journal moves, and it stays open."""
    other = shop.again()
    shop.world.change("policies", "refund", limit=1)
    assert not other.gate(other.gate.intent(intent.id)).committed
    shop.world.change("policies", "refund", limit=100)


# --- Targets ----------------------------------------------------------------------------------------------------------


class Moody(Desk):
    """A desk that follows a script first.

    Attributes:
        script: what it answers or raises for each attempt, before it turns to its work.
        row_failure, close_failure: what it raises when it is asked.
    """

    def __init__(self, *script: ApplyResult | Exception) -> None:
        super().__init__(orders={"o-1": {"refunded": False}})
        self.script = list(script)
        self.row_failure: Exception | None = None
        self.close_failure: Exception | None = None

    def apply(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """As the script says."""
        if not self.script:
            return super().apply(attempt, journal)
        said = self.script.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def effect_row(self, intent_id: str, /) -> EffectRow | None:
        """The intent's row, unless it fails."""
        if self.row_failure is not None:
            raise self.row_failure
        return super().effect_row(intent_id)

    def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """Close it, unless it fails."""
        if self.close_failure is not None:
            raise self.close_failure
        return super().close(intent_id, attempt)


def at_desk(desk: Desk) -> tuple[Gate, MemoryStore, Intent[str]]:
    """A gate over a desk, its store, and a proposed refund."""
    store = MemoryStore()
    gate = Gate(desk, store=store, clock=FakeClock())

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: DeskPermit, order_id: str) -> str:
        permit.put("orders", order_id, refunded=True)
        return order_id

    return gate, store, refund.propose("o-1")


def test_a_busy_target_that_then_raises() -> None:
    """A target that was busy and raises when it is asked again is asked to close, and the effect happens once."""
    desk = Moody(ApplyResult(Applied.BUSY), TimeoutError("the line"))
    gate, store, intent = at_desk(desk)
    verdict = gate(intent)
    assert verdict.committed
    assert len(desk.applied) == 1
    assert kinds(store, intent) == ["PROPOSED", "ATTEMPT", "CLOSED", "ATTEMPT", "COMMITTED"]


def test_a_target_that_cannot_close() -> None:
    """Where the attempt and its close both go unanswered, the outcome is unknown, and the attempt stays open."""
    desk = Moody(ConnectionError("the line"))
    desk.close_failure = ConnectionError("the line")
    gate, store, intent = at_desk(desk)
    verdict = gate(intent)
    assert (verdict.applied, verdict.state) == (Applied.UNKNOWN, State.ATTEMPT)
    assert "ConnectionError" in verdict.explain()
    desk.close_failure = None
    assert gate(intent).committed
    assert len(desk.applied) == 1
    assert kinds(store, intent)[-1] == "COMMITTED"


def test_a_target_row_that_cannot_be_read() -> None:
    """A target row that cannot be read stops nothing: the apply itself compares it again."""
    desk = Moody()
    desk.row_failure = ConnectionError("the line")
    gate, _, intent = at_desk(desk)
    assert gate(intent).committed
    assert len(desk.applied) == 1


def test_a_close_that_tells_of_another_action() -> None:
    """A target that says COMMITTED of other arguments than the intent's is not believed: the outcome is unknown."""
    desk = Desk(orders={"o-1": {"refunded": False}})
    gate, store, intent = at_desk(desk)

    def plant(_: Apply) -> None:
        desk.effects[intent.id] = EffectRow(intent.id, "of another order", 2, 1, "paid", 1)
        raise ConnectionError("the line")

    with failpoint(gate, Apply, before=plant):
        verdict = gate(intent)
    assert (verdict.applied, verdict.state) == (Applied.UNKNOWN, State.ATTEMPT)
    assert desk.applied == []
    assert kinds(store, intent) == ["PROPOSED", "ATTEMPT"]


# --- One engine -------------------------------------------------------------------------------------------------------


def test_the_lost_reply_of_a_commit_is_found_in_the_store() -> None:
    """On one engine, an attempt without answer or close is looked up where it would have been recorded: the store."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)

    def lose(_: Apply, __: object) -> ApplyResult:
        return ApplyResult(Applied.UNKNOWN)

    def no_close(_: Close, __: object) -> CloseResult:
        return CloseResult(Applied.UNKNOWN)

    with failpoint(shop.gate, Apply, after=lose), failpoint(shop.gate, Close, after=no_close):
        verdict = shop.gate(intent)
    assert (verdict.applied, verdict.result()) == (Applied.COMMITTED, "refunded o-1")
    assert shop.ran == [80]


def test_a_close_that_another_gate_overtakes() -> None:
    """A close whose record was overtaken is known to the target, whose fence the next attempt counts on from."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    pending = [TimeoutError("the line")]

    def lose(_: Apply) -> None:
        if pending:
            raise pending.pop()

    with (
        failpoint(shop.gate, Apply, before=lose),
        meanwhile(shop.gate, Transit, lambda: refuse(shop, intent)),
        events(shop.gate) as seen,
    ):
        verdict = shop.gate(intent)
    assert verdict.committed
    assert [event.applied for event in seen if isinstance(event, AttemptClosed)] == [Applied.NOT_ATTEMPTED]
    assert kinds(shop.store, intent) == ["PROPOSED", "VERDICT", "FENCED", "COMMITTED"]
    assert shop.ran == [80]


def test_a_failure_that_another_gate_overtakes() -> None:
    """A failed attempt whose record was overtaken is looked at anew, and its own error still comes through."""
    shop = Shop()

    @shop.gate.effect(target=order, premises=[block_unless(~order.refunded)], name="failing")
    def failing(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)
        raise KeyError(order_id)

    intent = failing.propose("o-1")
    other = shop.again()

    @other.gate.effect(target=order, premises=[block_unless(~order.refunded)], name="failing")
    def no_better(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)
        raise LookupError(order_id)

    def overtake() -> None:
        with pytest.raises(LookupError):
            other.gate(other.gate.intent(intent.id))

    with meanwhile(shop.gate, Transit, overtake), pytest.raises(KeyError):
        shop.gate(intent)
    assert kinds(shop.store, intent) == ["PROPOSED", "VERDICT", "VERDICT"]
    assert shop.world.row("orders", "o-1") == shop_rows()["orders"]["o-1"]


def test_a_lane_is_one_for_all_engines() -> None:
    """An effect of one engine waits for an open attempt on its lane at another, which it could not see by itself."""
    desk, store, clock = Desk(letters={"o-1": {"sent": False}}), MemoryStore(), FakeClock()
    world = Memory(**shop_rows())
    gate = Gate(world, desk, store=store, clock=clock)
    letter = resource("letters", arg.order_id)

    @gate.effect(target=letter, premises=[block_unless(~letter.sent)], lane=(arg.order_id,))
    def write(permit: DeskPermit, order_id: str) -> None:
        permit.put("letters", order_id, sent=True)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)], lane=(arg.order_id,))
    def refund(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)

    first, second = write.propose("o-1"), refund.propose("o-1")

    def die(_: Apply) -> None:
        raise Crash

    with failpoint(gate, Apply, before=die), pytest.raises(Crash):
        gate(first)
    verdict = gate(second)
    assert (verdict.applied, verdict.state) == (Applied.IN_PROGRESS, State.OPEN)
    assert first.id in verdict.explain()
    assert gate(first).committed
    assert gate(second).committed


# --- Drift and depth --------------------------------------------------------------------------------------------------


def test_a_refusal_for_drift_that_another_gate_overtakes() -> None:
    """An intent whose arguments no longer fit is refused once more on what another gate made of it meanwhile."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    gate = Gate(shop.world, store=shop.store, clock=shop.clock)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)

    handle = gate.intent(intent.id)
    with meanwhile(gate, Transit, lambda: refuse(shop, intent)):
        verdict = gate(handle)
    assert (verdict.outcome, verdict.applied) == (Outcome.REPLAN, Applied.NOT_ATTEMPTED)
    assert "no longer takes 'amount'" in verdict.explain()
    assert kinds(shop.store, intent) == ["PROPOSED", "VERDICT", "VERDICT"]


def test_evidence_that_leads_on_and_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A premise whose evidence leads through more waves of reads than are allowed is unverifiable, and blocks."""
    monkeypatch.setattr("lastlook.protocol.MAX_WAVES", 1)
    shelf = Shelf(a={"1": {"next": "2"}}, b={"2": {"next": "3"}}, c={"3": {"fine": True}})
    world = Memory(**shop_rows())
    gate = Gate(world, shelf, store=MemoryStore(), clock=FakeClock())
    last = resource("c", resource("b", resource("a", "1").next).next)
    reads: list[int] = []

    @gate.effect(target=order, premises=[block_unless(last.fine, accept=UNBOUND("only read"))])
    def refund(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)

    with (
        failpoint(gate, Read, before=lambda command: reads.append(len(command.addresses))),
        pytest.raises(EffectBlocked, match="leads through more than 1 further reads"),
    ):
        refund.propose("o-1")
    assert reads == [1, 1]


# --- In one call ------------------------------------------------------------------------------------------------------


def test_in_one_call_a_target_that_raises_has_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody steps in, and the target raises: the outcome is asked for, and nothing was committed."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)

    def raises(*_: object) -> ApplyResult:
        raise ConnectionError("the line is dead")

    with monkeypatch.context() as patch:
        patch.setattr(shop.world, "apply", raises)
        verdict = shop.gate(intent)
    assert not verdict.committed
    assert shop.world.effects[intent.id]["committed_at"] is None
    assert shop.gate(intent).committed


@pytest.mark.parametrize("revoked", [False, True])
def test_in_one_call_the_stores_own_evidence_is_compared(revoked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence that the store owns is compared where the commit is recorded, also where nobody steps in."""
    owned = Memory(approvals={"a-1": {"granted": True}})
    world = Memory(**shop_rows())
    gate = Gate(world, store=MemoryStore(evidence=owned), clock=FakeClock())

    @gate.effect(target=order, premises=[block_unless(resource("approvals", "a-1").granted)])
    def refund(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)

    intent = refund.propose("o-1")
    apply = world.apply

    def revoke_first(attempt: Attempt, journal: Journal | None) -> ApplyResult:
        if revoked:
            owned.change("approvals", "a-1", granted=False)
        return apply(attempt, journal)

    monkeypatch.setattr(world, "apply", revoke_first)
    assert gate(intent).committed is not revoked
    assert (world.row("orders", "o-1") or {})["refunded"] is not revoked


@pytest.mark.parametrize("seed", range(40))
def test_in_one_call_or_step_by_step(seed: int) -> None:
    """Whether somebody steps in at its commands or not, a gate decides, applies and records the same."""
    drawn = random.Random(seed)
    changes: list[tuple[str, str, dict[str, Any]]] = [
        ("orders", "o-1", {"refunded": drawn.random() < 0.3}),
        ("orders", "o-1", {"customer_name": f"reader {drawn.randrange(2)}"}),
        ("policies", "refund", {"limit": drawn.choice([50, 80, 100])}),
    ]
    chosen = [change for change in changes if drawn.random() < 0.5]
    told: list[object] = []
    for stepped in (False, True):
        shop = Shop()
        intents = [shop.refund.propose("o-1", amount=80) for _ in range(2)]
        for kind, key, fields in chosen:
            shop.world.change(kind, key, **fields)
        with failpoint(shop.gate, Apply, before=lambda _: None) if stepped else contextlib.nullcontext():
            verdicts = [shop.gate(intent) for intent in (*intents, intents[0])]
        told.append(
            [
                [(v.outcome, v.applied, v.state, v.checked, v.changed, v.explain().split(")", 1)[1]) for v in verdicts],
                [kinds(shop.store, intent) for intent in intents],
                shop.world.rows("orders"),
            ]
        )
    assert told[0] == told[1], f"seed {seed}: {chosen}"
