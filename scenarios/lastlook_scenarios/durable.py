"""The ten durable cells: checkpoint, close, another actor's change, and a fresh process that goes on.

Everything is in one SQLite file a cell. The process that proposed is not the one that resumes: that one knows the file
and its own code, and nothing else.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lastlook_scenarios import cells, durable_baselines, oracle
from lastlook_scenarios.raw import DurableRow, reasons_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastlook_scenarios.cells import Change, Pattern

__all__ = ["METHODS", "ResumptionFailed", "trial"]

METHODS: Final = ("NoCheck", "VersionAbort", "FullScan", "ATR")


class ResumptionFailed(Exception):
    """The fresh process did not answer for each of its files."""


def trial(of: Pattern, number: int, *, alone: bool) -> Iterator[DurableRow]:
    """Every method on every cell of a pattern, once.

    Args:
        of: the pattern.
        number: of the trial.
        alone: whether each cell gets a fresh process of its own; else a method's five cells share one, to which each
            file is new all the same.
    """
    with tempfile.TemporaryDirectory(prefix="lastlook-cells-") as folder:
        for method in METHODS:
            files = [Path(folder) / f"{method}-{change.name}.db" for change in of.changes]
            shown = [_before(file, of, method) for file in files]
            for file, change in zip(files, of.changes, strict=True):
                with closing(sqlite3.connect(file)) as second:
                    cells.make(second, change)
            answers = (
                [answer for file in files for answer in _resumed(method, of, [file])]
                if alone
                else _resumed(method, of, files)
            )
            for file, change, before, answer in zip(files, of.changes, shown, answers, strict=True):
                yield _row(of, change, number, method, _After(file, of, change, before), answer)


def _before(file: Path, of: Pattern, method: str) -> cells.Tables:
    """Put everything on record, let the workflow decide and checkpoint, and close; what was shown to it."""
    with closing(sqlite3.connect(file)) as first:
        cells.create(first, of)
        shown = cells.tables(first, of)
        if method != "ATR":
            durable_baselines.checkpoint(first, of)
    if method == "ATR":
        from lastlook_scenarios import durable_shop

        durable_shop.checkpoint(str(file), of.name)
    return shown


def _resumed(method: str, of: Pattern, files: Sequence[Path]) -> list[dict[str, Any]]:
    """What a fresh process makes of the files.

    Raises:
        ResumptionFailed: it did not answer for each of them.
    """
    module, first = ("durable_shop", of.name) if method == "ATR" else ("durable_baselines", method)
    command = [sys.executable, "-m", f"lastlook_scenarios.{module}", first, *map(str, files)]
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")  # noqa: S603 - see campaign
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(files):
        raise ResumptionFailed(f"{method} on {of.name} ended with exit status {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in lines]


class _After:
    """A cell's file when all is over: what was in force when the effect was due, and what took place."""

    def __init__(self, file: Path, of: Pattern, change: Change, shown: cells.Tables) -> None:
        with closing(sqlite3.connect(file)) as third:
            ((self.effects,),) = third.execute(f"SELECT count(*) FROM {cells.LEDGER}").fetchall()  # noqa: S608
            ((self.flagged,),) = third.execute(
                f"SELECT count(*) FROM {of.target[0]} WHERE id = ? AND {_FLAGS[of.name]}",  # noqa: S608 - from here
                (of.target[1],),
            ).fetchall()
        with closing(sqlite3.connect(":memory:")) as world:  # the change alone, without the effect
            cells.create(world, of)
            cells.make(world, change)
            self.truth = oracle.judge(of.name, shown, cells.tables(world, of), of.arguments)


_FLAGS: Final = {"office": "invited", "cloud": "restarted"}


def _row(
    of: Pattern, change: Change, number: int, method: str, after: _After, answer: dict[str, Any]
) -> DurableRow:
    objection = ""
    if not answer["applied"] == after.effects == after.flagged:
        objection = f"said {answer['applied']}, {after.effects} in the ledger, {after.flagged} in the target"
    elif answer["applied"] != (answer["outcome"] in ("KEEP", "REFRESH")):
        objection = f"{answer['outcome']}, and applied is {answer['applied']}"
    return DurableRow(
        trial=number,
        pattern=of.name,
        change=change.name,
        expected=change.outcome,
        expected_reasons=reasons_text(change.reasons),
        oracle=after.truth,
        method=method,
        outcome=answer["outcome"],
        reasons=reasons_text(answer["reasons"]),
        premises=answer["premises"],
        released=int(after.effects > 0),
        objection=objection,
    )
