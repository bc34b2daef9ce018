"""The paper's three workloads as data: what is on record, what is asked for, what changes, and what must come of it.

Each has a target row of six fields, one policy row of two, five rules, and five mutations in the paper's mix: one
irrelevant, one presentation-only, one decision-invalidating, two critical. Nothing here judges: `contracts` states the
rules as premises, `baselines` as callables over recorded reads, `oracle` as business rules over the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "CONTEXT_FIELDS",
    "TABLE2",
    "WORKLOADS",
    "Case",
    "Cell",
    "Mutation",
    "Outcome",
    "Row",
    "State",
    "Value",
    "Workload",
    "cells",
    "changed",
    "context",
    "named",
    "rows",
]

Value = bool | int | str
Row = dict[str, Value]
State = dict[str, dict[str, Row]]
"""kind -> key -> row."""
Outcome = Literal["KEEP", "REFRESH", "REPLAN", "BLOCK"]

CONTEXT_FIELDS: Final = 48
"""Recorded fields that no rule reads: 24 notes of two fields."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Mutation(_Data):
    """Another actor's write of one field."""

    kind: str
    key: str
    field: str
    value: Value


class Case(_Data):
    """One change after the decision, and what must come of the pending intent.

    Attributes:
        reasons: the rules that the change breaks, as the workload words them.
    """

    name: str
    category: Literal["irrelevant", "presentation", "preserving", "decision", "critical"]
    change: Mutation
    outcome: Outcome
    reasons: tuple[str, ...] = ()


class Workload(_Data):
    """One scenario.

    Attributes:
        target: kind and key of the row that the effect writes.
        policy: kind and key of the row that limits it.
        arguments: what the agent asks for, by parameter of the effect.
        presentation: the target's field that is shown to people and decides nothing.
        rules: the severity of every rule, by the reason given when it is broken.
        sole: the critical rule that stands alone in the study of omissions, and its case.
    """

    name: str
    target: tuple[str, str]
    policy: tuple[str, str]
    state: State
    arguments: dict[str, Value]
    presentation: str
    rules: dict[str, Literal["REPLAN", "BLOCK"]]
    sole: tuple[str, str]
    cases: tuple[Case, ...]

    def case(self, name: str) -> Case:
        """The case of this name.

        Raises:
            KeyError: there is none.
        """
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(name)

    @model_validator(mode="after")
    def _coherent(self) -> Workload:
        named = [*(reason for case in self.cases for reason in case.reasons), self.sole[0]]
        if unknown := set(named) - set(self.rules):
            raise ValueError(f"{self.name} has no rule {sorted(unknown)}")
        for case in self.cases:
            row = {**self.state, "notes": context(CONTEXT_FIELDS)}.get(case.change.kind, {}).get(case.change.key, {})
            if case.change.field not in row:
                raise ValueError(f"{self.name}: {case.name} changes a field that is not on record")
        return self


class Cell(NamedTuple):
    """One field of one row."""

    kind: str
    key: str
    field: str


def context(fields: int) -> dict[str, Row]:
    """Notes that an agent read on the way and that no rule names: two fields a note, the last one perhaps one."""
    notes: dict[str, Row] = {}
    for n in range(fields):
        notes.setdefault(f"note-{n // 2:04}", {})["text" if n % 2 else "subject"] = f"on record {n}"
    return notes


def rows(workload: Workload, *, context_fields: int = CONTEXT_FIELDS) -> State:
    """A fresh copy of everything on record when the agent decides."""
    state = {kind: {key: dict(row) for key, row in table.items()} for kind, table in workload.state.items()}
    return {**state, "notes": context(context_fields)}


def changed(state: State, change: Mutation) -> State:
    """The state after another actor's write."""
    copy = {kind: {key: dict(row) for key, row in table.items()} for kind, table in state.items()}
    copy[change.kind][change.key][change.field] = change.value
    return copy


def cells(state: State) -> Iterator[tuple[Cell, Value]]:
    """Every field on record."""
    for kind, table in state.items():
        for key, row in table.items():
            for field, value in row.items():
                yield Cell(kind, key, field), value


_IRRELEVANT: Final[Mapping[str, object]] = {
    "name": "note",
    "category": "irrelevant",
    "change": {"kind": "notes", "key": "note-0007", "field": "text", "value": "reworded"},
    "outcome": "KEEP",
}

_REFUND: Final[Mapping[str, object]] = {
    "name": "refund",
    "target": ("orders", "o-1"),
    "policy": ("policies", "refund"),
    "state": {
        "orders": {
            "o-1": {
                "delivered": True,
                "defect": True,
                "refunded": False,
                "total": 80,
                "currency": "GBP",
                "customer_name": "first customer",
            }
        },
        "policies": {"refund": {"limit": 100, "agent_may_refund": True}},
    },
    "arguments": {"order_id": "o-1", "amount": 80},
    "presentation": "customer_name",
    "rules": {
        "the order is not delivered": "REPLAN",
        "no defect is on record": "REPLAN",
        "already refunded": "BLOCK",
        "over the refund limit": "BLOCK",
        "no refund authority": "BLOCK",
    },
    "sole": ("over the refund limit", "limit-50"),
    "cases": (
        _IRRELEVANT,
        {
            "name": "name",
            "category": "presentation",
            "change": {"kind": "orders", "key": "o-1", "field": "customer_name", "value": "first customer, renamed"},
            "outcome": "REFRESH",
        },
        {
            "name": "defect",
            "category": "decision",
            "change": {"kind": "orders", "key": "o-1", "field": "defect", "value": False},
            "outcome": "REPLAN",
            "reasons": ("no defect is on record",),
        },
        {
            "name": "limit-50",
            "category": "critical",
            "change": {"kind": "policies", "key": "refund", "field": "limit", "value": 50},
            "outcome": "BLOCK",
            "reasons": ("over the refund limit",),
        },
        {
            "name": "refunded",
            "category": "critical",
            "change": {"kind": "orders", "key": "o-1", "field": "refunded", "value": True},
            "outcome": "BLOCK",
            "reasons": ("already refunded",),
        },
    ),
}

_REMEDIATION: Final[Mapping[str, object]] = {
    "name": "remediation",
    "target": ("incidents", "i-1"),
    "policy": ("policies", "operations"),
    "state": {
        "incidents": {
            "i-1": {
                "state": "open",
                "healthy": 5,
                "remediated": False,
                "service": "checkout",
                "region": "eu-1",
                "title": "checkout is slow",
            }
        },
        "policies": {"operations": {"freeze": False, "agent_may_restart": True}},
    },
    "arguments": {"incident_id": "i-1", "batch": 3},
    "presentation": "title",
    "rules": {
        "the incident is not open": "REPLAN",
        "too few healthy instances": "REPLAN",
        "already remediated": "BLOCK",
        "a maintenance freeze is on": "BLOCK",
        "no restart authority": "BLOCK",
    },
    "sole": ("a maintenance freeze is on", "freeze"),
    "cases": (
        _IRRELEVANT,
        {
            "name": "title",
            "category": "presentation",
            "change": {"kind": "incidents", "key": "i-1", "field": "title", "value": "checkout times out"},
            "outcome": "REFRESH",
        },
        {
            "name": "resolved",
            "category": "decision",
            "change": {"kind": "incidents", "key": "i-1", "field": "state", "value": "resolved"},
            "outcome": "REPLAN",
            "reasons": ("the incident is not open",),
        },
        {
            "name": "freeze",
            "category": "critical",
            "change": {"kind": "policies", "key": "operations", "field": "freeze", "value": True},
            "outcome": "BLOCK",
            "reasons": ("a maintenance freeze is on",),
        },
        {
            "name": "remediated",
            "category": "critical",
            "change": {"kind": "incidents", "key": "i-1", "field": "remediated", "value": True},
            "outcome": "BLOCK",
            "reasons": ("already remediated",),
        },
    ),
}

_PROCUREMENT: Final[Mapping[str, object]] = {
    "name": "procurement",
    "target": ("requests", "r-1"),
    "policy": ("policies", "purchasing"),
    "state": {
        "requests": {
            "r-1": {
                "state": "ready",
                "vendor": "first vendor",
                "vendor_status": "approved",
                "budget_left": 900,
                "cost_center": "office",
                "title": "four monitors",
            }
        },
        "policies": {"purchasing": {"auto_cap": 500, "agent_may_buy": True}},
    },
    "arguments": {"request_id": "r-1", "cost": 400},
    "presentation": "title",
    "rules": {
        "the request is not ready": "REPLAN",
        "the vendor is not approved": "REPLAN",
        "over the budget": "BLOCK",
        "over the auto-approval cap": "BLOCK",
        "no purchasing authority": "BLOCK",
    },
    "sole": ("over the auto-approval cap", "cap-300"),
    "cases": (
        _IRRELEVANT,
        {
            "name": "title",
            "category": "presentation",
            "change": {"kind": "requests", "key": "r-1", "field": "title", "value": "four large monitors"},
            "outcome": "REFRESH",
        },
        {
            "name": "vendor-suspended",
            "category": "decision",
            "change": {"kind": "requests", "key": "r-1", "field": "vendor_status", "value": "suspended"},
            "outcome": "REPLAN",
            "reasons": ("the vendor is not approved",),
        },
        {
            "name": "cap-300",
            "category": "critical",
            "change": {"kind": "policies", "key": "purchasing", "field": "auto_cap", "value": 300},
            "outcome": "BLOCK",
            "reasons": ("over the auto-approval cap",),
        },
        {
            "name": "budget-100",
            "category": "critical",
            "change": {"kind": "requests", "key": "r-1", "field": "budget_left", "value": 100},
            "outcome": "BLOCK",
            "reasons": ("over the budget",),
        },
    ),
}

_LIMIT_90: Final[Mapping[str, object]] = {
    "name": "limit-90",
    "category": "preserving",
    "change": {"kind": "policies", "key": "refund", "field": "limit", "value": 90},
    "outcome": "KEEP",
}

WORKLOADS: Final = tuple(Workload.model_validate(data) for data in (_REFUND, _REMEDIATION, _PROCUREMENT))
"""Refund, cloud remediation, procurement: fifteen cases."""


def named(name: str) -> Workload:
    """The workload of this name.

    Raises:
        KeyError: there is none.
    """
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    raise KeyError(name)


TABLE2: Final = tuple(
    Case.model_validate(_LIMIT_90) if name == "limit-90" else WORKLOADS[0].case(name)
    for name in ("name", "limit-90", "defect", "limit-50", "refunded")
)
"""The paper's Table 2, in its order: five changes after an 80 GBP refund was proposed under a limit of 100."""
