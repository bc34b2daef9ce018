"""An intent compiled once: what to look at, and what a change at each place touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lastlook.canonical import ABSENT
from lastlook.commands import Observe
from lastlook.errors import Outcome
from lastlook.expressions import Env, Unverifiable
from lastlook.look import Kept, Look, Place, Watch
from lastlook.records import Capture, Grade, Observation, place
from lastlook.validators import REGISTRY
from lastlook.verdicts import Intent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastlook.contract import Contract, Program, Surroundings
    from lastlook.evaluation import Seen
    from lastlook.index import Change
    from lastlook.records import IntentRecord

__all__ = ["Plan"]

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_BLOCK = Outcome.BLOCK
_KEEP = Outcome.KEEP
_REFRESH = Outcome.REFRESH
_REPLAN = Outcome.REPLAN
_BOUND = Grade.BOUND
_UNBOUND = Grade.UNBOUND
_PREDICATE = Capture.PREDICATE

_MAX_HINTS = 64
"""Of how many different hints a plan remembers what they touch."""


class Plan:
    """One pending intent, compiled.

    The unchanged case is one fetch and one tuple comparison by identity. `places` says, for each address, which parts
    were recorded and what each of them touches; `always` are the premises that run whatever happened: unproven,
    awaited, volatile, or without their pinned validator.

    Args:
        record: the intent.
        program: its recorded premises, in order, and after them today's where the contract has changed.
        contract: the effect's contract as it stands.
        salt: of the record's value digests.
        seen: observations by identity that the record was made from, where they are still at hand.
        capture: how finely a change selects premises.

    Attributes:
        reader, target, body, one_engine: set by whoever connects the plan to systems: how its evidence is read, what
            applies its effect, the function that does so under a permit, and whether target and store are one engine.
        named: what stands in texts for resources whose recorded key was itself read, and is not public.
    """

    __slots__ = (
        "_actor",
        "_captured",
        "_hints",
        "_regular",
        "addresses",
        "body",
        "bound",
        "capture",
        "contract",
        "edges",
        "everything",
        "generation",
        "identities",
        "intent",
        "keep",
        "named",
        "observe",
        "one_engine",
        "places",
        "program",
        "reader",
        "record",
        "salt",
        "simple",
        "slot_index",
        "spare",
        "standing",
        "target",
    )

    def __init__(
        self,
        record: IntentRecord,
        program: Program,
        contract: Contract,
        *,
        salt: bytes,
        seen: Mapping[str, Observation],
        capture: Capture = _PREDICATE,
    ) -> None:
        self.record = record
        self.program = program
        self.contract = contract
        self.salt = salt
        self.capture = capture
        self.everything = (1 << len(program.checks)) - 1
        self.intent: Intent[Any] = Intent(record.intent_id, record.effect)
        self.observe = Observe(self)
        self.reader: Any = None
        self.target: Any = None
        self.body: Any = None
        self.one_engine = False
        self.generation = -1
        self.standing = 0
        self._hints: dict[object, tuple[tuple[tuple[int, Watch], ...], int, Outcome]] = {}
        self._actor = ABSENT if record.actor is None else record.actor
        self._captured = dict(record.captured)
        places: dict[str, Place] = {}
        self.slot_index = self._place_slots(places)
        self._regular = self.slot_index == tuple(range(len(self.slot_index)))
        self.spare: list[Env] = []
        self.named = {
            read.address: read.named
            for read in record.reads
            if read.named is not None and read.address.identity not in places
        }
        self._watch_reads(places)
        self.places = tuple(places.values())
        surroundings = cast("Surroundings", contract.surroundings)
        for found in self.places:
            found.recorded = tuple(watch for watch in found.watches.values() if watch.digests)
            found.decisive = found.decisive or any(watch.mask or watch.edge for watch in found.watches.values())
            whole = found.address.is_collection
            found.grade = surroundings.grade(found.address.kind, whole=whole) if found.decisive else _UNBOUND
        self.edges = tuple(
            (index, watch) for index, found in enumerate(self.places) for watch in found.watches.values() if watch.edge
        )
        self.addresses = tuple(found.address for found in self.places)
        self.simple = (
            self._regular
            and len(self.addresses) == len(self.slot_index)
            and not (program.joins or record.one_shot or any(check.pins for check in program.checks))
        )
        self.identities = tuple(address.identity for address in self.addresses)
        self.bound = tuple(index for index, found in enumerate(self.places) if found.grade is _BOUND)
        # Where the agent's read and the proposal's differ, only the recorded digests say what was read.
        at_hand: Mapping[str, Observation] = {} if record.differences else seen
        self.keep = Kept(self, tuple(at_hand.get(address.identity) for address in self.addresses))
        _ = self.always

    @property
    def seen(self) -> tuple[Observation | None, ...]:
        """The observations that every look is compared with; None where only recorded digests are at hand."""
        return cast("tuple[Observation | None, ...]", self.keep.cells)

    def _place_slots(self, places: dict[str, Place]) -> tuple[int, ...]:
        """Where each slot's observation stands among the places; -1 where its key depends on evidence."""
        env = Env(self.program.slots, self.record.arguments, self._actor)
        index: list[int] = []
        order: dict[str, int] = {}
        for slot, derived in enumerate(self.program.slots.derived):
            try:
                address = None if derived else env.address(slot)
            except Unverifiable:
                address = None  # the key names no row: its premises say so when they run
            if address is None:
                index.append(-1)
                continue
            found = places.setdefault(address.identity, Place(address))
            found.decisive = found.decisive or slot in self.program.decisive
            index.append(order.setdefault(address.identity, len(order)))
        return tuple(index)

    def _watch_reads(self, places: dict[str, Place]) -> None:
        record = self.record

        def watch(index: int) -> Watch:
            read = record.reads[index]
            found = places.get(read.address.identity)
            if found is None:
                found = places[read.address.identity] = Place(read.address)
            known = found.watches.setdefault(read.path, Watch(read.path))
            if read.digest not in known.digests:
                known.digests += (read.digest,)
            known.token = read.token
            return known

        for number, premise in enumerate(record.premises):
            for index in premise.evidence:
                watch(index).mask |= 1 << number
        for index in record.refresh:
            watch(index).refreshes = True
        if any(decision.rests_on for decision in record.decisions):
            for index in _conservative_edges(record):
                watch(index).edge = True
        if not record.refresh and self.program.refresh:
            # Nothing was recorded of them where the proposal read nothing; their values still go into the permit.
            listed = list(places.values())
            for rule in self.program.refresh:
                if self.slot_index[rule.slot] >= 0:
                    watches = listed[self.slot_index[rule.slot]].watches
                    watches.setdefault(rule.path, Watch(rule.path)).refreshes = True

    def is_of(self, record: IntentRecord) -> bool:
        """Whether it was compiled from this very record, and not from another that once went by the same id."""
        return record is self.record or record == self.record

    def env(self, cells: Sequence[Seen | None]) -> Env:
        """An environment with the cells in their slots; what is in no slot is still to be looked up."""
        record = self.record
        slots: list[Any]
        if self._regular and len(cells) == len(self.slot_index):
            slots = [*cells]
        else:
            slots = [cells[index] if index >= 0 else None for index in self.slot_index]
        env = Env.of_look(self.program.slots, record.arguments, self._actor, self._captured, slots)
        if record.one_shot and record.premises:
            # A one-shot call has no earlier look, so what it must find unchanged is what it finds.
            env.captured, env.capturing = dict(self._captured), True
        return env

    @property
    def always(self) -> int:
        """The premises that run at every gate, by bit; worked out anew when the registry of validators changed."""
        if self.generation != REGISTRY.generation:
            mask = 0
            for number, check in enumerate(self.program.checks):
                premise = self.record.premises[number] if number < len(self.record.premises) else None
                # INVARIANT: a premise is skipped only if it is proven, not volatile, and its pinned validator is here.
                proven = premise is not None and premise.proven and not check.volatile
                if not proven or any(REGISTRY.pinned(pin[0], pin[1], pin[3]) is None for pin in check.pins):
                    mask |= 1 << number
            self.standing = mask
            self.generation = REGISTRY.generation
        return self.standing

    def look(self, cells: tuple[Seen, ...]) -> Look:
        """Diff one look against what was recorded (lines 4-5); the affected premises are yet to run."""
        standing = self.always if self.generation != REGISTRY.generation else self.standing
        keep = self.keep
        if not standing and cells == keep.cells:
            return keep
        look = Look(self, cells)
        look.compare(keep.cells)
        if not look.differing and cells != keep.cells and (look.doubts is None or not look.doubts.unusable):
            # The values are the recorded ones and no token contradicts: from now on, identity tells.
            self.keep = Kept(self, cells)
        return look

    def judge(self, cells: tuple[Seen, ...]) -> Look | None:
        """A look, decided at once; None where it needs the clock, a validator or a further read."""
        if self.program.volatile:
            return None
        look = self.look(cells)
        if type(look) is not Kept:
            if look.start(None):
                return None
            look.decide()
        return look

    def judge_hint(self, cells: tuple[Seen, ...], change: Change) -> Look | None:
        """As `judge`, for a change hint."""
        if self.program.volatile:
            return None
        look = self.hinted(cells, change)
        if look.start(None):
            return None
        look.decide()
        return look

    def hinted(self, cells: tuple[Seen, ...], change: Change) -> Look:
        """A look that takes a change hint's word for what differs (EVENT): it schedules work and decides nothing."""
        look = Look(self, cells)
        known = self._hints.get(change.named)
        if known is None:
            if len(self._hints) >= _MAX_HINTS:
                self._hints.clear()
            known = self._hints[change.named] = self._find_hinted(change.reached, change.fields)
        look.differing, look.mask, look.worst = known
        if cells != self.keep.cells:
            for index, cell in enumerate(cells):
                if type(cell) is not Observation:
                    look.doubt().unreadable.append(index)
        return look

    def _find_hinted(
        self, reached: tuple[str, ...], fields: tuple[str, ...]
    ) -> tuple[tuple[tuple[int, Watch], ...], int, Outcome]:
        """What a hint about these resources and fields touches: the recorded parts, and what they mean."""
        differing = tuple(
            [
                (index, watch)
                for index, identity in enumerate(self.identities)
                if identity in reached
                for watch in self.places[index].recorded
                if not fields or not watch.path or watch.path[0] in fields
            ]
        )
        mask, worst = self.touched(differing)
        return differing, mask if self.capture is _PREDICATE else self.everything, worst

    def touched(self, differing: Sequence[tuple[int, Watch]]) -> tuple[int, Outcome]:
        """What recorded parts that differ mean: the premises to run, by bit, and what rules and edges demand."""
        mask, worst = 0, _KEEP
        for index, watch in differing:
            mask |= watch.mask
            if watch.refreshes and worst < _REFRESH:
                worst = _REFRESH
            if watch.edge and (severity := self.edge_severity(index, watch)) > worst:
                worst = severity
        return mask, worst

    def affected(self, mask: int) -> tuple[int, ...]:
        """The numbers of the premises in a mask; worked out once for each."""
        known = self.program.affected.get(mask)
        if known is None:
            known = tuple([number for number in range(mask.bit_length()) if mask >> number & 1])
            self.program.affected[mask] = known
        return known

    def can_hold(self, index: int, cell: Observation) -> bool:
        """Whether the target, or the store for its own evidence, can compare what was seen at a place."""
        found, surroundings = self.places[index], cast("Surroundings", self.contract.surroundings)
        kind = found.address.kind
        absent = cell.value is ABSENT
        grade = surroundings.grade(kind, whole=found.address.is_collection, absence=absent) if absent else found.grade
        return grade is not _UNBOUND and surroundings.can_bind(kind, cell.token)

    def where(self, index: int, watch: Watch) -> str:
        """How texts name a watched part."""
        address = self.addresses[index]
        return place(address, watch.path, self.named.get(address))

    def edge_severity(self, index: int, watch: Watch) -> Outcome:
        """What a change means of which no premise says whether it matters."""
        address = self.addresses[index]
        critical = cast("Surroundings", self.contract.surroundings).is_critical(
            address.kind, str(watch.path[0]) if watch.path else "", whole=address.is_collection
        )
        return _BLOCK if critical or self.contract.irreversible else _REPLAN


def _conservative_edges(record: IntentRecord) -> tuple[int, ...]:
    """The reads that decisions rest on and that no premise or refresh rule names.

    A premise names a read by its path or by one that the read lies under. To ask whether there is a row names none of
    its fields, and a premise about a part does not speak for the whole.
    """
    named = {
        (record.reads[index].address.identity, record.reads[index].path)
        for indexes in (*(premise.evidence for premise in record.premises), record.refresh)
        for index in indexes
    }
    edges: dict[int, None] = {}
    for decision in record.decisions:
        for index in decision.rests_on:
            read = record.reads[index]
            prefixes = {read.path, *(read.path[:length] for length in range(1, len(read.path)))}
            if not any((read.address.identity, path) in named for path in prefixes):
                edges[index] = None
    return tuple(edges)
