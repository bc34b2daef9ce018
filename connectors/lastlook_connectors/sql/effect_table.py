"""The intent's own row in the target's database: fence, idempotency key and tombstone in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, String, Table, bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from lastlook import canonical
from lastlook.errors import CanonicalError, IntegrityError
from lastlook.records import EffectRow
from lastlook_connectors.sql.statements import Prepared

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy import Dialect as Driver

    from lastlook.canonical import Value

__all__ = ["EFFECTS", "METADATA", "EffectTable"]

METADATA = MetaData()
"""The tables that `gate.install()` creates; an Alembic environment lists it beside the application's own metadata."""

EFFECTS = Table(
    "lastlook_effect",
    METADATA,
    Column("intent_id", String(64), primary_key=True),
    Column("args_digest", String(128), nullable=False),
    Column("floor", BigInteger, nullable=False),
    Column("attempt", BigInteger),
    Column("result", LargeBinary),
    Column("committed_at", BigInteger),
)
"""One row for each intent that was attempted or closed here; never deleted before its intent has ended."""

_COLUMNS = EFFECTS.c


class EffectTable:
    """The statements over `lastlook_effect`, each on an open connection of the target's."""

    def __init__(self, driver: Driver) -> None:
        c = _COLUMNS
        key = c.intent_id == bindparam("id")
        insert = postgresql.insert if driver.name == "postgresql" else sqlite.insert
        values: dict[str, Any] = {
            "intent_id": bindparam("id"),
            "args_digest": bindparam("digest"),
            "floor": bindparam("least"),
        }
        self._enter = Prepared(insert(EFFECTS).values(values).on_conflict_do_nothing(), driver)
        self._find = Prepared(
            select(c.args_digest, c.floor, c.attempt, c.result, c.committed_at).where(key).with_for_update(), driver
        )
        self._look = Prepared(select(c.args_digest, c.floor, c.attempt, c.result, c.committed_at).where(key), driver)
        committed: dict[str, Any] = {
            "args_digest": bindparam("digest"),
            "attempt": bindparam("number"),
            "floor": bindparam("number"),
            "result": bindparam("stored"),
            "committed_at": bindparam("at"),
        }
        self._commit = Prepared(EFFECTS.update().where(key, c.committed_at.is_(None)).values(committed), driver)
        self._raise = Prepared(
            EFFECTS.update().where(key, c.committed_at.is_(None)).values(floor=bindparam("least")), driver
        )
        self._mark = Prepared(EFFECTS.update().where(key).values(attempt=bindparam("number")), driver)

    def enter(self, connection: Connection, intent_id: str, digest: str, floor: int = 0) -> EffectRow:
        """The intent's row, inserted if there was none, and locked for as long as the transaction lasts."""
        if self._enter.send(connection, {"id": intent_id, "digest": digest, "least": floor}) == 1:
            return EffectRow(intent_id, digest, floor, None, None, None)
        row = self._find.run(connection, {"id": intent_id}).one()
        return _row(intent_id, row)

    def find(self, connection: Connection, intent_id: str) -> EffectRow | None:
        """The intent's row, if there is one."""
        row = self._look.run(connection, {"id": intent_id}).one_or_none()
        return None if row is None else _row(intent_id, row)

    def commit(self, connection: Connection, intent_id: str, digest: str, number: int, stored: Value, at: int) -> int:
        """Mark the effect as committed; how many rows that was."""
        values = {"id": intent_id, "digest": digest, "number": number, "stored": canonical.encode(stored), "at": at}
        return self._commit.send(connection, values)

    def raise_floor(self, connection: Connection, intent_id: str, least: int) -> None:
        """Take no attempt below this number any more."""
        self._raise.run(connection, {"id": intent_id, "least": least})

    def mark(self, connection: Connection, intent_id: str, number: int) -> None:
        """Note that nobody can tell what became of an attempt."""
        self._mark.run(connection, {"id": intent_id, "number": number})


def _row(intent_id: str, row: Any) -> EffectRow:
    digest, floor, attempt, stored, committed_at = row
    try:
        result = None if stored is None else canonical.decode(bytes(stored))
    except CanonicalError as error:
        raise IntegrityError(
            f"the effect row of intent {intent_id} holds a result that was not written here: do not release it, and "
            "find out who changed lastlook_effect"
        ) from error
    return EffectRow(intent_id, digest, floor, attempt, result, committed_at)
