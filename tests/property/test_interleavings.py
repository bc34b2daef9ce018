"""Every interleaving of two gates and a writer, at the protocol's yields: explored to the last one.

Small scenes are played once for every sequence of choices. Larger ones merge what cannot differ: two prefixes after
which the world, the store and what every generator was ever sent are the same have the same futures, so these are
played once and counted for both. That this counts right is shown on the small ones.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest
from simulation import AMOUNT, OVERDUE, PLANTED, Call, Form, Shop, Violation

from lastlook import Verdict, lifecycle, protocol
from lastlook.ports import Appended, ApplyResult, CloseResult, Stored
from lastlook.proposals import Mode, Proposed, propose
from lastlook.records import Observation
from lastlook.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastlook.runtime import Runtime


class Actor(Protocol):
    """Something that moves step by step."""

    @property
    def done(self) -> bool:
        """Whether it moves no more."""
        ...

    def step(self) -> None:
        """Move once."""
        ...

    def history(self) -> object:
        """What its future depends on, beside what it shares with others."""
        ...


class Gate:
    """A call at a gate: one command and its reply are a step, or in `halves` two."""

    def __init__(self, scene: Scene, call: Call, *, halves: bool) -> None:
        self.scene = scene
        self.call = call
        self.halves = halves
        self.replies: tuple[object, ...] = ()

    @property
    def done(self) -> bool:
        """Whether the call has returned."""
        return self.call.done

    def step(self) -> None:
        """Execute a command, or hand over its reply."""
        call = self.call
        if call.answered is None:
            before = self.scene.lengths()
            reply = call.execute()
            after = self.scene.lengths()
            if after != before:
                self.scene.written += ((self.call.name, self.call.runtime.scene.owner, len(self.replies), after),)
            self.replies = (*self.replies, self.scene.mark(reply))
            call.answer(reply)
            if self.halves:
                return
        call.deliver()

    def history(self) -> object:
        """All that the generator was sent."""
        return self.call.answered is None, self.call.done, self.replies


class Writer:
    """Another session: one write a step."""

    def __init__(self, writes: Sequence[Callable[[], object]]) -> None:
        self.writes = list(writes)

    @property
    def done(self) -> bool:
        """Whether all is written."""
        return not self.writes

    def step(self) -> None:
        """The next write."""
        self.writes.pop(0)()

    def history(self) -> object:
        """How much is left."""
        return len(self.writes)


class Death:
    """The end of a gate's process, at any moment."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @property
    def done(self) -> bool:
        """Whether there is nothing left to end."""
        return self.gate.done

    def step(self) -> None:
        """End it."""
        self.gate.call.abandon()

    def history(self) -> object:
        """Nothing that the gate's own does not tell."""
        return None


class Late:
    """The network: it delivers a gate's first apply a second time, or for the first time after the gate is gone."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.arrived = False

    @property
    def done(self) -> bool:
        """Whether there is nothing to deliver, or no more."""
        return self.arrived or not self.gate.call.applied

    def step(self) -> None:
        """Deliver it."""
        self.arrived = True
        self.gate.call.shop.execute(self.gate.call.runtime, self.gate.call.applied[0])

    def history(self) -> object:
        """Whether it was delivered."""
        return self.arrived


class Template:
    """A shop with its proposals, made once; every run starts from a copy of it."""

    def __init__(self, form: Form, *, intents: int = 1) -> None:
        self.shop = shop = Shop(form)
        self.start = shop.clock.now()
        gate = shop.gate()
        drafts = [shop.draft(gate, "o-1", Mode.PROVE, number=number + 1) for number in range(intents)]
        self.proposed: list[Proposed] = [shop.drive(gate, propose(gate.scene, draft)) for draft in drafts]
        world = shop.world
        parts = [part for each in (world, world._tables) for part in vars(each).values() if isinstance(part, dict)]
        self.parts: list[tuple[dict[Any, Any], dict[Any, Any]]] = [(part, dict(part)) for part in parts]

    def copy(self) -> Shop:
        """The shop as it was when everything was proposed; the copy before it is over."""
        for part, content in self.parts:
            part.clear()
            part.update(content)
        self.shop.clock.advance(self.start - self.shop.clock.now())
        store = MemoryStore()
        store.namespace, store.salt = self.shop.store.namespace, self.shop.store.salt
        for proposed in self.proposed:
            store.create(proposed.record, self.shop.clock.now(), None)
        return Shop.of(self.shop, store)


class Scene:
    """A shop with its actors, ready to be played once."""

    def __init__(self, template: Template) -> None:
        self.shop = template.copy()
        self.first = self.shop.gate()
        for proposed in template.proposed:
            self.first.remember(proposed)
        self.intents = [proposed.record.intent_id for proposed in template.proposed]
        self.actors: list[Actor] = []
        self.calls: list[Call] = []
        self.lowest = 100
        self.written: tuple[object, ...] = ()
        self.steps: Counter[int] = Counter()
        address = self.shop.world.address("policies", "everywhere")
        self._policy = self.shop.world.reader([address])

    def gate(self, intent: int, runtime: Runtime | None = None, *, halves: bool = False) -> Scene:
        """Let a gate release an intent."""
        runtime = runtime or self.shop.gate()
        return self._play("gate", runtime, protocol.release(runtime.scene, self.intents[intent]), halves=halves)

    def withdraw(self, intent: int) -> Scene:
        """Let a gate withdraw an intent."""
        runtime = self.shop.gate()
        return self._play("withdraw", runtime, lifecycle.withdraw(runtime.scene, self.intents[intent]))

    def _play(self, name: str, runtime: Runtime, run: Any, *, halves: bool = False) -> Scene:
        call = Call(self.shop, runtime, name, run)
        self.calls.append(call)
        self.actors.append(Gate(self, call, halves=halves))
        return self

    def write(self, *limits: int) -> Scene:
        """Let another session set the limit to each of these."""
        world = self.shop.world
        self.lowest = min((self.lowest, *limits))
        self.actors.append(
            Writer([functools.partial(world.change, "policies", "everywhere", limit=limit) for limit in limits])
        )
        return self

    def moving(self) -> list[int]:
        """Who can move."""
        return [number for number, actor in enumerate(self.actors) if not actor.done]

    def step(self, choice: int) -> None:
        """Let one of those who can move do so."""
        number = self.moving()[choice]
        self.actors[number].step()
        self.steps[number] += 1

    def lengths(self) -> tuple[int, ...]:
        """How many records each intent has."""
        return tuple(stored.row.seq for stored in map(self.shop.store.load, self.intents) if stored is not None)

    def shared(self) -> object:
        """What the actors share; what a record says follows from who wrote it, and when in its own history."""
        world, store = self.shop.world, self.shop.store
        plans = [plan for call in self.calls for plan in call.runtime.plans.values()]
        return (
            self.mark(self._policy()),
            tuple(world.effect_row(intent_id) for intent_id in self.intents),
            tuple(stored.row for stored in map(store.load, self.intents) if stored is not None),
            self.written,
            tuple(self.mark(plan.seen) for plan in plans),
            tuple(frozenset(call.runtime.scene.active) for call in self.calls),
            tuple((name, commit.number) for name, commit in self.shop.commits.items()),
            self.shop.clock.now(),
        )

    def mark(self, reply: object) -> object:
        """What a protocol can tell of a reply."""
        if isinstance(reply, Stored):
            return reply.row, self.written
        if isinstance(reply, Observation):
            return reply.token.value
        if isinstance(reply, ApplyResult):
            return reply.status, reply.floor, reply.lost, reply.repeated, reply.reason, reply.stored
        if isinstance(reply, CloseResult):
            return reply.status, reply.stored
        if isinstance(reply, Appended):
            return reply.ok, reply.holder, reply.stale
        if type(reply) is tuple:
            return tuple(self.mark(part) for part in cast("tuple[object, ...]", reply))
        return reply


@dataclass
class Explored:
    """What an exploration went through: how many interleavings there are, and how many runs showed all of them."""

    interleavings: int = 0
    runs: int = 0
    endings: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    fewest: list[int] = field(default_factory=list[int])

    def shuffles(self) -> int:
        """In how many ways the fewest steps that each actor ever took can be shuffled: a bound from below."""
        return math.factorial(sum(self.fewest)) // math.prod(map(math.factorial, self.fewest))


class Explorer:
    """Plays a scene to all of its ends."""

    def __init__(self, make: Callable[[], Scene], *, merge: bool) -> None:
        self.make = make
        self.merge = merge
        self.known: dict[object, int] = {}
        self.explored = Explored()

    def explore(self) -> Explored:
        """Play them all."""
        self.explored.interleavings = self._visit(self.make(), ())
        return self.explored

    def _visit(self, scene: Scene, path: tuple[int, ...]) -> int:
        moving = scene.moving()
        if not moving:
            self._end(scene, path)
            return 1
        key = (scene.shared(), *(actor.history() for actor in scene.actors)) if self.merge else path
        if key in self.known:
            return self.known[key]
        total = 0
        for choice in range(len(moving)):
            now = scene if not choice else self._replay(path)
            self._step(now, (*path, choice))
            total += self._visit(now, (*path, choice))
        if self.merge:
            self.known[key] = total
        return total

    def _replay(self, path: tuple[int, ...]) -> Scene:
        scene = self.make()
        for choice in path:
            scene.step(choice)
        return scene

    def _step(self, scene: Scene, path: tuple[int, ...]) -> None:
        try:
            scene.step(path[-1])
        except AssertionError as error:
            error.add_note(f"after the choices {path}")
            raise

    def _end(self, scene: Scene, path: tuple[int, ...]) -> None:
        self.explored.runs += 1
        steps = [scene.steps[actor] for actor in range(len(scene.actors))]
        self.explored.fewest = [*map(min, self.explored.fewest, steps)] if self.explored.fewest else steps
        try:
            self.explored.endings.add(_checked(scene))
        except AssertionError as error:
            error.add_note(f"after the choices {path}")
            raise


def _checked(scene: Scene) -> tuple[str, ...]:
    """What must hold at the end of every interleaving; gives how it ended."""
    shop = scene.shop
    fresh = shop.gate()
    shop.clock.advance(OVERDUE)
    for intent_id in shop.store.pending():
        shop.drive(fresh, lifecycle.reconcile(fresh.scene, intent_id))
    shop.settled(verified=True)
    ending: list[str] = []
    for call in scene.calls:
        if isinstance(call.value, Verdict):
            ending.append(f"{call.value.outcome.name} {call.value.applied.name}")
        else:
            ending.append(type(call.error).__name__ if call.error is not None else "done")
    ending.extend(stored.row.state.name for stored in map(shop.store.load, scene.intents) if stored is not None)
    if scene.lowest >= AMOUNT and all(isinstance(call.value, Verdict) for call in scene.calls):
        assert len(shop.commits) >= 1, "nothing stood in the way and nothing was released"
    return tuple(ending)


# Scenes.


def rivals(form: Form, *limits: int, withdrawn: bool = False, lanes: int = 1) -> Callable[[], Scene]:
    """Two gates, on one intent or on two of one lane; perhaps a writer, perhaps somebody who withdraws."""
    template = Template(form, intents=lanes)

    def make() -> Scene:
        scene = Scene(template)
        scene.gate(0, scene.first).gate(lanes - 1)
        if limits:
            scene.write(*limits)
        return scene.withdraw(0) if withdrawn else scene

    return make


def threads(form: Form, *limits: int, halves: bool) -> Callable[[], Scene]:
    """Two threads of one gate on one intent."""
    template = Template(form)

    def make() -> Scene:
        scene = Scene(template)
        scene.gate(0, scene.first, halves=halves).gate(0, scene.first, halves=halves)
        return scene.write(*limits) if limits else scene

    return make


def overdue(
    *limits: int, withdrawn: bool = False, death: bool = False, late: bool = False, rival: bool = True
) -> Callable[[], Scene]:
    """The clock jumps past every deadline at any moment; perhaps a gate dies then, or its apply arrives twice."""
    template = Template(Form.SEPARATE)

    def make() -> Scene:
        scene = Scene(template)
        scene.gate(0, scene.first)
        if rival:
            scene.gate(0)
        first = cast("Gate", scene.actors[0])
        scene.actors.append(Writer([lambda: scene.shop.clock.advance(OVERDUE)]))
        if limits:
            scene.write(*limits)
        if death:
            scene.actors.append(Death(first))
        if late:
            scene.actors.append(Late(first))
        return scene.withdraw(0) if withdrawn else scene

    return make


_LANE = functools.partial(rivals, lanes=2)
_WITHDRAWN = functools.partial(rivals, withdrawn=True)
SCENES: dict[str, Callable[[], Callable[[], Scene]]] = (
    {
        f"{form.value}, {name}": functools.partial(make, form, *limits)
        for form in Form
        for name, make, limits in (
            ("two gates", rivals, ()),
            ("two gates, the limit falls", rivals, (50,)),
            ("two gates, the limit falls and is restored", rivals, (50, 100)),
            ("two gates, the limit changes harmlessly", rivals, (90, 80)),
            ("two intents of a lane", _LANE, ()),
            ("two intents of a lane, the limit falls", _LANE, (50,)),
            ("two intents of a lane, the limit falls and is restored", _LANE, (50, 100)),
            ("two gates, withdrawn", _WITHDRAWN, ()),
            ("two gates, withdrawn, the limit falls", _WITHDRAWN, (50,)),
        )
    }
    | {
        "one-engine, two threads and their replies": functools.partial(threads, Form.ONE_ENGINE, halves=True),
        "one-engine, two threads, the limit falls": functools.partial(threads, Form.ONE_ENGINE, 50, halves=True),
        "separate, two threads and their replies": functools.partial(threads, Form.SEPARATE, halves=True),
        "separate, two threads, the limit falls": functools.partial(threads, Form.SEPARATE, 50, halves=True),
    }
    | {
        "overdue": overdue,
        "overdue, the limit falls": functools.partial(overdue, 50),
        "overdue, withdrawn, the limit falls": functools.partial(overdue, 50, withdrawn=True, rival=False),
        "overdue, and the attempt arrives once more": functools.partial(overdue, late=True),
        "overdue after a death, the limit falls": functools.partial(overdue, 50, death=True),
        "overdue after a death, withdrawn, and the attempt arrives later": functools.partial(
            overdue, death=True, late=True, withdrawn=True, rival=False
        ),
    }
)
LARGE = {
    "separate, two gates, the limit changes harmlessly",
    "separate, two intents of a lane, the limit falls and is restored",
    "separate, two gates, withdrawn, the limit falls",
    "one-engine, two gates, withdrawn, the limit falls",
    "overdue, the limit falls",
    "overdue after a death, the limit falls",
}
"""Scenes of several thousand states; together they take a minute or two."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in SCENES]
)
def test_every_interleaving_keeps_every_promise(name: str) -> None:
    """No order of steps breaks a promise; and there are at least as many as the steps can be shuffled."""
    explored = Explorer(SCENES[name](), merge=True).explore()
    assert explored.interleavings >= explored.shuffles() > 1


@pytest.mark.parametrize(
    "make",
    [
        rivals(Form.ONE_ENGINE),
        rivals(Form.ONE_ENGINE, lanes=2),
        rivals(Form.ONE_ENGINE, withdrawn=True),
        threads(Form.ONE_ENGINE, halves=True),
        rivals(Form.SEPARATE, lanes=2),
        overdue(rival=False, late=True),
    ],
    ids=["gates", "lane", "withdrawn", "threads", "separate-lane", "overdue"],
)
def test_merging_loses_no_interleaving(make: Callable[[], Scene]) -> None:
    """Played one by one or merged, a scene has as many interleavings and the same endings."""
    plain, merged = Explorer(make, merge=False).explore(), Explorer(make, merge=True).explore()
    assert plain.interleavings == plain.runs == merged.interleavings
    assert merged.runs <= plain.runs
    assert plain.endings == merged.endings


def test_gates_that_share_nothing_shuffle_freely() -> None:
    """Two withdrawals of different intents and a writer meet in as many ways as their steps can be shuffled."""
    template = Template(Form.SEPARATE, intents=2)
    explored = Explorer(lambda: Scene(template).withdraw(0).withdraw(1).write(90, 80), merge=False).explore()
    assert explored.interleavings == explored.shuffles() == math.factorial(6) // 2**3


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("no floor", "overdue after a death, withdrawn, and the attempt arrives later"),
        ("steal first", "overdue"),
        ("no swap", "separate, two gates, withdrawn"),
        ("no swap", "one-engine, two gates, withdrawn"),
        ("steal first", "separate, two threads and their replies"),
        ("no swap", "separate, two threads and their replies"),
        ("unbound", "separate, two threads, the limit falls"),
        ("withdraw any", "separate, two gates, withdrawn"),
        ("unbound", "separate, two gates, the limit falls"),
        ("unbound", "one-engine, two gates, the limit falls"),
        ("no tombstone", "overdue, and the attempt arrives once more"),
        ("always keep", "one-engine, two gates, the limit falls"),
    ],
)
def test_a_planted_mistake_shows_in_some_interleaving(planted: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any one mechanism away, and some order of steps breaks a promise."""
    PLANTED[planted](monkeypatch)
    with pytest.raises(Violation):
        Explorer(SCENES[name](), merge=True).explore()
