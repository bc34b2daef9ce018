"""What is SQLite's own about a durable store: its transactions, its durability, its errors.

A caller's engine is used through connections of its pool, each put back as it was found: neither the journal mode nor
any other setting of the file, of the engine or of its sessions changes. The driver's own transactions are switched off
for as long as ours last, so that it does not matter how the engine was made.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from lastlook.errors import DeclarationError, IntegrityError, StoreBusy, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sqlalchemy import URL, Engine

__all__ = ["check_engine", "database_of", "explained", "in_transaction", "preparing", "writing"]

_FULL = 2
_LEGACY = -1


def database_of(url: URL) -> str:
    """How messages name the database: never with a password."""
    if url.get_backend_name() == "sqlite":
        return url.database or "memory"
    return url.set(query={}).render_as_string(hide_password=True)


def check_engine(engine: Engine) -> None:
    """Refuse an engine that cannot hold a store.

    Raises:
        DeclarationError: another database than SQLite, one in memory, or a pool whose users share a connection.
    """
    where = database_of(engine.url)
    if engine.dialect.name != "sqlite":
        raise DeclarationError(f"store= got an engine of {where}: this version stores intents in SQLite only")
    database = engine.url.database or ""
    if not database or database.startswith(":memory:") or "mode=memory" in f"{engine.url.query} {database}":
        raise DeclarationError(
            "store= got a SQLite database in memory, which is lost with its connection: "
            "give it a file, or store=None to keep intents in memory"
        )
    if isinstance(engine.pool, (SingletonThreadPool, StaticPool)):
        raise DeclarationError(
            f"the engine of {where} gives its users one shared connection ({type(engine.pool).__name__}), on which no "
            "transaction is anybody's own: make it with the default pool"
        )


def in_transaction(connection: Any) -> bool:
    """Whether a pooled connection has a transaction open."""
    return bool(connection.driver_connection.in_transaction)


@contextlib.contextmanager
def writing(connection: Any, patience: float, *, own: bool) -> Generator[Any]:
    """A cursor in a transaction that is alone in writing from its first statement, and durable when this returns.

    Args:
        connection: a pooled connection, which nobody else uses.
        patience: how many seconds to wait for another writer.
        own: all connections of its pool are ours, and were set up by `prepare`.
    """
    cursor = connection.cursor()
    with contextlib.nullcontext() if own else _set_up(connection, cursor, patience):
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            cursor.execute("SELECT 1")  # a cancelled task does not stop what a driver's thread is at: wait for it
            if in_transaction(connection):
                cursor.execute("ROLLBACK")
            raise


def preparing(patience: float) -> Callable[[Any, object], None]:
    """What sets up each new connection of an engine that is all ours."""

    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        cursor.execute(f"PRAGMA synchronous = {_FULL}")
        cursor.close()

    return prepare


@contextlib.contextmanager
def _set_up(connection: Any, cursor: Any, patience: float) -> Generator[None]:
    """Our transactions, patience and durability on somebody else's connection, which gets back what it had."""
    driver = connection.dbapi_connection
    isolation, mode = driver.isolation_level, getattr(driver, "autocommit", _LEGACY)
    undo: list[str] = []
    try:
        if mode is False:  # the driver keeps a transaction open at all times
            driver.autocommit = True
        driver.isolation_level = None
        for pragma, ours in (("synchronous", _FULL), ("busy_timeout", int(patience * 1000))):
            cursor.execute(f"PRAGMA {pragma}")
            (found,) = cursor.fetchone()
            if found < ours or (found > ours and pragma == "busy_timeout"):  # stronger than FULL may stay
                undo.append(f"PRAGMA {pragma} = {found}")
                cursor.execute(f"PRAGMA {pragma} = {ours}")
        yield
    finally:
        try:
            for statement in undo:
                cursor.execute(statement)
            driver.isolation_level = isolation
            if mode is False:
                driver.autocommit = False
        except BaseException:
            connection.invalidate()  # INVARIANT: nobody gets a connection that still has our settings
            raise


@contextlib.contextmanager
def explained(engine: Engine) -> Generator[None]:
    """Whatever SQLite or the pool says, in words that tell what to do.

    Raises:
        StoreBusy: others kept the file, or all connections of the pool, for too long.
        StoreError: it cannot be used.
        IntegrityError: there is something where a record or a row was to be written.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _in_words(error, database_of(engine.url)) from error
    except DBAPIError as error:
        if not isinstance(error.orig, sqlite3.Error):
            raise
        raise _in_words(error.orig, database_of(engine.url)) from error
    except PoolTimeout as error:
        raise StoreBusy(
            f"no connection to the store in {database_of(engine.url)} came free: nothing was written; try again, "
            "or give the engine a larger pool"
        ) from error


def _in_words(error: sqlite3.Error, where: str) -> StoreError | IntegrityError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    text = str(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(
            f"the store in {where} was locked by another transaction for too long: nothing was written; try again, and "
            "look for a session that keeps a write open"
        )
    if "no such table: lastlook_" in text:
        return StoreError(f"the store in {where} lacks its tables: call gate.install() once")
    if "no such column" in text or "has no column" in text:
        return StoreError(
            f"a table of the store in {where} has other columns than lastlook's: it is not lastlook's, or was changed; "
            "restore it, or give the store a database of its own"
        )
    if isinstance(error, sqlite3.IntegrityError):
        return IntegrityError(
            f"the store in {where} holds a record or a row that was not written in its turn ({text}): nothing was "
            "written; restore the store"
        )
    for codes, message in _MESSAGES:
        if code in codes:
            return StoreError(message.format(where=where))
    return StoreError(f"the store in {where} failed ({type(error).__name__}: {text}): nothing was written")


_MESSAGES = (
    (
        (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM),
        "the store in {where} cannot be written: make the file and its folder writable for this process",
    ),
    (
        (sqlite3.SQLITE_FULL,),
        "there is no room for the store in {where}: free some, or raise its limit; nothing was written",
    ),
    (
        (sqlite3.SQLITE_NOTADB,),
        "{where} is no SQLite database: name another file, or restore this one",
    ),
    (
        (sqlite3.SQLITE_CORRUPT,),
        "the database {where} is damaged: restore it from a backup, then call gate.reconcile()",
    ),
    (
        (sqlite3.SQLITE_CANTOPEN,),
        "the store in {where} cannot be opened: see that its folder is there and may be used by this process",
    ),
    (
        (sqlite3.SQLITE_IOERR,),
        "the file of the store in {where} could not be read or written: look at the disk before going on",
    ),
)
