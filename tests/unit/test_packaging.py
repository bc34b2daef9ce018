"""What the distribution promises before any of its code runs: cheap import, honest faces, no forbidden constructs."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = {
    "src": "lastlook",
    "connectors": "lastlook_connectors",
    "validators": "lastlook_validators",
    "scenarios": "lastlook_scenarios",
}
SHIPPED = sorted(path for root, package in ROOTS.items() for path in (ROOT / root / package).rglob("*.py"))

HEAVY = ("pydantic", "sqlalchemy", "numpy", "psycopg", "redis", "nats", "httpx", "langgraph", "langchain")
BASELINE = "import asyncio, inspect, decimal, orjson"
IMPORT_RATIO = 1.5
IMPORT_TRIES = 100

SERIALISERS = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
RUNNERS = {"eval", "exec", "__import__"}


def python(code: str) -> str:
    """Standard output of `code` run by a new interpreter of this environment, away from the repository."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True, cwd=tempfile.gettempdir()
    )
    return done.stdout


def relative(path: Path) -> str:
    """The path as the repository names it, with forward slashes."""
    return path.relative_to(ROOT).as_posix()


# --- Import -----------------------------------------------------------------------------------------------------------


def test_import_loads_nothing_heavy() -> None:
    """`import lastlook` loads no driver, no framework and none of the heavy dependencies."""
    loaded = set(python("import sys, lastlook; print(*sys.modules)").split())
    assert "lastlook" in loaded
    assert not loaded & set(HEAVY)


def test_import_is_cheap() -> None:
    """`import lastlook` costs at most 1.5 times the standard modules and the codec that it rests on."""
    clock = "from time import process_time_ns as now; first = now()"
    timed = f"{clock}; {BASELINE}; then = now(); import lastlook; print((now() - first) / (then - first))"
    python(timed)  # writes the bytecode of a fresh checkout
    ratios: list[float] = []
    ratio = float("inf")
    while ratio > IMPORT_RATIO and len(ratios) < IMPORT_TRIES:  # in one process each, so that load weighs on both
        ratios.extend(float(python(timed)) for _ in range(IMPORT_TRIES // 5))
        ratio = statistics.median(ratios)
    assert ratio <= IMPORT_RATIO


# --- Faces ------------------------------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    """The dotted name by which the file at `path` is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_public(path: Path) -> bool:
    """Whether no part of the module's dotted name begins with an underscore."""
    return not any(part.startswith("_") for part in module_name(path).split("."))


def targets(node: ast.expr) -> list[str]:
    """The names that an assignment to `node` binds."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Tuple | ast.List):
        return [name for element in node.elts for name in targets(element)]
    return []


def bound(body: list[ast.stmt], *, package: str | None) -> set[str]:
    """The names that module-level statements bind; imports count in a package's face, when from the package itself."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(name for target in node.targets for name in targets(target))
        elif isinstance(node, ast.AnnAssign):
            names.update(targets(node.target))
        elif isinstance(node, ast.If):
            names |= bound(node.body + node.orelse, package=package)
        elif isinstance(node, ast.Try):
            handled = [statement for handler in node.handlers for statement in handler.body]
            names |= bound(node.body + handled + node.orelse + node.finalbody, package=package)
        elif isinstance(node, ast.ImportFrom) and package:
            source = node.module or ""
            if node.level or source == package or source.startswith(f"{package}."):
                names.update(alias.asname or alias.name for alias in node.names)
    return names


def public_names(source: str, *, package: str | None) -> set[str]:
    """The public names that a module of this source defines."""
    return {name for name in bound(ast.parse(source).body, package=package) if not name.startswith("_")}


@pytest.mark.parametrize("path", [path for path in SHIPPED if is_public(path)], ids=relative)
def test_all_is_what_the_module_defines(path: Path) -> None:
    """A public module's `__all__` is exactly the public names that it defines, each once, and every one resolves."""
    module = importlib.import_module(module_name(path))
    names = [name for name in module.__all__ if not name.startswith("__")]
    package = module_name(path) if path.name == "__init__.py" else None
    assert sorted(names) == sorted(public_names(path.read_text("utf-8"), package=package))
    assert all(hasattr(module, name) for name in names)


def test_public_names_of_a_sample() -> None:
    """The police tell definitions from imports, public from private, and a face's re-exports from foreign ones."""
    source = (
        "import os\nfrom lastlook.gate import Gate\nfrom .errors import Stop as Halt\nfrom typing import Any\n"
        "A: int = 1\n_B, C = 2, 3\nif os:\n    def d(): ...\nelse:\n    def e(): ...\nclass _F: ...\nclass G: ...\n"
    )
    assert public_names(source, package=None) == {"A", "C", "d", "e", "G"}
    assert public_names(source, package="lastlook") == {"A", "C", "d", "e", "G", "Gate", "Halt"}


# --- Distribution -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ROOTS.values())
def test_package_is_typed(package: str) -> None:
    """Every package carries `py.typed` where it is installed, so that type checkers read it."""
    face = importlib.import_module(package).__file__
    assert face is not None
    assert Path(face).with_name("py.typed").is_file()


def test_version_is_said_once() -> None:
    """`lastlook.__version__` is the version of the installed distribution."""
    assert python("import lastlook; print(lastlook.__version__)").strip() == importlib.metadata.version("lastlook")


def test_command_says_its_version() -> None:
    """The installed `lastlook` command runs and prints the distribution's version."""
    command = Path(sys.executable).with_name("lastlook")
    done = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert importlib.metadata.version("lastlook") in done.stdout.split()


@pytest.mark.parametrize("name", ["evaluate", "replay"])
def test_commands_of_the_scenarios_resolve(name: str) -> None:
    """The command line finds the scenarios' commands by entry point, and each is callable."""
    (entry,) = importlib.metadata.entry_points(group="lastlook.commands", name=name)
    assert callable(entry.load())


# --- Text of tracked files --------------------------------------------------------------------------------------------

STUBS = re.compile(r"\b(?:{})\b".format("|".join(("TO" + "DO", "FIX" + "ME", "X" * 3))))
HOMES = re.compile(r"(?<![\w.~/-])/(?:home/\w+|Users/\w+|root)/")


def tracked() -> list[Path]:
    """The files under version control; in an unpacked source distribution, all of its files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        tops = [*ROOTS, "tests", "benchmarks", "docs"]
        paths = [*ROOT.glob("*.*"), *(path for top in tops for path in (ROOT / top).rglob("*"))]
    return [path for path in paths if path.is_file() and path.suffix != ".pyc"]


def flaws(text: str, machine: tuple[str, ...]) -> list[str]:
    """What in `text` ties it to one machine or leaves work undone."""
    return [
        *(folder for folder in machine if folder in text),
        *(found.group() for pattern in (HOMES, STUBS) for found in pattern.finditer(text)),
    ]


def machine_folders() -> tuple[str, ...]:
    """This machine's folders that no file may name: the repository's parent and the home, unless shared by all."""
    common = {Path("/"), Path(tempfile.gettempdir()).resolve(), Path("/tmp")}  # noqa: S108 - only compared
    return tuple(f"{folder}/" for folder in (ROOT.parent, Path.home()) if folder not in common)


def test_tracked_files_are_free_of_machines_and_stubs() -> None:
    """No tracked text names a folder of the machine it was written on, or leaves a to-do."""
    machine = machine_folders()
    found: dict[str, list[str]] = {}
    for path in tracked():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # not a text
        if bad := flaws(text, machine):
            found[relative(path)] = bad
    assert tracked()
    assert not found


def test_flaws_of_a_sample() -> None:
    """The check sees a home of anyone, a folder of this machine and each kind of stub, and no web address."""
    assert flaws("see /srv/" + "build/main.py", ("/srv/" + "build/",)) == ["/srv/" + "build/"]
    assert flaws("in /home/" + "ann/x and /ro" + "ot/y", ()) == ["/home/" + "ann/", "/ro" + "ot/"]
    assert flaws("# TO" + "DO: later, FIX" + "ME", ()) == ["TO" + "DO", "FIX" + "ME"]
    assert flaws("https://example.org/home/ann/ and ~/x", ()) == []


# --- Constructs -------------------------------------------------------------------------------------------------------


def forbidden(source: str, *, loads_gates: bool) -> list[str]:
    """The constructs in `source` that would run or load what data names, and bare asserts, each with its line."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                bad = [alias.name for alias in names if alias.name.split(".")[0] in SERIALISERS]
            case ast.ImportFrom(module=str(module), level=0, names=names):
                bad = [module] if module.split(".")[0] in SERIALISERS else []
                if module == "importlib" and not loads_gates:  # under another name its calls would not be seen
                    bad += [alias.name for alias in names if alias.name == "import_module" and alias.asname]
            case ast.Name(id=name) if name in RUNNERS:
                bad = [name]
            case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in RUNNERS:
                bad = [name]
            case (
                ast.Call(func=ast.Attribute(attr="import_module"), args=args)
                | ast.Call(func=ast.Name(id="import_module"), args=args)
            ):
                literal = bool(args) and isinstance(args[0], ast.Constant)
                bad = [] if literal or loads_gates else ["import_module"]
            case ast.Assert():
                bad = ["assert"]
            case _:
                bad = []
        found += [f"{getattr(node, 'lineno', 0)}: {name}" for name in bad]
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=relative)
def test_no_forbidden_constructs(path: Path) -> None:
    """Shipped code neither runs nor unpickles text, imports by computed name only in the CLI, and never asserts."""
    loads_gates = module_name(path).split(".")[:2] == ["lastlook", "cli"]
    assert not forbidden(path.read_text("utf-8"), loads_gates=loads_gates)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("import pickle", 1),
        ("from marshal import loads", 1),
        ("import json, shelve", 1),
        ("eval('1')", 1),
        ("run = exec", 1),
        ("import builtins\nbuiltins.eval('1')", 1),
        ("__import__('os')", 1),
        ("import importlib\nimportlib.import_module(name)", 1),
        ("from importlib import import_module\nimport_module(f'a.{b}')", 1),
        ("from importlib import import_module as load", 1),
        ("assert ready", 1),
        ("import importlib\nimportlib.import_module('decimal')", 0),
        ("import re\nre.compile('x')\nmodel.eval()", 0),
    ],
)
def test_forbidden_of_a_sample(source: str, count: int) -> None:
    """The lint sees every forbidden construct in each of its forms, and lets their harmless neighbours be."""
    assert len(forbidden(source, loads_gates=False)) == count


def test_the_command_line_may_load_a_gate() -> None:
    """A computed import is let through where the user's own MODULE:gate is loaded."""
    assert forbidden("import importlib\nimportlib.import_module(name)", loads_gates=True) == []
