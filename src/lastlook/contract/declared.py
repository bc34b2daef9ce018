"""What an effect is declared with, compiled against systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, cast

from lastlook import canonical
from lastlook.contract.mistakes import refuse_kind, refuse_lists, refuse_mistakes, refuse_unknown, refuse_unreachable
from lastlook.contract.programs import Check, Pin, Program, RefreshRule, Surroundings
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
from lastlook.records import Grade
from lastlook.validators import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastlook.arguments import Arguments
    from lastlook.expressions import Analysis
    from lastlook.premises import Premise
    from lastlook.records import Address, Path, PremiseRecord

__all__ = ["Contract", "condition_text"]


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
        refuse_lists(name, premises=premises, awaits=awaits, refresh=refresh, lane=lane)
        self.premises = [(premise, False) for premise in premises] + [(premise, True) for premise in awaits]
        self.refresh = tuple(refresh)
        self.refreshed = [field_place(field) for field in refresh]
        self._lane = tuple(lane)
        refs = [ref for premise, _ in self.premises for ref, _ in analyse(premise.condition).static]
        refs.extend(ref for ref, _ in self.refreshed)
        self._public = {(ref_kind(ref), name) for ref in refs for name in ref_public(ref)}
        refuse_mistakes(self)
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
        for expression in self.expressions():
            refuse_unknown(self.name, analyse(expression), surroundings, strict_fields=strict_fields)
        slots = SlotTable()
        checks = tuple(self._check(premise, surroundings, slots, awaited=awaited) for premise, awaited in self.premises)
        for check in checks:
            refuse_unreachable(self, check, surroundings)
        refresh = tuple(RefreshRule(slots.slot(ref), path) for ref, path in self.refreshed)
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
        refresh = tuple(RefreshRule(slots.slot(ref), path) for ref, path in self.refreshed)
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

    def refuse_kind(self, kind: str, surroundings: Surroundings) -> None:
        """Raise unless a system answers for a kind; as `mistakes.refuse_kind`."""
        refuse_kind(self.name, kind, surroundings)

    def expressions(self) -> tuple[Expr[Any], ...]:
        """Everything that the declaration says of arguments and evidence."""
        conditions = (premise.condition for premise, _ in self.premises)
        return (*conditions, *self.refresh, *self.target_parts(), *self._lane)

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
