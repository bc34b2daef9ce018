"""What a process that runs for long keeps alive, and what it still knows of intents that others have ended."""

from __future__ import annotations

import gc
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import Change, Gate, Memory, MemoryPermit, MemoryStore, arg, block_unless, replan_unless, resource
from lastlook.look import Kept, Look
from lastlook.plan import Plan
from lastlook.records import Observation
from lastlook.testing import events, failpoint

if TYPE_CHECKING:
    from lastlook import Intent

ORDER = resource("orders", arg.order_id)
PRICE = Change("orders", "a", "amount")


def world() -> Memory:
    """Two orders."""
    return Memory(orders={name: {"ok": True, "amount": 1, "note": "x"} for name in ("a", "b")})


def desk(memory: Memory, store: MemoryStore | None) -> tuple[Gate, Any]:
    """A gate, and its effect."""
    gate = Gate(memory, store=store)

    @gate.effect(target=ORDER, premises=[block_unless(ORDER.ok), replan_unless(ORDER.amount < 5)], refresh=[ORDER.note])
    def act(permit: MemoryPermit, order_id: str) -> str:
        permit.no_write()
        return "done"

    return gate, act


def alive() -> Counter[str]:
    """How many of what a validation needs there are."""
    gc.collect()
    kept = (Look, Kept, Plan, Observation)
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in kept)


def grown(before: Counter[str]) -> int:
    """How many more there are than before."""
    return sum((alive() - before).values())


@pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some gates", "many gates"])
def test_ended_intents_keep_no_plan_alive(count: int) -> None:
    """However many intents were released, only a few of the latest records hold the look that they tell of."""
    before = alive()
    store = MemoryStore()
    gate, act = desk(world(), store)
    for number in range(count):
        assert gate(act.propose("ab"[number % 2])).committed
    assert grown(before) < 400
    assert len(list(store.pending())) == 0


def test_refusals_keep_no_look_alive() -> None:
    """However often a gate refuses the same intent, only a bounded number of its records hold their look."""
    before = alive()
    memory = world()
    gate, act = desk(memory, MemoryStore())
    intent = act.propose("a")
    memory.change("orders", "a", amount=9)
    for _ in range(1500):
        assert not gate(intent).committed
    assert grown(before) < 1500
    memory.change("orders", "a", amount=1)
    for _ in range(1000):
        act.propose("b")
    assert grown(before) < 1000 + 2 * 1000 + 100  # those of the open intents
    assert gate(intent).committed


@pytest.mark.parametrize("refused", [False, True])
def test_records_say_the_same_whenever_they_are_written(refused: bool) -> None:
    """A record that was written while others proposed says what it would have said when it was read."""
    store, other = MemoryStore(), MemoryStore()
    other.salt, other.namespace = store.salt, store.namespace
    told: list[Any] = []
    for each in (store, other):
        memory = world()
        gate, act = desk(memory, each)
        transaction = gate.transaction("t")
        intent = transaction.propose(act.options(key="k"), "a")
        if refused:
            memory.change("orders", "a", amount=9)
            gate(intent)
            memory.change("orders", "a", amount=1)
        gate(intent)
        if each is store:
            for _ in range(200):
                gate(act.propose("b"))
        stored = each.load(intent.id)
        assert stored is not None
        assert stored.last is not None
        lines = sorted(gate(intent).explain().splitlines())  # a record's maps are in the order of their keys
        told.append((lines, [entry.kind for entry in each.journal(intent.id)], stored.last()))
        each.verify(intent.id)
        assert each.reopened().load(intent.id) is not None
    assert told[0][:2] == told[1][:2]
    first, second = (dict(each[2]) for each in told)
    first.pop("evidence"), second.pop("evidence")  # the tokens are another world's
    assert first == second


def test_a_record_that_cannot_be_written_disturbs_nobody() -> None:
    """A body that cannot be encoded is told to whoever reads it, and not to whoever proposes meanwhile."""
    store = MemoryStore()
    gate, act = desk(world(), store)
    intent = act.propose("a")
    gate(intent)
    chain = store._chains[intent.id]
    kind, at, _ = chain.entries[1]
    chain.entries[1] = (kind, at, lambda: {"odd": object()})  # type: ignore[dict-item]
    for _ in range(200):
        gate(act.propose("b"))
    with pytest.raises(ValueError, match="unsupported type"):
        store.journal(intent.id)


# What others have ended.


def hinted(gate: Gate, change: Change = PRICE) -> list[Intent[Any]]:
    """The intents that a hint reaches, both with somebody who listens and without."""
    found = [preview.intent for preview in gate.affected(change)]
    with events(gate):
        assert [preview.intent for preview in gate.affected(change)] == found
    return found  # type: ignore[return-value]  # a hint's preview has an intent


@pytest.mark.parametrize("listened", [False, True])
@pytest.mark.parametrize("how", ["released", "withdrawn", "superseded"])
def test_what_another_gate_has_ended_is_hinted_no_more(how: str, listened: bool) -> None:
    """An intent that another gate of the store has ended leaves the answer, and the index, with the next hint."""
    memory, store = world(), MemoryStore()
    gate, act = desk(memory, store)
    other, act_too = desk(memory, store)
    intent, stays = act.propose("a"), act.propose("a")
    assert hinted(gate) == hinted(other) == [intent, stays]
    follower: list[Intent[Any]] = []
    if how == "released":
        assert other(intent).committed
    elif how == "withdrawn":
        other.withdraw(intent)
    else:
        follower.append(act_too.options(supersedes=intent).propose("a"))
    if listened:
        with events(gate):
            found = [preview.intent for preview in gate.affected(PRICE)]
    else:
        found = [preview.intent for preview in gate.affected(PRICE)]
    assert found == [stays, *follower]
    assert intent.id not in gate._runtime().plans
    assert hinted(gate) == hinted(other)


def test_states_are_looked_up_only_where_something_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing ends, a hint asks for no states; where much is pending, only for those that it reaches."""
    memory, store = world(), MemoryStore()
    gate, act = desk(memory, store)
    other, _ = desk(memory, store)
    intents = [act.propose("b") for _ in range(300)]
    first = act.propose("a")
    asked: list[int] = []
    gone = store.gone

    def counted(intent_ids: Any) -> Any:
        asked.append(len(intent_ids))
        return gone(intent_ids)

    monkeypatch.setattr(store, "gone", counted)
    loaded: list[str] = []
    load = store.load

    def noted(intent_id: str) -> Any:
        loaded.append(intent_id)
        return load(intent_id)

    monkeypatch.setattr(store, "load", noted)
    assert [preview.intent for preview in gate.affected(PRICE)] == [first]
    assert (asked, loaded) == ([], [])
    other.withdraw(intents[0])
    other.withdraw(first)
    loaded.clear()
    assert gate.affected(PRICE) == []
    assert (asked, loaded) == ([1], [])
    assert len(gate.affected(Change("orders", "b"))) == 299
    act.propose("a")  # with the next proposal elsewhere, all that ended leaves
    assert intents[0].id not in gate._runtime().plans


@pytest.mark.parametrize("seed", range(5))
def test_hints_reach_just_what_is_pending(seed: int) -> None:
    """Whatever gates of one store propose, release and withdraw, each hints at what is pending and at nothing else."""
    draw, memory, store = random.Random(seed), world(), MemoryStore()
    desks = [desk(memory, store) for _ in range(3)]
    for _ in range(150):
        gate, act = draw.choice(desks)
        pending = gate.pending()
        action = draw.randrange(5)
        if action < 2 or not pending:
            act.propose(draw.choice("ab"))
        elif action == 2:
            gate(draw.choice(pending))
        elif action == 3:
            gate.withdraw(draw.choice(pending))
        else:
            asker = draw.choice(desks)[0]
            found = {preview.intent.id for name in "ab" for preview in asker.affected(Change("orders", name))}  # type: ignore[union-attr]
            assert found == set(store.pending()), f"seed {seed}"
    with failpoint(desks[0][0], int):
        assert {p.intent.id for n in "ab" for p in desks[0][0].affected(Change("orders", n))} == set(store.pending())  # type: ignore[union-attr]
