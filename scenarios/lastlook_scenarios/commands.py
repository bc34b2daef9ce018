"""The commands `lastlook evaluate` and `lastlook replay`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lastlook_scenarios.evaluation import Progress

__all__ = ["evaluate", "replay"]


def evaluate(argv: Sequence[str]) -> int:
    """Run the evaluation of the ATR paper.

    Returns:
        0 if every judged figure is as it must be, 1 on any mismatch, 2 where the command is wrong.
    """
    parser = argparse.ArgumentParser(
        prog="lastlook evaluate",
        description="Run the ATR paper's evaluation on lastlook and print every figure beside the paper's.",
        epilog="example: lastlook evaluate --traces 6000 --json figures.json",
    )
    parser.add_argument("--traces", type=_count, default=6000, metavar="N", help="traces a method (default: 6000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of schedules and draws (default: 1)")
    parser.add_argument(
        "--trials", type=_count, default=1000, metavar="N", help="unsafe trials at each omission rate (default: 1000)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there too; - for standard output, alone")
    try:
        given = parser.parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2
    if problem := _cannot_write(given.json):
        print(f"lastlook evaluate: {problem}", file=sys.stderr)
        return 2

    from lastlook_scenarios import evaluation, report

    with _progress() as progress:
        found = evaluation.evaluate(evaluation.Options(given.traces, given.seed, given.trials), progress)
    figures = json.dumps(report.as_json(found), indent=2)
    if given.json == "-":
        print(figures)
    else:
        report.show(found, stream=sys.stdout)
    if given.json not in (None, "-"):
        try:
            Path(given.json).write_text(figures + "\n", encoding="utf-8")
        except OSError as error:
            print(f"lastlook evaluate: cannot write {given.json}: {error.strerror}", file=sys.stderr)
            return 2
    wrong = report.mismatches(found)
    for sentence in wrong:
        print(f"mismatch: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


def replay(argv: Sequence[str]) -> int:
    """Replay recorded cases; see `lastlook replay --help`.

    Returns:
        0 if all agree, 1 on a disagreement, 2 on malformed input.
    """
    from lastlook_scenarios import replay as replaying

    return replaying.main(argv)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, not {text!r}")
    return int(text)


def _cannot_write(file: str | None) -> str:
    if file is None or file == "-":
        return ""
    path = Path(file)
    if path.is_dir():
        return f"cannot write {file}: it is a folder"
    return "" if path.parent.is_dir() else f"cannot write {file}: there is no folder {path.parent}"


@contextlib.contextmanager
def _progress() -> Generator[Progress | None]:
    """A bar on the terminal, where there is one and `rich` is installed."""
    if not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        yield None
        return
    with Bar(console=Console(stderr=True), transient=True) as bar:
        tasks = {"": bar.add_task("", total=None, visible=False)}

        def tell(stage: str, done: int, of: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=of)
            bar.update(tasks[stage], completed=done, total=of)

        yield tell
