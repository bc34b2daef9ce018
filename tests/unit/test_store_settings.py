"""What a durable store leaves as it was, and what it says when it cannot be used."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool, StaticPool
from stores import altered, asked, proposal, transit

from lastlook import (
    AsyncGate,
    DeclarationError,
    Gate,
    IntegrityError,
    Memory,
    MemoryStore,
    StoreBusy,
    StoreError,
)
from lastlook.ports import Fields
from lastlook.records import Observation, State, Token
from lastlook.store.asynchronous import AsyncSqlStore
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Engine

NOW = FakeClock().now()


def used(store: SqlStore, name: str = "i-1") -> None:
    """Use every way of writing and reading once."""
    store.install()
    assert store.create(proposal(name), NOW, None).ok
    assert store.append(transit(name, 0), NOW).ok
    assert store.load(name) is not None
    store.verify(name)


# A caller's engine.


def _plain(url: str) -> Engine:
    return create_engine(url)


def _autocommit(url: str) -> Engine:
    return create_engine(url, isolation_level="AUTOCOMMIT")


def _null_pool(url: str) -> Engine:
    return create_engine(url, poolclass=NullPool)


def _own_transactions(url: str) -> Engine:
    """The recipe of SQLAlchemy's documentation: the driver begins nothing, and a listener does."""
    engine = create_engine(url)

    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA busy_timeout = 7000")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _always_in_a_transaction(url: str) -> Engine:
    """PEP 249 as Python 3.12 can do it: the driver begins the next transaction as soon as one ends."""
    return create_engine(url, connect_args={"autocommit": False})


def _never_in_a_transaction(url: str) -> Engine:
    return create_engine(url, connect_args={"autocommit": True})


NEWER = [_always_in_a_transaction, _never_in_a_transaction] if sys.version_info >= (3, 12) else []
ENGINES = pytest.mark.parametrize("make", [_plain, _autocommit, _null_pool, _own_transactions, *NEWER])


@ENGINES
def test_a_callers_connections_get_back_what_they_had(tmp_path: Path, make: Callable[[str], Engine]) -> None:
    """Journal mode, durability, patience and isolation of the caller's connections are as before, after any use."""
    engine = make(f"sqlite:///{tmp_path / 'app.db'}")

    def settings() -> tuple[Any, ...]:
        with contextlib.closing(engine.raw_connection()) as connection:
            cursor: Any = connection.cursor()
            pragmas = [cursor.execute(f"PRAGMA {name}").fetchone() for name in ("journal_mode", "synchronous")]
            patience = cursor.execute("PRAGMA busy_timeout").fetchone()
            driver: Any = connection.driver_connection
            return (*pragmas, patience, driver.isolation_level, driver.in_transaction)

    before = settings()
    store = SqlStore(engine)
    used(store)
    with pytest.raises(ZeroDivisionError), store._writing():
        raise ZeroDivisionError
    assert settings() == before
    assert before[0] == ("delete",)
    with Session(engine) as session:
        session.execute(text("CREATE TABLE mine (id INTEGER)"))
        session.commit()
    engine.dispose()


@ENGINES
def test_our_transactions_are_real_on_any_engine(tmp_path: Path, make: Callable[[str], Engine]) -> None:
    """A transition that dies between its row and its record leaves neither; on a caller's AUTOCOMMIT engine too."""
    engine = make(f"sqlite:///{tmp_path / 'app.db'}")
    store = SqlStore(engine)
    used(store)
    with contextlib.suppress(KeyboardInterrupt), store._writing() as cursor:
        assert store._operations.append(cursor, transit("i-1", 1, "WITHDRAWN", State.WITHDRAWN), NOW).ok
        raise KeyboardInterrupt
    stored = store.load("i-1")
    assert stored is not None
    assert (stored.row.state, stored.row.seq, len(store.journal("i-1"))) == (State.OPEN, 1, 2)
    store.verify("i-1")
    engine.dispose()


@ENGINES
def test_nobody_else_writes_while_we_do_and_what_we_write_is_durable(
    tmp_path: Path, make: Callable[[str], Engine]
) -> None:
    """Inside our transaction another writer is locked out from its first statement, and synchronous is FULL."""
    file = tmp_path / "app.db"
    engine = make(f"sqlite:///{file}")
    store = SqlStore(engine)
    used(store)
    with store._writing() as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone() == (2,)
        with contextlib.closing(sqlite3.connect(file, timeout=0)) as other, pytest.raises(sqlite3.OperationalError):
            other.execute("BEGIN IMMEDIATE")
    engine.dispose()


def test_a_session_with_open_writes_makes_us_busy_and_keeps_them(tmp_path: Path) -> None:
    """A writer of the application's own that has not ended is in the way, and told of; it can go on."""
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    store = SqlStore(engine, lock_timeout=0.01)
    used(store)
    with Session(engine) as session:
        session.execute(text("CREATE TABLE mine (id INTEGER)"))
        session.execute(text("INSERT INTO mine VALUES (1)"))
        with pytest.raises(StoreBusy, match="look for a session that keeps a write open") as busy:
            store.create(proposal("i-2"), NOW, None)
        assert isinstance(busy.value.__cause__, sqlite3.OperationalError)
        session.commit()
    assert store.create(proposal("i-2"), NOW, None).ok
    assert asked(tmp_path / "app.db", "SELECT id FROM mine") == [(1,)]
    engine.dispose()


def test_an_exhausted_pool_is_told_of(tmp_path: Path) -> None:
    """Where the application keeps all connections of its pool, the store is busy, and says what would help."""
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}", pool_size=1, max_overflow=0, pool_timeout=0.01)
    store = SqlStore(engine)
    used(store)
    with engine.connect(), pytest.raises(StoreBusy, match="a larger pool"):
        store.load("i-1")
    engine.dispose()


def test_a_file_of_our_own_is_in_wal_mode_and_another_stays(tmp_path: Path) -> None:
    """From a URL, a file that is not there is made in WAL mode; one that is there keeps its mode."""
    mine, theirs = tmp_path / "mine.db", tmp_path / "theirs.db"
    with contextlib.closing(sqlite3.connect(theirs)) as other:
        other.execute("CREATE TABLE other (id INTEGER)")
    for file, mode in ((mine, "wal"), (theirs, "delete")):
        store = SqlStore(f"sqlite:///{file}")
        used(store)
        with store._writing() as cursor:
            assert cursor.execute("PRAGMA synchronous").fetchone() == (2,)
        assert asked(file, "PRAGMA journal_mode") == [(mode,)]
        store.close()


# What cannot hold a store.


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("postgresql://user:secret@host/db", "URL"),
        ("nonsense://user:secret@host/db", "no URL of an installed database driver"),
        ("secret", "no URL"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "plain SQLite file"),
        ("sqlite:///x.db?timeout=1", "plain SQLite file"),
    ],
)
def test_a_url_that_is_no_file_is_refused_without_its_password(given: str, told: str) -> None:
    """A gate is told at connect what its store's URL must be; the password stands in no message."""
    with pytest.raises(DeclarationError, match=told) as refused:
        Gate(Memory(), store=given)
    assert "secret" not in str(refused.value)


def test_an_engine_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """A database in memory, and a pool whose users share one connection, are refused with the way out."""
    with pytest.raises(DeclarationError, match="store=None to keep intents in memory"):
        Gate(store=create_engine("sqlite://"))
    shared = create_engine(f"sqlite:///{tmp_path / 'app.db'}", poolclass=StaticPool)
    with pytest.raises(DeclarationError, match="one shared connection"):
        Gate(store=shared)
    with pytest.raises(DeclarationError, match="give a SQLAlchemy engine, a URL"):
        Gate(store=7)  # type: ignore[arg-type]  # a mistake


# What stands in a store.


def test_a_newer_store_is_refused_before_anything(tmp_path: Path) -> None:
    """A store whose tables a newer version made is neither read nor written, and the message says what to do."""
    file = tmp_path / "app.db"
    engine = create_engine(f"sqlite:///{file}")
    used(SqlStore(engine))
    altered(file, "UPDATE lastlook_meta SET value = '2' WHERE name = 'schema'")
    before = file.read_bytes()
    store = SqlStore(engine)
    uses: list[Callable[[], object]] = [
        store.install,
        lambda: store.load("i-1"),
        lambda: store.create(proposal("i-2"), NOW, None),
        lambda: store.salt,
    ]
    for use in uses:
        with pytest.raises(StoreError, match="version 2, and this version of lastlook knows 1: upgrade lastlook"):
            use()
    assert file.read_bytes() == before
    engine.dispose()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE lastlook_meta SET value = 'one' WHERE name = 'schema'",
        "UPDATE lastlook_meta SET value = '0' WHERE name = 'schema'",
        "UPDATE lastlook_meta SET value = '' WHERE name = 'namespace'",
        "UPDATE lastlook_meta SET value = 'pepper' WHERE name = 'salt'",
        "UPDATE lastlook_meta SET value = 'ab' WHERE name = 'salt'",
        "DELETE FROM lastlook_meta WHERE name = 'salt'",
        "DELETE FROM lastlook_meta WHERE name = 'schema'",
    ],
)
def test_an_edited_description_of_the_store_is_refused(tmp_path: Path, edit: str) -> None:
    """A store that does not say of itself what lastlook wrote is not used."""
    file = tmp_path / "app.db"
    engine = create_engine(f"sqlite:///{file}")
    used(SqlStore(engine))
    assert altered(file, edit) == 1
    with pytest.raises(StoreError, match="restore"):
        SqlStore(engine).load("i-1")
    engine.dispose()


def test_somebody_elses_tables_are_not_taken(tmp_path: Path) -> None:
    """Tables of our names and another make are told of, and stay as they are."""
    file = tmp_path / "app.db"
    altered(file, "CREATE TABLE lastlook_intent (id INTEGER)")
    engine = create_engine(f"sqlite:///{file}")
    with pytest.raises(StoreError, match="other columns than lastlook's"):
        SqlStore(engine).install()
    names = asked(file, "SELECT name FROM sqlite_master WHERE type = 'table'")
    assert names == [("lastlook_intent",)]
    engine.dispose()


@pytest.mark.parametrize("seq", [0, 1])
def test_a_record_of_a_newer_version_is_told_of(tmp_path: Path, seq: int) -> None:
    """A record that a newer version wrote, whole and well chained, is an error with the remedy, and no crash."""
    file = tmp_path / "app.db"
    store = SqlStore(f"sqlite:///{file}")
    store.install()
    newer: dict[str, Any] = {"schema": 2, "outcome": "KEEP", "new": "thing"}
    if seq:
        store.create(proposal("i-1"), NOW, None)
        store.append(transit("i-1", 0, body=newer), NOW)
    else:
        from lastlook import canonical
        from lastlook.store.chains import chain_digest

        store.create(proposal("i-1"), NOW, None)
        body = canonical.encode(newer)
        (at_us,) = asked(file, "SELECT at_us FROM lastlook_journal")[0]
        digest = chain_digest("", "i-1", 0, "PROPOSED", at_us, body)
        altered(file, "UPDATE lastlook_journal SET body = ?, digest = ?", body, digest)
        altered(file, "UPDATE lastlook_intent SET head = ?", digest)
    reopened = SqlStore(f"sqlite:///{file}")
    for use in (reopened.load, reopened.verify):
        with pytest.raises(IntegrityError, match=r"schema 2.*upgrade lastlook"):
            use("i-1")
    gate = Gate(Memory(), store=reopened)
    assert [intent.id for intent in gate.pending()] == ["i-1"], "it is listed, so that others can see to it"
    for each in (store, reopened):
        each.close()


# What happens to files.


def test_a_database_opened_for_reading(tmp_path: Path) -> None:
    """An engine that only reads cannot write, which is told of, and reading goes on; nothing is half-done."""
    file = tmp_path / "app.db"
    used(SqlStore(create_engine(f"sqlite:///{file}", poolclass=NullPool)))
    engine = create_engine(f"sqlite:///file:{file}?mode=ro&uri=true", poolclass=NullPool)
    store = SqlStore(engine)
    with pytest.raises(StoreError, match="cannot be written: make the file and its folder writable"):
        store.create(proposal("i-2"), NOW, None)
    assert store.load("i-1") is not None
    assert list(store.pending()) == ["i-1"]


def test_a_full_disk(tmp_path: Path) -> None:
    """Where there is no room, nothing is half-done, and the message says so; with room again it goes on."""
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    store = SqlStore(engine)
    used(store)
    pages: list[int] = [1]

    def limit(connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")

    event.listen(engine, "checkout", limit)
    big = {"note": "x" * 100_000}
    with pytest.raises(StoreError, match="no room for the store") as full:
        store.append(transit("i-1", 1, body=big), NOW)
    assert not isinstance(full.value, StoreBusy)
    with pytest.raises(StoreError, match="no room for the store"):
        store.create(proposal("i-2", captured=big), NOW, None)
    assert (list(store.intents()), len(store.journal("i-1"))) == (["i-1"], 2)
    store.verify("i-1")
    pages[0] = 100_000
    assert store.append(transit("i-1", 1, body=big), NOW).ok
    store.verify("i-1")
    engine.dispose()


@pytest.mark.parametrize("form", ["engine", "url"])
def test_a_file_that_is_no_database(tmp_path: Path, form: str) -> None:
    """A file of another kind is told of, and stays as it is."""
    file = tmp_path / "notes.txt"
    file.write_text("remember the milk\n" * 100)
    given: Any = f"sqlite:///{file}" if form == "url" else create_engine(f"sqlite:///{file}")
    store = SqlStore(given)
    uses: list[Callable[[], object]] = [store.install, lambda: store.load("i-1")]
    for use in uses:
        with pytest.raises(StoreError, match="is no SQLite database"):
            use()
    assert file.read_text().startswith("remember the milk")
    store.engine.dispose()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A path through a missing folder is told of by install, which makes files and no folders."""
    store = SqlStore(f"sqlite:///{tmp_path / 'no' / 'store.db'}")
    with pytest.raises(StoreError, match="see that its folder is there"):
        store.install()
    assert not (tmp_path / "no").exists()


def test_a_torn_file_is_told_of(tmp_path: Path) -> None:
    """A page of zeros in the middle is an error with the remedy."""
    file = tmp_path / "app.db"
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)
    used(SqlStore(engine))
    pages = bytearray(file.read_bytes())
    pages[4096:] = b"\xff" * (len(pages) - 4096)
    file.write_bytes(pages)
    with pytest.raises(StoreError, match="is damaged: restore it from a backup"):
        SqlStore(engine).load("i-1")


def test_both_colours_tell_the_same(tmp_path: Path) -> None:
    """Missing tables, no database and a missing folder read the same where they are awaited."""
    import asyncio

    file = tmp_path / "notes.txt"
    file.write_text("remember the milk\n" * 100)

    async def run() -> None:
        empty = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}")
        with pytest.raises(StoreError, match=r"call gate\.install\(\) once"):
            await AsyncSqlStore(empty).load("i-1")
        other = create_async_engine(f"sqlite+aiosqlite:///{file}")
        with pytest.raises(StoreError, match="is no SQLite database"):
            await AsyncSqlStore(other).load("i-1")
        nowhere = AsyncSqlStore(f"sqlite:///{tmp_path / 'no' / 'store.db'}")
        with pytest.raises(StoreError, match="see that its folder is there"):
            await nowhere.install()
        with pytest.raises(DeclarationError, match="in memory"):
            AsyncGate(store=create_async_engine("sqlite+aiosqlite://"))
        for engine in (empty, other):
            await engine.dispose()

    asyncio.run(run())


# The store's own evidence, and its clock.


class Approvals:
    """Evidence that the store owns: one token for everything."""

    name = "approvals"
    kinds = ("approvals",)

    def __init__(self) -> None:
        self.version = 1

    def fields(self, _: str, /) -> Any:
        """Nobody knows."""
        return Fields(frozenset(), complete=False)

    def is_public(self, _kind: str, _field: str, /) -> bool:
        """Nothing is."""
        return False

    def read_many(self, addresses: Any, /) -> list[Observation]:
        """What stands there."""
        return [Observation((), Token("counter", "approvals", self.version)) for _ in addresses]


@pytest.mark.parametrize("kind", ["memory", "sql"])
def test_evidence_of_the_stores_own_is_compared_with_the_attempt(tmp_path: Path, kind: str) -> None:
    """An attempt that rests on the store's own evidence opens only while its token is the one that was seen."""
    from lastlook.records import Address

    owned = Approvals()
    store: Any = MemoryStore(owned) if kind == "memory" else SqlStore(f"sqlite:///{tmp_path / 's.db'}", evidence=owned)
    if kind == "sql":
        store.install()
    store.create(proposal("i-1"), NOW, None)
    address = Address("approvals", ("a",))
    seen = owned.read_many([address])[0]
    owned.version += 1
    opened = transit("i-1", 0, "ATTEMPT", State.ATTEMPT, attempt=1, checks=((address, seen),))
    refused = store.append(opened, NOW)
    assert (refused.ok, refused.stale) == (False, "approvals/a")
    owned.version -= 1
    assert store.append(opened, NOW).ok
    if kind == "sql":
        store.close()


def test_an_attempt_opens_only_before_the_expiry(tmp_path: Path) -> None:
    """At the very microsecond of its expiry an intent can no longer be attempted."""
    store = SqlStore(f"sqlite:///{tmp_path / 's.db'}")
    store.install()
    last = NOW + dt.timedelta(seconds=1)
    store.create(proposal("i-1", expires_us=int(last.timestamp() * 1_000_000)), NOW, None)
    opened = transit("i-1", 0, "ATTEMPT", State.ATTEMPT, attempt=1)
    assert not store.append(opened, last).ok
    assert store.append(opened, last - dt.timedelta(microseconds=1)).ok
    store.close()
