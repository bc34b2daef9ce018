"""Premises compiled, and the systems, target, store and policy that they are compiled against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lastlook.frozen import Frozen
from lastlook.records import Grade

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

    from lastlook.errors import Outcome
    from lastlook.expressions import Analysis, Env, Expr, SlotTable
    from lastlook.ports import Store, System, Target
    from lastlook.premises import BindingPolicy
    from lastlook.records import Path, Token

__all__ = ["Check", "Pin", "Program", "RefreshRule", "Surroundings"]

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
