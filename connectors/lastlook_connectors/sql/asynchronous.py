"""`AsyncSql`: the same reads, locks and checks under asyncio; only an effect's body is awaited."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from lastlook.errors import Applied, DeclarationError
from lastlook.ports import ApplyResult, CloseResult
from lastlook_connectors.sql.dialects import Busy
from lastlook_connectors.sql.effect_table import METADATA
from lastlook_connectors.sql.evidence import Batch
from lastlook_connectors.sql.permits import Permit
from lastlook_connectors.sql.release import close_attempt
from lastlook_connectors.sql.system import NOT_INSTALLED, SqlBase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection, Table
    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.sql import Executable

    from lastlook.ports import Attempt, Capabilities, Journal, Store, Unreadable
    from lastlook.records import Address, EffectRow, Observation
    from lastlook_connectors.sql.permits import Body
    from lastlook_connectors.sql.release import Release

__all__ = ["AsyncSql", "AsyncSqlPermit"]

_T = TypeVar("_T")


class AsyncSqlPermit(Permit):
    """What an effect's coroutine may do on an `AsyncSql`; its writes land with the check, or not at all."""

    def __init__(self, body: Body, connection: AsyncConnection) -> None:
        super().__init__(body)
        self._connection = connection
        self._session: AsyncSession | None = None

    @property
    def session(self) -> AsyncSession:
        """A session inside the effect's transaction: `commit()` and `rollback()` of it reach a savepoint only."""
        self._body.check()
        if self._session is None:
            self._session = AsyncSession(
                bind=self._connection, join_transaction_mode="create_savepoint", expire_on_commit=False
            )
        return self._session

    async def flush(self) -> None:
        """Write what the body's session still holds."""
        if self._session is not None:
            await self._session.commit()

    async def end(self) -> None:
        """Close the session; the permit is dead."""
        self._body.end()
        if self._session is not None:
            try:
                await self._session.close()
            except DBAPIError:  # its savepoint went with the transaction
                self._session.expunge_all()


class AsyncSql(SqlBase):
    """As `Sql`, for AsyncGate: one asynchronous engine, coroutines as bodies, `permit.session` an AsyncSession.

    Args:
        engine: the application's own.
        models: mapped classes or tables; the kind of their rows is the table's name.
        queries: named queries as evidence; `bindparam()`s are the parts of the key.
        public: `kind.field` whose values may stand in explanations.
        version: of a model or table, the field that every write moves.
        lock_timeout: how many seconds one try waits for a lock.

    Raises:
        DeclarationError: as `Sql`.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        /,
        *models: type[Any] | Table[Any],
        queries: Mapping[str, Executable] | None = None,
        public: Iterable[str] = (),
        version: Mapping[Any, str] | None = None,
        lock_timeout: float = 0.25,
    ) -> None:
        if not isinstance(cast("object", engine), AsyncEngine):
            raise DeclarationError(
                f"AsyncSql() takes an asynchronous engine first, not {type(engine).__name__}: create_async_engine(url)"
            )
        super().__init__(
            engine.sync_engine,
            models,
            queries=queries or {},
            public=public,
            version=version or {},
            lock_timeout=lock_timeout,
        )
        self.engine: AsyncEngine = engine

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncGenerator[AsyncConnection]:
        self._dialect.check_pool(self.engine.sync_engine.pool)
        async with self.engine.connect() as connection:
            yield connection

    # The System port.

    def reader(self, addresses: Sequence[Address], /) -> Callable[[], Awaitable[Sequence[Observation | Unreadable]]]:
        """A compiled `read_many` for a fixed list of addresses."""
        batch = Batch(self._library, addresses)

        async def read() -> Sequence[Observation | Unreadable]:
            try:
                async with self._connected() as connection:
                    return await connection.run_sync(batch.read)
            except (Busy, SQLAlchemyError) as error:
                return self._unreadable(len(addresses), error)

        return read

    def read_many(self, addresses: Sequence[Address], /) -> Any:
        """One observation per address, in order, from one snapshot; to be awaited."""
        return self.reader(addresses)()

    # The Target port.

    @property
    def capabilities(self) -> Capabilities:
        """What this database can do; that it cannot close an attempt is known from the first effect on."""
        return self._capabilities(installed=self._installed is not False)

    def shares_engine(self, store: Store, /) -> bool:
        """Whether the store was given the very same engine, or the synchronous one within it."""
        return getattr(store, "engine", None) in (self.engine, self.engine.sync_engine)

    def check_gate(self, store: Store, /, *, asynchronous: bool) -> None:
        """Called when a gate connects, before any effect.

        Raises:
            DeclarationError: the gate is no AsyncGate, or the store has the same file open through another engine.
        """
        if not asynchronous:
            raise DeclarationError("AsyncSql() has to be awaited: use AsyncGate, or Sql with Gate")
        self._refuse_one_file(store, self._sync_engine.url.database or "")

    async def install(self) -> None:
        """Create the table `lastlook_effect` unless it is there."""
        async with self.engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)
        self._installed = True

    async def _prepare(self, connection: AsyncConnection) -> bool:
        """What can be known only once there is a connection: where the tables are, and whether ours is there."""

        def look(plain: Connection) -> bool:
            self._dialect.refuse_tables(plain, self._tables)
            return self._look_for_table(plain)

        if self._installed is None:
            self._installed = await connection.run_sync(look)
            await connection.rollback()
        return self._installed

    async def effect_row(self, intent_id: str, /) -> EffectRow | None:
        """The intent's target row, if there is one."""
        async with self._connected() as connection:
            if not await self._prepare(connection):
                return None
            return await connection.run_sync(self._effects.find, intent_id)

    async def apply(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """Lock, compare, await the body, mark and commit, in one transaction on a connection of its own."""
        try:
            async with self._connected() as connection:
                await self._prepare(connection)
                plain = cast("Connection", connection.sync_connection)
                return await self._apply(self._release(plain, attempt, journal), connection)
        except Busy as error:
            return ApplyResult(Applied.BUSY, reason=str(error))

    async def _apply(self, release: Release, connection: AsyncConnection) -> ApplyResult:
        try:
            body = await _run(connection, release.open)
            if isinstance(body, ApplyResult):
                return body
            permit = AsyncSqlPermit(body, connection)
            try:
                value = await body.attempt.body(permit)
                await permit.flush()
            except Exception as error:  # noqa: BLE001 - raised on to the caller of the gate
                await permit.end()
                return await _run(connection, functools.partial(release.fail, error))
            finally:
                await permit.end()
            return await _run(connection, functools.partial(release.conclude, value))
        finally:
            await _run(connection, release.end)

    async def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """End an attempt for good, or say that it has committed; it waits for a rival no longer than `lock_timeout`."""
        try:
            async with self._connected() as connection:
                if not await self._prepare(connection):
                    return CloseResult(Applied.UNKNOWN, reason=NOT_INSTALLED)
                return await connection.run_sync(
                    lambda plain: close_attempt(
                        self._library, self._effects, self._lock_timeout, plain, intent_id, attempt
                    )
                )
        except Busy as error:
            return CloseResult(Applied.UNKNOWN, reason=str(error))


async def _run(connection: AsyncConnection, work: Callable[[], _T]) -> _T:
    """Synchronous work on a connection that is awaited underneath."""
    return await connection.run_sync(lambda _: work())
