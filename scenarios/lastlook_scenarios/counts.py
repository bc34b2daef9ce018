"""What the rows of a run are counted into: one class a part of the evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import TYPE_CHECKING, Final

from lastlook_scenarios.raw import NO_REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastlook_scenarios.raw import DurableRow, TraceRow

__all__ = [
    "OUTCOMES",
    "SAFE",
    "Boundary",
    "Closures",
    "Durable",
    "Omission",
    "Races",
    "Spread",
    "Tally",
    "percentile",
    "wrong_with",
]

OUTCOMES: Final = ("KEEP", "REFRESH", "REPLAN", "BLOCK")
SAFE: Final = ("KEEP", "REFRESH")
"""The outcomes that let an effect through."""
# Student's t, 97.5 %, by degrees of freedom from 1; beyond them the normal distribution's.
_T: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T_LIMIT: Final = 1.960


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The value that so many per cent of the sorted values stay below."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure of each repetition, in microseconds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the repetitions."""
        return mean(self.values)

    @property
    def ci95(self) -> float:
        """Half the 95 % confidence interval of the mean; 0 for a single repetition, which has none."""
        n = len(self.values)
        if n < 2:
            return 0.0
        t = _T[n - 2] if n - 2 < len(_T) else _T_LIMIT
        return t * stdev(self.values) / math.sqrt(n)


@dataclass(slots=True)
class Tally:
    """One method's answers over all traces, against the oracle.

    Attributes:
        released: effects of unsafe traces that took place.
        replanned: safe traces that were sent back.
        retained: safe traces whose effect took place.
        matched: traces in which the outcome and the reasons were the declared ones.
        unmatched: the cases in which the outcome or the reasons were not the declared ones, at least once.
        false_allows: the cases in which an effect took place that the oracle forbids.
        false_blocks: the cases in which an effect was held back that the oracle permits.
    """

    safe: int = 0
    unsafe: int = 0
    released: int = 0
    replanned: int = 0
    retained: int = 0
    premises: int = 0
    matched: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    unmatched: dict[str, str] = field(default_factory=dict[str, str])
    false_allows: set[str] = field(default_factory=set[str])
    false_blocks: set[str] = field(default_factory=set[str])

    def count(self, row: TraceRow) -> None:
        """Add one answer."""
        case = f"{row.workload}/{row.case}"
        self.premises += row.premises
        if row.oracle in SAFE:
            self.safe += 1
            self.replanned += row.outcome == "REPLAN"
            self.retained += row.released
            if not row.released:
                self.false_blocks.add(case)
        else:
            self.unsafe += 1
            self.released += row.released
            if row.released:
                self.false_allows.add(case)
        self.outcomes[row.outcome] += 1
        if wrong := wrong_with(row):
            self.unmatched[case] = wrong
        else:
            self.matched += 1

    @property
    def traces(self) -> int:
        """How many there were."""
        return self.safe + self.unsafe

    @property
    def unsafe_released_pct(self) -> float:
        """How many of the unsafe traces were released."""
        return 100 * self.released / self.unsafe

    @property
    def safe_replanned_pct(self) -> float:
        """How many of the safe traces were sent back to replan."""
        return 100 * self.replanned / self.safe

    @property
    def premises_per_change(self) -> float:
        """How many premises were evaluated, on average."""
        return self.premises / self.traces


def wrong_with(row: TraceRow | DurableRow) -> str:
    """What is not as declared in an answer; empty if nothing."""
    if row.objection:
        return row.objection
    if row.outcome != row.expected:
        return f"{row.outcome} where {row.expected} is expected"
    if row.reasons not in (NO_REASONS, row.expected_reasons):
        return f"reasons [{row.reasons}] where [{row.expected_reasons}] are expected"
    return ""


@dataclass(slots=True)
class Closures:
    """What change hints reach, over the fifteen cases."""

    nodes: list[int] = field(default_factory=list[int])
    premises: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Omission:
    """Unsafe trials at one rate; see `raw.OmissionRow`."""

    trials: int = 0
    omitted: int = 0
    explicit: int = 0
    conservative: int = 0
    index_only: int = 0


@dataclass(slots=True)
class Boundary:
    """One history, over all its trials.

    Attributes:
        released: effects that took place though the policy forbade them.
        rejected: effects that the target rejected, and the next look blocked.
    """

    trials: int = 0
    released: int = 0
    rejected: int = 0


@dataclass(slots=True)
class Durable:
    """One method's answers over the durable cells."""

    matched: int = 0
    of: int = 0
    premises: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    unmatched: dict[str, str] = field(default_factory=dict[str, str])
    false_allows: int = 0
    false_blocks: int = 0

    @property
    def premises_per_change(self) -> float:
        """How many premises were evaluated, on average."""
        return self.premises / self.of


@dataclass(slots=True)
class Races:
    """Pairs of gates that raced for one thing."""

    pairs: int = 0
    double: int = 0
    zero: int = 0
