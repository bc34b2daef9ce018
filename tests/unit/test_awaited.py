"""What `unchanged` holds the world to where nobody judges the premise when the effect is proposed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import (
    AsyncGate,
    DeclarationError,
    Gate,
    Memory,
    MemoryPermit,
    Outcome,
    arg,
    block_unless,
    each,
    every,
    replan_unless,
    resource,
    rows,
    unchanged,
    validator,
)
from lastlook.commands import Judge
from lastlook.testing import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook.premises import Premise

ORDER = resource("orders", arg.order_id)
USER = resource("users", ORDER.user)
APPROVAL = resource("approvals", arg.order_id)


@validator("granted", version="1", revision="1")
def granted(by: object) -> bool:
    """Somebody has approved."""
    return by == "boss"


SHOWN = {
    "beside": granted(APPROVAL.by) & unchanged(ORDER.amount),
    "before": unchanged(ORDER.amount) & granted(APPROVAL.by),
    "or": granted(APPROVAL.by) & (unchanged(ORDER.amount) | unchanged(ORDER.note)),
    "not": granted(APPROVAL.by) & ~~unchanged(ORDER.amount),
    "twice": granted(APPROVAL.by) & unchanged(ORDER.amount) & unchanged(ORDER.amount + 1),
    "another row": granted(APPROVAL.by) & unchanged(USER.address),
    "of rows": granted(APPROVAL.by) & every(rows("lines"), unchanged(ORDER.amount) & (each.n > 0)),
    "for a validator": granted(APPROVAL.by) & granted(resource("names", arg.order_id).who) & unchanged(ORDER.amount),
}


def desk(*awaits: Premise, premises: tuple[Premise, ...] = ()) -> tuple[Memory, Gate, Any]:
    """A gate whose effect waits for something."""
    memory = Memory(
        orders={"a": {"ok": True, "amount": 5, "note": "x", "user": "u"}},
        users={"u": {"address": "here"}},
        approvals={"a": {}},
        names={"a": {"who": "boss"}},
        lines={},
    )
    gate = Gate(memory)

    @gate.effect(target=ORDER, premises=premises, awaits=awaits, no_preconditions=True)
    def act(permit: MemoryPermit, order_id: str) -> str:
        permit.change("orders", order_id, done=True)
        return "done"

    return memory, gate, act


def never(_: Judge) -> None:
    """Nothing may be asked."""
    raise AssertionError("an awaited premise's validator was asked when the effect was proposed")


@pytest.mark.parametrize("word", [block_unless, replan_unless])
@pytest.mark.parametrize("name", SHOWN)
def test_what_was_shown_is_kept_without_being_judged(name: str, word: Callable[..., Any]) -> None:
    """An awaited premise with a validator keeps what is to be unchanged, asks nobody, and holds once it is true."""
    memory, gate, act = desk(word(SHOWN[name]))
    with failpoint(gate, Judge, before=never):
        intent = act.propose("a")
        recorded = gate.transaction().propose(act, "a")
    assert not gate.preview(intent).outcome.permits
    memory.change("approvals", "a", by="boss")
    assert gate.preview(intent).outcome is gate.preview(recorded).outcome is Outcome.KEEP
    memory.change("lines", "1", n=1)
    memory.change("orders", "a", amount=6, note="y")
    memory.change("users", "u", address="there")
    verdict = gate(intent)
    assert verdict.outcome is (Outcome.BLOCK if word is block_unless else Outcome.REPLAN)
    assert "has changed since the effect was proposed" in verdict.explain() or "false" in verdict.explain()
    memory.change("orders", "a", amount=5, note="x")
    memory.change("users", "u", address="here")
    assert gate(intent).committed


def test_what_was_shown_is_kept_by_an_awaited_gate() -> None:
    """An awaited gate keeps the same."""
    memory = Memory(orders={"a": {"amount": 5}}, approvals={"a": {}})
    gate = AsyncGate(memory)

    @gate.effect(target=ORDER, awaits=[block_unless(SHOWN["beside"])])
    async def act(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, done=True)

    async def main() -> None:
        intent = await act.propose("a")
        memory.change("approvals", "a", by="boss")
        assert (await gate(intent)).committed

    asyncio.run(main())


def test_what_ranges_over_no_rows_yet_is_kept_too() -> None:
    """A premise that holds because there are no rows holds the first row's coming to what was there before it."""
    same = every(rows("lines"), unchanged(ORDER.amount) & (each.n > 0))
    judged = every(rows("lines"), unchanged(granted(resource("names", arg.order_id).who)) & (each.n > 0))
    for condition in (same, judged):
        memory, gate, act = desk(premises=(block_unless(condition),))
        intent = act.propose("a")
        memory.change("lines", "1", n=1)
        assert gate.preview(intent).outcome is Outcome.KEEP
        memory.change("orders", "a", amount=6)
        memory.change("names", "a", who="nobody")
        assert gate(intent).outcome is Outcome.BLOCK


def test_what_was_not_there_cannot_be_unchanged() -> None:
    """Where there was nothing to show, the premise says so at the gate."""
    memory, gate, act = desk(block_unless(granted(APPROVAL.by) & unchanged(APPROVAL.note)))
    intent = act.propose("a")
    memory.change("approvals", "a", by="boss", note="fine")
    assert "was not captured when the effect was proposed" in gate(intent).explain()


def test_an_awaited_validators_answer_cannot_be_kept() -> None:
    """An awaited premise that holds a validator to an answer which it is not asked for is refused when declared."""
    with pytest.raises(DeclarationError, match=r"asked only at the gate: write unchanged\(...\) of the fields"):
        desk(block_unless(unchanged(granted(APPROVAL.by))))
    memory, gate, act = desk(premises=(block_unless(unchanged(granted(resource("names", arg.order_id).who))),))
    intent = act.propose("a")
    memory.change("names", "a", who="nobody")
    assert gate(intent).outcome is Outcome.BLOCK
