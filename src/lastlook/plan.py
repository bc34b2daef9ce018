"""An intent compiled once: what to look at, what each change touches, and one look's validation (ATR, Algorithm 1)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.commands import Observe
from lastlook.errors import Outcome
from lastlook.evaluation import NOTHING_TOUCHED, Evaluation, findings_of, hidden_names
from lastlook.expressions import Env, Unverifiable
from lastlook.ports import Unreadable
from lastlook.records import NAMES, Address, Capture, Finding, Grade, Observation, at, place
from lastlook.validators import REGISTRY
from lastlook.verdicts import Intent, Preview

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.contract import Contract, Program, Surroundings
    from lastlook.evaluation import Seen
    from lastlook.index import Change
    from lastlook.ports import Bound
    from lastlook.records import IntentRecord, Path, Token

__all__ = ["Kept", "Look", "Plan"]

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_BLOCK = Outcome.BLOCK
_KEEP = Outcome.KEEP
_REFRESH = Outcome.REFRESH
_REPLAN = Outcome.REPLAN
_BOUND = Grade.BOUND
_RECORDED = Grade.RECORDED
_UNBOUND = Grade.UNBOUND
_PREDICATE = Capture.PREDICATE
_FIELD = Capture.FIELD

_NO_ENV = cast("Env", None)
_MAX_HINTS = 64
"""Of how many different hints a plan remembers what they touch."""
_PLAIN = frozenset({int, str, bool})
"""Types of which two equal values are the same one."""


class _Watch:
    """What a change at one place touches: premises by bit, conservative edges, and whether it refreshes.

    Attributes:
        digests: what was recorded there: none, or more than one if the agent read it again and found it changed.
        token: that of the last of these reads.
    """

    __slots__ = ("digests", "edge", "field", "mask", "path", "refreshes", "token")

    def __init__(self, path: Path, digest: str | None = None, token: Token | None = None) -> None:
        self.path = path
        self.field = path[0] if len(path) == 1 and path != NAMES else None
        self.token = token
        self.digests: tuple[str, ...] = () if digest is None else (digest,)
        self.mask = 0
        self.edge = False
        self.refreshes = False


class _Place:
    """A resource to look at: its address, what is watched in it, and how firmly it can be bound."""

    __slots__ = ("address", "decisive", "grade", "recorded", "watches")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.watches: dict[Path, _Watch] = {}
        self.recorded: tuple[_Watch, ...] = ()
        self.decisive = False
        self.grade = _UNBOUND


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
        self._hints: dict[object, tuple[tuple[tuple[int, _Watch], ...], int, Outcome]] = {}
        self._actor = ABSENT if record.actor is None else record.actor
        self._captured = dict(record.captured)
        places: dict[str, _Place] = {}
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

    def _place_slots(self, places: dict[str, _Place]) -> tuple[int, ...]:
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
            found = places.setdefault(address.identity, _Place(address))
            found.decisive = found.decisive or slot in self.program.decisive
            index.append(order.setdefault(address.identity, len(order)))
        return tuple(index)

    def _watch_reads(self, places: dict[str, _Place]) -> None:
        record = self.record

        def watch(index: int) -> _Watch:
            read = record.reads[index]
            found = places.get(read.address.identity)
            if found is None:
                found = places[read.address.identity] = _Place(read.address)
            known = found.watches.setdefault(read.path, _Watch(read.path))
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
                    watches.setdefault(rule.path, _Watch(rule.path)).refreshes = True

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
    ) -> tuple[tuple[tuple[int, _Watch], ...], int, Outcome]:
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

    def touched(self, differing: Sequence[tuple[int, _Watch]]) -> tuple[int, Outcome]:
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

    def where(self, index: int, watch: _Watch) -> str:
        """How texts name a watched part."""
        address = self.addresses[index]
        return place(address, watch.path, self.named.get(address))

    def edge_severity(self, index: int, watch: _Watch) -> Outcome:
        """What a change means of which no premise says whether it matters."""
        address = self.addresses[index]
        critical = cast("Surroundings", self.contract.surroundings).is_critical(
            address.kind, str(watch.path[0]) if watch.path else "", whole=address.is_collection
        )
        return _BLOCK if critical or self.contract.irreversible else _REPLAN


class _Doubts:
    """What a look found wrong with cells or their tokens, by index.

    Attributes:
        unreadable: there is no observation.
        contradicting: an ordered version went backwards, as none does by itself: a restore, or a replica that lags.
        unfaithful: the token is the recorded one, and the value is not.
        suspect: the token is of another kind than the recorded one, or that is not at hand.
    """

    __slots__ = ("contradicting", "suspect", "unfaithful", "unreadable")

    def __init__(self) -> None:
        self.unreadable: list[int] = []
        self.contradicting: list[int] = []
        self.unfaithful: list[int] = []
        self.suspect: list[int] = []

    @property
    def unusable(self) -> bool:
        """Whether some cell cannot be evaluated on."""
        return bool(self.unreadable or self.contradicting)


class Look(Evaluation):
    """One validation of an intent: a look at all its evidence, what differs, which premises ran, and what follows.

    Attributes:
        cells: one observation per place of the plan.
        differing: index of the place and the watch of every recorded part that differs.
        outcome: set by `decide`.
        unbindable: the checks that must be bound, and whose evidence nothing can hold still until the effect.
        loose: the conservative edges of which the same is true, by place and watch.
        weak: the kinds whose evidence cannot be held, whether or not it must.
    """

    __slots__ = ("cells", "differing", "doubts", "loose", "mask", "outcome", "plan", "unbindable", "weak")

    outcome: Outcome
    unbindable: tuple[int, ...]
    loose: tuple[tuple[int, _Watch], ...]
    weak: frozenset[str]

    def __init__(self, plan: Plan, cells: Sequence[Seen | None]) -> None:
        self.plan = plan
        self.program = plan.program
        self.env = _NO_ENV
        self.waiting = ()
        self.results = {}
        self.touched = NOTHING_TOUCHED
        self.worst = _KEEP
        self.cells = cells
        self.differing: Sequence[tuple[int, _Watch]] = ()
        self.mask = 0
        self.doubts: _Doubts | None = None

    def compare(self, seen: Sequence[Any]) -> None:
        """Find the cells that moved since `seen`, and narrow each to the recorded parts that differ.

        A row's token moves with any of its fields: what counts is which of the recorded parts differ.
        """
        plan = self.plan
        differing: list[tuple[int, _Watch]] = []
        self.differing = differing
        for index, now in enumerate(self.cells):
            then = seen[index]
            if now is then:
                continue
            found = plan.places[index]
            if type(now) is not Observation:
                self.doubt().unreadable.append(index)
                differing.extend((index, watch) for watch in found.watches.values())
                continue
            if then is None:
                self._compare_recorded(index, now, differing)
                continue
            order = now.token.against(then.token)
            if order < 0:
                self._contradict(index, differing)
                continue
            if order > 1:
                self.doubt().suspect.append(index)
            was: Any = then.value
            value: Any = now.value
            simple = type(was) is MappingProxyType is type(value)
            for watch in found.recorded:
                if simple and watch.field is not None:
                    a, b = was.get(watch.field, ABSENT), value.get(watch.field, ABSENT)
                else:
                    a, b = at(was, watch.path), at(value, watch.path)
                if a is b:
                    continue
                plain = type(a) is type(b) and type(a) in _PLAIN
                if a == b if plain else canonical.same(a, b):
                    continue
                differing.append((index, watch))
                if order == 0:
                    self.doubt().unfaithful.append(index)
        mask, self.worst = plan.touched(differing)
        coarse = plan.capture is not _PREDICATE and (bool(differing) or plan.capture is not _FIELD)
        self.mask = plan.everything if coarse else mask

    def doubt(self) -> _Doubts:
        """Where to note what is wrong with a cell."""
        if self.doubts is None:
            self.doubts = _Doubts()
        return self.doubts

    def _compare_recorded(self, index: int, now: Observation, differing: list[tuple[int, _Watch]]) -> None:
        """Where the recorded observation is not at hand, digests tell, each beside the token of its own read."""
        self.doubt().suspect.append(index)
        for watch in self.plan.places[index].recorded:
            order = now.token.against(watch.token) if watch.token is not None else 1
            if order < 0:
                self._contradict(index, differing)
                return
            digest = canonical.fingerprint(at(now.value, watch.path), salt=self.plan.salt)
            if watch.digests != (digest,):
                differing.append((index, watch))
                if order == 0 and digest not in watch.digests:
                    self.doubt().unfaithful.append(index)

    def _contradict(self, index: int, differing: list[tuple[int, _Watch]]) -> None:
        self.doubt().contradicting.append(index)
        differing.extend((index, watch) for watch in self.plan.places[index].watches.values())

    # Running (lines 7-13).

    def start(self, now: dt.datetime | None) -> bool:
        """Run the affected premises on this look's observations; whether some must wait for more."""
        plan, program = self.plan, self.program
        mask = self.mask | (plan.standing if plan.generation == REGISTRY.generation else plan.always)
        if not mask:
            return False
        numbers = program.affected.get(mask) or plan.affected(mask)
        if plan.simple and now is None and self.doubts is None:
            # Nothing can be lacking, so the environment is free again as soon as the premises have run.
            spare = plan.spare
            try:
                env = spare.pop()  # which no other thread then gets
                env.slots = self.cells  # type: ignore[assignment]  # no doubts: each is an observation, and stays
            except IndexError:
                env = plan.env(self.cells)
            self.env = env
            self.waiting = numbers
            self.run()
            if self.waiting == ():
                self.env = _NO_ENV
                spare.append(env)
                return False
            return True
        env = self.make_env()
        env.now = now
        self.env = env
        self.waiting = numbers
        self.run()
        return self.waiting != ()

    def make_env(self) -> Env:
        """An environment of this look's cells."""
        env = self.plan.env(self.cells)
        if self.program.joins or (self.doubts is not None and self.doubts.unusable):
            self._place_cells(env)
        return env

    def _place_cells(self, env: Env) -> None:
        """For keys that come from evidence, and to say why a cell cannot be used."""
        contradicting = self.doubts.contradicting if self.doubts is not None else ()
        for index, cell in enumerate(self.cells):
            address = self.plan.addresses[index]
            if index in contradicting:
                env.failed(address, "its version went backwards: a restore, or a replica that lags")
            elif isinstance(cell, Unreadable):
                env.failed(address, cell.reason)
            elif cell is not None:
                env.observed(address, cell)
        for slot, index in enumerate(self.plan.slot_index):
            if index in contradicting or not isinstance(env.slots[slot], Observation):
                env.slots[slot] = None

    # Deciding (lines 14-15).

    def decide(self) -> None:
        """The dominating outcome: premises, then refresh rules and conservative edges, then the binding policy."""
        if self.doubts is None and not self.program.joins:
            keep = self.plan.keep
            self.unbindable, self.loose, self.weak = keep.unbindable, keep.loose, keep.weak
        else:
            self.find_loose(self.doubts or _Doubts())
        self.outcome = _BLOCK if self.unbindable or self.loose else self.worst

    def find_loose(self, doubts: _Doubts) -> None:
        """The binding policy: what must be bound, and rests on what nothing can hold still until the effect."""
        plan = self.plan
        shaky = {*doubts.unfaithful, *doubts.contradicting}
        for index, found in enumerate(plan.places):
            cell = self.cells[index]
            if found.decisive and isinstance(cell, Observation) and not plan.can_hold(index, cell):
                shaky.add(index)
        bad = {plan.addresses[index].kind for index in shaky if plan.places[index].grade is not _UNBOUND}
        if self.results and plan.program.joins:
            bad.update(self._unbindable_reached())
        self.weak = frozenset(bad)
        # INVARIANT: what must be bound and cannot be never goes out, whatever an older declaration allowed.
        self.unbindable = tuple(
            number
            for number, check in enumerate(plan.program.checks)
            if check.binds and (check.grade is _UNBOUND or not check.analysis.kinds.isdisjoint(bad))
        )
        self.loose = tuple(
            (index, watch)
            for index, watch in plan.edges
            if plan.edge_severity(index, watch) is _BLOCK and (index in shaky or plan.places[index].grade is _UNBOUND)
        )

    def _unbindable_reached(self) -> list[str]:
        """Kinds of evidence that was reached by following other evidence, and carries a token that cannot be bound."""
        surroundings = cast("Surroundings", self.plan.contract.surroundings)
        found: list[str] = []
        for address in self.reached():
            cell = self.env.observations.get(address.identity)
            bindable = surroundings.grade(address.kind) is not _UNBOUND
            if cell is not None and bindable and not surroundings.can_bind(address.kind, cell.token):
                found.append(address.kind)
        return found

    # What is released, and what is told.

    def binding(self) -> tuple[Bound, ...]:
        """B(e): the decisive evidence that the target can check, with exactly the observations that were validated."""
        plan, cells = self.plan, self.cells
        addresses = plan.addresses
        found = tuple([(addresses[n], cell) for n in plan.bound if type(cell := cells[n]) is Observation])
        if self.weak:
            found = tuple([bound for n, bound in zip(plan.bound, found, strict=True) if plan.can_hold(n, bound[1])])
        return found if not self.results or not self.program.joins else self._joined(found, _BOUND)

    def projection(self, address: Address) -> frozenset[str] | None:
        """The fields of a bound resource that decide; None where all of it does, or whether it is there."""
        plan, checks = self.plan, self.program.checks
        paths = {path for touched in self.touched.values() for where, path in touched if where == address}
        for index, found in enumerate(plan.places):
            if found.address == address:
                paths.update(watch.path for watch in found.watches.values() if watch.mask or watch.edge)
                named = (pair for check in checks for pair in check.evidence)
                paths.update(path for slot, path in named if plan.slot_index[slot] == index)
        fields = [path[0] for path in paths if path and isinstance(path[0], str)]
        return frozenset(fields) if len(fields) == len(paths) else None

    def owned(self) -> tuple[Bound, ...]:
        """The decisive evidence that the store owns, to be checked in the transaction that opens or commits."""
        found = tuple(
            (place_.address, cell)
            for place_, cell in zip(self.plan.places, self.cells, strict=True)
            if place_.grade is _RECORDED and isinstance(cell, Observation)
        )
        return found if not self.results or not self.program.joins else self._joined(found, _RECORDED)

    def _joined(self, found: tuple[Bound, ...], grade: Grade) -> tuple[Bound, ...]:
        """Together with what was reached by following evidence, in this very look."""
        surroundings = cast("Surroundings", self.plan.contract.surroundings)
        known = {bound[0].identity: bound for bound in found}
        for address in self.reached():
            cell = self.env.observations.get(address.identity)
            if cell is not None and surroundings.grade(address.kind) is grade:
                known[address.identity] = (address, cell)
        return tuple(known.values())

    def fresh(self) -> dict[str, Value]:
        """The refresh fields as this look found them, by place."""
        if not self.plan.program.refresh:
            return {}
        return {
            place(found.address, watch.path): at(cell.value, watch.path)
            for found, cell in zip(self.plan.places, self.cells, strict=True)
            if isinstance(cell, Observation)
            for watch in found.watches.values()
            if watch.refreshes
        }

    @property
    def checked(self) -> tuple[str, ...]:
        """The labels of the premises that ran."""
        return tuple(self.plan.program.checks[number].label for number in self.results)

    @property
    def changed(self) -> tuple[str, ...]:
        """The recorded places that differ."""
        return tuple(dict.fromkeys(self.plan.where(index, watch) for index, watch in self.differing))

    @property
    def differences(self) -> tuple[str, ...]:
        """The places that the agent had read otherwise than they were when it proposed."""
        return self.plan.record.differences

    @property
    def bindings(self) -> Mapping[str, Grade]:
        """The grade that each premise's evidence reached."""
        plan = self.plan
        grades = {
            check.label: _UNBOUND if not check.analysis.kinds.isdisjoint(self.weak) else check.grade
            for check in plan.program.checks
        }
        for index, watch in plan.edges:
            grade = _UNBOUND if (index, watch) in self.loose else plan.places[index].grade
            grades[f"rests on {plan.where(index, watch)}"] = grade
        return grades

    @property
    def accepted(self) -> Mapping[str, str]:
        """The developer's reasons for accepting less than a premise's grade."""
        return {check.label: check.accepts for check in self.plan.program.checks if check.accepts is not None}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The premises that did not hold; values only where public, or boolean."""
        return self._findings(reveal=False)

    def told(self, reason: str) -> str:
        """What a target or a store says, without the keys in it that were read."""
        names = self.plan.named
        if reason and self.results and self.program.joins:
            names = names | hidden_names(self, self.plan.contract.is_public)
        for address, name in names.items():
            reason = reason.replace(str(address), name)
        return reason

    def reveal(self) -> tuple[Finding, ...]:
        """The findings with all values shown."""
        return self._findings(reveal=True)

    def _findings(self, *, reveal: bool) -> tuple[Finding, ...]:
        plan = self.plan
        if self.env is _NO_ENV:
            self.env = self.make_env()
        found = list(findings_of(self, plan.contract.is_public, reveal=reveal))
        for number in self.unbindable:
            check = plan.program.checks[number]
            text = (
                f"{check.label}: nothing can hold its evidence still until the effect"
                if check.grade is _UNBOUND
                else f"{check.label}: its evidence carries a token that the target cannot be bound to"
            )
            found.append(Finding(check.label, _BLOCK, None, text, check.because))
        for index, watch in self.differing:
            if watch.edge:
                where = plan.where(index, watch)
                text = f"{where} changed, the decision rests on it, and no premise says whether that matters"
                found.append(Finding(f"rests on {where}", plan.edge_severity(index, watch), None, text, ""))
        for index, watch in self.loose:
            where = plan.where(index, watch)
            text = f"{where}: the decision rests on it, and nothing can hold it still until the effect"
            found.append(Finding(f"rests on {where}", _BLOCK, None, text, ""))
        return tuple(found)

    def body(self) -> dict[str, Value]:
        """The explanation of this validation, as it is journaled: no evidence values, but their tokens."""
        checks = self.plan.program.checks
        return {
            "outcome": self.outcome.name,
            "changed": self.changed,
            # INVARIANT: every validation record names the evidence and the validator versions that it checked.
            "premises": tuple(
                {
                    "label": checks[number].label,
                    "holds": result if isinstance(result, bool) else None,
                    "validators": checks[number].pins,
                }
                for number, result in self.results.items()
            ),
            "evidence": tuple(
                (address.kind, address.key, _token(cell.token))
                for address, cell in zip(self.plan.addresses, self.cells, strict=True)
                if isinstance(cell, Observation)
            ),
            "findings": tuple(
                (item.premise, item.severity.name, item.holds, item.text, item.because) for item in self.findings
            ),
            "bindings": {label: grade.name for label, grade in self.bindings.items()},
            "accepted": dict(self.accepted),
        }


class Kept(Look):
    """The look at which nothing differs: decided once for all gates that find the same observations.

    Attributes:
        preview: what a preview says of it.
    """

    __slots__ = ("_binding", "preview")

    def __init__(self, plan: Plan, cells: Sequence[Seen | None]) -> None:
        super().__init__(plan, cells)
        self.find_loose(_Doubts())
        self.outcome = _BLOCK if self.unbindable or self.loose else _KEEP
        self._binding = super().binding()
        self.preview = Preview(self.outcome, plan.record.effect, plan.intent, self)

    def binding(self) -> tuple[Bound, ...]:
        """B(e), worked out beforehand."""
        return self._binding


def _token(token: Token) -> tuple[str, str, int | str | bytes]:
    return (token.kind, token.namespace, token.value)


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
