"""An effect's contract: its premises compiled once, what their evidence can be bound to, every mistake at import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Never, cast

from lastlook import canonical
from lastlook.errors import CanonicalError, DeclarationError, Outcome
from lastlook.expressions import (
    Env,
    Expr,
    Ref,
    SlotTable,
    Unverifiable,
    analyse,
    compile_expression,
    field_place,
    from_json,
    literal,
    ref_key,
    ref_kind,
    ref_public,
    render,
    to_json,
    unchanged,
    valid_until,
)
from lastlook.frozen import Frozen
from lastlook.premises import Premise
from lastlook.records import Grade
from lastlook.validators import REGISTRY

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Mapping

    from lastlook.arguments import Arguments
    from lastlook.expressions import Analysis
    from lastlook.ports import Store, System, Target
    from lastlook.premises import BindingPolicy
    from lastlook.records import Address, Path, PremiseRecord, Token

__all__ = ["Check", "Contract", "Pin", "Program", "RefreshRule", "Surroundings", "condition_text"]

Pin = tuple[str, str, str, str]
"""A validator's name, version, parameter digest and source digest."""


class Check(Frozen, eq=False):
    """A premise, compiled: what the gate runs.

    Attributes:
        label: the declared form, unique within the contract.
        severity: what failure demands; BLOCK where policy marks the evidence critical, whatever was declared.
        declared: the severity as declared.
        binds: it needs BOUND, HELD or store-owned evidence to be released.
        condition: the tree, as stored.
        holds: evaluates it; only the value True itself holds.
        until: the moment up to which a true evaluation stays true, for a premise with a deadline.
        volatile: its truth moves without any version, so that it runs at every gate.
        traced: its evidence depends on evidence, and is known only by evaluating it.
        evidence: slot and path of each piece of evidence that is named without other evidence.
        captures: evaluates each value that `unchanged` holds the world to, and keeps it where the `Env` is capturing.
    """

    label: str
    severity: Outcome
    declared: Outcome
    binds: bool
    because: str
    accepts: str | None
    awaited: bool
    condition: str
    holds: Callable[[Env], Any]
    until: Callable[[Env], dt.datetime | None] | None
    volatile: bool
    traced: bool
    pins: tuple[Pin, ...]
    expression: Expr[bool]
    analysis: Analysis
    evidence: tuple[tuple[int, Path], ...]
    captures: tuple[Callable[[Env], Any], ...]
    grade: Grade


class RefreshRule(Frozen):
    """A place that is presentation only: a change there, and no premise failing, is REFRESH."""

    slot: int
    path: Path


class Program(Frozen):
    """Premises and refresh rules over one table of resource slots.

    Attributes:
        target, lane: the key's parts, compiled.
        decisive: the slots that premises name.
        joins: some evidence is known only from other evidence.
        volatile: some premise reads the clock.
        affected: the numbers of the premises in each mask that was asked for.
    """

    slots: SlotTable
    checks: tuple[Check, ...]
    refresh: tuple[RefreshRule, ...]
    target: tuple[Callable[[Env], Any], ...]
    lane: tuple[Callable[[Env], Any], ...]
    decisive: frozenset[int]
    joins: bool
    volatile: bool
    affected: dict[int, tuple[int, ...]]


class Surroundings(Frozen):
    """What a contract is checked against: systems by kind, the target if it is one of them, the store, the policy."""

    systems: Mapping[str, System]
    target: Target | None
    store: Store
    policy: BindingPolicy

    def grade(self, kind: str, *, whole: bool = False, absence: bool = False) -> Grade:
        """How firmly evidence of a kind can be tied to the effect.

        Args:
            kind: the kind of resource.
            whole: all rows of the kind are read, so that a row which nobody had read counts.
            absence: it matters whether there is a row.
        """
        target = self.target
        if target is not None and target.can_check(kind):
            can = target.capabilities
            guarded = (can.checks_collections or not whole) and (can.checks_absence or not absence)
            return Grade.BOUND if guarded else Grade.UNBOUND
        owned = self.store.evidence
        return Grade.RECORDED if owned is not None and kind in owned.kinds else Grade.UNBOUND

    def can_bind(self, kind: str, token: Token) -> bool:
        """Whether the target, or the store for its own evidence, can compare this token of this kind of resource."""
        if self.target is not None and self.target.can_check(kind):
            return self.target.can_check_token(token)
        return self.grade(kind) is Grade.RECORDED

    def is_critical(self, kind: str, field: str, *, whole: bool = False) -> bool:
        """Whether policy marks the kind, or this field of it, as critical.

        Args:
            kind: the kind of resource.
            field: its field; "" for none in particular.
            whole: all rows are ranged over, and with them every field.
        """
        marked = self.policy.critical
        if not marked:
            return False
        if whole and any(mark.startswith(f"{kind}.") for mark in marked):
            return True
        return kind in marked or f"{kind}.{field}" in marked


class Contract:
    """What an effect is declared with; compiled by `connect`, once the systems are known.

    Raises:
        DeclarationError: nothing to check, one condition declared twice, an unknown argument, a refresh field that
            decides, an awaited premise that would capture a validator's answer.
    """

    def __init__(
        self,
        *,
        name: str,
        arguments: Arguments,
        target: Ref | str,
        premises: Sequence[Premise],
        refresh: Sequence[Expr[Any]],
        awaits: Sequence[Premise],
        lane: Sequence[Expr[Any]],
        irreversible: bool,
        no_preconditions: bool,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.target = target
        self.irreversible = irreversible
        self.no_preconditions = no_preconditions
        self._refuse_lists(premises=premises, awaits=awaits, refresh=refresh, lane=lane)
        self.premises = [(premise, False) for premise in premises] + [(premise, True) for premise in awaits]
        self.refresh = tuple(refresh)
        self._refresh = [field_place(field) for field in refresh]
        self._lane = tuple(lane)
        refs = [ref for premise, _ in self.premises for ref, _ in analyse(premise.condition).static]
        refs.extend(ref for ref, _ in self._refresh)
        self._public = {(ref_kind(ref), name) for ref in refs for name in ref_public(ref)}
        self._refuse_mistakes(refresh)
        self._program: Program | None = None
        self.surroundings: Surroundings | None = None
        self.digest = canonical.digest(
            (
                name,
                irreversible,
                tuple(
                    (
                        condition_text(p.condition),
                        p.severity.name,
                        p.accept.reason if p.accept else None,
                        awaited,
                    )
                    for p, awaited in self.premises
                ),
                tuple(condition_text(field) for field in refresh),
            ),
            kind="contract",
        )

    @property
    def program(self) -> Program:
        """The compiled premises.

        Raises:
            DeclarationError: the gate is not connected to any system yet.
        """
        if self._program is None:
            raise DeclarationError(
                f"{self.name}() is declared on a gate without systems: call gate.connect(...) at start-up"
            )
        return self._program

    def bindings(self) -> Mapping[str, Grade]:
        """The grade of each premise's evidence, by label, as far as the declared systems tell."""
        return {check.label: check.grade for check in self.program.checks}

    def connect(self, surroundings: Surroundings, *, strict_fields: bool = True) -> None:
        """Compile against systems, and refuse what could never be released.

        Raises:
            DeclarationError: an unknown kind or field, or a premise whose evidence can never reach its grade.
        """
        for expression in self._expressions():
            self._refuse_unknown(analyse(expression), surroundings, strict_fields=strict_fields)
        slots = SlotTable()
        checks = tuple(self._check(premise, surroundings, slots, awaited=awaited) for premise, awaited in self.premises)
        for check in checks:
            self._refuse_unreachable(check, surroundings)
        refresh = tuple(RefreshRule(slots.slot(ref), path) for ref, path in self._refresh)
        self._program = self._assembled(slots, checks, refresh)
        self.surroundings = surroundings

    def merged(self, recorded: Sequence[PremiseRecord]) -> Program:
        """The recorded premises and today's beside them: more is never an error, fewer never happens."""
        surroundings = cast("Surroundings", self.surroundings)
        slots = SlotTable()
        old = [self._recorded(premise, surroundings, slots) for premise in recorded]
        # What today's contract asks beyond the record: another condition or severity, or no acceptance where one was.
        known = {(check.condition, check.declared, check.accepts) for check in old}
        new = [check for check in self.program.checks if (check.condition, check.declared, check.accepts) not in known]
        added = [self._recompiled(check, surroundings, slots) for check in new]
        refresh = tuple(RefreshRule(slots.slot(ref), path) for ref, path in self._refresh)
        return self._assembled(slots, (*old, *added), refresh)

    def is_public(self, address: Address, path: Path) -> bool:
        """Whether the value at a place may stand in explanations: declared so by a resource, or by its system."""
        if path and (address.kind, path[0]) in self._public:
            return True
        system = None if self.surroundings is None else self.surroundings.systems.get(address.kind)
        return bool(path) and system is not None and system.is_public(address.kind, str(path[0]))

    def target_kind(self) -> str | None:
        """The kind of resource that the effect acts on, or None for a plain function."""
        return None if isinstance(self.target, str) else ref_kind(self.target)

    def target_parts(self) -> tuple[Expr[Any], ...]:
        """The expressions of the target's key, or of the declared lane."""
        return () if isinstance(self.target, str) else ref_key(self.target)

    def lane_parts(self) -> tuple[Expr[Any], ...]:
        """The expressions of what attempts exclude each other on: the declared lane, else the target's key."""
        return self._lane or self.target_parts()

    # Compiling.

    def _assembled(self, slots: SlotTable, checks: tuple[Check, ...], refresh: tuple[RefreshRule, ...]) -> Program:
        target = tuple(compile_expression(part, slots) for part in self.target_parts())
        lane = tuple(compile_expression(part, slots) for part in self._lane)
        return Program(
            slots,
            checks,
            refresh,
            target,
            lane,
            decisive=frozenset(slot for check in checks for slot, _ in check.evidence),
            joins=any(slots.derived) or any(check.traced for check in checks),
            volatile=any(check.volatile for check in checks),
            affected={},
        )

    def _check(self, premise: Premise, surroundings: Surroundings, slots: SlotTable, *, awaited: bool) -> Check:
        return self._compile(
            premise.condition,
            surroundings,
            slots,
            severity=premise.severity,
            because=premise.because,
            accepts=premise.accept.reason if premise.accept is not None else None,
            awaited=awaited,
            pins=_pins(analyse(premise.condition), self.name),
        )

    def _recorded(self, premise: PremiseRecord, surroundings: Surroundings, slots: SlotTable) -> Check:
        """A premise as it was recorded; one that this version cannot read can only be unverifiable."""
        unread = ""
        try:
            condition = cast("Expr[bool]", from_json(canonical.decode(premise.condition.encode())))
        except CanonicalError as error:
            condition, unread = literal(True) == literal(True), str(error)
        check = self._compile(
            condition,
            surroundings,
            slots,
            severity=premise.severity,
            because=premise.because,
            accepts=premise.accepts,
            awaited=premise.awaited,
            pins=premise.validators,
        )
        if not unread:
            return check

        def unverifiable(_: Env) -> Never:
            raise Unverifiable(f"its recorded condition cannot be read: {unread}")

        return check.but(label=premise.label, condition=premise.condition, holds=unverifiable, volatile=True)

    def _recompiled(self, check: Check, surroundings: Surroundings, slots: SlotTable) -> Check:
        return self._compile(
            cast("Expr[bool]", from_json(canonical.decode(check.condition.encode()))),
            surroundings,
            slots,
            severity=check.declared,
            because=check.because,
            accepts=check.accepts,
            awaited=check.awaited,
            pins=check.pins,
        )

    def _compile(
        self,
        condition: Expr[bool],
        surroundings: Surroundings,
        slots: SlotTable,
        *,
        severity: Outcome,
        because: str,
        accepts: str | None,
        awaited: bool,
        pins: tuple[Pin, ...],
    ) -> Check:
        analysis = analyse(condition)
        named = {*analysis.fields, *((kind, "") for kind in analysis.kinds)}
        # Whoever ranges over all rows of a kind reads every field of them.
        critical = any(
            surroundings.is_critical(kind, field, whole=kind in analysis.collections) for kind, field in named
        )
        effective = Outcome.BLOCK if critical else severity
        grades = [
            surroundings.grade(kind, whole=kind in analysis.collections, absence=kind in analysis.presence)
            for kind in analysis.kinds
        ]
        reads_clock = any(_reads_clock(name, version) for name, version, _, _ in pins)
        return Check(
            label=render(condition),
            severity=effective,
            declared=severity,
            binds=accepts is None and (effective is Outcome.BLOCK or self.irreversible),
            because=because,
            accepts=accepts,
            awaited=awaited,
            condition=condition_text(condition),
            holds=compile_expression(condition, slots),
            until=valid_until(condition, slots) if analysis.clock else None,
            volatile=analysis.clock or reads_clock,
            traced=analysis.dynamic,
            pins=pins,
            expression=condition,
            analysis=analysis,
            evidence=tuple((slots.slot(ref), path) for ref, path in analysis.static),
            captures=tuple(compile_expression(unchanged(value), slots) for value in analysis.captures),
            grade=min(grades, default=Grade.BOUND),
        )

    # Mistakes.

    def _expressions(self) -> tuple[Expr[Any], ...]:
        """Everything that the declaration says of arguments and evidence."""
        conditions = (premise.condition for premise, _ in self.premises)
        return (*conditions, *self.refresh, *self.target_parts(), *self._lane)

    def _refuse_lists(self, **given: Sequence[object]) -> None:
        for word, items in given.items():
            if isinstance(items, str) or not isinstance(cast("object", items), Sequence):
                raise DeclarationError(
                    f"{self.name}(): {word} takes a list, not {_what(items)}: write {word}=[...], also for a single one"
                )
            for index, item in enumerate(items):
                where = f"{self.name}(): {word}[{index}] is"
                if word in ("premises", "awaits") and isinstance(item, Expr):
                    raise DeclarationError(
                        f"{where} a condition, not a premise: wrap it in block_unless(...) or replan_unless(...)"
                    )
                if word in ("premises", "awaits") and not isinstance(item, Premise):
                    raise DeclarationError(f"{where} {_what(item)}, not a premise: write block_unless(condition)")
                if word == "refresh" and not isinstance(item, Expr):
                    raise DeclarationError(
                        f"{where} {_what(item)}, not a field: write a field of a resource, such as order.note"
                    )
                if word == "lane" and not isinstance(item, Expr):
                    raise DeclarationError(
                        f"{where} {_what(item)}, not an expression: write an argument, such as arg.order_id"
                    )

    def _refuse_mistakes(self, refresh: Sequence[Expr[Any]]) -> None:
        if not self.premises and not self.no_preconditions:
            raise DeclarationError(
                f"{self.name}() has no premises, so there is nothing to look at before it: "
                "declare premises=[...], or no_preconditions=True if it may always go out"
            )
        labels: set[str] = set()
        for premise, awaited in self.premises:
            if premise.label in labels:
                raise DeclarationError(f"{self.name}() declares the premise '{premise.label}' twice: once is enough")
            labels.add(premise.label)
            if awaited and any(analyse(value).calls for value in analyse(premise.condition).captures):
                raise DeclarationError(
                    f"{self.name}() awaits '{premise.label}', which holds a validator to its earlier answer, and the "
                    "validators of awaited premises are asked only at the gate: write unchanged(...) of the fields "
                    "that it judges"
                )
        for expression in self._expressions():
            self._refuse_arguments(analyse(expression))
        for shown, (ref, _) in zip(refresh, self._refresh, strict=True):
            found = [part for part in ref_key(ref) if analyse(part).static or analyse(part).collections]
            if found:
                raise DeclarationError(
                    f"{self.name}() refreshes {render(shown)}, whose row other evidence names: the row of this refresh "
                    f"field is found through {render(found[0])}: take its key as an argument (and check it by a "
                    "premise), or use unchanged(...)"
                )
        decisive = {
            (repr(ref), path)
            for part in (*self.lane_parts(), *self.target_parts())
            for ref, path in analyse(part).static
        }
        for ref, path in self._refresh:
            if (repr(ref), path) in decisive:
                raise DeclarationError(
                    f"{self.name}() refreshes {ref!r}.{path[0]}, which gives the target its key: "
                    "a refreshed field is presentation only, so take it out of refresh="
                )

    def _refuse_arguments(self, analysis: Analysis) -> None:
        for argument in sorted(analysis.arguments - self.arguments.names):
            names = [parameter.name for parameter in self.arguments.parameters]
            hint = _near(argument, names) or f": it takes {', '.join(names) or 'none'}"
            raise DeclarationError(f"{self.name}() has no parameter {argument!r}{hint}")

    def refuse_kind(self, kind: str, surroundings: Surroundings) -> None:
        """Raise unless a system answers for a kind.

        Raises:
            DeclarationError: none does; a near name is proposed.
        """
        owned = surroundings.store.evidence
        known = set(surroundings.systems) | set(owned.kinds if owned is not None else ())
        if kind not in known:
            hint = _near(kind, known) or f": there are {', '.join(sorted(known)) or 'none'}"
            raise DeclarationError(f"{self.name}(): no system answers for {kind!r}{hint}")

    def _refuse_unknown(self, analysis: Analysis, surroundings: Surroundings, *, strict_fields: bool) -> None:
        for kind in sorted(analysis.kinds):
            self.refuse_kind(kind, surroundings)
        if not strict_fields:
            return
        for kind, name in sorted(analysis.fields):
            system = surroundings.systems.get(kind)
            if system is None:
                continue
            names, complete = system.fields(kind)
            if name in names:
                continue
            near = _near(name, names, 0.8)
            if complete or near:
                hint = near or f": it has {', '.join(sorted(names)) or 'none'}"
                raise DeclarationError(f"{self.name}(): {kind!r} has no field {name!r}{hint}")

    def _refuse_unreachable(self, check: Check, surroundings: Surroundings) -> None:
        if not check.binds or check.grade is not Grade.UNBOUND:
            return
        target = surroundings.target.name if surroundings.target is not None else str(self.target)
        unbound = sorted(kind for kind in check.analysis.kinds if surroundings.grade(kind) is Grade.UNBOUND)
        what = f"reads {unbound[0]!r}" if unbound else "asks for absence or for all rows of a kind"
        raise DeclarationError(
            f"{self.name}() could never be released: '{check.label}' {what}, which {target!r} cannot check: keep it in "
            "a system that can hold it, move it to the target's system, or accept=UNBOUND('why') on that premise"
        )


def _what(value: object) -> str:
    """What stands where something else belongs."""
    if isinstance(value, Premise):
        return f"the premise '{value.label}'"
    if isinstance(value, Expr):
        return repr(cast("Expr[object]", value))
    if isinstance(value, Ref):
        return f"the resource {value!r}"
    if isinstance(value, bool):
        return f"a plain {value}"
    return f"the text {value!r}" if isinstance(value, str) else f"a {type(value).__name__}"


def _near(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    from difflib import get_close_matches  # only for a message

    near = get_close_matches(name, known, 1, cutoff)
    return f": did you mean {near[0]!r}?" if near else ""


def _pins(analysis: Analysis, effect: str) -> tuple[Pin, ...]:
    pins: dict[Pin, None] = {}
    for call in analysis.calls:
        registered = REGISTRY.current(call.name, call.version)
        if registered is None:
            raise DeclarationError(
                f"{effect}(): validator {call.name!r} version {call.version!r} is not registered: "
                "import the module that declares it"
            )
        pins[(call.name, call.version, canonical.digest(call.params, kind="parameters"), registered.source)] = None
    return tuple(pins)


def _reads_clock(name: str, version: str) -> bool:
    registered = REGISTRY.current(name, version)
    return registered is not None and registered.reads_clock


def condition_text(expression: Expr[Any]) -> str:
    """An expression's tree as one canonical text: how it is stored, compared and pinned."""
    return canonical.encode(to_json(expression)).decode()
