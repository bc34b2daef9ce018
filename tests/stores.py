"""Proposals, transitions and tables for the tests of the stores."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from lastlook.canonical import freeze
from lastlook.errors import Outcome
from lastlook.ports import Append
from lastlook.records import Address, Decision, IntentRecord, PremiseRecord, Read, State, Token

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lastlook.canonical import Value
    from lastlook.ports import Bound

__all__ = ["altered", "asked", "proposal", "transit"]


def proposal(intent_id: str, *, lane: str = "", expires_us: int | None = None, **changes: Any) -> IntentRecord:
    """A proposal with one of everything."""
    address = Address("orders", ("o-1",))
    record = IntentRecord(
        intent_id=intent_id,
        effect="refund",
        arguments=_map({"order_id": "o-1", "amount": 80}),
        arguments_digest="sha256:0",
        actor=_map({"user_id": "u-1"}),
        target="orders/o-1",
        lane=lane or intent_id,
        premises=(PremiseRecord("~refunded", "[]", Outcome.BLOCK, "", None, False, True, (0,), ()),),
        reads=(Read(address, ("refunded",), "sha256:1", Token("counter", "memory", 1), "PROPOSE"),),
        refresh=(0,),
        decisions=(Decision("refund it", (0,)),),
        captured=_map({}),
        differences=(),
        contract="sha256:2",
        expires_us=expires_us,
        supersedes=None,
        transaction=intent_id,
        one_shot=False,
    )
    return record.but(**changes) if changes else record


def transit(
    intent_id: str, seq: int, kind: str = "VERDICT", state: State = State.OPEN, *, attempt: int = 0, **more: Any
) -> Append:
    """A transition with a small body, by default a refusal."""
    body = _map({"schema": 1, "outcome": "KEEP", **more.pop("body", {})})
    checks: tuple[Bound, ...] = more.pop("checks", ())
    return Append(intent_id, seq, kind, state, attempt, lambda: body, checks=checks, **more)


def _map(of: Mapping[str, object]) -> Mapping[str, Value]:
    return cast("Mapping[str, Value]", freeze(of))


def asked(file: Path | str, sql: str, *values: Any) -> list[Any]:
    """What the file answers, on a connection of its own."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(sql, values).fetchall()


def altered(file: Path | str, sql: str, *values: Any) -> int:
    """Change the file behind the store's back; the number of rows changed."""
    with closing(sqlite3.connect(file)) as connection, connection:
        return connection.execute(sql, values).rowcount
