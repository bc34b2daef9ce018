"""The `lastlook` command: `show` here, and what installed packages add through the entry points of `lastlook.commands`.

Exit status: 0 if all is well, 1 if the command found what it looks for (a mismatch, say), 2 for a mistake in its use.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.errors import LastlookError
from lastlook.expressions import render
from lastlook.gate import AsyncGate, Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastlook.contract import Contract
    from lastlook.records import Grade

__all__ = ["main"]

_GROUP = "lastlook.commands"
_HELP = {
    "evaluate": "rerun the evaluation of the ATR paper and compare it with the paper's figures",
    "replay": "ask what each method would have done with recorded decisions and changes",
}


class _Mistake(Exception):
    """A mistake in the use of the command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = {entry.name: entry for entry in importlib.metadata.entry_points(group=_GROUP)}
    if arguments and arguments[0] in commands:
        run = cast("Callable[[Sequence[str]], int]", commands[arguments[0]].load())
        return _guarded(lambda: run(arguments[1:]))
    options = _parser(commands).parse_args(arguments)
    return _guarded(lambda: _show(options.gate, as_json=options.json))


def _guarded(run: Callable[[], int]) -> int:
    try:
        return run()
    except (_Mistake, LastlookError) as error:
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
    show = verbs.add_parser(
        "show",
        help="show a gate's effects: their premises, and what their evidence is bound to",
        epilog="example: lastlook show shop.refunds:gate",
    )
    show.add_argument("gate", metavar="MODULE:GATE", help="where the gate is, such as shop.refunds:gate")
    show.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _show(where: str, *, as_json: bool) -> int:
    gate = _find(where)
    described = [_described(name, contract) for name, contract in sorted(gate.contracts.items())]
    if as_json:
        print(canonical.dumps({"effects": described}, indent=True).decode())
        return 0
    if not described:
        print(f"{where} declares no effect yet")
    for effect in described:
        _print(effect)
    return 0


def _find(where: str) -> Gate | AsyncGate:
    module_name, colon, name = where.partition(":")
    if not colon or not module_name or not name:
        raise _Mistake(f"{where!r} names no gate: write MODULE:GATE, such as shop.refunds:gate")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except LastlookError:
        raise
    except ModuleNotFoundError as error:
        raise _Mistake(f"no module {error.name!r}: run this from the folder that holds it, or install it") from error
    except Exception as error:
        raise _Mistake(f"importing {module_name!r} raised {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if isinstance(found, (Gate, AsyncGate)):
        return found
    gates = sorted(key for key, value in vars(module).items() if isinstance(value, (Gate, AsyncGate)))
    hint = f": it has {', '.join(gates)}" if gates else ", and no gate at all"
    raise _Mistake(f"{module_name!r} has no gate {name!r}{hint}")


def _described(name: str, contract: Contract) -> dict[str, Any]:
    grades: Mapping[str, Grade] = contract.bindings() if contract.surroundings is not None else {}
    return {
        "effect": name,
        "parameters": [str(parameter) for parameter in contract.arguments.parameters],
        "target": repr(contract.target),
        "lane": [render(part) for part in contract.lane_parts()],
        "irreversible": contract.irreversible,
        "refresh": [render(field) for field in contract.refresh],
        "premises": [
            {
                "premise": premise.label,
                "severity": premise.severity.name,
                "awaited": awaited,
                "because": premise.because,
                "accepts": premise.accept.reason if premise.accept is not None else None,
                "binding": grades[premise.label].name if premise.label in grades else None,
            }
            for premise, awaited in contract.premises
        ],
    }


def _print(effect: Mapping[str, Any]) -> None:
    print(f"{effect['effect']}({', '.join(effect['parameters'])}) acts on {effect['target']}")
    for premise in effect["premises"]:
        word = "awaits" if premise["awaited"] else "unless"
        said = f" - {premise['because']}" if premise["because"] else ""
        accepted = f" (accepted: {premise['accepts']})" if premise["accepts"] else ""
        binding = premise["binding"] or "not connected"
        print(f"  {premise['severity'].lower()} {word} {premise['premise']}  [{binding}]{accepted}{said}")
    for field in effect["refresh"]:
        print(f"  refresh {field}")
