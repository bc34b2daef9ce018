"""The tables of a durable store, and what makes and checks them.

Nothing here is created but by `gate.install()`. Whoever manages schemas with Alembic leaves the tables named
`lastlook_` out of what it compares, or takes `metadata` among its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text, text
from sqlalchemy.schema import CreateIndex, CreateTable

from lastlook.errors import StoreError
from lastlook.frozen import Frozen

if TYPE_CHECKING:
    from sqlalchemy import Dialect

__all__ = ["VERSION", "Meta", "ddl", "first_meta", "intent", "journal", "meta", "meta_of", "metadata"]

VERSION = 1
"""The version of the tables that this version of the library makes, and the newest that it uses."""

metadata = MetaData()
"""The store's own tables, apart from any application's."""

intent = Table(
    "lastlook_intent",
    metadata,
    Column("intent_id", Text, primary_key=True),
    Column("effect", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("head", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("owner", Text),
    Column("deadline_us", BigInteger),
    Column("expires_us", BigInteger),
)
"""One row an intent: what moves of it, and the digest of its last record."""

journal = Table(
    "lastlook_journal",
    metadata,
    Column("intent_id", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
    Column("key_id", Text),
    Column("mac", LargeBinary),
)
"""The records, each chained to the one before it; never changed."""

meta = Table("lastlook_meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))
"""The version of the tables, and what is the store's own: its namespace and the salt of its digests."""

_held = text("state = 'ATTEMPT'")
_pending = text("state IN ('OPEN', 'ATTEMPT')")
Index("lastlook_intent_lane", intent.c.lane, unique=True, sqlite_where=_held, postgresql_where=_held)
Index("lastlook_intent_pending", intent.c.state, sqlite_where=_pending, postgresql_where=_pending)


class Meta(Frozen):
    """What the store says of itself."""

    namespace: str
    salt: bytes


def ddl(dialect: Dialect) -> list[str]:
    """The statements that make whatever of the tables is not there."""
    made: list[str] = []
    for table in metadata.sorted_tables:
        made.append(str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)))
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        made += [str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect)) for index in indexes]
    return made


def first_meta() -> dict[str, str]:
    """The rows of a store that is made now."""
    return {"schema": str(VERSION), "namespace": os.urandom(8).hex(), "salt": os.urandom(16).hex()}


def meta_of(rows: dict[Any, Any], where: str) -> Meta:
    """What the store says of itself.

    Raises:
        StoreError: it is of a newer version, or not lastlook's.
    """
    schema = rows.get("schema")
    if not rows:
        raise StoreError(f"the store in {where} was never installed: call gate.install() once")
    try:
        version, found = int(schema), Meta(str(rows["namespace"]), bytes.fromhex(rows["salt"]))  # type: ignore[arg-type]  # None is a TypeError
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"lastlook_meta in {where} lacks what lastlook writes there, or holds something else: "
            "restore it, or give the store a database of its own"
        ) from error
    if version > VERSION:
        raise StoreError(
            f"the store in {where} is of version {version}, and this version of lastlook knows {VERSION}: "
            "upgrade lastlook here before it uses this store"
        )
    if version < 1 or not found.namespace or len(found.salt) < 16:
        raise StoreError(f"lastlook_meta in {where} holds something that lastlook never wrote: restore the store")
    return found
