"""The ten durable cells as data: two patterns of work, five changes by a second actor each.

One is office automation, one is cloud remediation, after tasks as WorkBench and AIOpsLab have them. Nothing here
judges: `durable_shop` states the rules as premises, `durable_baselines` as callables over a checkpoint, `oracle` as
business rules over the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

__all__ = [
    "LEDGER",
    "PATTERNS",
    "Change",
    "Pattern",
    "Row",
    "Tables",
    "Value",
    "create",
    "make",
    "pattern",
    "rows",
    "tables",
]

Value = bool | int | str
Row = Mapping[str, Value]
Tables = Mapping[str, Mapping[str, Row]]
"""Table -> primary key -> row."""

LEDGER: Final = "done"
"""The table in which every effect leaves a row, whoever lets it out."""


class Change(NamedTuple):
    """What the second actor writes, and what must come of the pending intent.

    Attributes:
        name: one of `irrelevant`, `presentation`, `preserving`, `replanning`, `blocking`.
        reasons: the rules that the change breaks.
    """

    name: str
    table: str
    key: str
    column: str
    value: Value
    outcome: str
    reasons: tuple[str, ...] = ()


class Pattern(NamedTuple):
    """One pattern of work.

    Attributes:
        rows: everything on record when the agent decides; the key is the column `id`.
        target: table and key of the row that the effect writes.
        arguments: what the agent asks for, by parameter of the effect.
        presentation: the target's column that is shown to people and decides nothing.
    """

    name: str
    rows: Tables
    target: tuple[str, str]
    arguments: Row
    presentation: str
    changes: tuple[Change, ...]


PATTERNS: Final = (
    Pattern(
        name="office",
        rows={
            "meetings": {
                "m-1": {"state": "agreed", "room": "r-1", "title": "Planning", "starts": "10:00", "invited": False}
            },
            "rooms": {"r-1": {"seats": 12, "in_service": True, "floor": 3}},
            "policies": {"office": {"most_invited": 20, "assistant_may_invite": True}},
            "notes": {"n-1": {"text": "the projector was repaired"}, "n-2": {"text": "lunch is at noon"}},
        },
        target=("meetings", "m-1"),
        arguments={"meeting_id": "m-1", "attendees": 8},
        presentation="title",
        changes=(
            Change("irrelevant", "notes", "n-2", "text", "lunch is at one", "KEEP"),
            Change("presentation", "meetings", "m-1", "title", "Planning of the quarter", "REFRESH"),
            Change("preserving", "rooms", "r-1", "seats", 10, "KEEP"),
            Change("replanning", "rooms", "r-1", "in_service", False, "REPLAN", ("the room is out of service",)),
            Change("blocking", "policies", "office", "most_invited", 5, "BLOCK", ("more than may be invited unasked",)),
        ),
    ),
    Pattern(
        name="cloud",
        rows={
            "incidents": {
                "i-1": {"state": "open", "service": "checkout", "title": "checkout is slow", "restarted": False}
            },
            "services": {"checkout": {"healthy": 5, "region": "eu-1", "release": "4.1"}},
            "policies": {"operations": {"freeze": False, "most_restarted": 4, "agent_may_restart": True}},
            "notes": {"n-1": {"text": "the pager was quiet"}, "n-2": {"text": "a release is planned"}},
        },
        target=("incidents", "i-1"),
        arguments={"incident_id": "i-1", "instances": 3},
        presentation="title",
        changes=(
            Change("irrelevant", "notes", "n-2", "text", "a release is put off", "KEEP"),
            Change("presentation", "incidents", "i-1", "title", "checkout times out", "REFRESH"),
            Change("preserving", "services", "checkout", "healthy", 4, "KEEP"),
            Change("replanning", "incidents", "i-1", "state", "resolved", "REPLAN", ("the incident is not open",)),
            Change("blocking", "policies", "operations", "freeze", True, "BLOCK", ("a maintenance freeze is on",)),
        ),
    ),
)
"""Office automation and cloud remediation: ten cells."""


def pattern(name: str) -> Pattern:
    """The pattern of this name.

    Raises:
        KeyError: there is none.
    """
    for one in PATTERNS:
        if one.name == name:
            return one
    raise KeyError(name)


# --- In SQLite --------------------------------------------------------------------------------------------------------


def create(connection: sqlite3.Connection, of: Pattern) -> None:
    """Create the pattern's tables and rows: every row has a version that each write advances."""
    for table, rows in of.rows.items():
        columns = next(iter(rows.values()))
        declared = "".join(f", {name} {_type(value)} NOT NULL" for name, value in columns.items())
        connection.execute(f"CREATE TABLE {table} (id TEXT PRIMARY KEY{declared}, version INTEGER NOT NULL DEFAULT 1)")
        for key, row in rows.items():
            names, marks = ", ".join(["id", *row]), ", ".join("?" * (1 + len(row)))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", (key, *row.values()))  # noqa: S608
    connection.execute(f"CREATE TABLE {LEDGER} (number INTEGER PRIMARY KEY, what TEXT NOT NULL, by TEXT NOT NULL)")
    connection.commit()


def make(connection: sqlite3.Connection, change: Change) -> None:
    """The second actor's write."""
    connection.execute(
        f"UPDATE {change.table} SET {change.column} = ?, version = version + 1 WHERE id = ?",  # noqa: S608 - from above
        (change.value, change.key),
    )
    connection.commit()


def tables(connection: sqlite3.Connection, of: Pattern) -> dict[str, dict[str, dict[str, Value]]]:
    """All rows as they are, without their versions."""
    return {table: {key: row for key, row, _ in rows(connection, of, table)} for table in of.rows}


def rows(connection: sqlite3.Connection, of: Pattern, table: str) -> Iterator[tuple[str, dict[str, Value], int]]:
    """Key, row and version of each row of a table."""
    columns = next(iter(of.rows[table].values()))
    selected = ", ".join(["id", *columns, "version"])
    for key, *values, version in connection.execute(f"SELECT {selected} FROM {table} ORDER BY id"):  # noqa: S608
        typed = (
            bool(value) if isinstance(example, bool) else value
            for value, example in zip(values, columns.values(), strict=True)
        )
        yield key, dict(zip(columns, typed, strict=True)), version


def _type(value: Value) -> str:
    return "BOOLEAN" if isinstance(value, bool) else "INTEGER" if isinstance(value, int) else "TEXT"
