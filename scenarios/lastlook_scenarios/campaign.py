"""Running the units of an evaluation, some at a time, each in a process that may be killed without harm."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from lastlook_scenarios import units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastlook_scenarios.folder import RunFolder
    from lastlook_scenarios.units import Options, Unit

__all__ = ["Progress", "WorkerDied", "run"]


class Progress(Protocol):
    """Told how far a stage is."""

    def __call__(self, stage: str, done: int, of: int, /) -> None:
        """`done` of `of` steps of the stage are behind us."""
        ...


class WorkerDied(Exception):
    """A process ended before its unit was whole."""


def run(options: Options, folder: RunFolder, jobs: int, progress: Progress | None = None) -> int:
    """Run every unit that the folder does not have yet.

    Args:
        options: how much to run.
        folder: where the rows go.
        jobs: how many processes; with one, the units are run in this one.
        progress: is told of steps as they are done.

    Returns:
        How many units were there before.

    Raises:
        WorkerDied: a process ended; what is finished stays.
    """
    planned = units.plan(options)
    waiting = [unit for unit in planned if not folder.finished(unit)]
    steps = _Steps(planned, waiting, options, progress)
    if jobs == 1:
        for unit in waiting:
            units.perform(unit, options, folder.rows, steps.of(unit))
    elif waiting:
        _run_beside(waiting, options, folder, min(jobs, len(waiting)), steps)
    return len(planned) - len(waiting)


class _Steps:
    """Counts steps by stage, from any thread."""

    def __init__(
        self, planned: Sequence[Unit], waiting: Sequence[Unit], options: Options, progress: Progress | None
    ) -> None:
        self._lock = threading.Lock()
        self._progress = progress
        self._of: dict[str, int] = {}
        self._done: dict[str, int] = {}
        for unit in planned:
            steps = units.size(unit, options)
            self._of[unit.stage] = self._of.get(unit.stage, 0) + steps
            self._done[unit.stage] = self._done.get(unit.stage, 0) + (0 if unit in waiting else steps)
        for stage in self._of:
            self._tell(stage)

    def of(self, unit: Unit) -> Callable[[int], None]:
        """What is to be told of a unit's steps."""

        def tell(steps: int) -> None:
            with self._lock:
                self._done[unit.stage] += steps
                self._tell(unit.stage)

        return tell

    def _tell(self, stage: str) -> None:
        if self._progress is not None and self._of[stage]:
            self._progress(stage, self._done[stage], self._of[stage])


def _run_beside(waiting: Sequence[Unit], options: Options, folder: RunFolder, jobs: int, steps: _Steps) -> None:
    todo: queue.SimpleQueue[Unit] = queue.SimpleQueue()
    for unit in waiting:
        todo.put(unit)
    command = [
        sys.executable,
        "-m",
        "lastlook_scenarios.worker",
        str(folder.rows.resolve()),
        json.dumps(asdict(options)),
    ]
    workers = [
        subprocess.Popen(  # noqa: S603 - this very interpreter and package
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        for _ in range(jobs)
    ]
    try:
        with ThreadPoolExecutor(jobs) as threads:
            serving = [threads.submit(_serve, worker, todo, steps) for worker in workers]
            try:
                wait(serving, return_when=FIRST_EXCEPTION)
            finally:
                if not all(one.done() and one.exception() is None for one in serving):
                    for worker in workers:
                        worker.kill()  # a unit that is not whole leaves nothing
            for one in serving:
                one.result()
    finally:
        for worker in workers:
            with worker:  # closes its pipes and waits
                pass


def _serve(worker: subprocess.Popen[str], todo: queue.SimpleQueue[Unit], steps: _Steps) -> None:
    """Hand one worker unit after unit."""
    if worker.stdin is None or worker.stdout is None:
        raise WorkerDied("a worker has no pipes")
    while True:
        try:
            unit = todo.get_nowait()
        except queue.Empty:
            worker.stdin.close()
            return
        tell = steps.of(unit)
        try:
            print(json.dumps(unit), file=worker.stdin, flush=True)
        except BrokenPipeError:
            raise _died(worker, unit) from None
        for line in worker.stdout:
            if line == "done\n":
                break
            tell(int(line))
        else:
            raise _died(worker, unit)


def _died(worker: subprocess.Popen[str], unit: Unit) -> WorkerDied:
    return WorkerDied(f"the process that ran {unit.name} ended with exit status {worker.wait()} before it was whole")
