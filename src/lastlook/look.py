"""One validation of an intent: a look at all its evidence, what differs, and what follows (ATR, Algorithm 1)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import Outcome
from lastlook.evaluation import NOTHING_TOUCHED, Evaluation, findings_of, hidden_names
from lastlook.ports import Unreadable
from lastlook.records import NAMES, Address, Capture, Finding, Grade, Observation, at, place
from lastlook.validators import REGISTRY
from lastlook.verdicts import Preview

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.contract import Surroundings
    from lastlook.evaluation import Seen
    from lastlook.expressions import Env
    from lastlook.plan import Plan
    from lastlook.ports import Bound
    from lastlook.records import Path, Token

__all__ = ["Kept", "Look", "Place", "Watch"]

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_BLOCK = Outcome.BLOCK
_KEEP = Outcome.KEEP
_BOUND = Grade.BOUND
_RECORDED = Grade.RECORDED
_UNBOUND = Grade.UNBOUND
_PREDICATE = Capture.PREDICATE
_FIELD = Capture.FIELD

_NO_ENV = cast("Env", None)
_PLAIN = frozenset({int, str, bool})
"""Types of which two equal values are the same one."""


class Watch:
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


class Place:
    """A resource to look at: its address, what is watched in it, and how firmly it can be bound."""

    __slots__ = ("address", "decisive", "grade", "recorded", "watches")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.watches: dict[Path, Watch] = {}
        self.recorded: tuple[Watch, ...] = ()
        self.decisive = False
        self.grade = _UNBOUND


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
    loose: tuple[tuple[int, Watch], ...]
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
        self.differing: Sequence[tuple[int, Watch]] = ()
        self.mask = 0
        self.doubts: _Doubts | None = None

    def compare(self, seen: Sequence[Any]) -> None:
        """Find the cells that moved since `seen`, and narrow each to the recorded parts that differ.

        A row's token moves with any of its fields: what counts is which of the recorded parts differ.
        """
        plan = self.plan
        differing: list[tuple[int, Watch]] = []
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

    def _compare_recorded(self, index: int, now: Observation, differing: list[tuple[int, Watch]]) -> None:
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

    def _contradict(self, index: int, differing: list[tuple[int, Watch]]) -> None:
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
