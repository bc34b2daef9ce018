"""The controlled evaluation of the ATR paper, run on lastlook: everything that needs no database.

What is measured is returned as it came out; `report` sets it beside the paper's figures and judges it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lastlook import Capture
from lastlook_scenarios import faults, scaling, traces, workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastlook_scenarios.traces import Closures, Tally

__all__ = ["Evaluation", "Options", "Progress", "evaluate"]


@dataclass(frozen=True, slots=True)
class Options:
    """How much to run.

    Attributes:
        traces: executions of each method over all workloads; rounded up so that every case is run equally often.
        seed: of the schedules and of the draws.
        trials: unsafe trials at each omission rate, for each way of linking.
    """

    traces: int = 6000
    seed: int = 1
    trials: int = 1000


class Progress(Protocol):
    """Told how far a stage is."""

    def __call__(self, stage: str, done: int, of: int, /) -> None:
        """`done` of `of` steps of the stage are behind us."""
        ...


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that came out.

    Attributes:
        cases: how many distinct cases there are.
        traces: executions of each method, all workloads together.
        seeds: of each workload's schedule.
        table2: case, expected outcome, outcome.
        closures: by capture, `predicate` and `object`.
        scaling: microseconds by recorded reads, then by path.
        disagreements: what contradicts a declared expectation, one sentence each.
    """

    options: Options
    cases: int
    traces: int
    seeds: Mapping[str, int]
    table2: Sequence[tuple[str, str, str]]
    tallies: Mapping[str, Tally]
    closures: Mapping[str, Closures]
    omission: Sequence[faults.Omission]
    unavailable: faults.Unavailable
    boundary: faults.Boundary
    scaling: Mapping[int, Mapping[str, float]]
    disagreements: Sequence[str]
    seconds: float


def evaluate(options: Options, progress: Progress | None = None) -> Evaluation:
    """Run it."""
    started = time.perf_counter()

    def tell(stage: str) -> Callable[[int, int], None]:
        return lambda done, of: progress(stage, done, of) if progress else None

    disagreements = list(traces.oracle_disagreements())

    table2 = [(case, answer) for case, answer in traces.table2()]
    disagreements += [f"Table 2, {case.name}: {answer.objection}" for case, answer in table2 if answer.objection]

    seeds = {workload.name: options.seed + n for n, workload in enumerate(workloads.WORKLOADS)}
    cases = sum(len(workload.cases) for workload in workloads.WORKLOADS)
    count = -(-options.traces // cases) * cases
    tallies = traces.run(count, seeds, tell("fifteen cases"))
    for name in ("FullScan", "ATR"):
        disagreements += [f"{case}: {name} gives {what}" for case, what in sorted(tallies[name].unmatched.items())]

    closures: dict[str, Closures] = {}
    for name, capture in (("predicate", Capture.PREDICATE), ("object", Capture.OBJECT)):
        closures[name], objections = traces.closures(capture)
        disagreements += objections

    omission = [
        faults.omission(rate, options.trials, options.seed, tell(f"omission at {rate} %"))
        for rate in faults.OMISSION_RATES
    ]
    unavailable = faults.unavailable_validators()
    if not unavailable.control:
        disagreements.append("a validator that answers did not let the effect through")

    return Evaluation(
        options=options,
        cases=cases,
        traces=count,
        seeds=seeds,
        table2=[(case.name, case.outcome, answer.outcome) for case, answer in table2],
        tallies=tallies,
        closures=closures,
        omission=omission,
        unavailable=unavailable,
        boundary=faults.binding_boundary(),
        scaling=scaling.measure(tell("scaling")),
        disagreements=disagreements,
        seconds=time.perf_counter() - started,
    )
