"""Where a case's rows are put: systems with the rows before the change, into which the change can be written."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lastlook import Gate, Memory
from lastlook.canonical import ABSENT, loads_json
from lastlook_scenarios.cases import written
from lastlook_scenarios.conditions import FIELDS, Layout

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from contextlib import AbstractContextManager

    from lastlook.canonical import Value
    from lastlook_scenarios.cases import Case, Node, Row, Tables, Write

__all__ = ["WORLDS", "World"]


class World(Protocol):
    """A gate on systems that hold the rows of one case."""

    @property
    def gate(self) -> Gate:
        """The gate."""
        ...

    @property
    def layout(self) -> Layout:
        """Where a row's fields are."""
        ...

    def make(self, write: Write, /) -> None:
        """The other actor's write."""
        ...


# --- Memory -----------------------------------------------------------------------------------------------------------


class _MemoryWorld:
    layout = FIELDS

    def __init__(self, case: Case) -> None:
        before, after = case.before(), case.after()
        fields = _fields(case, before, after)
        self._memory = Memory(**{system: before.get(system, {}) for system in fields}).options(fields=fields)
        self.gate = Gate(self._memory)

    def make(self, write: Write, /) -> None:
        """A whole row, or the one field of it that the path leads into."""
        memory = self._memory
        row = memory.row(write.system, write.key)
        _, after = written(ABSENT if row is None else row, write.path, write.after)
        name = str(write.path[0]) if write.path else ""
        if not isinstance(after, Mapping):
            memory.delete(write.system, write.key)
        elif not write.path:
            memory.replace(write.system, write.key, after)
        elif name in after:
            memory.change(write.system, write.key, **{name: after[name]})
        else:
            memory.drop(write.system, write.key, name)


@contextmanager
def _memory(case: Case) -> Generator[World]:
    yield _MemoryWorld(case)


def _fields(case: Case, *moments: Tables) -> dict[str, set[str]]:
    """Every system that the case names, with the fields that are named or that a row has at some moment."""
    fields: defaultdict[str, set[str]] = defaultdict(set, {case.target[0]: set()})
    for tables in moments:
        for system, table in tables.items():
            fields[system].update(*table.values())
    for prefix in case.refresh_fields:
        fields[str(prefix[0])].update(map(str, prefix[2:3]))
    for premise in case.premises:
        for node in _walk(premise.condition):
            if node.word in {"field", "rows"}:
                fields[str(node.given)].update(str(step.given) for step in node.operands[1:2])
    return fields


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for operand in node.operands:
        yield from _walk(operand)


# --- SQLite -----------------------------------------------------------------------------------------------------------

_DOCUMENT: Final = "doc"


class _SqliteWorld:
    """A table a system, a row's key beside the row as a document, so that an absent field is not a null one."""

    layout = Layout(_DOCUMENT)

    def __init__(self, case: Case, folder: Path, stack: ExitStack) -> None:
        from sqlalchemy import JSON, Column, MetaData, Table, Text, create_engine

        from lastlook_connectors.sql import Sql

        file = folder / "case.db"
        engine = create_engine(f"sqlite:///{file}")
        stack.callback(engine.dispose)
        before = case.before()
        metadata = MetaData()
        tables = [
            Table(
                system,
                metadata,
                Column("key", Text, primary_key=True, nullable=False),
                Column(_DOCUMENT, JSON, nullable=False),
            )
            for system in _fields(case, before, case.after())
        ]
        self._other = stack.enter_context(closing(sqlite3.connect(file)))
        self._other.execute("PRAGMA journal_mode = WAL")
        metadata.create_all(engine)
        for system, table in before.items():
            for key, row in table.items():
                self._put(system, key, row)
        self._other.commit()
        self.gate = Gate(Sql(engine, *tables), store=engine)
        self.gate.install()

    def make(self, write: Write, /) -> None:
        """The document as a whole, on a connection of its own."""
        found = self._row(write.system, write.key)
        _, after = written(ABSENT if found is None else found, write.path, write.after)
        self._other.execute(f"DELETE FROM {_quoted(write.system)} WHERE key = ?", (write.key,))  # noqa: S608 - quoted
        if isinstance(after, Mapping):
            self._put(write.system, write.key, after)
        self._other.commit()

    def _put(self, system: str, key: str, row: Row) -> None:
        self._other.execute(f"INSERT INTO {_quoted(system)} VALUES (?, ?)", (key, _json(row)))  # noqa: S608 - quoted

    def _row(self, system: str, key: str) -> Value:
        statement = f"SELECT {_DOCUMENT} FROM {_quoted(system)} WHERE key = ?"  # noqa: S608 - quoted
        found = self._other.execute(statement, (key,)).fetchone()
        return None if found is None else loads_json(found[0])


@contextmanager
def _sqlite(case: Case) -> Generator[World]:
    with tempfile.TemporaryDirectory(prefix="lastlook-replay-") as folder, ExitStack() as stack:
        yield _SqliteWorld(case, Path(folder), stack)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _json(value: Value) -> str:
    """A document's text; a decimal is written digit by digit, as no float could be."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


WORLDS: Final[Mapping[str, Callable[[Case], AbstractContextManager[World]]]] = {"memory": _memory, "sqlite": _sqlite}
"""The systems that a case can be replayed on."""
