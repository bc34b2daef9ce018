"""Writes `docs/reference/` from the signatures and docstrings of the public names.

`python docs/build_reference.py` writes the pages; with `--check` it only tells which of them are not up to date, and
ends with 1 if any is. The sources are read and not imported: defaults and annotations stand as they are written.
"""

# ruff: noqa: INP001, T201 - a script beside the pages, which tells what it did

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
REFERENCE: Final = ROOT / "docs" / "reference"
WIDTH: Final = 100
"""Longer signatures have a line for each parameter."""
PRIVATE: Final = re.compile(r"\b_(?=[A-Z])")
"""What marks a module's own types, which a signature names as `Key` or `R`."""

FACES: Final = ("lastlook", "lastlook.testing", "lastlook.events")
"""Every name of these stands on a page."""

PAGES: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "gates": (
        "Gates, effects and transactions",
        "Declare effects on a gate, propose intents, and release them.",
        {
            "lastlook": "Gate AsyncGate Intent Transaction AsyncTransaction Change Capture",
            "lastlook.effects": "Effect AsyncEffect",
            "lastlook.transactions": "Evidence",
            "lastlook.functions": "FunctionPermit",
        },
    ),
    "premises": (
        "Premises and validators",
        "What must hold, what its failure demands, and what less is accepted.",
        {
            "lastlook": "block_unless replan_unless UNBOUND BindingPolicy STRICT validator",
            "lastlook.premises": "Premise",
            "lastlook.validators": "Validator",
        },
    ),
    "expressions": (
        "Expressions and resources",
        "What a condition is written with.",
        {
            "lastlook": "arg actor each resource Resource Field rows literal exists holds unchanged before fresh every "
            "none count total largest lookup",
            "lastlook.expressions": "Expr Ref",
        },
    ),
    "verdicts": (
        "Verdicts and outcomes",
        "What a gate answers.",
        {"lastlook": "Verdict Preview Outcome Applied State Grade", "lastlook.records": "Finding"},
    ),
    "errors": (
        "Exceptions",
        "What lastlook raises on purpose.",
        {
            "lastlook": "LastlookError DeclarationError CanonicalError EffectStopped EffectBlocked ReplanRequired "
            "EffectContended EffectUnknown Declined EffectNotBound InFlight KeyReused UnknownIntent UnknownEffect "
            "IntegrityError StoreError StoreBusy"
        },
    ),
    "memory": (
        "Memory",
        "The system of record in the core, and the store in memory.",
        {"lastlook": "Memory MemoryPermit MemoryStore"},
    ),
    "sql": (
        "SQL databases",
        "Rows, tables and queries of the application's own database as evidence, and as a target.",
        {
            "lastlook_connectors.sql": "Sql row SqlPermit SqlConnection METADATA",
            "lastlook_connectors.sql.asynchronous": "AsyncSql AsyncSqlPermit",
            "lastlook_connectors.sql.permits": "Permit",
        },
    ),
    "testing": (
        "lastlook.testing",
        "For tests of your own effects.",
        {"lastlook.testing": "interpose events failpoint FakeClock without_validator forget_edges"},
    ),
    "events": (
        "lastlook.events",
        "What `lastlook.testing.events` yields.",
        {
            "lastlook.events": "IntentProposed ProposalRefused LookTaken ReadChanged PremiseChecked OutcomeDecided "
            "ClosureComputed AttemptOpened ApplyAnswered AttemptClosed StateChanged Event"
        },
    ),
}

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


# --- Finding ----------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """A definition, its docstring, and the tree of the module that it stands in."""

    node: ast.stmt
    text: str
    module: ast.Module


@cache
def tree_of(module: str) -> ast.Module:
    """The parsed source of a module."""
    root = "connectors" if module.startswith("lastlook_connectors") else "src"
    path = ROOT.joinpath(root, *module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8"))


def find(module: str, name: str) -> Found:
    """The definition of a name, followed through imports to where it is written.

    Raises:
        LookupError: there is none.
    """
    tree = tree_of(module)
    for node, after in with_next(tree.body):
        match node:
            case ast.ClassDef(name=own) | ast.FunctionDef(name=own) if own == name:
                return Found(node, ast.get_docstring(node) or "", tree)
            case ast.Assign(targets=[ast.Name(id=own)]) | ast.AnnAssign(target=ast.Name(id=own)) if own == name:
                return Found(node, text_of(after), tree)
            case ast.ImportFrom(module=str(source), names=names) if name in {alias.name for alias in names}:
                return find(source, name)
            case _:
                pass
    raise LookupError(f"{module} has no {name}")


def with_next(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Each statement and the one after it, which may be its docstring."""
    return zip(body, [*body[1:], None], strict=True)


def text_of(node: ast.stmt | None) -> str:
    """The text of a statement that is nothing else."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return cleandoc(text)
        case _:
            return ""


def names_in(module: str) -> list[str]:
    """A module's `__all__`."""
    found = find(module, "__all__").node
    return [str(name) for name in ast.literal_eval(found.value)] if isinstance(found, ast.Assign) else []


# --- Signatures -------------------------------------------------------------------------------------------------------


def signature(node: Function, name: str, *, method: bool) -> str:
    """A function as it is called, without `self`."""
    given = node.args
    ordered = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(ordered) - len(given.defaults)) + list(given.defaults)
    parts = [_parameter(*pair) for pair in zip(ordered, defaults, strict=True)]
    if given.posonlyargs:
        parts.insert(len(given.posonlyargs), "/")
    if method:
        parts = parts[2:] if parts[1:2] == ["/"] else parts[1:]
    if given.vararg:
        parts.append(f"*{_parameter(given.vararg)}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [_parameter(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        parts.append(f"**{_parameter(given.kwarg)}")
    parts = [PRIVATE.sub("", part) for part in parts]
    start = f"async {name}" if isinstance(node, ast.AsyncFunctionDef) else name
    end = f" -> {PRIVATE.sub('', ast.unparse(node.returns))}" if node.returns and node.name != "__init__" else ""
    line = f"{start}({', '.join(parts)}){end}"
    return line if len(line) <= WIDTH else "\n".join([f"{start}(", *(f"    {part}," for part in parts), f"){end}"])


def _parameter(parameter: ast.arg, default: ast.expr | None = None) -> str:
    hint = f": {ast.unparse(parameter.annotation)}" if parameter.annotation else ""
    equals = " = " if hint else "="
    return parameter.arg + hint + (f"{equals}{ast.unparse(default)}" if default else "")


# --- Pages ------------------------------------------------------------------------------------------------------------

SECTION: Final = re.compile(r"^(Args|Attributes|Returns|Raises):$")
ITEM: Final = re.compile(r"^ {4}(\w+): (.*)$")


def markdown(text: str) -> Iterator[str]:
    """A docstring, its sections as lists."""
    section = ""
    for line in text.splitlines():
        if opened := SECTION.match(line):
            section = opened[1]
            yield from (f"**{section}**", "")
        elif section and (item := ITEM.match(line)):
            yield f"- `{item[1]}`: {item[2]}"
        else:
            yield f"  {line.strip()}" if section else line
    yield ""


def shown(text: str) -> Iterator[str]:
    """A signature, which is no example to run."""
    yield from ("```text", *text.splitlines(), "```", "")


def entry(module: str, name: str) -> Iterator[str]:
    """A name's part of its page."""
    node, text, tree = find(module, name)
    yield from (f"## {name}", "")
    match node:
        case ast.ClassDef():
            yield from class_entry(node, tree)
        case ast.FunctionDef():
            yield from shown(signature(node, name, method=False))
            yield from markdown(text)
        case _:
            hint = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
            yield from (*shown(name + hint), *markdown(text))
    if module not in FACES:
        yield from (f"In `{module}`.", "")


def class_entry(node: ast.ClassDef, tree: ast.Module) -> Iterator[str]:
    """A class: how it is made, its values or fields, and what of it is called, private bases included."""
    private = {base.id for base in node.bases if isinstance(base, ast.Name) and base.id[0] == "_"}
    hidden = [other for other in tree.body if isinstance(other, ast.ClassDef) and other.name in private]
    members = [member for owner in (node, *hidden) for member in functions(owner)]
    made = next((member for member in members if member.name == "__init__"), None)
    bases = ", ".join(text for text in map(ast.unparse, node.bases) if text[0] != "_" and text != "Frozen")
    heading = f"class {node.name}({bases})" if bases else f"class {node.name}"
    yield from shown(signature(made, node.name, method=True) if made else heading)
    yield from markdown(ast.get_docstring(node) or "")
    yield from (*fields_of(node), "")
    for member in members:
        text = ast.get_docstring(member)
        if text and (member.name[0] != "_" or member.name == "__call__"):
            yield from (f"### `{node.name}.{member.name}`", "")
            if "property" in map(ast.unparse, member.decorator_list):
                yield from shown(f"{member.name}: {ast.unparse(member.returns) if member.returns else 'Any'}")
            else:
                called = node.name.lower() if member.name == "__call__" else member.name
                yield from shown(signature(member, called, method=True))
            yield from markdown(text)


def functions(node: ast.ClassDef) -> Iterator[Function]:
    """A class's methods and properties, each once."""
    for member in node.body:
        if isinstance(member, Function) and "overload" not in map(ast.unparse, member.decorator_list):
            yield member


def fields_of(node: ast.ClassDef) -> Iterator[str]:
    """An enum's values and a data class's fields, each with the text that follows it."""
    plain = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    plain = plain or "Frozen" in map(ast.unparse, node.bases)
    for member, after in with_next(node.body):
        match member:
            case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper():
                field = name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=hint) if plain:
                field = f"{name}: {ast.unparse(hint)}"
            case _:
                continue
        about = " ".join(text_of(after).split())
        yield f"- `{field}`: {about}" if about else f"- `{field}`"


def tidy(lines: Iterable[str]) -> str:
    """The lines, with no two blank ones in a row outside of code."""
    kept: list[str] = []
    code = False
    for line in map(str.rstrip, lines):
        code ^= line.startswith("```")
        if line or code or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept).rstrip() + "\n"


def build() -> dict[Path, str]:
    """Every page's text.

    Raises:
        LookupError: a public name stands on no page.
    """
    built: dict[Path, str] = {}
    placed: set[str] = set()
    contents = ["# Reference", "", "Made from the signatures and docstrings by `docs/build_reference.py`.", ""]
    for file, (title, about, modules) in PAGES.items():
        lines = [f"# {title}", "", about, ""]
        headings: list[str] = []
        contents += [f"## [{title}]({file}.md)", "", about, ""]
        for module, names in modules.items():
            for name in names.split():
                placed.add(name)
                lines += entry(module, name)
                first = find(module, name).text.partition("\n\n")[0].replace("\n", " ")
                earlier = headings.count(name.lower())  # on the web, `Resource` after `resource` is resource-1
                headings.append(name.lower())
                anchor = f"{name.lower()}-{earlier}" if earlier else name.lower()
                contents.append(f"- [`{name}`]({file}.md#{anchor}): {first}")
        contents.append("")
        built[REFERENCE / f"{file}.md"] = tidy(lines)
    for name in (name for face in FACES for name in names_in(face) if name not in placed):
        raise LookupError(f"{name} is public and stands on no page: add it to PAGES")
    return {**built, REFERENCE / "index.md": tidy(contents)}


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them.

    Returns:
        1 if a check found a page that is not up to date, else 0.
    """
    built = build()
    stale = [path for path, text in built.items() if not path.is_file() or path.read_text("utf-8") != text]
    gone = [path for path in REFERENCE.glob("*.md") if path not in built]
    if "--check" in arguments:
        for path in sorted([*stale, *gone]):
            print(f"{path.relative_to(ROOT).as_posix()} is not up to date: run python docs/build_reference.py")
        return 1 if stale or gone else 0
    REFERENCE.mkdir(exist_ok=True)
    for path in stale:
        path.write_text(built[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    print(f"{len(stale)} written, {len(gone)} removed, {len(built) - len(stale)} as they were")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
