"""`Sql`: tables and named queries of one database as evidence, and that database as a target."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from lastlook.errors import Applied, DeclarationError
from lastlook.ports import UTC, ApplyResult, Capabilities, CloseResult, Fields, Unreadable
from lastlook_connectors.sql.dialects import Busy, dialect_of
from lastlook_connectors.sql.effect_table import EFFECTS, METADATA, EffectTable
from lastlook_connectors.sql.evidence import NAMESPACE, Batch, Library
from lastlook_connectors.sql.permits import SqlPermit
from lastlook_connectors.sql.release import Release, close_attempt
from lastlook_connectors.sql.sources import NamedQuery, Source, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from sqlalchemy import Connection, Table
    from sqlalchemy.sql import Executable

    from lastlook.ports import Attempt, Clock, Journal, Store
    from lastlook.records import Address, EffectRow, Observation, Token

__all__ = ["NOT_INSTALLED", "Sql", "SqlBase"]


class SqlBase:
    """What both colours of the connector share: kinds, fields, capabilities."""

    engine: Any

    def __init__(
        self,
        engine: Engine,
        models: Sequence[type[Any] | Table[Any]],
        *,
        queries: Mapping[str, Executable],
        public: Iterable[str],
        version: Mapping[Any, str],
        lock_timeout: float,
    ) -> None:
        self._sync_engine = engine
        self._dialect = dialect_of(engine)
        self._driver = engine.dialect
        self._sources: dict[str, Source | NamedQuery] = {}
        for model in models:
            source = source_of(model, self._driver, self._dialect)
            self._add(source)
        for kind, statement in queries.items():
            self._add(NamedQuery(kind, statement, self._driver, self._dialect))
        if not self._sources:
            raise DeclarationError("Sql() got no mapped class, table or query: name what premises may ask about")
        self._public = frozenset(self._public_field(name) for name in public)
        for model, field in version.items():
            self._declare_version(model, field)
        self._library = Library(self._sources, self._driver, self._dialect)
        self._effects = EffectTable(self._driver)
        self._lock_timeout = lock_timeout
        self._clock: Clock = UTC
        self._installed: bool | None = None

    def _add(self, source: Source | NamedQuery) -> None:
        if source.kind in self._sources:
            raise DeclarationError(f"Sql() got {source.kind!r} twice: give each table and query a name of its own")
        self._sources[source.kind] = source

    def _declare_version(self, model: Any, field: str) -> None:
        kind = source_of(model, self._driver, self._dialect).kind
        source = self._sources.get(kind)
        if not isinstance(source, Source):
            raise DeclarationError(f"version= names {kind!r}, which Sql() was not given: add it to the models")
        if field not in source.fields:
            raise DeclarationError(
                f"version={{{kind}: {field!r}}}: there is no such field{_near(field, source.fields)}"
            )
        source.version = field

    def _public_field(self, name: str) -> tuple[str, str]:
        kind, dot, field = name.rpartition(".")
        if not dot:
            raise DeclarationError(f"public={name!r} names no field: write 'kind.field'")
        source = self._sources.get(kind)
        known: Iterable[str] = self._sources if source is None else source.fields
        if source is None or field not in source.fields:
            missing = f"no kind {kind!r}" if source is None else f"no field {field!r} in {kind!r}"
            raise DeclarationError(
                f"public={name!r}: there is {missing}{_near(kind if source is None else field, known)}"
            )
        return kind, field

    @property
    def name(self) -> str:
        """How messages name this system."""
        return f"sql({', '.join(sorted(self._sources))})"

    @property
    def kinds(self) -> frozenset[str]:
        """The tables and the named queries."""
        return frozenset(self._sources)

    def fields(self, kind: str, /) -> Fields:
        """The columns that are loaded and have an evidence type; there are no others."""
        return Fields(self._sources[kind].fields, complete=True)

    def is_public(self, kind: str, field: str, /) -> bool:
        """Whether the field was named in `public=`."""
        return (kind, field) in self._public

    def can_check(self, kind: str, /) -> bool:
        """Every table; and the queries where nobody else writes while the effect is applied."""
        source = self._sources.get(kind)
        return source is not None and (self._dialect.single_writer or isinstance(source, Source))

    def can_check_token(self, token: Token, /) -> bool:
        """Whether it is a digest of content, as this connector makes them."""
        return token.namespace == NAMESPACE and token.kind == "digest"

    def use_clock(self, clock: Clock, /) -> None:
        """Take the gate's clock: the database is on the same machine."""
        self._clock = clock

    def shares_engine(self, store: Store, /) -> bool:
        """Whether the store was given the very same engine."""
        return getattr(store, "engine", None) is self.engine

    def _refuse_one_file(self, store: Store, mine: str) -> None:
        """Two engines on one file wait for each other's locks; the caller has to choose."""
        other = getattr(store, "engine", None)
        if other is None or self.shares_engine(store) or mine in ("", ":memory:"):
            return
        engine: Engine = getattr(other, "sync_engine", other)
        theirs = engine.url.database or ""
        if engine.dialect.name == self._driver.name and os.path.realpath(theirs) == os.path.realpath(mine):
            raise DeclarationError(
                f"the store and {self.name} have one file open through two engines, which would wait for each other's "
                "locks: give store= the engine that the system was given"
            )

    @property
    def _tables(self) -> list[str]:
        return [source.table.name for source in self._sources.values() if isinstance(source, Source)]

    def _capabilities(self, *, installed: bool) -> Capabilities:
        return Capabilities(
            durable=self._sync_engine.url.database not in (None, "", ":memory:"),
            rolls_back=True,
            closes=installed,
            checks_absence=self._dialect.single_writer,
            checks_collections=self._dialect.single_writer,
        )

    def _look_for_table(self, connection: Connection) -> bool:
        return self._dialect.has_table(connection, EFFECTS.name)

    def _unreadable(self, count: int, error: Exception) -> tuple[Unreadable, ...]:
        return (Unreadable(f"{self.name} could not be read: {self._dialect.told(error)}"),) * count

    def _release(self, connection: Connection, attempt: Attempt, journal: Journal | None) -> Release:
        effects = self._effects if self._installed else None
        return Release(self._library, effects, self._clock.now, self._lock_timeout, connection, attempt, journal)


NOT_INSTALLED = (
    "there is no table lastlook_effect, so the database cannot tell what became of an attempt: call gate.install() "
    "once, and say by gate.assert_outcome() what became of this one"
)


class Sql(SqlBase):
    """Tables and queries of one database: evidence, and a target whose effects land only while it still holds.

    A row is read as the ORM would load it: every mapped column that is not deferred and whose type has a canonical
    form. A row's token is a digest of its content, so that no version column is needed. The caller's engine, pool and
    sessions are used as they are and left as they were.

    Args:
        engine: the application's own; give it to the gate as `store=` too, and effects and their record share one
            transaction.
        models: mapped classes or tables; the kind of their rows is the table's name.
        queries: named queries as evidence; `bindparam()`s are the parts of the key.
        public: `kind.field` whose values may stand in explanations.
        version: of a model or table, the field that every write moves: one that went backwards, as after a restore,
            makes the row unverifiable. Nothing else compares it.
        lock_timeout: how many seconds one try waits for a lock.

    Raises:
        DeclarationError: a class that is not mapped, a table without primary key, a name given twice, an engine of a
            database that this connector does not know.
    """

    def __init__(
        self,
        engine: Engine,
        /,
        *models: type[Any] | Table[Any],
        queries: Mapping[str, Executable] | None = None,
        public: Iterable[str] = (),
        version: Mapping[Any, str] | None = None,
        lock_timeout: float = 0.25,
    ) -> None:
        if hasattr(engine, "sync_engine"):
            raise DeclarationError("Sql() got an AsyncEngine: use AsyncSql with AsyncGate")
        if not isinstance(cast("object", engine), Engine):
            raise DeclarationError(f"Sql() takes an engine first, not {type(engine).__name__}: create_engine(url)")
        super().__init__(
            engine, models, queries=queries or {}, public=public, version=version or {}, lock_timeout=lock_timeout
        )
        self.engine: Engine = engine
        self._alone = threading.RLock() if isinstance(engine.pool, StaticPool) else None

    @contextlib.contextmanager
    def _connected(self) -> Generator[Connection]:
        """A connection that nobody else is using.

        Raises:
            Busy: there is one connection, and the caller has a transaction open on it.
        """
        with self._alone or contextlib.nullcontext():
            self._dialect.check_pool(self.engine.pool)
            with self.engine.connect() as connection:
                self._dialect.check_connection(connection)
                yield connection

    # The System port.

    def reader(self, addresses: Sequence[Address], /) -> Callable[[], Sequence[Observation | Unreadable]]:
        """A compiled `read_many` for a fixed list of addresses, which never raises."""
        batch = Batch(self._library, addresses)

        def read() -> Sequence[Observation | Unreadable]:
            try:
                with self._connected() as connection:
                    return batch.read(connection)
            except (Busy, SQLAlchemyError) as error:
                return self._unreadable(len(addresses), error)

        return read

    def read_many(self, addresses: Sequence[Address], /) -> Sequence[Observation | Unreadable]:
        """One observation per address, in order, from one snapshot."""
        return self.reader(addresses)()

    # The Target port.

    @property
    def capabilities(self) -> Capabilities:
        """What this database can do; without the effect table it cannot close an attempt."""
        return self._capabilities(installed=self._has_table())

    def _has_table(self) -> bool:
        if self._installed is None:
            with self._connected() as connection:
                self._installed = self._look_for_table(connection)
        return self._installed

    def check_gate(self, store: Store, /, *, asynchronous: bool) -> None:
        """Called when a gate connects, before any effect.

        Raises:
            DeclarationError: the gate is an AsyncGate; the store has the same file open through another engine; or a
                table is in an attached database.
        """
        if asynchronous:
            raise DeclarationError("Sql() cannot be awaited: use AsyncSql with AsyncGate")
        with self._connected() as connection:
            self._dialect.refuse_tables(connection, self._tables)
            self._refuse_one_file(store, self._dialect.file_of(connection))

    def install(self) -> None:
        """Create the table `lastlook_effect` unless it is there."""
        METADATA.create_all(self.engine)
        self._installed = True

    def effect_row(self, intent_id: str, /) -> EffectRow | None:
        """The intent's target row, if there is one."""
        if not self._has_table():
            return None
        with self._connected() as connection:
            return self._effects.find(connection, intent_id)

    def apply(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """Lock, compare, run the body, mark and commit, in one transaction on a connection of its own."""
        try:
            self._has_table()
            with self._connected() as connection:
                return self._apply(self._release(connection, attempt, journal), connection)
        except Busy as error:
            return ApplyResult(Applied.BUSY, reason=str(error))

    def _apply(self, release: Release, connection: Connection) -> ApplyResult:
        try:
            body = release.open()
            if isinstance(body, ApplyResult):
                return body
            permit = SqlPermit(body, connection)
            try:
                value = body.attempt.body(permit)
                permit.flush()
            except Exception as error:  # noqa: BLE001 - raised on to the caller of the gate
                return release.fail(error)
            finally:
                permit.end()
            return release.conclude(value)
        finally:
            release.end()

    def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """End an attempt for good, or say that it has committed; it waits for a rival no longer than `lock_timeout`."""
        try:
            if not self._has_table():
                return CloseResult(Applied.UNKNOWN, reason=NOT_INSTALLED)
            with self._connected() as connection:
                return close_attempt(self._library, self._effects, self._lock_timeout, connection, intent_id, attempt)
        except Busy as error:
            return CloseResult(Applied.UNKNOWN, reason=str(error))


def _near(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # only for a message

    names = sorted(known)
    near = get_close_matches(name, names, 1)
    return f": did you mean {near[0]!r}?" if near else f": there are {', '.join(names) or 'none'}"
