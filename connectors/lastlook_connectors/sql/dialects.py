"""What differs between databases: how a writing transaction begins and ends, who was in the way, what a value is."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Boolean, Float, Numeric
from sqlalchemy.exc import DBAPIError

from lastlook.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sqlalchemy import Connection, Engine
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

    def is_open(self, connection: Connection, /) -> bool:
        """Whether the database is in a transaction on this connection."""
        ...

    def is_busy(self, error: BaseException, /) -> bool:
        """Whether an error says that a lock could not be had."""
        ...

    def decoder(self, kind: TypeEngine[Any], /) -> Callable[[Any], Any] | None:
        """How the database's own value of a type becomes exact, where SQLAlchemy's way would lose something."""
        ...

    def file_of(self, connection: Connection, /) -> str:
        """The file behind the connection; empty where there is none."""
        ...

    def has_table(self, connection: Connection, name: str, /) -> bool:
        """Whether the database itself, and nothing attached to it, has the table."""
        ...


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

    @contextlib.contextmanager
    def reading(self, connection: Connection, /) -> Generator[None]:
        """One deferred transaction: the first statement takes the snapshot."""
        if self.is_open(connection):
            yield  # the engine begins its transactions by itself, or it has one connection and is in use
            return
        connection.exec_driver_sql("BEGIN")
        try:
            yield
        finally:
            connection.exec_driver_sql("ROLLBACK")

    @contextlib.contextmanager
    def writing(self, connection: Connection, patience: float, /) -> Generator[None]:
        """BEGIN IMMEDIATE on a connection whose driver begins nothing by itself for as long as this lasts."""
        if self.is_open(connection):
            raise Busy(_INSIDE)
        raw: Any = connection.connection.dbapi_connection
        isolation = raw.isolation_level
        raw.isolation_level = None  # pysqlite's own handling of transactions: off
        before: int | None = None
        try:
            connection.begin()
            if self.is_open(connection):  # a listener of the engine's has begun one; it would be a deferred one
                connection.exec_driver_sql("ROLLBACK")
            before = int(connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one())
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(patience * 1000)}")
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            except DBAPIError as error:
                if self.is_busy(error):
                    raise Busy(_LOCKED) from error
                raise
            yield
        finally:
            with contextlib.suppress(DBAPIError):  # a broken connection has nothing left to restore
                self._restore(connection, raw, isolation, before)

    def _restore(self, connection: Connection, raw: Any, isolation: str | None, before: int | None) -> None:
        if connection.closed or connection.invalidated:
            return
        if self.is_open(connection):
            connection.exec_driver_sql("ROLLBACK")
        if before is not None:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {before}")
        connection.rollback()
        raw.isolation_level = isolation

    def commit(self, connection: Connection, /) -> None:
        """COMMIT, by way of SQLAlchemy, so that who listens to the engine hears it."""
        connection.commit()

    def is_open(self, connection: Connection, /) -> bool:
        """Whether SQLite is in a transaction, whoever began it."""
        driver: Any = connection.connection.driver_connection
        return bool(driver.in_transaction)

    def is_busy(self, error: BaseException, /) -> bool:
        """SQLITE_BUSY and SQLITE_LOCKED, with all their extended codes."""
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in (5, 6)

    def decoder(self, kind: TypeEngine[Any], /) -> Callable[[Any], Any] | None:
        """Numbers as they are stored: SQLite has no decimal type, and a column may hold anything."""
        if isinstance(kind, Float):
            return None
        if isinstance(kind, Numeric):
            return _exact
        return _boolean if type(kind) is Boolean else None

    def file_of(self, connection: Connection, /) -> str:
        """The file of the main database."""
        rows = connection.exec_driver_sql("PRAGMA database_list").all()
        return next((str(row[2] or "") for row in rows if row[1] == "main"), "")

    def has_table(self, connection: Connection, name: str, /) -> bool:
        """Whether the main database has a table or view of that name."""
        found = connection.exec_driver_sql("SELECT 1 FROM main.sqlite_master WHERE lower(name) = lower(?)", (name,))
        return found.first() is not None


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
