"""How long one validation takes while recorded reads grow that nothing depends on."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Final

from lastlook import Change
from lastlook_scenarios import workloads
from lastlook_scenarios.baselines import FullScan, Records, Trace
from lastlook_scenarios.contracts import Bench
from lastlook_scenarios.workloads import cells, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CALLS", "READS", "measure"]

READS: Final = (13, 61, 253, 1021, 4093)
_NAMED_READS: Final = 8
"""Fields of the target and of the policy row."""
_ROUNDS: Final = 5
CALLS = 200
"""Timed calls of each job in one round; fewer where a call is slow."""


def measure(tell: Callable[[int, int], None]) -> dict[int, Mapping[str, float]]:
    """Median microseconds of lastlook's two paths and of FullScan, by recorded reads.

    One premise is affected, by the limit that falls to 50. All jobs take turns, and each keeps its quietest round: on a
    shared machine a whole round may run at half speed.
    """
    jobs = {(reads, name): job for reads in READS for name, job in _jobs(reads).items()}
    best = dict.fromkeys(jobs, float("inf"))
    for n in range(_ROUNDS):
        for (reads, name), job in jobs.items():
            times = min(CALLS, 20_000 // reads) if name == "full_scan_us" else CALLS
            best[reads, name] = min(best[reads, name], _median_us(job, times))
        tell(n + 1, _ROUNDS)
    return {reads: {name: best[reads, name] for of, name in jobs if of == reads} for reads in READS}


def _median_us(job: Callable[[], object], calls: int) -> float:
    samples: list[int] = []
    for _ in range(calls):
        started = time.perf_counter_ns()
        job()
        samples.append(time.perf_counter_ns() - started)
    return median(samples) / 1000


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
        "hint_us": lambda: bench.gate.affected(hint),
        "pre_effect_us": lambda: bench.gate.preview(intent),
        "full_scan_us": lambda: full_scan(trace, records),
    }
