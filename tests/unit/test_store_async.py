"""The durable store under `AsyncGate`: the same records, awaited; and in a target's own transaction, at once."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from shop import Order, open_shop
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine
from stores import altered, asked, proposal, transit

from lastlook import (
    AsyncGate,
    Change,
    DeclarationError,
    EffectBlocked,
    Gate,
    IntegrityError,
    KeyReused,
    Memory,
    MemoryPermit,
    StoreError,
    arg,
    block_unless,
    resource,
)
from lastlook.records import State
from lastlook.store.asynchronous import AsyncSqlStore
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock
from lastlook_connectors.sql import AsyncSql, AsyncSqlPermit, row

if TYPE_CHECKING:
    from pathlib import Path

NOW = FakeClock().now()


def test_both_colours_write_the_same_bytes(tmp_path: Path) -> None:
    """One history through either colour is one journal, digest for digest, and each reads the other's."""
    file = tmp_path / "store.db"
    journals: list[Any] = []

    async def awaited() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        store = AsyncSqlStore(engine)
        await store.install()
        await store.create(proposal("i-1"), NOW, None)
        assert (await store.append(transit("i-1", 0, "ATTEMPT", State.ATTEMPT, attempt=1, owner="a"), NOW)).ok
        assert not (await store.append(transit("i-1", 0), NOW)).ok
        journals.append(await store.journal("i-1"))
        await store.verify("i-1")
        assert (list(await store.pending()), list(await store.intents("i"))) == (["i-1"], ["i-1"])
        assert await store.news(0) == (1, (("i-1", "refund"),))
        stored = await store.load("i-1")
        assert stored is not None
        assert tuple(stored.row) == (State.ATTEMPT, 1, 1, "a", None)
        await engine.dispose()

    asyncio.run(awaited())
    store = SqlStore(f"sqlite:///{tmp_path / 'other.db'}")
    store.install()
    store.create(proposal("i-1"), NOW, None)
    store.append(transit("i-1", 0, "ATTEMPT", State.ATTEMPT, attempt=1, owner="a"), NOW)
    journals.append(store.journal("i-1"))
    reread = SqlStore(f"sqlite:///{file}")
    journals.append(reread.journal("i-1"))
    assert journals[0] == journals[1] == journals[2]
    for each in (store, reread):
        each.close()


def test_a_targets_transaction_takes_the_record(tmp_path: Path) -> None:
    """With a connection, lock and append answer at once, and the record lives or dies with that transaction."""

    async def run() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'store.db'}")
        store = AsyncSqlStore(engine)
        await store.install()
        await store.create(proposal("i-1"), NOW, None)

        def release(on: Any, end: str) -> None:
            on.exec_driver_sql("BEGIN IMMEDIATE")
            assert store.lock("i-1", 0, on)
            assert not store.lock("i-1", 1, on)
            assert store.append(transit("i-1", 0, "COMMITTED", State.COMMITTED), NOW, on=on).ok
            on.exec_driver_sql(end)

        async with engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(StoreError, match="no transaction open"):
                await connection.run_sync(lambda on: store.lock("i-1", 0, on))
            await connection.run_sync(release, "ROLLBACK")
            assert list(await store.pending()) == ["i-1"]
            await connection.run_sync(release, "COMMIT")
        assert list(await store.pending()) == []
        await store.verify("i-1")
        await engine.dispose()

    asyncio.run(run())


def test_an_async_gate_from_a_url(tmp_path: Path) -> None:
    """Install, propose, release, call, list, hint: everything goes through the awaited store, and ends in the file."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    world = Memory(orders={"o-1": {"refunded": False}, "o-2": {"refunded": False}})
    order = resource("orders", arg.order_id)

    def gate_of() -> tuple[AsyncGate, Any]:
        gate = AsyncGate(world, store=url)

        @gate.effect(target=order, premises=[block_unless(~order.refunded)])
        async def refund(permit: MemoryPermit, order_id: str) -> str:
            permit.change("orders", order_id, refunded=True)
            return "refunded"

        return gate, refund

    async def run() -> None:
        gate, refund = gate_of()
        other, elsewhere = gate_of()
        with pytest.raises(StoreError, match=r"call gate\.install\(\) once"):
            await refund.propose("o-1")
        await gate.install()
        tx = gate.transaction()
        await tx.read(resource("orders", "o-1"))
        intent = await tx.propose(refund, "o-1")
        assert await other.pending() == [intent]
        assert await elsewhere.intent(intent.id) == await other.intent(intent.id) == intent
        assert [preview.outcome.name for preview in await other.affected(Change("orders", "o-1", "refunded"))] == [
            "KEEP"
        ]
        assert (await other.preview(intent)).outcome.name == "KEEP"
        verdict = await other(intent)
        assert (verdict.committed, (await gate(intent)).result()) == (True, "refunded")
        with pytest.raises(EffectBlocked):
            await refund("o-1")
        keyed = await refund.options(key="k").propose("o-2")
        assert await elsewhere.options(key="k").propose("o-2") == keyed
        with pytest.raises(KeyReused):
            await elsewhere.options(key="k").propose("o-1")
        assert await gate.reconcile() == []
        await gate.withdraw(keyed)
        assert await other.pending() == []
        await gate.aclose()
        await other.aclose()

    asyncio.run(run())
    states = asked(tmp_path / "store.db", "SELECT state FROM lastlook_intent ORDER BY rowid")
    assert states == [("COMMITTED",), ("WITHDRAWN",), ("WITHDRAWN",)]
    assert asked(tmp_path / "store.db", "PRAGMA journal_mode") == [("wal",)]


def test_a_sweep_sees_to_the_others_before_it_tells_of_an_edited_record(tmp_path: Path) -> None:
    """One intent whose record was edited stops neither the listing of the others nor their reconciliation."""
    file = tmp_path / "store.db"
    world = Memory(orders={})
    gate = Gate(world, store=f"sqlite:///{file}")
    gate.install()
    store = SqlStore(f"sqlite:///{file}")
    for name in ("i-1", "i-2"):
        store.create(proposal(name), NOW, None)
        store.append(transit(name, 0, "ATTEMPT", State.ATTEMPT, attempt=1, owner="gone", deadline_us=0), NOW)
    altered(file, "UPDATE lastlook_journal SET kind = 'VERDICT' WHERE intent_id = 'i-1' AND seq = 1")
    assert [intent.id for intent in gate.pending()] == ["i-1", "i-2"]
    with pytest.raises(IntegrityError, match="record 1 of intent i-1"):
        gate.reconcile()
    assert gate.affected(Change("orders", "o-1")) == []
    store.close()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_an_engine_of_the_other_colour_is_refused(tmp_path: Path, colour: str) -> None:
    """A gate says at connect that it cannot use the other colour's engine, and what to give."""
    url = tmp_path / "store.db"
    if colour == "sync":
        awaited = create_async_engine(f"sqlite+aiosqlite:///{url}")
        for given in (awaited, awaited.sync_engine):
            with pytest.raises(DeclarationError, match=r"which Gate cannot do: give the Engine of create_engine\(\)"):
                Gate(store=given)
        with pytest.raises(DeclarationError, match="use AsyncGate, or SqlStore with Gate"):
            Gate(store=AsyncSqlStore(awaited))  # type: ignore[arg-type]  # a mistake
        with pytest.raises(DeclarationError, match="has to be awaited: use AsyncGate, or 'sqlite'"):
            Gate(store=f"sqlite+aiosqlite:///{url}")
    else:
        with pytest.raises(DeclarationError, match=r"give the AsyncEngine of create_async_engine\(\)"):
            AsyncGate(store=create_engine(f"sqlite:///{url}"))


def test_an_awaited_store_says_that_it_was_not_opened(tmp_path: Path) -> None:
    """What needs the store's salt before anything was awaited is told what to await."""
    store = AsyncSqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    with pytest.raises(StoreError, match=r"await store\.ready\(\) first"):
        _ = store.salt


@pytest.mark.parametrize("reset", ["rollback", None])
def test_a_cancelled_write_leaves_no_transaction_open(tmp_path: Path, reset: Any) -> None:
    """A task that is cancelled at any step of its write leaves nothing locked and nothing half-done."""

    async def run() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'store.db'}", pool_reset_on_return=reset)
        store = AsyncSqlStore(engine, lock_timeout=0.2)
        await store.install()
        async with engine.connect() as other, engine.connect() as another:  # so that both are at hand
            await other.execution_options(isolation_level="AUTOCOMMIT")
            await another.close()
            for steps in range(40):
                locked = steps % 2 == 0
                if locked:
                    await other.execute(text("BEGIN IMMEDIATE"))
                waiting = asyncio.ensure_future(store.create(proposal(f"i-{steps}"), NOW, None))
                for _ in range(steps):
                    await asyncio.sleep(0)
                waiting.cancel()
                if locked:
                    await other.execute(text("ROLLBACK"))
                with contextlib.suppress(asyncio.CancelledError):
                    await waiting
                assert (await store.create(proposal(f"after-{steps}"), NOW, None)).ok
        for name in await store.intents():
            await store.verify(name)
        await engine.dispose()

    asyncio.run(run())


def test_an_async_call_on_one_engine_is_one_transaction(tmp_path: Path) -> None:
    """Proposal, check, awaited body, effect row and record commit together; a refused call is recorded, withdrawn."""
    open_shop(tmp_path / "shop.db").dispose()

    async def run() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
        gate = AsyncGate(AsyncSql(engine, Order), store=engine)
        await gate.install()
        order = row(Order, arg.order_id)

        @gate.effect(target=order, premises=[block_unless(~order.refunded)])
        async def refund(permit: AsyncSqlPermit, order_id: str) -> str:
            found = await permit.session.get_one(Order, order_id)
            found.refunded = True
            await permit.session.commit()
            return "refunded"

        sent: list[str] = []

        def listen(connection: Any, *_: Any) -> None:
            connection.driver_connection._conn.set_trace_callback(sent.append)

        event.listen(engine.sync_engine, "checkout", listen)
        assert await refund("o-1") == "refunded"
        assert [sql for sql in sent if sql in ("BEGIN IMMEDIATE", "COMMIT")] == ["BEGIN IMMEDIATE", "COMMIT"]
        with pytest.raises(EffectBlocked):
            await refund("o-1")
        assert await gate.pending() == []
        await gate.aclose()
        await engine.dispose()

    asyncio.run(run())
    kinds = asked(tmp_path / "shop.db", "SELECT kind FROM lastlook_journal ORDER BY rowid")
    assert kinds == [("PROPOSED",), ("COMMITTED",), ("PROPOSED",), ("VERDICT",), ("WITHDRAWN",)]
