"""Random effects with their premises, each on a world of its own, and random changes of that world."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from drawing import FIELDS, KINDS, NAMES, Draw
from reading import Address, Place, Reading, address
from reference import Contract, Premise, World

from lastlook import (
    UNBOUND,
    BindingPolicy,
    Capture,
    DeclarationError,
    Gate,
    Memory,
    arg,
    block_unless,
    replan_unless,
    resource,
)
from lastlook.expressions import Expr, analyse, render, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Changes", "Group", "Op", "perform", "tree_of"]

Op = tuple[str, str, tuple[Any, ...], Any]
"""A method that `Memory` and `World` share, the kind and the key of a row, and the last argument, if any."""


class Group:
    """One effect on a gate and a world of its own; many cases are run on it, each from the base rows.

    Attributes:
        base: the rows of which, in a `sound` group, all premises are true with the base arguments.
        contract: the effect as the reference gate takes it.
        memories: the system of each kind; the effect acts on `orders`, and at times another kind is in another system.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.draw = draw = Draw(Random(f"group {seed}"))
        self.kinds = draw.kinds
        self.base = {kind: {draw.key(kind): draw.row() for _ in range(draw.number(1, 4))} for kind in self.kinds}
        self.arguments = draw.arguments()
        self.actor = {"role": draw.one_of(NAMES)} if draw.odds(0.8) else None
        self.sound = draw.odds(0.8)
        self.model = World()
        self.foreign = frozenset(self.kinds[-1:] if draw.odds(0.2) else [])
        self.memories: dict[str, Memory] = {}
        for kinds in filter(None, ([kind for kind in self.kinds if kind not in self.foreign], list(self.foreign))):
            empty: dict[str, dict[Any, dict[str, Any]]] = {kind: {} for kind in kinds}
            memory = Memory(**empty)
            memory.options(separate=draw.odds(0.5), fields={kind: [*FIELDS, "done"] for kind in kinds})
            self.memories |= dict.fromkeys(kinds, memory)
        self.reset()
        declared = self._premises(draw.one_of([1, 2, 2, 3]), draw.number(1, 5))
        required = len(declared) - (len(declared) > 1 and draw.odds(0.2))
        refresh = [draw.place(draw.one_of(FIELDS), 0, row=False) for _ in range(draw.one_of([0, 1, 1, 2]))]
        irreversible = draw.odds(0.15)
        marks = [kind if draw.odds(0.4) else f"{kind}.{draw.one_of(FIELDS)}" for kind in self.kinds]
        critical = frozenset([draw.one_of(marks)] if draw.odds(0.2) else [])
        self.capture = draw.one_of([*Capture, Capture.PREDICATE])
        self.gate = Gate(
            *dict.fromkeys(self.memories.values()),
            policy=BindingPolicy(critical),
            capture=self.capture,
        )
        self.effect = self.gate.effect(
            target=resource("orders", arg["target"]),
            premises=declared[:required],
            awaits=declared[required:],
            refresh=refresh,
            irreversible=irreversible,
        )(act).options(actor=self.actor)
        self.contract = Contract(
            tuple(
                Premise(premise.label, tree_of(premise.condition), int(premise.severity), number >= required)
                for number, premise in enumerate(declared)
            ),
            tuple(tree_of(field) for field in refresh),
            critical,
            irreversible,
            self.foreign,
        )

    def reset(self) -> None:
        """Write the base rows wherever others are."""
        for kind, table in self.base.items():
            now = {key: row for (each, key), row in self.model.rows.items() if each == kind}
            for key in sorted(table.keys() | now.keys()):
                if table.get(key) != now.get(key):
                    row = table.get(key)
                    self.perform([("delete" if row is None else "replace", kind, key, row)])

    def perform(self, ops: Sequence[Op]) -> None:
        """Make the same changes in both worlds."""
        for op in ops:
            perform(self.memories[op[1]], op)
            perform(self.model, op)

    def table(self, kind: str) -> dict[Address, Any]:
        """The rows of a kind that are really there."""
        table: dict[Any, Any] = self.memories[kind].rows(kind)
        return {address(kind, (key,) if KINDS[kind] == 1 else key): row for key, row in table.items()}

    def reading(self, **options: Any) -> Reading:
        """A reading of the world as it is, with the base arguments."""
        return Reading(self.model, {"arg": self.arguments, "actor": self.actor or {}}, {}, **options)

    def _premises(self, deep: int, number: int) -> list[Any]:
        """Premises of different labels."""
        found: dict[str, Any] = {}
        while len(found) < number:
            try:
                condition = self.draw.condition(deep)
                reading = self.reading(capturing=True)
                truth, _ = reading.each([tree_of(condition)], None, reading.truth)
                if self.sound and truth != [True]:
                    if not truth:
                        continue
                    condition = ~condition
                unless = self.draw.one_of([block_unless, replan_unless])
                accept = UNBOUND("it lies elsewhere") if analyse(condition).kinds & self.foreign else None
                found.setdefault(render(condition), unless(condition, accept=accept))
            except DeclarationError:
                continue
        return list(found.values())


def tree_of(expression: Expr[Any]) -> Any:
    """The JSON form of an expression, without the version of the operations."""
    pair: Any = to_json(expression)
    return pair[1]


def act(permit: Any, target: str, key: str, name: str, amount: int, wanted: Any) -> str:
    """The effect: it marks the row that it acts on."""
    permit.change("orders", target, done=True)
    return "done"


def perform(world: Memory | World, op: Op) -> None:
    """Make one change."""
    method, kind, key, last = op
    if method == "change":
        world.change(kind, key, **last)
    else:
        getattr(world, method)(kind, key, *([] if last is None else [last]))


class Changes:
    """Random changes of a group's world, preferably where something rests on it.

    Args:
        places: what may be preferred.
    """

    def __init__(self, group: Group, draw: Draw, places: Sequence[Place]) -> None:
        self.model = group.model
        self.draw = draw
        self.places = sorted(places, key=repr)

    def some(self, most: int) -> Iterator[Op]:
        """Up to so many changes, nearly all of evidence."""
        for _ in range(self.draw.number(1, most)):
            yield self.at(self._place())

    def set(self, place: Place) -> Op:
        """Another value of a field, as likely as not."""
        kind, key, path = self._row(place)
        return ("change", kind, key, {path[0]: self.draw.value(path[0])})

    def back(self) -> Iterator[Op]:
        """Changes that are taken back at once: the values are the same, and the versions are others."""
        for _ in range(self.draw.number(1, 2)):
            yield from self.touch(self._place())

    def at(self, place: Place) -> Op:
        """A change of a place, of its row, or of a row of its kind."""
        kind, key, path = self._row(place)
        chosen = self.draw.number(0, 99)
        if chosen < 8:
            return ("delete", kind, key, None)
        if chosen < (16 if path else 50):
            return ("replace", kind, key, self.draw.row())
        name = path[0] if path and isinstance(path[0], str) else self.draw.one_of(FIELDS)
        if chosen < (24 if path else 55):
            return ("drop", kind, key, name)
        return ("change", kind, key, {name: self.draw.value(name)})

    def touch(self, place: Place) -> Iterator[Op]:
        """A change of a place that is taken back; or writes that change nothing."""
        kind, key, path = self._row(place)
        row = self.model.rows.get((kind, key))
        last: Op = ("delete", kind, key, None) if row is None else ("replace", kind, key, row)
        if self.draw.odds(0.5):
            yield self.at(((kind, key), path))
        yield last

    def _place(self) -> Place:
        if self.places and self.draw.odds(0.85):
            return self.draw.one_of(self.places)
        kind = self.draw.one_of(self.draw.kinds)
        return (kind, self.draw.key(kind)), (self.draw.one_of(FIELDS),)

    def _row(self, place: Place) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
        (kind, key), path = place
        types = [str, int][: KINDS[kind]]
        return (kind, key, path) if [type(part) for part in key] == types else (kind, self.draw.key(kind), path)
