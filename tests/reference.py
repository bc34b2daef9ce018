"""A gate as naive as it can be, to hold the real one to: no index, no plan, nothing compiled, nothing skipped.

Whatever it is asked, it reads everything anew, evaluates every premise from its JSON form, compares all that was
recorded with what is there, and takes the worst answer. It shares no code with the real gate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reading import UNREADABLE, Address, Bad, Path, Place, Reading, address, below, named, resources, same, word

from lastlook.canonical import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["TRIES", "Answer", "Contract", "Premise", "ReferenceGate", "World", "text"]

KEEP, REFRESH, REPLAN, BLOCK = range(4)
NAMES = (-1,)
"""Stands for the path of which fields a row has."""
TRIES = 4
"""The first attempt, and three after a revalidation."""
Read = tuple[Place, Any]
"""A place and what lay there."""


class World:
    """Rows and their versions, in plain dictionaries; every write moves the version of its row and of its kind."""

    def __init__(self) -> None:
        self.rows: dict[Address, Mapping[str, Any]] = {}
        self.versions: Counter[Address] = Counter()
        self.unreadable: set[str] = set()

    def put(self, at: Address, row: Mapping[str, Any] | None) -> None:
        """Write a row, or remove it."""
        self.rows.pop(at, None)
        if row is not None:
            self.rows[at] = row
        self.versions.update([at, (at[0], ())])

    def replace(self, kind: str, key: Sequence[Any], row: Mapping[str, Any], /) -> None:
        """Write a whole row."""
        self.put(address(kind, key), row)

    def delete(self, kind: str, key: Sequence[Any], /) -> None:
        """Remove a row."""
        self.put(address(kind, key), None)

    def change(self, kind: str, key: Sequence[Any], /, **fields: Any) -> None:
        """Set fields of a row, which is made if there is none."""
        at = address(kind, key)
        self.put(at, {**self.rows.get(at, {}), **fields})

    def drop(self, kind: str, key: Sequence[Any], name: str, /) -> None:
        """Remove a field."""
        at = address(kind, key)
        self.put(at, {each: value for each, value in self.rows.get(at, {}).items() if each != name})

    def at(self, place: Place) -> Any:
        """What lies at a place, ABSENT or UNREADABLE; all rows of a kind in the order of their keys."""
        (kind, key), path = place
        if kind in self.unreadable:
            return UNREADABLE
        if not key:
            return tuple(self.rows[at] for at in sorted(at for at in self.rows if at[0] == kind))
        value: Any = self.rows.get((kind, key), ABSENT)
        if path == NAMES:
            return ABSENT if value is ABSENT else tuple(sorted(value))
        for step in path:
            value = below(value, step)
        return value


@dataclass(frozen=True)
class Premise:
    label: str
    tree: Any
    severity: int
    awaited: bool


@dataclass(frozen=True)
class Contract:
    """What an effect is declared with.

    Attributes:
        critical: the kinds, and each `kind.field`, that policy marks.
        foreign: the kinds that the target cannot check, so that nothing of them can be bound.
    """

    premises: tuple[Premise, ...]
    refresh: tuple[Any, ...]
    critical: frozenset[str]
    irreversible: bool
    foreign: frozenset[str]

    def marks(self, kind: str, key: Sequence[Any], path: Path) -> bool:
        """Whether policy marks a place, or something in it where it is all rows of a kind."""
        fields = [mark.partition(".")[2] for mark in self.critical if mark.startswith(f"{kind}.")]
        return kind in self.critical or any(name in path[:1] or not key for name in fields)


@dataclass
class Answer:
    """What a gate says, and for each of its attempts the versions that it bound and the refreshed values by place."""

    outcome: int
    failed: set[str]
    applied: str = "NOT_ATTEMPTED"
    attempts: list[tuple[dict[Address, int], dict[str, Any]]] = field(default_factory=list[Any])


def text(place: Place) -> str:
    """`orders/o-1.meta['city']`, or `stock['a', 2].meta['city']`."""
    (kind, key), path = place
    parts: list[Any] = [part[1] if word(part) == "list" else part for part in key]
    row = f"/{''.join(parts)}" if [*map(type, parts)] == [str] else f"[{', '.join(map(repr, parts))}]"
    steps = (
        " (which fields it has)"
        if path == NAMES
        else "".join(f"[{step!r}]" if number else f".{step}" for number, step in enumerate(path))
    )
    return f"{kind}{row if parts else '/*'}{steps}"


class ReferenceGate:
    """One intent of one effect, from the agent's first read until the effect has been applied."""

    def __init__(
        self, contract: Contract, world: World, arguments: Mapping[str, Any], actor: Mapping[str, Any] | None
    ) -> None:
        self.contract = contract
        self.world = world
        self.roots = {"arg": arguments, "actor": actor or {}}
        self.captured: dict[str, Any] = {}
        self.one_shot = True
        self.recorded: set[Place] = set()
        self.refreshed: list[Read | None] = []
        self.edges: list[Read] = []
        self.committed: Answer | None = None

    def read(self, tree: Any) -> list[Read]:
        """What the agent reads: a row field by field, and which fields there are; anything else as one."""
        at, path = place = Reading(self.world, self.roots, {}).place(*next(resources(tree)))
        value = self.world.at(place)
        if path or word(value) != "map":
            return [(place, value)]
        return [((at, each), self.world.at((at, each))) for each in [NAMES, *((name,) for name in value)]]

    def propose(self, rests_on: Iterable[Read], *, prove: bool) -> Answer | None:
        """Record all that premises and refresh rules use, and the reads of the decision that none of them names.

        With `prove`, an answer instead, if a premise that is not awaited is not true. A one-shot call records nothing.
        """
        reading = Reading(self.world, self.roots, self.captured, capturing=True)
        awaited = {premise.label for premise in self.contract.premises if premise.awaited}
        failed = {label: rank for label, rank in self._judge(reading).items() if label not in awaited}
        if failed and prove:
            return Answer(max(failed.values()), set(failed))
        self.one_shot = False
        self.recorded = reading.touched
        self.refreshed = self._refresh()
        used = [*self.recorded, *(read[0] for read in self.refreshed if read is not None)]
        self.edges = [
            ((at, path), value)
            for (at, path), value in rests_on
            if not any(at == other and (path == way or (way and path[: len(way)] == way)) for other, way in used)
        ]
        return None

    def look(self) -> tuple[Answer, dict[Address, int], dict[str, Any]]:
        """Validate everything; and what an attempt has to bind and to hand over."""
        reading = Reading(self.world, self.roots, self.captured, capturing=self.one_shot)
        failed = self._judge(reading)
        for place, then in self.edges:
            critical = self.contract.irreversible or self.contract.marks(*place[0], place[1])
            loose = critical and place[0][0] in self.contract.foreign
            if loose or not same(then, self.world.at(place)):
                failed[f"rests on {text(place)}"] = BLOCK if critical else REPLAN
        now = self._refresh()
        moved = not self.one_shot and not all(map(_same_value, self.refreshed, now))
        decisive = {at for at, _ in reading.touched | self.recorded} | {at for (at, _), _ in self.edges}
        bound = {
            at: self.world.versions[at] for at in decisive if at[0] not in self.world.unreadable | self.contract.foreign
        }
        fresh = {text(read[0]): read[1] for read in now if read is not None and read[1] is not UNREADABLE}
        return Answer(max(failed.values(), default=REFRESH if moved else KEEP), set(failed)), bound, fresh

    def release(self, effect: Callable[[], None], window: Callable[[int], None]) -> Answer:
        """Look, and apply only if nothing bound has moved in the window before it; else look again, up to a bound."""
        if self.committed is not None:
            return self.committed
        attempts: list[tuple[dict[Address, int], dict[str, Any]]] = []
        while True:
            answer, bound, fresh = self.look()
            answer.attempts = attempts
            if answer.failed:
                return answer
            window(len(attempts))
            attempts.append((bound, fresh))
            if all(self.world.versions[at] == version for at, version in bound.items()):
                effect()
                answer.applied = "COMMITTED"
                self.committed = Answer(answer.outcome, set(), "COMMITTED")
                return answer
            answer.applied = "REJECTED"
            if len(attempts) == TRIES:
                return answer

    def _judge(self, reading: Reading) -> dict[str, int]:
        """The severities of the premises that are not true. What they name is used, even if evaluation passes it by."""
        failed: dict[str, int] = {}
        for premise in self.contract.premises:
            reading.each(list(named(premise.tree)), None, lambda part, _: reading.place(*part))
            if reading.each([premise.tree], None, reading.truth)[0] != [True]:
                critical = any(self.contract.marks(*resource) for resource in resources(premise.tree))
                failed[premise.label] = BLOCK if critical else premise.severity
        return failed

    def _refresh(self) -> list[Read | None]:
        """Where the refresh fields are and what lies there now; None of one that a missing key does not lead to."""
        found: list[Read | None] = []
        for _, kind, keys, *path in self.contract.refresh:
            try:
                place = Reading(self.world, self.roots, {}).place(kind, keys, tuple(path))
                found.append((place, self.world.at(place)))
            except Bad:
                found.append(None)
        return found


def _same_value(then: Read | None, now: Read | None) -> bool:
    return same(*(ABSENT if read is None else read[1] for read in (then, now)))
