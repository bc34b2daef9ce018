"""How long one validation takes while recorded reads grow that nothing depends on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lastlook import Change
from lastlook_scenarios import workloads
from lastlook_scenarios.baselines import FullScan, Records, Trace
from lastlook_scenarios.contracts import Bench
from lastlook_scenarios.raw import ScalingRow
from lastlook_scenarios.workloads import cells, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["READS", "ROUNDS", "measure"]

READS: Final = (13, 61, 253, 1021, 4093)
ROUNDS: Final = 5
_NAMED_READS: Final = 8
"""Fields of the target and of the policy row."""


def measure(calls: int, *, repetition: int = 1) -> Iterator[ScalingRow]:
    """Time lastlook's two paths and FullScan, by recorded reads, in rounds of `calls`; fewer where a call is slow.

    One premise is affected, by the limit that falls to 50. All jobs take turns, so that a moment in which the machine
    is busy falls on all of them alike.
    """
    jobs = {(reads, path): job for reads in READS for path, job in _jobs(reads).items()}
    for n in range(ROUNDS):
        for (reads, path), job in jobs.items():
            times = max(1, min(calls, 20_000 // reads)) if path == "full_scan" else calls
            job()  # warms
            for _ in range(times):
                started = time.perf_counter_ns()
                job()
                elapsed = time.perf_counter_ns() - started
                yield ScalingRow(repetition, n + 1, reads, path, elapsed)


def _jobs(reads: int) -> dict[str, Callable[[], object]]:
    workload = workloads.WORKLOADS[0]
    lowered = workload.case("limit-50").change
    context_fields = reads - _NAMED_READS

    bench = Bench(workload, context_fields=context_fields)
    intent = bench.propose()
    bench.change(lowered)
    hint = Change(lowered.kind, lowered.key, lowered.field)

    records = Records(cells(rows(workload, context_fields=context_fields)))
    trace = Trace(
        workload=workload.name,
        arguments=workload.arguments,
        target=workload.target,
        policy=workload.policy,
        presentation=(*workload.target, workload.presentation),
        reads=records.capture(),
    )
    records.write((lowered.kind, lowered.key, lowered.field), lowered.value)
    full_scan = FullScan()
    return {
        "hint": lambda: bench.gate.affected(hint),
        "pre_effect": lambda: bench.gate.preview(intent),
        "full_scan": lambda: full_scan(trace, records),
    }
