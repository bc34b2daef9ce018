"""All four methods on the same changes: the fifteen cases, Table 2, Table 3 and the closures.

The schedules are shuffled and balanced, every case equally often; the oracle says what was right. lastlook is used
through its public API alone.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from lastlook import Capture, Change
from lastlook.events import ClosureComputed, PremiseChecked
from lastlook.testing import events
from lastlook_scenarios import oracle, workloads
from lastlook_scenarios.baselines import BASELINES, Records, Trace
from lastlook_scenarios.contracts import Bench
from lastlook_scenarios.workloads import cells, changed, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lastlook_scenarios.baselines import Baseline
    from lastlook_scenarios.workloads import Case, Outcome, Workload

__all__ = [
    "METHODS",
    "Answer",
    "Closures",
    "Disagreement",
    "Method",
    "Tally",
    "closures",
    "oracle_disagreements",
    "run",
    "table2",
]

METHODS: Final = ("NoCheck", "VersionAbort", "FullScan", "ATR")
_SAFE: Final = ("KEEP", "REFRESH")
_TRACES_PER_BENCH: Final = 200
_TRACES_PER_TRANSACTION: Final = 10

Disagreement = str
"""One sentence about what contradicts a declared expectation."""


class Answer(NamedTuple):
    """What a method made of one trace.

    Attributes:
        reasons: the rules found broken; None from a method that gives no reasons.
        released: whether the effect took place.
        nanoseconds: of the validation alone.
        objection: what is wrong with the answer in itself.
    """

    outcome: str
    reasons: frozenset[str] | None
    premises: int
    released: bool
    nanoseconds: int
    objection: str = ""


class Method(Protocol):
    """A method set up on one workload."""

    def __call__(self, case: Case, /) -> Answer:
        """Capture a fresh trace, let the change happen, and answer."""
        ...


@dataclass(slots=True)
class Tally:
    """One method's answers over all traces, against the oracle.

    Attributes:
        unmatched: the cases in which the outcome or the reasons were not the declared ones, at least once.
        false_allows: the cases in which an effect took place that the oracle forbids.
        false_blocks: the cases in which an effect was held back that the oracle permits.
    """

    safe: int = 0
    unsafe: int = 0
    released: int = 0
    replanned: int = 0
    premises: int = 0
    unmatched: dict[str, str] = field(default_factory=dict[str, str])
    false_allows: set[str] = field(default_factory=set[str])
    false_blocks: set[str] = field(default_factory=set[str])
    nanoseconds: list[int] = field(default_factory=list[int])

    def count(self, name: str, case: Case, truth: Outcome, answer: Answer) -> None:
        """Add one answer."""
        self.premises += answer.premises
        self.nanoseconds.append(answer.nanoseconds)
        if truth in _SAFE:
            self.safe += 1
            self.replanned += answer.outcome == "REPLAN"
            if not answer.released:
                self.false_blocks.add(name)
        else:
            self.unsafe += 1
            self.released += answer.released
            if answer.released:
                self.false_allows.add(name)
        if answer.objection:
            self.unmatched[name] = answer.objection
        elif answer.outcome != case.outcome:
            self.unmatched[name] = f"{answer.outcome} where {case.outcome} is expected"
        elif answer.reasons is not None and answer.reasons != frozenset(case.reasons):
            self.unmatched[name] = f"reasons {sorted(answer.reasons)} where {sorted(case.reasons)} are expected"

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
        return self.premises / (self.safe + self.unsafe)

    def percentile(self, percent: int) -> float:
        """Microseconds that so many per cent of the validations stayed below."""
        ordered = sorted(self.nanoseconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] / 1000


class Closures(NamedTuple):
    """What change hints reach, over the fifteen cases."""

    nodes: tuple[int, ...]
    premises: tuple[int, ...]

    @property
    def mean_nodes(self) -> float:
        """Nodes visited per change."""
        return fmean(self.nodes)

    @property
    def mean_premises(self) -> float:
        """Premises run per change."""
        return fmean(self.premises)


def oracle_disagreements() -> Iterator[Disagreement]:
    """Every case whose declared outcome is not what the business rules say."""
    table2_only = ((workloads.WORKLOADS[0], case) for case in workloads.TABLE2 if case.category == "preserving")
    for workload, case in (*_every_case(), *table2_only):
        if (truth := _truth(workload, case)) != case.outcome:
            yield f"{workload.name}/{case.name}: {case.outcome} is expected, the business rules say {truth}"


def table2() -> Iterator[tuple[Case, Answer]]:
    """The five changes of the paper's Table 2, each on a fresh refund."""
    for case in workloads.TABLE2:
        yield case, _ATR(workloads.WORKLOADS[0])(case)


def run(traces: int, seeds: Mapping[str, int], tell: Callable[[int, int], None]) -> dict[str, Tally]:
    """Let every method answer every trace of the schedules.

    Args:
        traces: executions of each method; a multiple of the number of cases.
        seeds: of each workload's shuffle.
        tell: is told how many traces are done, of how many.
    """
    tallies = {name: Tally() for name in METHODS}
    done, each = 0, traces // sum(len(workload.cases) for workload in workloads.WORKLOADS)
    for workload in workloads.WORKLOADS:
        truths: dict[str, Outcome] = {case.name: _truth(workload, case) for case in workload.cases}
        schedule = [case for case in workload.cases for _ in range(each)]
        random.Random(seeds[workload.name]).shuffle(schedule)
        methods = _methods(workload)
        for n, case in enumerate(schedule):
            if n and n % _TRACES_PER_BENCH == 0:
                methods = _methods(workload)
                tell(done + n, traces)
            for name, method in methods.items():
                tallies[name].count(f"{workload.name}/{case.name}", case, truths[case.name], method(case))
        done += len(schedule)
        tell(done, traces)
    return tallies


def closures(capture: Capture) -> tuple[Closures, list[Disagreement]]:
    """Nodes visited and premises run by the hint of each change, and each outcome that was not the declared one."""
    nodes: list[int] = []
    premises: list[int] = []
    disagreements: list[Disagreement] = []
    for workload, case in _every_case():
        bench = Bench(workload, capture=capture)
        bench.propose()
        bench.change(case.change)
        with events(bench.gate) as seen:
            previews = bench.gate.affected(Change(case.change.kind, case.change.key, case.change.field))
        nodes.append(sum(len(event.nodes) for event in seen if isinstance(event, ClosureComputed)))
        premises.append(sum(isinstance(event, PremiseChecked) for event in seen))
        outcome = max((preview.outcome for preview in previews), default=None)
        if (got := outcome.name if outcome is not None else "KEEP") != case.outcome:
            disagreements.append(
                f"{workload.name}/{case.name}: its hint gives {got} by {capture.name.lower()} capture, "
                f"{case.outcome} is expected"
            )
    return Closures(tuple(nodes), tuple(premises)), disagreements


def _every_case() -> Iterator[tuple[Workload, Case]]:
    return ((workload, case) for workload in workloads.WORKLOADS for case in workload.cases)


def _truth(workload: Workload, case: Case) -> Outcome:
    before = rows(workload)
    return oracle.judge(workload.name, before, changed(before, case.change), workload.arguments)


def _methods(workload: Workload) -> dict[str, Method]:
    baselines = {name: _Baseline(workload, baseline) for name, baseline in BASELINES.items()}
    return {**baselines, "ATR": _ATR(workload)}


class _Baseline:
    """A baseline beside its own versioned records."""

    def __init__(self, workload: Workload, judge: Baseline) -> None:
        self._workload = workload
        self._judge = judge
        self._cells = list(cells(rows(workload)))

    def __call__(self, case: Case, /) -> Answer:
        workload, change = self._workload, case.change
        records = Records(self._cells)
        trace = Trace(
            workload=workload.name,
            arguments=workload.arguments,
            target=workload.target,
            policy=workload.policy,
            presentation=(*workload.target, workload.presentation),
            reads=records.capture(),
        )
        records.write((change.kind, change.key, change.field), change.value)
        self._judge(trace, records)  # warms, as the paper's timed call is
        started = time.perf_counter_ns()
        judgement = self._judge(trace, records)
        elapsed = time.perf_counter_ns() - started
        reasons = frozenset(judgement.reasons) if judgement.premises else None
        return Answer(judgement.outcome, reasons, judgement.premises, judgement.outcome in _SAFE, elapsed)


class _ATR:
    """lastlook: an intent is proposed, the world changes, and the gate takes its last look.

    The preview is timed; the gate decides, and the target row says whether the effect took place. An agent that has
    read everything proposes a few times before it reads again.
    """

    def __init__(self, workload: Workload) -> None:
        self._bench = Bench(workload)
        self._transaction = self._bench.read()
        self._proposed = 0

    def __call__(self, case: Case, /) -> Answer:
        bench = self._bench
        if self._proposed == _TRACES_PER_TRANSACTION:
            self._transaction, self._proposed = bench.read(), 0
        self._proposed += 1
        intent = bench.propose_from(self._transaction)
        bench.change(case.change)
        bench.gate.preview(intent)  # warms; it records nothing
        started = time.perf_counter_ns()
        preview = bench.gate.preview(intent)
        elapsed = time.perf_counter_ns() - started
        verdict = bench.gate(intent)
        released = intent.id in bench.world.effects
        objection = ""
        if preview.outcome is not verdict.outcome:
            objection = f"the preview said {preview.outcome.name} and the gate {verdict.outcome.name}"
        elif not verdict.committed == released == verdict.outcome.permits:
            objection = f"{verdict.outcome.name}, {verdict.applied.name}, target row: {released}"
        if not verdict.committed:
            bench.gate.withdraw(intent)
        bench.reset(case.change)
        reasons = frozenset(finding.because for finding in verdict.findings)
        return Answer(verdict.outcome.name, reasons, len(verdict.checked), released, elapsed, objection)
