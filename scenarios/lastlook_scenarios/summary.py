"""Every figure of the evaluation, counted from the raw rows and from nothing else."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from lastlook_scenarios import raw, units
from lastlook_scenarios.counts import (
    SAFE,
    Boundary,
    Closures,
    Durable,
    Omission,
    Races,
    Spread,
    Tally,
    percentile,
    wrong_with,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lastlook_scenarios.folder import RunFolder
    from lastlook_scenarios.raw import (
        BoundaryRow,
        ClosureRow,
        DurableRow,
        LatencyRow,
        OmissionRow,
        RaceRow,
        RawRow,
        ScalingRow,
        Table2Row,
        TraceRow,
        UnavailableRow,
    )
    from lastlook_scenarios.units import Options

__all__ = ["METHODS", "TIMED", "Summary"]

METHODS: Final = ("ATR", "FullScan", "NoCheck", "VersionAbort")
"""The methods that are compared."""
TIMED: Final = ("ATR", "FullScan")
"""The methods whose time and premises the paper gives."""


class Summary:
    """All figures of a run.

    Attributes:
        table2: case, expected outcome, outcome.
        cases: how many distinct cases there are.
        tallies: by method.
        closures: by capture, `predicate` and `object`.
        omission: by rate.
        unavailable: by the state of the validator, whether the effect was blocked; `answering` is the control.
        boundary: by where the policy lies and what is bound.
        durable: by method; empty if the cells were not run.
        races: by what the pairs raced for.
        disagreements: what contradicts a declared expectation, one sentence each.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.table2: list[tuple[str, str, str]] = []
        self.cases = 0
        self.tallies: dict[str, Tally] = {name: Tally() for name in METHODS}
        self.closures: dict[str, Closures] = defaultdict(Closures)
        self.omission: dict[int, Omission] = defaultdict(Omission)
        self.unavailable: dict[str, tuple[str, int]] = {}
        self.boundary: dict[tuple[str, str], Boundary] = defaultdict(Boundary)
        self.durable: dict[str, Durable] = {}
        self.races: dict[str, Races] = {}
        self.disagreements: list[str] = []
        self._latencies: dict[str, dict[int, array[int]]] = {name: {} for name in METHODS}
        self._scaling: dict[tuple[int, int, int, str], array[int]] = {}
        self._seen_cases: set[tuple[str, str]] = set()

    @classmethod
    def of(cls, options: Options, folder: RunFolder) -> Summary:
        """Count the rows of a finished run."""
        summary = cls(options)
        for unit in units.plan(options):
            for kind, file in units.files(unit, folder.rows).items():
                summary.add(kind, raw.read(file, units.KINDS[kind]))
        summary._close()
        return summary

    def add(self, kind: str, rows: Iterable[RawRow]) -> None:
        """Count rows of a kind."""
        count: Callable[[Any], None] = getattr(self, f"_{kind}_row")
        for row in rows:
            count(row)

    # What is timed.

    def latency(self, method: str, percent: int) -> float:
        """Microseconds that so many per cent of all validations stayed below."""
        return percentile(sorted(ns for part in self._latencies[method].values() for ns in part), percent) / 1000

    def latency_p50(self, method: str) -> Spread:
        """The median validation of each repetition."""
        return Spread(tuple(percentile(sorted(part), 50) / 1000 for part in self._latencies[method].values()))

    def scaling(self) -> dict[int, dict[str, Spread]]:
        """By recorded reads and path: of each repetition the quietest round's median.

        On a shared machine a whole round may run at half speed.
        """
        best: dict[tuple[int, str], dict[int, float]] = defaultdict(dict)
        for (repetition, _, reads, path), samples in self._scaling.items():
            found = best[reads, path]
            found[repetition] = min(found.get(repetition, math.inf), median(samples) / 1000)
        spreads: dict[int, dict[str, Spread]] = defaultdict(dict)
        for (reads, path), values in best.items():
            spreads[reads][path] = Spread(tuple(values.values()))
        return dict(spreads)

    # One row each.

    def _table2_row(self, row: Table2Row) -> None:
        self.table2.append((row.case, row.expected, row.outcome))
        if row.objection:
            self.disagreements.append(f"Table 2, {row.case}: {row.objection}")
        if row.oracle != row.expected:
            self.disagreements.append(
                f"Table 2, {row.case}: {row.expected} is expected, the business rules say {row.oracle}"
            )

    def _traces_row(self, row: TraceRow) -> None:
        self.tallies[row.method].count(row)
        if (case := (row.workload, row.case)) not in self._seen_cases:
            self._seen_cases.add(case)
            self.cases += 1
            if row.oracle != row.expected:
                self.disagreements.append(
                    f"{row.workload}/{row.case}: {row.expected} is expected, the business rules say {row.oracle}"
                )

    def _latencies_row(self, row: LatencyRow) -> None:
        for method, ns in (
            ("NoCheck", row.no_check_ns),
            ("VersionAbort", row.version_abort_ns),
            ("FullScan", row.full_scan_ns),
            ("ATR", row.atr_ns),
        ):
            if ns is not None:
                self._latencies[method].setdefault(row.repetition, array("q")).append(ns)

    def _closures_row(self, row: ClosureRow) -> None:
        found = self.closures[row.capture]
        found.nodes.append(row.nodes)
        found.premises.append(row.premises)
        if row.outcome != row.expected:
            self.disagreements.append(
                f"{row.workload}/{row.case}: its hint gives {row.outcome} by {row.capture} capture, "
                f"{row.expected} is expected"
            )

    def _omission_row(self, row: OmissionRow) -> None:
        found = self.omission[row.rate]
        found.trials += 1
        found.omitted += row.omitted
        found.explicit += row.explicit
        found.conservative += row.conservative
        found.index_only += row.index_only

    def _unavailable_row(self, row: UnavailableRow) -> None:
        self.unavailable[row.validator] = (row.outcome, row.released)
        if row.validator == "answering" and (row.outcome, row.released) != ("KEEP", 1):
            self.disagreements.append("a validator that answers did not let the effect through")

    def _boundary_row(self, row: BoundaryRow) -> None:
        found = self.boundary[row.policy, row.binding]
        found.trials += 1
        found.released += bool(row.released and row.stale)
        found.rejected += row.applied == "REJECTED" and row.outcome == "BLOCK" and not row.released

    def _durable_row(self, row: DurableRow) -> None:
        found = self.durable.setdefault(row.method, Durable())
        cell = f"{row.pattern}/{row.change}"
        wrong = wrong_with(row)
        found.of += 1
        found.outcomes[row.outcome] += 1
        found.premises += row.premises
        found.matched += not wrong
        found.false_allows += bool(row.released and row.oracle not in SAFE)
        found.false_blocks += bool(not row.released and row.oracle in SAFE)
        if wrong:
            found.unmatched[cell] = wrong
        if row.oracle != row.expected:
            self.disagreements.append(f"{cell}: {row.expected} is expected, the business rules say {row.oracle}")

    def _races_row(self, row: RaceRow) -> None:
        found = self.races.setdefault(row.over, Races())
        found.pairs += 1
        found.double += row.commits > 1
        found.zero += row.commits == 0
        said = (row.first, row.second).count("COMMITTED")
        heard = min(said, 1) if row.over == "intent" else said  # of one intent, both may hear that it is committed
        if row.commits != heard:
            self.disagreements.append(
                f"race {row.repetition}/{row.pair} for one {row.over}: the verdicts are {row.first} and {row.second}, "
                f"and the target has {row.commits} effects"
            )

    def _scaling_row(self, row: ScalingRow) -> None:
        where = (row.repetition, row.round, row.reads, row.path)
        if where not in self._scaling:
            self._scaling[where] = array("q")
        self._scaling[where].append(row.ns)

    def _close(self) -> None:
        """Say which cases the exact methods did not match."""
        for name in ("FullScan", "ATR"):
            unmatched = {**self.tallies[name].unmatched, **(self.durable[name].unmatched if self.durable else {})}
            self.disagreements += [f"{case}: {name} gives {what}" for case, what in sorted(unmatched.items())]

    @property
    def blocked(self) -> tuple[int, int]:
        """How many unavailable validators blocked, of how many."""
        states = {state: found for state, found in self.unavailable.items() if state != "answering"}
        return sum(found == ("BLOCK", 0) for found in states.values()), len(states)
