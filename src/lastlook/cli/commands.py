"""The `lastlook` command: what is here, and what packages add through the entry points of `lastlook.commands`.

Exit status: 0 if all is well, 1 if the command found what it looks for (a mismatch, damage, an outcome that nobody
knows, a withdrawal refused), 2 for a mistake in its use.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import sys
from typing import TYPE_CHECKING, Any, cast

from lastlook.cli import intents
from lastlook.cli.finding import Mistake
from lastlook.cli.show import show
from lastlook.errors import LastlookError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["main"]

_GROUP = "lastlook.commands"
_HELP = {
    "evaluate": "rerun the evaluation of the ATR paper and compare it with the paper's figures",
    "replay": "ask what each method would have done with recorded decisions and changes",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter is no reason to end
    commands = {entry.name: entry for entry in importlib.metadata.entry_points(group=_GROUP)}
    if arguments and arguments[0] in commands:
        run = cast("Callable[[Sequence[str]], int]", commands[arguments[0]].load())
        return _guarded(lambda: run(arguments[1:]))
    parser = _parser(commands)
    options, rest = parser.parse_known_args(arguments)
    unknown = [text for text in rest if text.startswith("-")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    options.names += rest  # a name may stand behind an option, which argparse itself does not see
    return _guarded(lambda: cast("Callable[[Any], int]", options.run)(options))


def _guarded(run: Callable[[], int]) -> int:
    try:
        return run()
    except (Mistake, LastlookError) as error:
        print(f"lastlook: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; nobody is left to tell
        return 1
    except KeyboardInterrupt:
        print("lastlook: interrupted", file=sys.stderr)
        return 130


def _parser(commands: Mapping[str, object]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lastlook", description="A last look just before an AI agent's effect.")
    parser.add_argument("--version", action="version", version=f"lastlook {importlib.metadata.version('lastlook')}")
    verbs = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in sorted(commands):
        verbs.add_parser(name, help=_HELP.get(name, f"from the entry point {name!r}"), add_help=False)

    def verb(run: Callable[[Any], int], names: str, about: str, example: str) -> argparse.ArgumentParser:
        name = run.__name__
        usage = f"lastlook {name} {names} [options]"
        made = verbs.add_parser(name, usage=usage, help=about, description=about, epilog=f"example: {example}")
        made.add_argument("names", nargs="*", metavar="NAME", help="where the gate is; the id of an intent")
        made.add_argument("--json", action="store_true", help="as JSON")
        made.set_defaults(run=run, store=None)
        return made

    def store(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made.add_argument("--store", metavar="URL", help="the store's URL, instead of a gate")
        return made

    verb(
        show,
        "MODULE:GATE",
        "show a gate's effects: their premises, and what their evidence is bound to",
        "lastlook show shop.refunds:gate",
    )
    made = store(
        verb(
            intents.pending,
            "MODULE:GATE | --store URL",
            "list the intents that are open or in an open attempt, oldest first",
            "lastlook pending shop.refunds:gate --effect refund --limit 20",
        )
    )
    made.add_argument("--effect", metavar="NAME", help="only of this effect")
    made.add_argument("--limit", type=_count, metavar="N", help="no more than so many")
    made = store(
        verb(
            intents.explain,
            "(MODULE:GATE | --store URL) INTENT",
            "tell an intent's whole story from its journal: what it rested on, what was checked, what became of it",
            "lastlook explain shop.refunds:gate k3vq7a",
        )
    )
    made.add_argument("--reveal", action="store_true", help="show arguments, the actor and results, as they are stored")
    store(
        verb(
            intents.verify,
            "(MODULE:GATE | --store URL) [INTENT]",
            "recompute the chain of checksums of every intent, or of one; exit status 1 if any was damaged",
            "lastlook verify --store sqlite:///intents.db",
        )
    )
    verb(
        intents.reconcile,
        "MODULE:GATE",
        "resolve open attempts whose owners are gone, and take over commits; exit status 1 if any stays unknown",
        "lastlook reconcile shop.refunds:gate",
    )
    verb(
        intents.withdraw,
        "MODULE:GATE INTENT",
        "end an open intent, so that it can never be released; exit status 1 if that is refused",
        "lastlook withdraw shop.refunds:gate k3vq7a",
    )
    return parser


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 up")
    return number
