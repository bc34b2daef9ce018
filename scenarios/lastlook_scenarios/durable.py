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
from lastlook_scenarios.units import UnitFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastlook_scenarios.cells import Change, Pattern

__all__ = ["METHODS", "ResumptionFailed", "trials"]

METHODS: Final = ("NoCheck", "VersionAbort", "FullScan", "ATR")


class ResumptionFailed(UnitFailed):
    """The fresh process did not answer for each of its files."""


def trials(of: Pattern, numbers: Sequence[int], *, alone: bool) -> Iterator[DurableRow]:
    """Every method on every cell of a pattern, in each of the numbered trials.

    Args:
        of: the pattern.
        numbers: of the trials.
        alone: whether each cell of each trial gets a fresh process of its own; else a method's cells share one, to
            which each file is new all the same.
    """
    with tempfile.TemporaryDirectory(prefix="lastlook-cells-") as folder:
        for method in METHODS:
            due = [
                _Cell(Path(folder) / f"{method}-{number}-{change.name}.db", of, change, number)
                for number in numbers
                for change in of.changes
            ]
            for cell in due:
                cell.checkpoint(method)
                cell.change_it()
            together = [[cell] for cell in due] if alone else [due]
            for some in together:
                for cell, answer in zip(some, _resumed(method, of, [cell.file for cell in some]), strict=True):
                    yield cell.row(method, answer)


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


class _Cell:
    """One cell of one trial, in a file of its own."""

    def __init__(self, file: Path, of: Pattern, change: Change, number: int) -> None:
        self.file = file
        self._of = of
        self._change = change
        self._number = number
        self._shown: cells.Tables = {}

    def checkpoint(self, method: str) -> None:
        """Put everything on record, let the workflow decide and checkpoint, and close."""
        with closing(sqlite3.connect(self.file)) as first:
            first.execute("PRAGMA journal_mode = WAL")
            cells.create(first, self._of)
            self._shown = cells.tables(first, self._of)
            if method != "ATR":
                durable_baselines.checkpoint(first, self._of)
        if method == "ATR":
            from lastlook_scenarios import durable_shop

            durable_shop.checkpoint(str(self.file), self._of.name)

    def change_it(self) -> None:
        """Another actor's write, on another connection."""
        with closing(sqlite3.connect(self.file)) as second:
            cells.make(second, self._change)

    def row(self, method: str, answer: dict[str, Any]) -> DurableRow:
        """What the method answered, what took place, and what was right."""
        effects, flagged = self._took_place()
        applied, outcome = answer["applied"], answer["outcome"]
        objection = ""
        if not applied == effects == flagged:
            objection = f"said {applied}, {effects} in the ledger, {flagged} in the target"
        elif applied != (outcome in ("KEEP", "REFRESH")):
            objection = f"{outcome}, and applied is {applied}"
        return DurableRow(
            trial=self._number,
            pattern=self._of.name,
            change=self._change.name,
            expected=self._change.outcome,
            expected_reasons=reasons_text(self._change.reasons),
            oracle=self._truth(),
            method=method,
            outcome=outcome,
            reasons=reasons_text(answer["reasons"]),
            premises=answer["premises"],
            released=int(effects > 0),
            objection=objection,
        )

    def _took_place(self) -> tuple[int, int]:
        """How many effects are in the ledger, and how many in the target."""
        table, key = self._of.target
        flagged = f"SELECT count(*) FROM {table} WHERE id = ? AND {_FLAGS[self._of.name]}"  # noqa: S608 - from here
        with closing(sqlite3.connect(self.file)) as third:
            ((effects,),) = third.execute(f"SELECT count(*) FROM {cells.LEDGER}").fetchall()  # noqa: S608 - as above
            ((in_target,),) = third.execute(flagged, (key,)).fetchall()
        return effects, in_target

    def _truth(self) -> str:
        """What the business rules say of the change alone, without the effect."""
        with closing(sqlite3.connect(":memory:")) as world:
            cells.create(world, self._of)
            cells.make(world, self._change)
            return oracle.judge(self._of.name, self._shown, cells.tables(world, self._of), self._of.arguments)


_FLAGS: Final = {"office": "invited", "cloud": "restarted"}
