"""What an evaluation consists of: units of work, each of which writes its raw rows when it is whole, or nothing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from lastlook_scenarios import raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from lastlook_scenarios.raw import RawRow

__all__ = [
    "FULL",
    "KINDS",
    "PATTERNS",
    "QUICK",
    "WORKLOADS",
    "Options",
    "Unit",
    "UnitFailed",
    "files",
    "perform",
    "plan",
    "schedule_seed",
    "size",
]

KINDS: Final[Mapping[str, type[RawRow]]] = {
    "table2": raw.Table2Row,
    "closures": raw.ClosureRow,
    "unavailable": raw.UnavailableRow,
    "boundary": raw.BoundaryRow,
    "traces": raw.TraceRow,
    "latencies": raw.LatencyRow,
    "omission": raw.OmissionRow,
    "scaling": raw.ScalingRow,
    "durable": raw.DurableRow,
    "races": raw.RaceRow,
}
"""The kind of rows in a file, by the first word of its name."""

WORKLOADS: Final = ("refund", "remediation", "procurement")
"""The workloads by name, in the paper's order."""
PATTERNS: Final = ("office", "cloud")
"""The patterns of the durable cells."""
_STEPS_A_WORD: Final = 100

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Options:
    """How much to run; the same options and the same version give the same rows, but for times and who wins a race.

    Attributes:
        seed: of schedules and draws.
        repetitions: how often the workloads, the omissions, the races and the scaling are run.
        traces: executions of each method in a repetition, all workloads together; rounded up so that every case is run
            equally often.
        trials: unsafe trials in a repetition at each omission rate, for each way of linking.
        pairs: of gates that race, in a repetition.
        durable: trials of each durable cell and method.
        alone: whether each of these resumes in a process of its own; else all that a method has of a pattern share one.
        boundary: how often each history of the binding boundary is repeated.
        calls: timed calls of each validation in one round of the scaling.
    """

    seed: int = 1
    repetitions: int = 1
    traces: int = 6000
    trials: int = 1000
    pairs: int = 1000
    durable: int = 10
    alone: bool = False
    boundary: int = 100
    calls: int = 200


QUICK: Final = Options()
FULL: Final = dataclasses.replace(QUICK, repetitions=7, traces=30_000, trials=5_000, alone=True, calls=100)
"""As the paper ran it."""


class UnitFailed(Exception):
    """A unit could not be run to its end; it leaves no rows."""


class Unit(NamedTuple):
    """A part that is run by itself.

    Attributes:
        repetition: counted from 1; 0 for what is not repeated.
        part: which workload or pattern; empty for all.
    """

    stage: str
    repetition: int = 0
    part: str = ""

    @property
    def name(self) -> str:
        """How its files are named."""
        return self.named(self.stage)

    def named(self, rows: str) -> str:
        """The name of its file of such rows, without the ending."""
        return "-".join([rows, *[str(part) for part in self[1:] if part]])


def plan(options: Options) -> list[Unit]:
    """All units, in the order in which they are begun and in which their rows are counted."""
    units = [Unit(stage) for stage in ("table2", "closures", "unavailable", "boundary")]
    trials = range(1, options.durable + 1)
    if options.durable and not options.alone:
        trials = range(1)  # all of them in one unit
    units += [Unit("durable", trial, pattern) for trial in trials for pattern in PATTERNS]
    for repetition in range(1, options.repetitions + 1):
        units += [Unit("races", repetition)] if options.pairs else []
        units.append(Unit("scaling", repetition))
        units += [Unit("traces", repetition, workload) for workload in WORKLOADS]
        units += [Unit("omission", repetition, workload) for workload in WORKLOADS]
    return units


def files(unit: Unit, folder: Path) -> dict[str, Path]:
    """The unit's files by what is in them; it is done when all of them are there."""
    kinds = ("latencies", "traces") if unit.stage == "traces" else (unit.stage,)
    return {kind: folder / f"{unit.named(kind)}.csv.gz" for kind in kinds}


def size(unit: Unit, options: Options) -> int:
    """How many steps the unit has, for the progress shown."""
    match unit.stage:
        case "traces":
            return _share(options.traces)
        case "omission":
            return options.trials
        case "boundary":
            return 3 * options.boundary
        case "durable":
            return 20 if options.alone else 20 * options.durable
        case "races":
            return options.pairs
        case _:
            return 0


def schedule_seed(options: Options, unit: Unit) -> int:
    """The seed of a workload's shuffle in a repetition."""
    return options.seed + len(WORKLOADS) * (unit.repetition - 1) + WORKLOADS.index(unit.part)


def perform(unit: Unit, options: Options, folder: Path, tell: Callable[[int], None]) -> None:
    """Run a unit and write its files; `tell` is told of steps as they are done."""
    rows = _STAGES[unit.stage](unit, options, tell)
    where = files(unit, folder)
    for kind in where:
        raw.write(where[kind], KINDS[kind], rows[kind])


# --- The stages -------------------------------------------------------------------------------------------------------

_Rows: TypeAlias = "Mapping[str, Iterable[RawRow]]"


def _table2(_unit: Unit, _options: Options, _tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import traces

    return {"table2": traces.table2()}


def _closures(_unit: Unit, _options: Options, _tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import traces

    return {"closures": traces.closures()}


def _unavailable(_unit: Unit, _options: Options, _tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import faults

    return {"unavailable": faults.unavailable_validators()}


def _boundary(_unit: Unit, options: Options, tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import boundary

    return {"boundary": _told(boundary.histories(options.boundary), tell)}


def _scaling(unit: Unit, options: Options, _tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import scaling

    return {"scaling": scaling.measure(options.calls, repetition=unit.repetition)}


def _durable(unit: Unit, options: Options, tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import cells, durable

    numbers = [unit.repetition] if options.alone else range(1, options.durable + 1)
    return {"durable": _told(durable.trials(cells.pattern(unit.part), numbers, alone=options.alone), tell)}


def _races(unit: Unit, options: Options, tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import races

    return {"races": _told(races.run(options.pairs, repetition=unit.repetition), tell)}


def _traces(unit: Unit, options: Options, tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import traces, workloads

    workload = workloads.named(unit.part)
    seed = schedule_seed(options, unit)
    each = _share(options.traces)
    found = list(_told(traces.run(workload, each, seed, repetition=unit.repetition), tell))
    return {
        "traces": (row for traced in found for row in traced.answers),
        "latencies": (traced.latency for traced in found),
    }


def _omission(unit: Unit, options: Options, tell: Callable[[int], None]) -> _Rows:
    from lastlook_scenarios import faults, workloads

    workload = workloads.named(unit.part)
    rows = faults.omission(workload, options.trials, options.seed, repetition=unit.repetition)
    return {"omission": _told(rows, tell)}


_STAGES: Final[Mapping[str, Callable[[Unit, Options, Callable[[int], None]], _Rows]]] = {
    "table2": _table2,
    "closures": _closures,
    "unavailable": _unavailable,
    "boundary": _boundary,
    "scaling": _scaling,
    "durable": _durable,
    "races": _races,
    "traces": _traces,
    "omission": _omission,
}


def _share(count: int) -> int:
    return -(-count // len(WORKLOADS))


def _told(rows: Iterable[_T], tell: Callable[[int], None]) -> Iterator[_T]:
    """The rows, while `tell` hears of every so many."""
    waiting = 0
    for row in rows:
        yield row
        waiting += 1
        if waiting == _STEPS_A_WORD:
            tell(waiting)
            waiting = 0
    tell(waiting)
