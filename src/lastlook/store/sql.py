"""The durable store on SQLAlchemy: intents and journals in tables of the application's own database, or of a file.

An append is one transaction: the compare-and-swap on the intent's row, and the record. With a target on the same engine
it is the target's transaction.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from lastlook.errors import DeclarationError, StoreError
from lastlook.store import sqlite
from lastlook.store.facts import Facts
from lastlook.store.operations import Operations

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Generator, Iterable, Sequence

    from sqlalchemy import URL, Connection

    from lastlook.ports import Append, Appended, Created, JournalEntry, News, Stored, System
    from lastlook.records import IntentRecord
    from lastlook.store.tables import Meta

__all__ = ["SqlStore", "missing", "on_cursor", "parsed"]


class SqlStore(Facts):
    """Proposals and journals in a database.

    Args:
        engine: the application's engine, whose settings and journal mode stay as they are; or the URL of a SQLite file,
            which `install()` makes, in WAL mode, if it is not there.
        evidence: a system whose evidence this store owns: it is compared in the transaction that opens an attempt.
        lock_timeout: how many seconds to wait for another writer.

    Raises:
        DeclarationError: an engine or a URL that cannot hold a store.
    """

    durable = True

    def __init__(self, engine: Engine | str, /, *, evidence: System | None = None, lock_timeout: float = 5.0) -> None:
        self._lock_timeout = lock_timeout
        self._file: str | None = None
        if isinstance(engine, str):
            url = parsed(engine)
            if url.get_dialect().is_async:
                raise DeclarationError(
                    f"store= got {url.drivername!r}, which has to be awaited: use AsyncGate, or "
                    f"{url.get_backend_name()!r}"
                )
            engine = create_engine(url)
            event.listen(engine, "connect", sqlite.preparing(lock_timeout))
            weakref.finalize(self, engine.dispose)
            self._file = engine.url.database
        elif not _is_sync(engine):
            raise DeclarationError(
                f"store= got {type(engine).__name__} with a driver that is awaited, which Gate cannot do: give the "
                "Engine of create_engine(), or use AsyncGate"
            )
        sqlite.check_engine(engine)
        self.engine = engine
        self.evidence = evidence
        self._operations = Operations(engine.dialect, sqlite.database_of(engine.url), evidence)

    # The store itself.

    def install(self) -> None:
        """Make the store's tables unless they are there, and the file if this store was given a URL.

        Raises:
            StoreError: the store there is of a newer version, or the database cannot be used.
        """
        if self._file is not None and not os.path.exists(self._file):  # noqa: PTH110 - a text as SQLite takes it
            with self._reading() as cursor:
                cursor.execute("PRAGMA journal_mode = WAL")
        with self._writing() as cursor:
            self._operations.install(cursor)

    def close(self) -> None:
        """Close the connections, if this store made them itself from a URL; it can be used again."""
        if self._file is not None:
            self.engine.dispose()

    # Intents.

    def create(
        self, record: IntentRecord, at: dt.datetime, supersedes: Append | None, /, on: Connection | None = None
    ) -> Created:
        """Store a proposal unless its id is taken; a superseded intent ends in the same transaction.

        Args:
            record: the proposal.
            at: the present moment.
            supersedes: the end of the intent that it takes the place of.
            on: as of `append`.
        """
        if on is not None:
            with on_cursor(on, self.engine) as cursor:
                return self._operations.create(cursor, record, at, supersedes)
        self._meta()
        with self._writing() as cursor:
            return self._operations.create(cursor, record, at, supersedes)

    def load(self, intent_id: str, /) -> Stored | None:
        """The proposal and the current row, checked against their digests.

        Raises:
            IntegrityError: they are not what was written, or from a newer version.
        """
        self._meta()
        with self._reading() as cursor:
            return self._operations.load(cursor, intent_id)

    def append(self, append: Append, at: dt.datetime, /, on: Connection | None = None) -> Appended:
        """Make a transition: sequence number, lane and the store's own evidence must be as the caller saw them.

        Args:
            append: the transition.
            at: the present moment.
            on: a connection of the same engine with an open transaction, which then holds the transition.
        """
        if on is not None:
            with on_cursor(on, self.engine) as cursor:
                return self._operations.append(cursor, append, at)
        self._meta()
        with self._writing() as cursor:
            return self._operations.append(cursor, append, at)

    def lock(self, intent_id: str, seq: int, on: Connection, /) -> bool:
        """Keep others from moving the intent until that transaction ends; False if its last record is another."""
        with on_cursor(on, self.engine) as cursor:
            return self._operations.lock(cursor, intent_id, seq)

    # Looking.

    def pending(self) -> Iterable[str]:
        """The ids of intents that are OPEN or in ATTEMPT, oldest first."""
        self._meta()
        with self._reading() as cursor:
            return self._operations.pending(cursor)

    def intents(self, prefix: str = "", /) -> Iterable[str]:
        """The ids of all intents, ended ones too, that begin so, in their order; read page by page."""
        self._meta()
        page = [""]
        while page:
            with self._reading() as cursor:
                page = self._operations.page(cursor, prefix, page[-1])
            yield from page

    def news(self, after: int, /) -> News:
        """The pending intents that were stored since a mark, by whatever process."""
        self._meta()
        with self._reading() as cursor:
            return self._operations.news(cursor, after)

    def gone(self, intent_ids: Collection[str], /) -> Collection[str]:
        """Those of these intents that have ended, by whatever process, or are not here."""
        self._meta()
        with self._reading() as cursor:
            return self._operations.gone(cursor, intent_ids)

    def journal(self, intent_id: str, /) -> Sequence[JournalEntry]:
        """An intent's records, oldest first.

        Raises:
            UnknownIntent: there is none of that id.
        """
        self._meta()
        with self._reading() as cursor:
            return self._operations.journal(cursor, intent_id)

    def verify(self, intent_id: str, /) -> None:
        """Recompute an intent's chain from its first record, and compare its row with it.

        Raises:
            IntegrityError: a record was edited, cut, reordered or put in, or is from a newer version.
            UnknownIntent: there is none of that id.
        """
        self._meta()
        with self._reading() as cursor:
            self._operations.verify(cursor, intent_id)

    # Inside.

    def _meta(self) -> Meta:
        meta = self._operations.meta
        if meta is not None:
            return meta
        if self._file is not None and not os.path.exists(self._file):  # noqa: PTH110 - a text as SQLite takes it
            raise missing(self._operations.where)
        with self._reading() as cursor:
            return self._operations.open(cursor)

    @contextlib.contextmanager
    def _reading(self) -> Generator[Any]:
        with sqlite.explained(self.engine), contextlib.closing(self.engine.raw_connection()) as connection:
            yield connection.cursor()

    @contextlib.contextmanager
    def _writing(self) -> Generator[Any]:
        with (
            sqlite.explained(self.engine),
            contextlib.closing(self.engine.raw_connection()) as connection,
            sqlite.writing(connection, self._lock_timeout, own=self._file is not None) as cursor,
        ):
            yield cursor


def _is_sync(engine: object) -> bool:
    return isinstance(engine, Engine) and not engine.dialect.is_async


def parsed(url: str) -> URL:
    """A store's URL.

    Raises:
        DeclarationError: it is none that SQLAlchemy knows, or not of a plain SQLite file.
    """
    try:
        found = make_url(url)
        found.get_dialect()
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        # Not shown: whatever stands there may hold a password.
        raise DeclarationError(
            f"store= got a text that is no URL of an installed database driver ({type(error).__name__}): "
            "write 'sqlite:///path/to/file.db'"
        ) from error
    if found.get_backend_name() != "sqlite" or found.query or (found.database or "").startswith("file:"):
        raise DeclarationError(
            f"store= got the URL of {sqlite.database_of(found)}: give that of a plain SQLite file, without options, "
            "such as 'sqlite:///path/to/file.db', or an engine of your own"
        )
    return found


def missing(where: str) -> StoreError:
    """The error for a store whose file was not made."""
    return StoreError(f"there is no store in {where}: call gate.install() once")


@contextlib.contextmanager
def on_cursor(on: Connection, engine: Engine) -> Generator[Any]:
    """A cursor in a target's open transaction.

    Raises:
        StoreError: the connection is not of this engine, or has no transaction open.
    """
    if on.engine.pool is not engine.pool:
        raise StoreError("the target's connection is not of the store's engine: give both the same Engine object")
    pooled = on.connection
    if not sqlite.in_transaction(pooled):
        raise StoreError(
            "the target's connection has no transaction open, so that the record and the effect would not be one: "
            "begin it with BEGIN IMMEDIATE"
        )
    with sqlite.explained(engine), contextlib.closing(pooled.cursor()) as cursor:
        yield cursor
