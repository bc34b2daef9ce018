"""What differs between databases: how a writing transaction begins and ends, who was in the way, what a value is."""

from __future__ import annotations

import contextlib
import sqlite3
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Boolean, Float, Numeric
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from lastlook.errors import DeclarationError, LastlookError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from sqlalchemy import Connection, Engine, Pool, Table
    from sqlalchemy.types import TypeEngine

__all__ = ["Busy", "Dialect", "SQLite", "dialect_of"]


class Busy(Exception):
    """A lock could not be had in time; the text says who may hold it."""


class Dialect(Protocol):
    """One database's ways.

    Attributes:
        joined: how many rows one statement may read, and `columns` how many columns it may have.
        single_writer: nobody else writes while a writing transaction is open, so that whatever is read in it holds,
            absence and collections too.
    """

    joined: int
    columns: int
    single_writer: bool

    def check_pool(self, pool: Pool, /) -> None:
        """Called before a connection is taken from a pool.

        Raises:
            Busy: the pool has one connection, which the caller is using.
        """
        ...

    def check_connection(self, connection: Connection, /) -> None:
        """Called before anything is executed on a connection.

        Raises:
            Busy: it is one that the caller is using.
        """
        ...

    def reading(self, connection: Connection, /) -> contextlib.AbstractContextManager[None]:
        """One snapshot for several statements."""
        ...

    def writing(self, connection: Connection, patience: float, /) -> contextlib.AbstractContextManager[None]:
        """A transaction that writes; rolled back unless `commit` was called.

        Raises:
            Busy: it could not begin within so many seconds.
        """
        ...

    def commit(self, connection: Connection, /) -> None:
        """Commit the open writing transaction."""
        ...

    def hold(self, connection: Connection, /) -> None:
        """Mark where the body begins."""
        ...

    def let_go(self, connection: Connection, /) -> bool:
        """Whether what `hold` marked is still there: False if its transaction was ended, whatever was begun since."""
        ...

    def is_open(self, connection: Connection, /) -> bool:
        """Whether the database is in a transaction on this connection."""
        ...

    def is_busy(self, error: BaseException, /) -> bool:
        """Whether an error says that a lock could not be had."""
        ...

    def told(self, error: BaseException, /) -> str:
        """An error in words that hold no value of a row, a key or an argument."""
        ...

    def decoder(self, kind: TypeEngine[Any], /) -> Callable[[Any], Any] | None:
        """How the database's own value of a type becomes exact, where SQLAlchemy's way would lose something."""
        ...

    def rolls_back_itself(self, error: BaseException, /) -> bool:
        """Whether an error may have ended the transaction by itself, with nothing of it left."""
        ...

    def refuse_schema(self, table: Table[Any], /) -> None:
        """Called for each table.

        Raises:
            DeclarationError: effects over it could not be atomic.
        """
        ...

    def refuse_tables(self, connection: Connection, tables: Sequence[str], /) -> None:
        """Called with the names of all tables when a gate connects.

        Raises:
            DeclarationError: effects over one of them could not be atomic.
        """
        ...

    def file_of(self, connection: Connection, /) -> str:
        """The file behind the connection; empty where there is none."""
        ...

    def has_table(self, connection: Connection, name: str, /) -> bool:
        """Whether the database itself, and nothing attached to it, has the table."""
        ...


_FULL = 2
"""What an acknowledged effect needs of `PRAGMA synchronous` to survive a loss of power, in WAL mode too."""

_LEGACY = -1
_HELD = "lastlook_body"
_LOCKED = (
    "the database is locked by another writer: if that is a transaction of your own, such as a session with writes "
    "that it has not committed, end it before the effect is released"
)
_INSIDE = (
    "this engine has one connection, and a transaction of your own is open on it: end it before the effect is released"
)


class SQLite:
    """SQLite by pysqlite or aiosqlite: one writer at a time, so that whatever is read under its lock holds."""

    joined = 60  # SQLite joins 64 tables at most
    columns = 1_900  # and has 2,000 columns in a result
    single_writer = True

    def check_pool(self, pool: Pool, /) -> None:
        """A StaticPool rolls its one connection back whenever somebody returns it, whoever else is using it."""
        record: Any = vars(pool).get("connection") if isinstance(pool, StaticPool) else None
        if record is not None and record.driver_connection is not None and record.driver_connection.in_transaction:
            raise Busy(_INSIDE)

    def check_connection(self, connection: Connection, /) -> None:
        """A SingletonThreadPool gives a thread the connection that it is using already."""
        if isinstance(connection.engine.pool, SingletonThreadPool) and self.is_open(connection):
            raise Busy(_INSIDE)

    @contextlib.contextmanager
    def reading(self, connection: Connection, /) -> Generator[None]:
        """One deferred transaction: the first statement takes the snapshot."""
        if self.is_open(connection):
            yield  # the driver begins its transactions by itself
            return
        connection.exec_driver_sql("BEGIN")
        try:
            yield
        finally:
            connection.exec_driver_sql("ROLLBACK")

    @contextlib.contextmanager
    def writing(self, connection: Connection, patience: float, /) -> Generator[None]:
        """BEGIN IMMEDIATE on a connection whose driver begins nothing by itself for as long as this lasts.

        What is ours alone is executed by the driver, past SQLAlchemy: its listeners have no part in it.
        """
        raw: Any = connection.connection.dbapi_connection
        isolation, mode = raw.isolation_level, getattr(raw, "autocommit", _LEGACY)
        undo: list[str] = []
        try:
            if mode is not _LEGACY:  # from Python 3.12 on: else isolation_level rules
                if self.is_open(connection):
                    _execute(connection, "ROLLBACK")
                raw.autocommit = _LEGACY
            raw.isolation_level = None  # pysqlite's own handling of transactions: off
            connection.begin()
            if self.is_open(connection):  # a listener of the engine's has begun one; it would be a deferred one
                _execute(connection, "ROLLBACK")
            with contextlib.closing(raw.cursor()) as cursor:
                for pragma, ours in (("busy_timeout", int(patience * 1000)), ("synchronous", _FULL)):
                    cursor.execute(f"PRAGMA {pragma}")
                    (found,) = cursor.fetchone()
                    if found != ours and (pragma != "synchronous" or found < ours):  # a caller's stronger one stays
                        undo.append(f"PRAGMA {pragma} = {found}")
                        cursor.execute(f"PRAGMA {pragma} = {ours}")
                try:
                    cursor.execute("BEGIN IMMEDIATE")
                except sqlite3.Error as error:
                    if self.is_busy(error):
                        raise Busy(_LOCKED) from error
                    raise
            yield
        finally:
            if not (connection.closed or connection.invalidated):
                try:
                    self._restore(connection, undo)
                    raw.isolation_level = isolation
                    if mode is not _LEGACY:
                        raw.autocommit = mode
                except (SQLAlchemyError, sqlite3.Error) as error:  # the pool makes another one, set up by the caller
                    connection.invalidate(error)

    def _restore(self, connection: Connection, undo: Sequence[str]) -> None:
        connection.rollback()
        if self.is_open(connection):  # SQLAlchemy may leave that out for a driver that seems to be in autocommit
            _execute(connection, "ROLLBACK")
        for statement in undo:
            _execute(connection, statement)

    def commit(self, connection: Connection, /) -> None:
        """COMMIT by itself first: one that a reader holds up leaves the transaction open; SQLAlchemy's ends it."""
        _execute(connection, "COMMIT")
        connection.commit()  # for SQLAlchemy's own state, and for who listens to the engine

    def hold(self, connection: Connection, /) -> None:
        """A savepoint."""
        _execute(connection, f"SAVEPOINT {_HELD}")

    def let_go(self, connection: Connection, /) -> bool:
        """Release it, and with it every one that was left open since."""
        try:
            _execute(connection, f"RELEASE SAVEPOINT {_HELD}")
        except sqlite3.Error:
            return False
        return True

    def is_open(self, connection: Connection, /) -> bool:
        """Whether SQLite is in a transaction, whoever began it."""
        driver: Any = connection.connection.driver_connection
        return bool(driver.in_transaction)

    def is_busy(self, error: BaseException, /) -> bool:
        """SQLITE_BUSY and SQLITE_LOCKED, with all their extended codes."""
        return _code(error) in (5, 6)

    def told(self, error: BaseException, /) -> str:
        """SQLite's own words name tables and columns, never values; of foreign exceptions only the type is told."""
        origin = _origin(error)
        harmless = isinstance(origin, (sqlite3.Error, LastlookError, Busy))
        return f"{type(origin).__name__}: {origin}" if harmless else type(origin).__name__

    def decoder(self, kind: TypeEngine[Any], /) -> Callable[[Any], Any] | None:
        """Numbers as they are stored: SQLite has no decimal type, and a column may hold anything."""
        if isinstance(kind, Float):
            return None
        if isinstance(kind, Numeric):
            return _exact
        return _boolean if type(kind) is Boolean else None

    def refuse_schema(self, table: Table[Any], /) -> None:
        """A schema of SQLite's is an attached file."""
        if table.schema not in (None, "main"):
            raise DeclarationError(
                f"the table {table.fullname!r} is in a database that is attached to this one, and no effect is atomic "
                "across files: give Sql() an engine of the file that it is in"
            )

    def rolls_back_itself(self, error: BaseException, /) -> bool:
        """SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM and SQLITE_INTERRUPT may roll the whole transaction back."""
        return _code(error) in (7, 9, 10, 13)

    def file_of(self, connection: Connection, /) -> str:
        """The file of the main database."""
        rows = connection.exec_driver_sql("PRAGMA database_list").all()
        return next((str(row[2] or "") for row in rows if row[1] == "main"), "")

    def refuse_tables(self, connection: Connection, tables: Sequence[str], /) -> None:
        """A transaction over attached files is not atomic when the machine crashes, in WAL mode."""
        rows = connection.exec_driver_sql("PRAGMA database_list").all()
        if {row[1] for row in rows} <= {"main", "temp"}:
            return
        for name in tables:
            if not self.has_table(connection, name):
                raise DeclarationError(
                    f"the table {name!r} is not in the main database but in one that is attached to it, and no effect "
                    "is atomic across files: give Sql() an engine of the file that it is in"
                )

    def has_table(self, connection: Connection, name: str, /) -> bool:
        """Whether the main database has a table or view of that name."""
        found = connection.exec_driver_sql("SELECT 1 FROM main.sqlite_master WHERE lower(name) = lower(?)", (name,))
        return found.first() is not None


def _origin(error: BaseException) -> BaseException:
    """The driver's own exception, where SQLAlchemy's stands around it."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def _code(error: BaseException) -> int:
    """SQLite's result code, without what extends it."""
    return int(getattr(_origin(error), "sqlite_errorcode", 0)) & 0xFF


def _execute(connection: Connection, statement: str) -> Any:
    """Execute one of our own statements by the driver; its first row, if it has any."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement)
        return cursor.fetchone() if cursor.description else None
    finally:
        cursor.close()


def _exact(value: Any) -> Any:
    """A stored number as the decimal that it stands for.

    A double holds any decimal of 15 digits, and what a few sums of such decimals have added to it in its last places is
    taken off again. Whatever else it holds is no exact number and stays a float, which no premise compares.
    """
    if type(value) is int:
        return Decimal(value)
    if type(value) is str:
        return Decimal(value)
    if type(value) is not float or value - value != 0:
        return value
    short = Decimal(f"{value:.15g}")
    near = abs(float(short) - value) <= 4 * abs(value) * 2.0**-53
    return short if near else value


def _boolean(value: Any) -> bool | None:
    if value is None or value is True or value is False:
        return value
    if value in (0, 1):
        return bool(value)
    raise ValueError("neither 0 nor 1")


def dialect_of(engine: Engine) -> Dialect:
    """The ways of an engine's database.

    Raises:
        DeclarationError: it is one that this connector does not know.
    """
    if engine.dialect.name == "sqlite":
        return SQLite()
    raise DeclarationError(
        f"Sql() got an engine of {engine.dialect.name!r}, which it does not know how to lock: give it one of SQLite"
    )
