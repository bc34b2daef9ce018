"""The paper's three baselines on the durable cells, written apart from lastlook, on the standard library alone.

A workflow records what it read in a checkpoint table and closes its connection. A fresh process, this module's, opens
the file again, asks its method, and applies the effect by an update that is conditional on the target's version.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lastlook_scenarios import cells

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastlook_scenarios.cells import Pattern

__all__ = ["METHODS", "Answer", "checkpoint", "main", "resume"]

_RANK: Final = ("KEEP", "REFRESH", "REPLAN", "BLOCK")


class Answer(NamedTuple):
    """A method's answer.

    Attributes:
        reasons: the rules found broken; None from a method that gives none.
        premises: how many rules were evaluated.
        applied: whether the conditional update took place.
    """

    outcome: str
    reasons: list[str] | None
    premises: int
    applied: bool = False


class _Row(NamedTuple):
    values: Mapping[str, Any]
    version: int


_Records = dict[str, dict[str, _Row]]


def checkpoint(connection: sqlite3.Connection, of: Pattern) -> None:
    """Record everything that the workflow has read, and what it is about to do."""
    body = {"pattern": of.name, "arguments": dict(of.arguments), "reads": _records(connection, of)}
    connection.execute("CREATE TABLE checkpoint (body TEXT NOT NULL)")
    connection.execute("INSERT INTO checkpoint VALUES (?)", (json.dumps(body),))
    connection.commit()


def resume(connection: sqlite3.Connection, method: str) -> Answer:
    """Go on from the checkpoint: ask the method, and let the effect out if it says so.

    Raises:
        KeyError: no such method.
    """
    ((text,),) = connection.execute("SELECT body FROM checkpoint").fetchall()
    body = json.loads(text)
    of = cells.pattern(body["pattern"])
    recorded = {table: {key: _Row(*row) for key, row in found.items()} for table, found in body["reads"].items()}
    current = _records(connection, of)
    answer = METHODS[method](of, body["arguments"], recorded, current)
    if answer.outcome not in ("KEEP", "REFRESH"):
        return answer
    table, key = of.target
    flag, what = _EFFECTS[of.name]
    changed = connection.execute(
        f"UPDATE {table} SET {flag} = 1, version = version + 1 WHERE id = ? AND version = ?",  # noqa: S608 - from here
        (key, current[table][key].version),
    )
    if changed.rowcount == 1:
        connection.execute(f"INSERT INTO {cells.LEDGER} (what, by) VALUES (?, ?)", (what, method))  # noqa: S608
    connection.commit()
    return answer._replace(applied=changed.rowcount == 1)


def main(argv: Sequence[str]) -> int:
    """Resume each of the files by a method: `METHOD FILE...`; one line of JSON a file."""
    method, *files = argv
    for file in files:
        with closing(sqlite3.connect(file)) as connection:
            print(json.dumps(resume(connection, method)._asdict()))
    return 0


def _records(connection: sqlite3.Connection, of: Pattern) -> _Records:
    return {
        table: {key: _Row(row, version) for key, row, version in cells.rows(connection, of, table)} for table in of.rows
    }


# --- The methods ------------------------------------------------------------------------------------------------------


def _no_check(_of: Pattern, _arguments: Mapping[str, Any], _recorded: _Records, _current: _Records) -> Answer:
    """Releases the original intent."""
    return Answer("KEEP", None, 0)


def _version_abort(_of: Pattern, _arguments: Mapping[str, Any], recorded: _Records, current: _Records) -> Answer:
    """Replans as soon as anything that was read has another version."""
    for table, found in recorded.items():
        for key, row in found.items():
            if key not in current[table] or current[table][key].version != row.version:
                return Answer("REPLAN", None, 0)
    return Answer("KEEP", None, 0)


def _full_scan(of: Pattern, arguments: Mapping[str, Any], recorded: _Records, current: _Records) -> Answer:
    """Goes through all recorded reads for what was shown, and evaluates every rule."""
    changed = {
        (table, key, column)
        for table, found in recorded.items()
        for key, row in found.items()
        for column, value in row.values.items()
        if key not in current[table] or current[table][key].values[column] != value
    }
    rules = _RULES[of.name]
    broken = [rule for rule in rules if not _holds(rule, arguments, current)]
    shown = (*of.target, of.presentation) in changed
    worst = max([_RANK.index(rule.severity) for rule in broken], default=int(shown))
    return Answer(_RANK[worst], [rule.reason for rule in broken], len(rules))


METHODS: Final[Mapping[str, Callable[[Pattern, Mapping[str, Any], _Records, _Records], Answer]]] = {
    "NoCheck": _no_check,
    "VersionAbort": _version_abort,
    "FullScan": _full_scan,
}


@dataclass(frozen=True, slots=True)
class _Rule:
    reason: str
    severity: str
    check: Callable[[Mapping[str, Any], _Records], object]


def _holds(rule: _Rule, arguments: Mapping[str, Any], current: _Records) -> bool:
    """Whether the rule is true; what is missing or of another kind makes it false."""
    try:
        return rule.check(arguments, current) is True
    except (KeyError, TypeError):
        return False


def _meeting(arguments: Mapping[str, Any], current: _Records) -> Mapping[str, Any]:
    return current["meetings"][arguments["meeting_id"]].values


def _room(arguments: Mapping[str, Any], current: _Records) -> Mapping[str, Any]:
    return current["rooms"][_meeting(arguments, current)["room"]].values


def _incident(arguments: Mapping[str, Any], current: _Records) -> Mapping[str, Any]:
    return current["incidents"][arguments["incident_id"]].values


def _service(arguments: Mapping[str, Any], current: _Records) -> Mapping[str, Any]:
    return current["services"][_incident(arguments, current)["service"]].values


def _policy(current: _Records, name: str) -> Mapping[str, Any]:
    return current["policies"][name].values


_EFFECTS: Final = {"office": ("invited", "invitations sent"), "cloud": ("restarted", "instances restarted")}
_RULES: Final[Mapping[str, tuple[_Rule, ...]]] = {
    "office": (
        _Rule("the meeting is not agreed", "REPLAN", lambda a, now: _meeting(a, now)["state"] == "agreed"),
        _Rule("the room is out of service", "REPLAN", lambda a, now: _room(a, now)["in_service"]),
        _Rule("the room is too small", "REPLAN", lambda a, now: a["attendees"] <= _room(a, now)["seats"]),
        _Rule("already invited", "BLOCK", lambda a, now: _meeting(a, now)["invited"] is False),
        _Rule(
            "more than may be invited unasked",
            "BLOCK",
            lambda a, now: a["attendees"] <= _policy(now, "office")["most_invited"],
        ),
        _Rule("no authority to invite", "BLOCK", lambda _, now: _policy(now, "office")["assistant_may_invite"]),
    ),
    "cloud": (
        _Rule("the incident is not open", "REPLAN", lambda a, now: _incident(a, now)["state"] == "open"),
        _Rule("too few healthy instances", "REPLAN", lambda a, now: a["instances"] <= _service(a, now)["healthy"]),
        _Rule("already restarted", "BLOCK", lambda a, now: _incident(a, now)["restarted"] is False),
        _Rule("a maintenance freeze is on", "BLOCK", lambda _, now: _policy(now, "operations")["freeze"] is False),
        _Rule(
            "more than may be restarted at once",
            "BLOCK",
            lambda a, now: a["instances"] <= _policy(now, "operations")["most_restarted"],
        ),
        _Rule("no restart authority", "BLOCK", lambda _, now: _policy(now, "operations")["agent_may_restart"]),
    ),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
