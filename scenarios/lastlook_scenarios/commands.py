"""The commands `lastlook evaluate` and `lastlook replay`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lastlook_scenarios.campaign import Progress

__all__ = ["evaluate", "replay"]

_OUT: Final = "lastlook-evaluation"


def evaluate(argv: Sequence[str]) -> int:
    """Run the evaluation of the ATR paper.

    Returns:
        0 if every judged figure is as it must be, 1 on any mismatch or a run that was cut short, 2 where the command is
        wrong.
    """
    parser = argparse.ArgumentParser(
        prog="lastlook evaluate",
        description="Run the ATR paper's evaluation on lastlook and print every figure beside the paper's.",
        epilog="examples: lastlook evaluate --json figures.json; lastlook evaluate --full --out run --figures",
    )
    parser.add_argument("--full", action="store_true", help="as much as the paper ran: 7 repetitions of 30000 traces")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help=f"keep raw rows, summary and Table 3 there; a run that was cut short goes on (with --full: {_OUT})",
    )
    parser.add_argument("--figures", action="store_true", help="draw the paper's figures in DIR, as SVG and PNG")
    parser.add_argument("--repetitions", type=_count, metavar="N", help="with distinct schedules (default: 1; full: 7)")
    parser.add_argument(
        "--traces", type=_count, metavar="N", help="traces a method and repetition (default: 6000; full: 30000)"
    )
    parser.add_argument(
        "--trials",
        type=_count,
        metavar="N",
        help="unsafe trials at each omission rate in a repetition (default: 1000; full: 5000)",
    )
    parser.add_argument("--pairs", type=_count, metavar="N", help="pairs that race, in a repetition (default: 1000)")
    parser.add_argument(
        "--cells", type=_count, metavar="N", dest="durable", help="trials of each durable cell (default: 10)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of schedules and draws (default: 1)")
    parser.add_argument("--jobs", type=_count, metavar="N", help="processes side by side (default: one a core)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too; - for standard output, alone")
    try:
        given = parser.parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2
    out = Path(_OUT) if given.full and given.out is None else given.out
    if problem := _cannot_write(given.json) or _cannot_draw(out, wanted=given.figures):
        print(f"lastlook evaluate: {problem}", file=sys.stderr)
        return 2

    from lastlook_scenarios import campaign, evaluation, folder, published, raw, report, units

    asked = {name: getattr(given, name) for name in ("seed", "repetitions", "traces", "trials", "pairs", "durable")}
    options = dataclasses.replace(
        units.FULL if given.full else units.QUICK, **{name: n for name, n in asked.items() if n is not None}
    )
    try:
        with _progress() as progress:
            found = evaluation.evaluate(
                options, out=out, jobs=given.jobs or _cores(), figures=given.figures, progress=progress
            )
    except (folder.FolderError, raw.RowError, OSError) as error:  # a full disk, say
        print(f"lastlook evaluate: {error}", file=sys.stderr)
        return 2
    except (campaign.WorkerDied, units.UnitFailed) as error:
        kept = f"; what is finished is in {out}, and the same command goes on from there" if out is not None else ""
        print(f"lastlook evaluate: {error}{kept}", file=sys.stderr)
        return 1
    figures = json.dumps(published.as_json(found.summary), indent=2)
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


def _cannot_draw(out: Path | None, *, wanted: bool) -> str:
    if not wanted:
        return ""
    if out is None:
        return "--figures has no folder to draw in: name one with --out DIR"
    if importlib.util.find_spec("matplotlib") is None:
        return "--figures needs matplotlib: pip install 'lastlook[eval]'"
    return ""


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
