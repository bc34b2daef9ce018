"""The paper's three baselines, written apart from lastlook: plain Python over recorded reads and their versions.

NoCheck releases the original intent. VersionAbort replans on any version mismatch. FullScan has no index: it goes
through all recorded provenance and evaluates every rule, by callables of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "BASELINES",
    "Baseline",
    "Cell",
    "FullScan",
    "Judgement",
    "NoCheck",
    "Outcome",
    "Records",
    "Trace",
    "Value",
    "VersionAbort",
    "Versioned",
]

Value = bool | int | str
Cell = tuple[str, str, str]
"""Kind, key and field."""
Outcome = Literal["KEEP", "REFRESH", "REPLAN", "BLOCK"]
_RANK: Final[tuple[Outcome, ...]] = ("KEEP", "REFRESH", "REPLAN", "BLOCK")


class Versioned(NamedTuple):
    """A value and the version it was written at."""

    value: Value
    version: int


class Records:
    """Shared state: every field has a version that each write advances."""

    def __init__(self, cells: Iterable[tuple[Cell, Value]]) -> None:
        self._cells = {cell: Versioned(value, 1) for cell, value in cells}

    def read(self, cell: Cell) -> Versioned | None:
        """The current value and version, or None where there is no such field."""
        return self._cells.get(cell)

    def write(self, cell: Cell, value: Value) -> None:
        """Another actor's write."""
        before = self._cells.get(cell)
        self._cells[cell] = Versioned(value, before.version + 1 if before else 1)

    def capture(self) -> dict[Cell, Versioned]:
        """What an agent that reads everything records."""
        return dict(self._cells)


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of a pending intent: its workload's rules, its arguments, and all recorded reads."""

    workload: str
    arguments: Mapping[str, Value]
    target: tuple[str, str]
    policy: tuple[str, str]
    presentation: Cell
    reads: Mapping[Cell, Versioned]


class Judgement(NamedTuple):
    """A method's answer.

    Attributes:
        reasons: the rules found broken.
        premises: how many rules were evaluated.
    """

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    premises: int = 0


class Baseline(Protocol):
    """A method that answers before the effect would be released."""

    def __call__(self, trace: Trace, records: Records, /) -> Judgement:
        """What must become of the pending intent, in the state of now."""
        ...


class NoCheck:
    """Releases the original intent."""

    def __call__(self, trace: Trace, records: Records, /) -> Judgement:
        """KEEP, whatever happened."""
        del trace, records
        return Judgement("KEEP")


class VersionAbort:
    """Replans as soon as anything that was read has another version."""

    def __call__(self, trace: Trace, records: Records, /) -> Judgement:
        """REPLAN on the first mismatch, else KEEP."""
        for cell, seen in trace.reads.items():
            current = records.read(cell)
            if current is None or current.version != seen.version:
                return Judgement("REPLAN")
        return Judgement("KEEP")


class FullScan:
    """Scans all recorded reads for changes and evaluates every rule on the current values."""

    def __call__(self, trace: Trace, records: Records, /) -> Judgement:
        """The worst of the broken rules; REFRESH where only presentation moved."""
        current: dict[Cell, Value] = {}
        changed: set[Cell] = set()
        for cell, seen in trace.reads.items():
            now = records.read(cell)
            if now is None or now.version != seen.version:
                changed.add(cell)
            if now is not None:
                current[cell] = now.value
        rules, view = _RULES[trace.workload], _View(trace, current)
        broken = [rule for rule in rules if not _holds(rule, view)]
        worst = max((_RANK.index(rule.severity) for rule in broken), default=int(trace.presentation in changed))
        return Judgement(_RANK[worst], tuple(rule.reason for rule in broken), len(rules))


BASELINES: Final[Mapping[str, Baseline]] = {
    "NoCheck": NoCheck(),
    "VersionAbort": VersionAbort(),
    "FullScan": FullScan(),
}


class _View:
    """The two rows that the rules of a workload name, and its arguments."""

    __slots__ = ("_cells", "_policy", "_target", "arguments")

    def __init__(self, trace: Trace, cells: Mapping[Cell, Value]) -> None:
        self._cells = cells
        self._target = trace.target
        self._policy = trace.policy
        self.arguments = trace.arguments

    def target(self, field: str) -> Value:
        return self._cells[(*self._target, field)]

    def policy(self, field: str) -> Value:
        return self._cells[(*self._policy, field)]


@dataclass(frozen=True, slots=True)
class _Rule:
    reason: str
    severity: Literal["REPLAN", "BLOCK"]
    check: Callable[[_View], object]


def _holds(rule: _Rule, view: _View) -> bool:
    """Whether the rule is true; what is missing or of another kind makes it false."""
    try:
        return rule.check(view) is True
    except (KeyError, TypeError):
        return False


def _at_most(value: Value, bound: Value) -> bool:
    if isinstance(value, int) and isinstance(bound, int):
        return value <= bound
    raise TypeError


_RULES: Final[Mapping[str, tuple[_Rule, ...]]] = {
    "refund": (
        _Rule("the order is not delivered", "REPLAN", lambda see: see.target("delivered")),
        _Rule("no defect is on record", "REPLAN", lambda see: see.target("defect")),
        _Rule("already refunded", "BLOCK", lambda see: see.target("refunded") is False),
        _Rule("over the refund limit", "BLOCK", lambda see: _at_most(see.arguments["amount"], see.policy("limit"))),
        _Rule("no refund authority", "BLOCK", lambda see: see.policy("agent_may_refund")),
    ),
    "remediation": (
        _Rule("the incident is not open", "REPLAN", lambda see: see.target("state") == "open"),
        _Rule(
            "too few healthy instances", "REPLAN", lambda see: _at_most(see.arguments["batch"], see.target("healthy"))
        ),
        _Rule("already remediated", "BLOCK", lambda see: see.target("remediated") is False),
        _Rule("a maintenance freeze is on", "BLOCK", lambda see: see.policy("freeze") is False),
        _Rule("no restart authority", "BLOCK", lambda see: see.policy("agent_may_restart")),
    ),
    "procurement": (
        _Rule("the request is not ready", "REPLAN", lambda see: see.target("state") == "ready"),
        _Rule("the vendor is not approved", "REPLAN", lambda see: see.target("vendor_status") == "approved"),
        _Rule("over the budget", "BLOCK", lambda see: _at_most(see.arguments["cost"], see.target("budget_left"))),
        _Rule(
            "over the auto-approval cap", "BLOCK", lambda see: _at_most(see.arguments["cost"], see.policy("auto_cap"))
        ),
        _Rule("no purchasing authority", "BLOCK", lambda see: see.policy("agent_may_buy")),
    ),
}
