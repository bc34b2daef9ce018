"""The durable store for asyncio: the same synchronous code, carried by an `AsyncEngine`."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from lastlook.errors import DeclarationError, StoreError
from lastlook.store import sqlite
from lastlook.store.facts import Facts
from lastlook.store.operations import Operations
from lastlook.store.sql import missing, on_cursor, parsed

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sqlalchemy import Connection

    from lastlook.ports import Append, Appended, Created, JournalEntry, News, Stored, System
    from lastlook.records import IntentRecord
    from lastlook.store.tables import Meta

__all__ = ["AsyncSqlStore"]

_T = TypeVar("_T")


class AsyncSqlStore(Facts):
    """As `SqlStore`, awaited, but for what happens in a target's own transaction.

    Args:
        engine: the application's `AsyncEngine`, whose settings and journal mode stay as they are; or the URL of a
            SQLite file, for which `aiosqlite` is used.
        evidence: as of `SqlStore`; it is read at once, not awaited.
        lock_timeout: as of `SqlStore`.

    Raises:
        DeclarationError: an engine or a URL that cannot hold a store.
    """

    durable = True

    def __init__(
        self, engine: AsyncEngine | str, /, *, evidence: System | None = None, lock_timeout: float = 5.0
    ) -> None:
        self._lock_timeout = lock_timeout
        self._file: str | None = None
        if isinstance(engine, str):
            engine = _engine_of(engine, lock_timeout)
            self._file = engine.url.database
        elif not isinstance(engine, AsyncEngine):  # pyright: ignore[reportUnnecessaryIsInstance]  # as in SqlStore
            raise DeclarationError(
                f"store= got {type(engine).__name__}, which would keep the event loop waiting: give the AsyncEngine of "
                "create_async_engine(), or use Gate"
            )
        sqlite.check_engine(engine.sync_engine)
        self.engine = engine
        self.evidence = evidence
        self._operations = Operations(engine.dialect, sqlite.database_of(engine.url), evidence)

    # The store itself.

    async def install(self) -> None:
        """Make the store's tables unless they are there, and the file if this store was given a URL.

        Raises:
            StoreError: the store there is of a newer version, or the database cannot be used.
        """
        if self._file is not None and not os.path.exists(self._file):  # noqa: ASYNC240, PTH110 - one look at a local file
            await self._read(lambda cursor: cursor.execute("PRAGMA journal_mode = WAL"))
        await self._write(self._operations.install)

    async def ready(self) -> None:
        """Read the store's namespace and salt, which are needed where nothing can be awaited.

        Raises:
            StoreError: it was not installed, is of a newer version, or cannot be used.
        """
        if self._operations.meta is None:
            if self._file is not None and not os.path.exists(self._file):  # noqa: ASYNC240, PTH110 - as above
                raise missing(self._operations.where)
            await self._read(self._operations.open)

    async def aclose(self) -> None:
        """Close the connections, if this store made them itself from a URL; it can be used again."""
        if self._file is not None:
            await self.engine.dispose()

    # Intents.

    def create(
        self, record: IntentRecord, at: dt.datetime, supersedes: Append | None, /, on: Connection | None = None
    ) -> Any:
        """Store a proposal unless its id is taken; a superseded intent ends in the same transaction.

        Args:
            record: the proposal.
            at: the present moment.
            supersedes: the end of the intent that it takes the place of.
            on: as of `append`.

        Returns:
            What became of it; to be awaited, unless `on` is given.
        """
        if on is None:
            return self._create(record, at, supersedes)
        with on_cursor(on, self.engine.sync_engine) as cursor:
            return self._operations.create(cursor, record, at, supersedes)

    async def _create(self, record: IntentRecord, at: dt.datetime, supersedes: Append | None) -> Created:
        await self.ready()
        return await self._write(lambda cursor: self._operations.create(cursor, record, at, supersedes))

    async def load(self, intent_id: str, /) -> Stored | None:
        """The proposal and the current row, checked against their digests.

        Raises:
            IntegrityError: they are not what was written, or from a newer version.
        """
        await self.ready()
        return await self._read(lambda cursor: self._operations.load(cursor, intent_id))

    def append(self, append: Append, at: dt.datetime, /, on: Connection | None = None) -> Any:
        """Make a transition: sequence number, lane and the store's own evidence must be as the caller saw them.

        Args:
            append: the transition.
            at: the present moment.
            on: the connection of `AsyncConnection.run_sync`, of the same engine, with an open transaction, which then
                holds the transition.

        Returns:
            What became of it; to be awaited, unless `on` is given.
        """
        if on is None:
            return self._append(append, at)
        with on_cursor(on, self.engine.sync_engine) as cursor:
            return self._operations.append(cursor, append, at)

    async def _append(self, append: Append, at: dt.datetime) -> Appended:
        await self.ready()
        return await self._write(lambda cursor: self._operations.append(cursor, append, at))

    def lock(self, intent_id: str, seq: int, on: Connection, /) -> bool:
        """Keep others from moving the intent until that transaction ends; False if its last record is another."""
        with on_cursor(on, self.engine.sync_engine) as cursor:
            return self._operations.lock(cursor, intent_id, seq)

    # Looking.

    async def pending(self) -> Iterable[str]:
        """The ids of intents that are OPEN or in ATTEMPT, oldest first."""
        await self.ready()
        return await self._read(self._operations.pending)

    async def intents(self, prefix: str = "", /) -> Iterable[str]:
        """The ids of all intents, ended ones too, that begin so, in their order; read page by page."""
        await self.ready()
        found: list[str] = []
        page = [""]
        while page:
            page = await self._read(functools.partial(self._operations.page, prefix=prefix, after=page[-1]))
            found += page
        return found

    async def news(self, after: int, /) -> News:
        """The pending intents that were stored since a mark, by whatever process."""
        await self.ready()
        return await self._read(lambda cursor: self._operations.news(cursor, after))

    async def gone(self, intent_ids: Collection[str], /) -> Collection[str]:
        """Those of these intents that have ended, by whatever process, or are not here."""
        await self.ready()
        return await self._read(lambda cursor: self._operations.gone(cursor, intent_ids))

    async def journal(self, intent_id: str, /) -> Sequence[JournalEntry]:
        """An intent's records, oldest first.

        Raises:
            UnknownIntent: there is none of that id.
        """
        await self.ready()
        return await self._read(lambda cursor: self._operations.journal(cursor, intent_id))

    async def verify(self, intent_id: str, /) -> None:
        """Recompute an intent's chain from its first record, and compare its row with it.

        Raises:
            IntegrityError: a record was edited, cut, reordered or put in, or is from a newer version.
            UnknownIntent: there is none of that id.
        """
        await self.ready()
        await self._read(lambda cursor: self._operations.verify(cursor, intent_id))

    # Inside.

    def _meta(self) -> Meta:
        meta = self._operations.meta
        if meta is None:
            raise StoreError(f"the store in {self._operations.where} was not opened yet: await store.ready() first")
        return meta

    async def _read(self, work: Callable[[Any], _T]) -> _T:
        with sqlite.explained(self.engine.sync_engine):
            async with self.engine.connect() as connection:
                return await connection.run_sync(lambda on: work(on.connection.cursor()))

    async def _write(self, work: Callable[[Any], _T]) -> _T:
        def written(on: Connection) -> _T:
            with sqlite.writing(on.connection, self._lock_timeout, own=self._file is not None) as cursor:
                return work(cursor)

        with sqlite.explained(self.engine.sync_engine):
            async with self.engine.connect() as connection:
                return await connection.run_sync(written)


def _engine_of(text: str, lock_timeout: float) -> AsyncEngine:
    url = parsed(text)
    if not url.get_dialect().is_async:
        url = url.set(drivername="sqlite+aiosqlite")
    try:
        engine = create_async_engine(url)
    except ImportError as error:
        raise DeclarationError(
            "store= got the URL of a SQLite file, for which AsyncGate needs aiosqlite: "
            "pip install 'lastlook[aiosqlite]', or use Gate"
        ) from error
    event.listen(engine.sync_engine, "connect", sqlite.preparing(lock_timeout))
    return engine
