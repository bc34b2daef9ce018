"""The neutral case format, read strictly: a pending write, what it rests on, and what another actor changed.

One JSON object a line. Everything is checked before anything runs: every field, every word of every expression and its
operands, and that the change fits the rows it is said to change. What is wrong is told with file, line and place; the
other lines are read all the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, cast

from lastlook.canonical import ABSENT, MAX_BYTES, Absent, Value, identity, loads_json, same
from lastlook.errors import CanonicalError, Outcome, Severity

__all__ = [
    "WORDS",
    "Case",
    "CasePremise",
    "Node",
    "Problem",
    "Row",
    "Step",
    "Tables",
    "Write",
    "read_cases",
    "type_of",
    "written",
]

Row: TypeAlias = Mapping[str, Value]
Tables: TypeAlias = Mapping[str, Mapping[str, Row]]
"""System -> key -> row."""
Step: TypeAlias = str | int
"""One step of a path: the name of a field or entry, or the index of an element."""


@dataclass(frozen=True, slots=True)
class Node:
    """One part of a checked expression.

    Attributes:
        word: the word it begins with; plain constants have become `lit`.
        operands: what follows the word, in order; a path's steps too.
        given: the constant of `lit`, the system of `field` and `rows`.
    """

    word: str
    operands: tuple[Node, ...] = ()
    given: Value = None


@dataclass(frozen=True, slots=True)
class CasePremise:
    """A condition that the pending write rests on, and what its failure demands."""

    condition: Node
    severity: Severity
    why: str


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one row: `after` is ABSENT for a removal, an empty path is the whole row."""

    system: str
    key: str
    path: tuple[Step, ...]
    after: Value


@dataclass(frozen=True, slots=True)
class Case:
    """One pending write, one change, and what a gate should do."""

    case_id: str
    operation: str
    arguments: Row
    actor: Row
    resources: Tables
    world: Tables
    premises: tuple[CasePremise, ...]
    refresh_fields: tuple[tuple[Step, ...], ...]
    target: tuple[str, str]
    writes: tuple[Write, ...]
    outcome: Outcome
    release: bool

    def before(self) -> dict[str, dict[str, Row]]:
        """Every row there is before the change, read or not; the tables may be changed freely."""
        return _merged(self.resources, self.world)

    def after(self) -> dict[str, dict[str, Row]]:
        """Every row there is after the change."""
        tables = self.before()
        for write in self.writes:
            _apply(tables, write)
        return tables


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a file or with one of its lines."""

    file: str
    line: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}" if self.line is None else f"{self.file}:{self.line}: {self.what}"


class _Malformed(Exception):
    """What is wrong, and where in the case."""

    def __init__(self, at: str, what: str) -> None:
        super().__init__(f"{at}: {what}" if at else what)


# --- Lines ------------------------------------------------------------------------------------------------------------


def read_cases(path: str) -> Iterator[Case | Problem]:
    """The cases of a file in its order, and a problem for each line, or for the file, that gives none."""
    seen: dict[str, int] = {}
    number: int | None = None
    try:
        with Path(path).open("rb") as file:
            for number, data in _lines(file):
                try:
                    case = _case(_document(data))
                    if case.case_id in seen:
                        raise _Malformed("case_id", f"{case.case_id!r} is the case of line {seen[case.case_id]} too")
                except (_Malformed, CanonicalError) as error:
                    yield Problem(path, number, str(error))
                else:
                    seen[case.case_id] = number
                    yield case
    except OSError as error:
        yield Problem(path, None, (error.strerror or str(error)).lower())
    else:
        if number is None:
            yield Problem(path, None, "no cases in it")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Each line that is not blank, with its number; of one that is too long, only enough to see that it is."""
    number = 0
    while line := file.readline(MAX_BYTES + 2):
        number += 1
        rest = line
        while not rest.endswith(b"\n") and (rest := file.readline(MAX_BYTES)):
            pass
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line := line.strip(b" \t\r\n"):
            yield number, line


def _document(data: bytes) -> Value:
    if len(data) > MAX_BYTES:
        raise _Malformed("", f"more than {MAX_BYTES} bytes in one line")
    try:
        return loads_json(data)
    except CanonicalError as error:
        raise _Malformed("", str(error).replace(" at line 1, column", " at column")) from None


# --- Fields -----------------------------------------------------------------------------------------------------------


def _case(document: Value) -> Case:
    given = _fields(
        document,
        "",
        ("case_id", "operation", "arguments", "actor", "resources", "premises", "target", "change", "expected"),
        ("source", "task_id", "world", "refresh_fields", "oracle"),
    )
    for name in ("source", "task_id"):
        _text(given.get(name, "-"), name)
    _map(given.get("oracle", _NOTHING), "oracle")
    resources = _tables(given["resources"], "resources")
    world = _tables(given.get("world", _NOTHING), "world")
    for system, rows in world.items():
        for key in rows:
            if key in resources.get(system, _NOTHING):
                raise _Malformed(f"world.{system}[{key!r}]", "a row that was read stands under resources only")
    outcome, release = _expected(given["expected"])
    case_id = _text(given["case_id"], "case_id")
    if not case_id.isprintable():
        raise _Malformed("case_id", f"{case_id!r} does not print as one line")
    return Case(
        case_id=case_id,
        operation=_text(given["operation"], "operation"),
        arguments=_map(given["arguments"], "arguments"),
        actor=_map(given["actor"], "actor"),
        resources=resources,
        world=world,
        premises=tuple(_premise(item, at) for item, at in _items(given["premises"], "premises")),
        refresh_fields=tuple(
            _prefix(item, at) for item, at in _items(given.get("refresh_fields", ()), "refresh_fields")
        ),
        target=_target(given["target"]),
        writes=_change(given["change"], _merged(resources, world)),
        outcome=outcome,
        release=release,
    )


_NOTHING: Final[Row] = {}


def _expected(value: Value) -> tuple[Outcome, bool]:
    given = _fields(value, "expected", ("outcome", "release"))
    outcome = _one_of(given["outcome"], "expected.outcome", Outcome.__members__)
    release = given["release"]
    if not isinstance(release, bool):
        raise _Malformed("expected.release", f"{_kind(release)} where true or false belongs")
    if Outcome[outcome].permits is not release:
        raise _Malformed("expected", f"{outcome} with release {str(release).lower()}: KEEP and REFRESH alone release")
    return Outcome[outcome], release


def _premise(value: Value, at: str) -> CasePremise:
    given = _fields(value, at, ("expr", "severity"), ("why",))
    severity = _one_of(given["severity"], f"{at}.severity", ("REPLAN", "BLOCK"))
    why = given.get("why", "")
    if not isinstance(why, str):
        raise _Malformed(f"{at}.why", f"{_kind(why)} where text belongs")
    return CasePremise(
        condition=_node(given["expr"], f"{at}.expr"),
        severity=Outcome.BLOCK if severity == "BLOCK" else Outcome.REPLAN,
        why=why,
    )


def _prefix(value: Value, at: str) -> tuple[Step, ...]:
    items = list(_items(value, at))
    if not items:
        raise _Malformed(at, "an empty list where a system and the path of a prefix belong")
    names = [_text(*item) for item in items[:3]]
    _address(names[0], names[1] if len(names) > 1 else "-", at)
    return (*names, *(_step(*item) for item in items[3:]))


def _target(value: Value) -> tuple[str, str]:
    items = _list(value, "target")
    if len(items) != 2:
        raise _Malformed("target", f"{len(items)} parts where a system and a key belong")
    return _address(items[0], items[1], "target")


def _tables(value: Value, at: str) -> Tables:
    tables: dict[str, dict[str, Row]] = {}
    for system, rows in _map(value, at).items():
        tables[system] = {}
        for key, row in _map(rows, f"{at}.{system}").items():
            _address(system, key, f"{at}.{system}[{key!r}]")
            tables[system][key] = _map(row, f"{at}.{system}[{key!r}]")
    return tables


def _change(value: Value, tables: dict[str, dict[str, Row]]) -> tuple[Write, ...]:
    given = _fields(value, "change", ("kind", "writes"), ("label", "by_tool", "by_edit"))
    kind = _text(given["kind"], "change.kind")
    _text(given.get("label", "-"), "change.label")
    _list(given.get("by_tool", ()), "change.by_tool")
    _text(given.get("by_edit", "-"), "change.by_edit")
    writes = tuple(_write(item, at, tables) for item, at in _items(given["writes"], "change.writes"))
    if kind == "none" and writes:
        raise _Malformed("change.writes", "kind 'none' says that nothing changes, so there is nothing to write")
    return writes


def _write(value: Value, at: str, tables: dict[str, dict[str, Row]]) -> Write:
    """One write, after it was made in `tables`: a write that does not fit the rows is one that never happened."""
    given = _fields(value, at, ("system", "key", "path", "after"), ("before",))
    system, key = _address(given["system"], given["key"], at)
    path = tuple(_step(item, where) for item, where in _items(given["path"], f"{at}.path"))
    write = Write(system, key, path, _absent(given["after"]))
    if not path and not isinstance(write.after, (Mapping, Absent)):
        raise _Malformed(f"{at}.after", f"{_kind(write.after)} where a whole row or its absence belongs")
    try:
        before = _apply(tables, write)
    except LookupError as error:
        raise _Malformed(at, f"{error.args[0]}") from None
    if "before" in given and not same(before, _absent(given["before"])):
        raise _Malformed(f"{at}.before", "not what the row holds before this write")
    return write


def _absent(value: Value) -> Value:
    return ABSENT if isinstance(value, Mapping) and len(value) == 1 and value.get("$absent") is True else value


# --- Expressions ------------------------------------------------------------------------------------------------------

_MANY: Final = 1 << 20
_OPERANDS: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(("not", "present", "absent", "sum", "len", "lit", "rows"), (1, 1)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "in", "not_in", "within", "where", "every", "none"), (2, 2)),
    **dict.fromkeys(("arg", "actor", "it"), (0, _MANY)),
    **dict.fromkeys(("and", "or", "add", "mul", "max"), (1, _MANY)),
    **dict.fromkeys(("sub", "pluck", "get", "field"), (2, _MANY)),
}
WORDS: Final = tuple(sorted(_OPERANDS))
"""The whole vocabulary of expressions."""

_QUANTIFIERS: Final = frozenset({"where", "every", "none"})
_PRESENCE: Final = frozenset({"present", "absent"})
_PATH_FROM: Final = {"field": 1, "pluck": 1, "get": 1, "arg": 0, "actor": 0, "it": 0}
"""For the words that take a path: which of their operands, the system of `field` not counted, is its first step."""


def _node(value: Value, at: str, *, inside: bool = False, whole: bool = False) -> Node:
    """The checked expression; `inside`: a quantifier is around it; `whole`: a row as a whole may stand here."""
    if isinstance(value, Mapping):
        raise _Malformed(at, "a map where an expression belongs: write a constant map as ['lit', ...]")
    if not isinstance(value, tuple):
        return Node("lit", given=value)
    if not value or not isinstance(value[0], str):
        raise _Malformed(at, "a list that begins with no word: write a constant list as ['lit', ...]")
    word = _one_of(value[0], f"{at}[0]", WORDS)
    rest = list(value[1:])
    _count(word, len(rest), at)
    if word == "lit":
        return Node(word, given=rest[0])
    if word == "it" and not inside:
        raise _Malformed(at, "'it' outside of 'where', 'every' and 'none'")
    places = [f"{at}[{index}]" for index in range(1, len(value))]
    system = None
    if word in {"field", "rows"}:
        system, _ = _address(rest.pop(0), "-", places.pop(0))
    path_from = _PATH_FROM.get(word, _MANY)
    operands = tuple(
        _path_step(word, item, place, index - path_from, inside=inside)
        if index >= path_from
        else _node(item, place, inside=inside or (word in _QUANTIFIERS and index == 1), whole=word in _PRESENCE)
        for index, (item, place) in enumerate(zip(rest, places, strict=True))
    )
    if word == "field":
        if operands[0].word == "lit":
            _address(system, operands[0].given, places[0])
        if len(operands) == 1 and not whole:
            raise _Malformed(at, "a row as a whole stands only under 'present' and 'absent': name a field of it")
    return Node(word, operands, system)


def _count(word: str, operands: int, at: str) -> None:
    least, most = _OPERANDS[word]
    if not least <= operands <= most:
        wanted = f"{least} or more" if least < most else str(least)
        raise _Malformed(at, f"'{word}' takes {wanted} operand{'' if wanted == '1' else 's'}, not {operands}")


def _path_step(word: str, value: Value, at: str, depth: int, *, inside: bool) -> Node:
    """One step of a path, which may be an expression where only the value it leads into has to be known."""
    if isinstance(value, tuple):
        node = _node(value, at, inside=inside)
        if node.word != "lit":
            if word == "pluck" or (word == "field" and depth == 0):
                raise _Malformed(at, f"an expression where '{word}' takes a name that is known beforehand")
            return node
        value = node.given
    return Node("lit", given=_text(value, at) if word == "field" and depth == 0 else _step(value, at))


# --- Values -----------------------------------------------------------------------------------------------------------


def _fields(value: Value, at: str, required: Sequence[str], optional: Sequence[str] = ()) -> Row:
    given = _map(value, at)
    for name in required:
        if name not in given:
            raise _Malformed(at, f"no field '{name}'")
    for name in given:
        if name not in required and name not in optional:
            raise _Malformed(at, f"unknown field {name!r}{_hint(name, (*required, *optional))}")
    return given


def _map(value: Value, at: str) -> Row:
    if not isinstance(value, Mapping):
        raise _Malformed(at, f"{_kind(value)} where a map belongs")
    return value


def _list(value: Value, at: str) -> tuple[Value, ...]:
    if not isinstance(value, tuple):
        raise _Malformed(at, f"{_kind(value)} where a list belongs")
    return value


def _items(value: Value, at: str) -> Iterator[tuple[Value, str]]:
    return ((item, f"{at}[{index}]") for index, item in enumerate(_list(value, at)))


def _text(value: Value, at: str) -> str:
    if not isinstance(value, str) or not value:
        raise _Malformed(at, "empty text" if value == "" else f"{_kind(value)} where text belongs")
    return value


def _one_of(value: Value, at: str, known: Collection[str]) -> str:
    if not isinstance(value, str):
        raise _Malformed(at, f"{_kind(value)} where text belongs")
    if value not in known:
        raise _Malformed(at, f"unknown word {value!r}{_hint(value, known)}; known are {', '.join(known)}")
    return value


def _step(value: Value, at: str) -> Step:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _Malformed(at, f"{_kind(value)} where a name or an index from 0 on belongs")


def _address(system: Value, key: Value, at: str) -> tuple[str, str]:
    names = (_text(system, at), _text(key, at))
    try:
        identity(names[0], names[1:])
    except CanonicalError as error:
        raise _Malformed(at, str(error)) from None
    return names


def type_of(value: Value) -> str:
    """The format's type of a value: null, truth, number, text, list or map."""
    match value:
        case None:
            return "null"
        case bool():
            return "truth"
        case int() | Decimal():
            return "number"
        case str():
            return "text"
        case tuple():
            return "list"
        case _:
            return "map"


def _kind(value: Value) -> str:
    kind = type_of(value)
    article = "the " if kind == "number" else "" if kind in {"null", "text"} else "a "
    return f"{article}{kind}{f' {value}' if kind == 'number' else ''}" if kind != "truth" else "true or false"


def _hint(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean '{close[0]}'?" if close else ""


# --- Changing rows ----------------------------------------------------------------------------------------------------


def _merged(resources: Tables, world: Tables) -> dict[str, dict[str, Row]]:
    return {system: {**resources.get(system, {}), **world.get(system, {})} for system in (*resources, *world)}


def _apply(tables: dict[str, dict[str, Row]], write: Write) -> Value:
    """Make the write; what stood there before, or LookupError when it does not fit."""
    rows = tables.setdefault(write.system, {})
    row: Value = rows.get(write.key, ABSENT)
    before, after = written(row, write.path, write.after)
    if isinstance(after, Absent):
        rows.pop(write.key, None)
    else:
        rows[write.key] = cast("Row", after)
    return before


def written(value: Value, path: tuple[Step, ...], after: Value) -> tuple[Value, Value]:
    """What stands at `path` in `value`, and `value` with `after` there (ABSENT: without it).

    An index one past the end of a list appends.

    Raises:
        LookupError: there is nothing on the way to that place that could hold it.
    """
    if not path:
        return value, after
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping) and isinstance(step, str):
        before, inner = written(value.get(step, ABSENT), rest, after)
        changed = {name: item for name, item in value.items() if name != step or inner is not ABSENT}
        return before, changed if inner is ABSENT else {**changed, step: inner}
    if isinstance(value, tuple) and isinstance(step, int) and step <= len(value):
        before, inner = written(value[step] if step < len(value) else ABSENT, rest, after)
        middle = () if inner is ABSENT else (inner,)
        return before, (*value[:step], *middle, *value[step + 1 :])
    what = "what is not there" if isinstance(value, Absent) else f"{_kind(value)} that has no place {step!r}"
    raise LookupError(f"a write into {what}")
