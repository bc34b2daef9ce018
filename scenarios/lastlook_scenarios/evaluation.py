"""The evaluation of the ATR paper, run on lastlook: from nothing, or from what a folder has of it already.

What is measured is written down row by row and counted from these rows; `report` sets the figures beside the paper's
and judges them.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lastlook_scenarios import campaign, published
from lastlook_scenarios.folder import RunFolder, as_json
from lastlook_scenarios.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Generator

    from lastlook_scenarios.campaign import Progress
    from lastlook_scenarios.units import Options

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A finished run.

    Attributes:
        kept: where its rows are, if they are kept.
        resumed: how many units were there before it.
        seconds: how long it took, without what was there before.
    """

    options: Options
    summary: Summary
    kept: Path | None
    resumed: int
    seconds: float


def evaluate(
    options: Options,
    *,
    out: Path | None = None,
    jobs: int = 1,
    figures: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Run what is not there yet, and count it.

    Args:
        options: how much to run.
        out: where rows, figures and Table 3 are kept; nowhere unless given.
        jobs: how many processes; with one, everything is run in this one.
        figures: also draw the paper's figures, in `out`.
        progress: is told how far it is.

    Raises:
        FolderError: `out` cannot take this run.
        WorkerDied: a process was killed; with the same `out`, the run goes on from what is finished.
        RowError: a file of rows in `out` was damaged.
    """
    started = time.perf_counter()
    with _folder(out) as path:
        folder = RunFolder(path, options)
        resumed = campaign.run(options, folder, jobs, progress)
        summary = Summary.of(options, folder)
        if out is not None:
            folder.write("summary.json", as_json(published.in_detail(summary, folder.description)))
            folder.write("table3.md", published.table3(summary))
            if figures:
                from lastlook_scenarios.figures import draw

                draw(summary, out)
            folder.seal()
    return Evaluation(options, summary, out, resumed, time.perf_counter() - started)


@contextlib.contextmanager
def _folder(out: Path | None) -> Generator[Path]:
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="lastlook-evaluation-") as temporary:
        yield Path(temporary)
