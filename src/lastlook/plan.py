"""An intent compiled once: what to look at, what each change touches, and the validation of one look (ATR, Algorithm 1)."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import Outcome
from lastlook.expressions import Env, Pending, Unverifiable, explain
from lastlook.ports import Bound, Unreadable
from lastlook.records import Address, Capture, Finding, Grade, Observation, at, place
from lastlook.validators import REGISTRY

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.contract import Contract, Program
    from lastlook.records import IntentRecord, Path, Token

__all__ = ["MAX_WAVES", "Evaluation", "Look", "Plan", "Seen", "findings_of"]

Seen = Observation | Unreadable
"""What a look brings for one address."""

MAX_WAVES = 3
"""How many waves of further reads a validation may need; what is declared never needs more."""


class Evaluation:
    """Premises run on one set of observations: each at most once, all on the same observation of a resource.

    Attributes:
        results: by index of the check: True, False, or the reason why it is unverifiable.
        waiting: checks that need something read or judged first; `env` says what.
        touched: for a traced check, the evidence that it really used.
    """

    __slots__ = ("env", "program", "results", "touched", "waiting")

    def __init__(self, program: Program, env: Env, run: Iterable[int]) -> None:
        self.program = program
        self.env = env
        self.waiting = list(run)
        self.results: dict[int, bool | str] = {}
        self.touched: dict[int, tuple[tuple[Address, Path], ...]] = {}

    def run(self) -> None:
        """Evaluate what waits, as far as the observations go."""
        self.env.missing.clear()
        self.env.unjudged.clear()
        waiting, self.waiting = self.waiting, []
        for index in waiting:
            check = self.program.checks[index]
            self.env.touched = [] if check.traced else None
            try:
                value = check.holds(self.env)
            except Pending:
                self.waiting.append(index)
                continue
            except Unverifiable as unverifiable:
                self.results[index] = unverifiable.reason
            else:
                # Only True itself holds: not 1, not a text, not an object with an opinion.
                self.results[index] = value if value is True or value is False else "it is not a truth value"
            if self.env.touched is not None:
                self.touched[index] = tuple(self.env.touched)

    def observe(self, addresses: Sequence[Address], found: Sequence[Seen]) -> None:
        """Take in what was read."""
        for address, seen in zip(addresses, found, strict=True):
            if isinstance(seen, Unreadable):
                self.env.unreadable[address.identity] = seen.reason
            else:
                self.env.observations[address.identity] = seen

    def give_up(self, reason: str) -> None:
        """Everything that still waits is unverifiable."""
        for index in self.waiting:
            self.results[index] = reason
        self.waiting = []

    def outcome(self) -> Outcome:
        """The severity of the worst failed premise."""
        worst = Outcome.KEEP
        for index, result in self.results.items():
            if result is not True:
                severity = self.program.checks[index].severity
                worst = severity if severity > worst else worst
        return worst

    def reached(self) -> list[Address]:
        """The addresses that the premises which ran used, derived keys included."""
        traced = [address for touched in self.touched.values() for address, _ in touched]
        return [*traced, *(address for address in self.env.addresses if address is not None)]

    def valid_until(self) -> dt.datetime | None:
        """The earliest moment at which a premise with a deadline stops holding."""
        ends = [
            end
            for index, result in self.results.items()
            if result is True and (until := self.program.checks[index].until) is not None
            if (end := until(self.env)) is not None
        ]
        return min(ends, default=None)


class _Watch:
    """What a change at one place touches: premises and conservative edges by bit, and whether it refreshes."""

    __slots__ = ("digest", "edges", "mask", "path", "refreshes")

    def __init__(self, path: Path, digest: str | None) -> None:
        self.path = path
        self.digest = digest
        self.mask = 0
        self.edges = 0
        self.refreshes = False


class _Place:
    """A recorded resource: its address, the token it was recorded with, and what is watched in it."""

    __slots__ = ("address", "decisive", "token", "watches")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.token: Token | None = None
        self.watches: dict[Path, _Watch] = {}
        self.decisive = False


class Plan:
    """One pending intent, compiled.

    The unchanged case is one fetch and one tuple comparison by identity. `places` says, for each address, which parts
    were recorded and what each of them touches; `always` are the premises that run whatever happened: unproven, awaited,
    volatile, or without their pinned validator.

    Args:
        record: the intent.
        program: its recorded premises, in order, and after them today's where the contract has changed.
        contract: the effect's contract as it stands.
        salt: of the record's value digests.
        seen: observations by identity that the record was made from, where they are still at hand.
        capture: how finely a change selects premises.
    """

    __slots__ = (
        "_always",
        "_generation",
        "addresses",
        "capture",
        "contract",
        "edges",
        "keep",
        "places",
        "program",
        "reader",
        "record",
        "salt",
        "seen",
        "slot_index",
    )

    def __init__(
        self,
        record: IntentRecord,
        program: Program,
        contract: Contract,
        *,
        salt: bytes,
        seen: Mapping[str, Observation],
        capture: Capture = Capture.PREDICATE,
    ) -> None:
        self.record = record
        self.program = program
        self.contract = contract
        self.salt = salt
        self.capture = capture
        self.reader: Any = None
        self._generation = -1
        self._always = 0
        places: dict[str, _Place] = {}
        self.slot_index = self._place_slots(places)
        for number, premise in enumerate(record.premises):
            for index in premise.evidence:
                self._watch(places, index).mask |= 1 << number
        for index in record.refresh:
            self._watch(places, index).refreshes = True
        for rule in program.refresh:
            # Nothing was recorded of it where the proposal read nothing; its value still goes into the permit.
            if self.slot_index[rule.slot] >= 0:
                found = list(places.values())[self.slot_index[rule.slot]]
                found.watches.setdefault(rule.path, _Watch(rule.path, None)).refreshes = True
        self.edges = _conservative_edges(record)
        for number, index in enumerate(self.edges):
            self._watch(places, index).edges |= 1 << number
        self.places = tuple(places.values())
        for place_ in self.places:
            place_.decisive = place_.decisive or any(watch.mask or watch.edges for watch in place_.watches.values())
        self.addresses = tuple(place_.address for place_ in self.places)
        self.seen: tuple[Observation | None, ...] = tuple(seen.get(address.identity) for address in self.addresses)
        self.keep = Look(self, self.seen, ())
        self.keep.decide()

    def _place_slots(self, places: dict[str, _Place]) -> tuple[int, ...]:
        """Where each slot's observation stands among the places; -1 where its key depends on evidence."""
        env = self.env()
        used = {slot for check in self.program.checks for slot, _ in check.evidence}
        index: list[int] = []
        for slot, derived in enumerate(self.program.slots.derived):
            try:
                address = None if derived else env.address(slot)
            except Unverifiable:
                address = None  # the key names no row: its premises say so when they run
            if address is None:
                index.append(-1)
                continue
            position = places.setdefault(address.identity, _Place(address))
            position.decisive = position.decisive or slot in used
            index.append(list(places).index(address.identity))
        return tuple(index)

    def _watch(self, places: dict[str, _Place], index: int) -> _Watch:
        read = self.record.reads[index]
        found = places.setdefault(read.address.identity, _Place(read.address))
        found.token = read.token
        return found.watches.setdefault(read.path, _Watch(read.path, read.digest))

    def env(self) -> Env:
        """An environment in which nothing has been read yet."""
        record = self.record
        actor = ABSENT if record.actor is None else record.actor
        # A one-shot call has no earlier look, so what it must find unchanged is what it finds.
        return Env(
            self.program.slots,
            record.arguments,
            actor,
            captured=dict(record.captured),
            capturing=record.one_shot,
        )

    @property
    def always(self) -> int:
        """The premises that run at every gate, by bit; worked out anew when the registry of validators changed."""
        if self._generation != REGISTRY.generation:
            mask = 0
            for number, check in enumerate(self.program.checks):
                premise = self.record.premises[number] if number < len(self.record.premises) else None
                # INVARIANT: a premise is skipped only if it is proven, not volatile, and its pinned validator is here.
                proven = premise is not None and premise.proven and not check.volatile
                if not proven or any(REGISTRY.pinned(name, version, source) is None for name, version, _, source in check.pins):
                    mask |= 1 << number
            self._always = mask
            self._generation = REGISTRY.generation
        return self._always

    def look(self, cells: tuple[Seen, ...]) -> Look:
        """Diff one look against what was recorded (lines 4-5); the affected premises are yet to run."""
        if cells == self.seen and not self.always:
            return self.keep
        moved = [index for index, cell in enumerate(cells) if cell is not self.seen[index]]
        look = Look(self, cells, moved)
        if moved and look.nothing_differs and not any(isinstance(cell, Unreadable) for cell in cells):
            # The values are the recorded ones and no token contradicts: from now on, identity tells.
            self.seen = cast("tuple[Observation | None, ...]", cells)
            self.keep = Look(self, self.seen, ())
            self.keep.decide()
        return look

    def hinted(self, cells: tuple[Seen, ...], address: Address, fields: Iterable[str]) -> Look:
        """A look that takes a change hint's word for what differs (EVENT): it schedules work and decides nothing."""
        names = frozenset(fields)
        look = Look(self, cells, ())
        for index, found in enumerate(self.places):
            if found.address.kind == address.kind and found.address.key in (address.key, ()):
                look.differing.extend(
                    (index, watch)
                    for watch in found.watches.values()
                    if not names or not watch.path or watch.path[0] in names
                )
        return look

    def can_bind(self, address: Address, token: Token) -> bool:
        """Whether the target, or the store for its own evidence, can compare this token of this resource."""
        surroundings = self.contract.surroundings
        if surroundings is None:
            return False
        target = surroundings.target
        if target is not None and target.can_check(address.kind):
            return target.can_check_token(token)
        owned = surroundings.store.evidence
        return owned is not None and address.kind in owned.kinds


class Look:
    """One validation of an intent: a look at all its evidence, what differs, which premises ran, and what follows.

    Attributes:
        cells: one observation per place of the plan.
        differing: index of the place and the watch of every recorded part that differs.
        outcome: set by `decide`.
        unbindable: the checks whose evidence carries a token that can't be bound to.
    """

    __slots__ = (
        "_binding",
        "_contradicting",
        "_evaluation",
        "_unfaithful",
        "cells",
        "differing",
        "outcome",
        "plan",
        "unbindable",
    )

    def __init__(self, plan: Plan, cells: Sequence[Seen | None], moved: Iterable[int]) -> None:
        self.plan = plan
        self.cells = cells
        self.differing: list[tuple[int, _Watch]] = []
        self.outcome = Outcome.KEEP
        self.unbindable: tuple[int, ...] = ()
        self._binding: tuple[Bound, ...] | None = None
        self._contradicting: set[int] = set()
        self._unfaithful: set[int] = set()
        self._evaluation: Evaluation | None = None
        for index in moved:
            self._compare(index, cells[index])

    @property
    def nothing_differs(self) -> bool:
        """Whether the moved cells hold what was recorded, under tokens that do not contradict."""
        return not self.differing and not self._contradicting

    def _compare(self, index: int, now: Seen | None) -> None:
        """Narrow a moved cell to the recorded parts that differ: a row's token moves with any of its fields."""
        found, then = self.plan.places[index], self.plan.seen[index]
        watches = found.watches.values()
        token = then.token if then is not None else found.token
        if not isinstance(now, Observation):
            self.differing.extend((index, watch) for watch in watches)
        elif token is not None and now.token.precedes(token):
            # Ordered versions never go back by themselves: a restore, or a replica that lags.
            self._contradicting.add(index)
            self.differing.extend((index, watch) for watch in watches)
        else:
            changed = [
                watch
                for watch in watches
                if watch.digest is not None and not _same(then, now, watch, self.plan.salt)
            ]
            if changed and now.token == token:
                self._unfaithful.add(index)
            self.differing.extend((index, watch) for watch in changed)

    # Running (lines 7-13).

    def affected(self) -> list[int]:
        """The premises to run: those that a differing place touches, and those that always run."""
        mask = self.plan.always
        for _, watch in self.differing:
            mask |= watch.mask
        everything = (1 << len(self.plan.program.checks)) - 1
        if self.plan.capture is Capture.FIELD and self.differing:
            mask = everything
        elif self.plan.capture is Capture.OBJECT and any(
            cell is not then for cell, then in zip(self.cells, self.plan.seen, strict=True)
        ):
            mask = everything
        return [number for number in range(mask.bit_length()) if mask >> number & 1]

    def start(self, now: dt.datetime | None) -> Evaluation | None:
        """Prepare the affected premises to run on this look's observations; None if there are none."""
        run = self.affected()
        if not run:
            return None
        plan = self.plan
        env = plan.env()
        env.now = now
        for index, cell in enumerate(self.cells):
            identity = plan.addresses[index].identity
            if index in self._contradicting:
                env.unreadable[identity] = "its version went backwards: a restore, or a replica that lags"
            elif isinstance(cell, Unreadable):
                env.unreadable[identity] = cell.reason
            elif cell is not None:
                env.observations[identity] = cell
        for slot, index in enumerate(plan.slot_index):
            if index >= 0 and index not in self._contradicting and isinstance(cell := self.cells[index], Observation):
                env.slots[slot] = cell
        self._evaluation = Evaluation(plan.program, env, run)
        return self._evaluation

    # Deciding (lines 14-15).

    def decide(self) -> None:
        """The dominating outcome: premises, then refresh rules and conservative edges, then the binding policy."""
        worst = Outcome.KEEP if self._evaluation is None else self._evaluation.outcome()
        for index, watch in self.differing:
            severity = self._edge_severity(index, watch) if watch.edges else Outcome.KEEP
            if watch.refreshes and severity < Outcome.REFRESH:
                severity = Outcome.REFRESH
            worst = severity if severity > worst else worst
        self.unbindable = self._find_unbindable()
        if self.unbindable:
            worst = Outcome.BLOCK
        self.outcome = worst

    def _edge_severity(self, index: int, watch: _Watch) -> Outcome:
        contract = self.plan.contract
        marked = contract.surroundings.policy.critical if contract.surroundings is not None else frozenset[str]()
        kind = self.plan.addresses[index].kind
        critical = kind in marked or bool(watch.path) and f"{kind}.{watch.path[0]}" in marked
        return Outcome.BLOCK if critical or contract.irreversible else Outcome.REPLAN

    def _find_unbindable(self) -> tuple[int, ...]:
        """Premises that need binding and rest on a token that is weak, foreign, unfaithful or contradicting."""
        plan = self.plan
        bad = [
            index
            for index, cell in enumerate(self.cells)
            if isinstance(cell, Observation)
            and plan.places[index].decisive
            and (index in self._unfaithful or index in self._contradicting or not plan.can_bind(plan.addresses[index], cell.token))
        ]
        if not bad:
            return ()
        kinds = {plan.addresses[index].kind for index in bad}
        return tuple(
            number
            for number, check in enumerate(plan.program.checks)
            if check.binds and not kinds.isdisjoint(check.analysis.kinds)
        )

    # What is released, and what is told.

    def binding(self) -> tuple[Bound, ...]:
        """The decisive evidence with exactly the observations that were validated, in canonical order of address."""
        if self._binding is None:
            found: dict[str, Bound] = {}
            for index, cell in enumerate(self.cells):
                if isinstance(cell, Observation) and self.plan.places[index].decisive:
                    found[self.plan.addresses[index].identity] = Bound(self.plan.addresses[index], cell)
            if self._evaluation is not None:
                for address in self._evaluation.reached():
                    cell = self._evaluation.env.observations.get(address.identity)
                    if cell is not None:
                        found[address.identity] = Bound(address, cell)
            self._binding = tuple(found[identity] for identity in sorted(found))
        return self._binding

    def fresh(self) -> dict[str, Value]:
        """The refresh fields as this look found them, by place."""
        return {
            place(self.plan.addresses[index], watch.path): cast("Value", at(cell.value, watch.path))
            for index, cell in enumerate(self.cells)
            if isinstance(cell, Observation)
            for watch in self.plan.places[index].watches.values()
            if watch.refreshes
        }

    def valid_until(self) -> dt.datetime | None:
        """When the permission ends, if a premise has a deadline."""
        return None if self._evaluation is None else self._evaluation.valid_until()

    @property
    def results(self) -> Mapping[int, bool | str]:
        """What each premise that ran said, by its number."""
        return {} if self._evaluation is None else self._evaluation.results

    @property
    def checked(self) -> tuple[str, ...]:
        """The labels of the premises that ran."""
        return tuple(self.plan.program.checks[number].label for number in self.results)

    @property
    def changed(self) -> tuple[str, ...]:
        """The recorded places that differ."""
        return tuple(place(self.plan.addresses[index], watch.path) for index, watch in self.differing)

    @property
    def bindings(self) -> Mapping[str, Grade]:
        """The grade that each premise's evidence reached."""
        return {
            check.label: Grade.UNBOUND if number in self.unbindable else check.grade
            for number, check in enumerate(self.plan.program.checks)
        }

    @property
    def accepted(self) -> Mapping[str, str]:
        """The developer's reasons for accepting less than a premise's grade."""
        return {check.label: check.accepts for check in self.plan.program.checks if check.accepts is not None}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The premises that did not hold; values only where public, or boolean."""
        return self._findings(reveal=False)

    def reveal(self) -> tuple[Finding, ...]:
        """The findings with all values shown."""
        return self._findings(reveal=True)

    def _findings(self, *, reveal: bool) -> tuple[Finding, ...]:
        plan = self.plan
        found = list(findings_of(self._evaluation, plan.contract.is_public, reveal=reveal)) if self._evaluation else []
        for number in self.unbindable:
            check = plan.program.checks[number]
            text = f"{check.label}: its evidence carries a token that the target cannot be bound to"
            found.append(Finding(check.label, Outcome.BLOCK, None, text, check.because))
        for index, watch in self.differing:
            if watch.edges:
                where = place(plan.addresses[index], watch.path)
                text = f"{where} changed, the decision rests on it, and no premise says whether that matters"
                found.append(Finding(f"rests on {where}", self._edge_severity(index, watch), None, text, ""))  # type: ignore[arg-type]
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
                (bound.address.kind, bound.address.key, _token(bound.observation.token)) for bound in self.binding()
            ),
            "findings": tuple(
                (item.premise, item.severity.name, item.holds, item.text, item.because) for item in self.findings
            ),
            "bindings": {label: grade.name for label, grade in self.bindings.items()},
            "accepted": dict(self.accepted),
        }


def findings_of(
    evaluation: Evaluation, public: Callable[[Address, Path], bool], *, reveal: bool
) -> tuple[Finding, ...]:
    """The premises of an evaluation that did not hold, as text; values only where public, boolean or revealed."""
    found: list[Finding] = []
    for number, result in evaluation.results.items():
        if result is True:
            continue
        check = evaluation.program.checks[number]
        text = explain(check.expression, evaluation.env, public=public, reveal=reveal)
        if isinstance(result, str) and result not in text:
            text = f"{text}: {result}"
        found.append(Finding(check.label, check.severity, False if result is False else None, text, check.because))
    return tuple(found)


def _token(token: Token) -> tuple[str, str, int | str | bytes]:
    return (token.kind, token.namespace, token.value)


def _same(then: Observation | None, now: Observation, watch: _Watch, salt: bytes) -> bool:
    """Whether a recorded part is what it was: by value where the recorded observation is at hand, else by digest."""
    value = at(now.value, watch.path)
    if then is not None:
        return canonical.same(at(then.value, watch.path), value)
    return canonical.fingerprint(value, salt=salt) == watch.digest


def _conservative_edges(record: IntentRecord) -> tuple[int, ...]:
    """The reads that decisions rest on and that no premise or refresh rule names, even in part."""
    named = {
        (record.reads[index].address.identity, record.reads[index].path)
        for indexes in (*(premise.evidence for premise in record.premises), record.refresh)
        for index in indexes
    }
    edges: dict[int, None] = {}
    for decision in record.decisions:
        for index in decision.rests_on:
            read = record.reads[index]
            if not any(
                identity == read.address.identity and path[: len(read.path)] == read.path[: len(path)]
                for identity, path in named
            ):
                edges[index] = None
    return tuple(edges)
