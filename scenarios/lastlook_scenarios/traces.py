"""All four methods on the same changes: the fifteen cases, Table 2, and the closures of change hints.

The schedules are shuffled and balanced, every case equally often; the oracle says what was right. lastlook is used
through its public API alone.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from lastlook import Capture, Change
from lastlook.events import ClosureComputed, PremiseChecked
from lastlook.testing import events
from lastlook_scenarios import oracle, workloads
from lastlook_scenarios.baselines import BASELINES, Records, Trace
from lastlook_scenarios.contracts import Bench
from lastlook_scenarios.raw import ClosureRow, LatencyRow, Table2Row, TraceRow, reasons_text
from lastlook_scenarios.workloads import cells, changed, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastlook_scenarios.baselines import Baseline
    from lastlook_scenarios.workloads import Case, Outcome, Workload

__all__ = ["METHODS", "Answer", "Method", "Traced", "closures", "run", "schedule", "table2"]

METHODS: Final = ("NoCheck", "VersionAbort", "FullScan", "ATR")
_SAFE: Final = ("KEEP", "REFRESH")
_TRACES_PER_BENCH: Final = 200
_TRACES_PER_TRANSACTION: Final = 10
_SAMPLED: Final = 10
"""One trace in so many is timed for the methods whose time the paper does not give."""


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


class Traced(NamedTuple):
    """One trace: each method's answer, and how long it took."""

    answers: tuple[TraceRow, ...]
    latency: LatencyRow


class Method(Protocol):
    """A method set up on one workload."""

    def __call__(self, case: Case, /) -> Answer:
        """Capture a fresh trace, let the change happen, and answer."""
        ...


def table2() -> Iterator[Table2Row]:
    """The five changes of the paper's Table 2, each on a fresh refund."""
    refund = workloads.WORKLOADS[0]
    for case in workloads.TABLE2:
        answer = _ATR(refund)(case)
        yield Table2Row(case.name, case.outcome, _truth(refund, case), answer.outcome, answer.objection)


def schedule(workload: Workload, traces: int, seed: int) -> list[Case]:
    """The workload's cases in shuffled order, every one equally often; `traces` is rounded up for that."""
    order = [case for case in workload.cases for _ in range(-(-traces // len(workload.cases)))]
    random.Random(seed).shuffle(order)
    return order


def run(workload: Workload, traces: int, seed: int, *, repetition: int = 1) -> Iterator[Traced]:
    """Let every method answer every trace of one workload's schedule."""
    truths: dict[str, Outcome] = {case.name: _truth(workload, case) for case in workload.cases}
    methods = _methods(workload)
    for n, case in enumerate(schedule(workload, traces, seed)):
        if n and n % _TRACES_PER_BENCH == 0:
            methods = _methods(workload)
        answers = {name: method(case) for name, method in methods.items()}
        yield Traced(
            tuple(
                TraceRow(
                    repetition=repetition,
                    workload=workload.name,
                    case=case.name,
                    expected=case.outcome,
                    expected_reasons=reasons_text(case.reasons),
                    oracle=truths[case.name],
                    method=name,
                    outcome=answer.outcome,
                    reasons=reasons_text(answer.reasons),
                    premises=answer.premises,
                    released=int(answer.released),
                    objection=answer.objection,
                )
                for name, answer in answers.items()
            ),
            LatencyRow(
                repetition=repetition,
                workload=workload.name,
                no_check_ns=None if n % _SAMPLED else answers["NoCheck"].nanoseconds,
                version_abort_ns=None if n % _SAMPLED else answers["VersionAbort"].nanoseconds,
                full_scan_ns=answers["FullScan"].nanoseconds,
                atr_ns=answers["ATR"].nanoseconds,
            ),
        )


def closures() -> Iterator[ClosureRow]:
    """Nodes visited and premises run by the hint of each change, by predicate and by object capture."""
    for capture in (Capture.PREDICATE, Capture.OBJECT):
        for workload, case in _every_case():
            bench = Bench(workload, capture=capture)
            bench.propose()
            bench.change(case.change)
            with events(bench.gate) as seen:
                previews = bench.gate.affected(Change(case.change.kind, case.change.key, case.change.field))
            outcome = max((preview.outcome for preview in previews), default=None)
            yield ClosureRow(
                capture=capture.name.lower(),
                workload=workload.name,
                case=case.name,
                expected=case.outcome,
                outcome=outcome.name if outcome is not None else "KEEP",
                nodes=sum(len(event.nodes) for event in seen if isinstance(event, ClosureComputed)),
                premises=sum(isinstance(event, PremiseChecked) for event in seen),
            )


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
