"""`AsyncSql` under AsyncGate: the same outcomes, with the body awaited inside the transaction."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from shop import Base, Order, Policy, change, open_shop
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import create_async_engine

from lastlook import (
    Applied,
    AsyncGate,
    DeclarationError,
    EffectBlocked,
    Gate,
    MemoryStore,
    Outcome,
    arg,
    block_unless,
    replan_unless,
)
from lastlook.commands import Apply
from lastlook.testing import failpoint, interpose
from lastlook_connectors.sql import AsyncSql, AsyncSqlPermit, Sql, row

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path


class Apart(MemoryStore):
    """A store that is durable elsewhere."""

    durable = True


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine."""
    asyncio.run(work)


class Shop:
    """An asynchronous shop, and a plain engine for what others do to it."""

    def __init__(self, path: Path, *, same: bool) -> None:
        self.plain = open_shop(path)
        self.engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        self.system = AsyncSql(self.engine, Order, Policy)
        self.gate = AsyncGate(self.system, store=self.engine if same else Apart())
        order = row(Order, arg.order_id)
        policy = row(Policy, order.region)
        gate = self.gate

        @gate.effect(
            target=order,
            premises=[
                replan_unless(order.delivered),
                block_unless(~order.refunded),
                block_unless(arg.amount <= policy.limit),
            ],
        )
        async def refund(permit: Any, order_id: str, amount: Decimal) -> str:
            found = await permit.session.get_one(Order, order_id)
            found.refunded = True
            await permit.session.commit()
            return f"{found.id}: {amount}"

        self.refund: Any = refund

    async def start(self) -> None:
        """Install what it needs."""
        await self.gate.install()

    async def refunded(self) -> bool:
        """Whether the order is."""
        async with self.engine.connect() as connection:
            return bool(await connection.scalar(select(Order.refunded).where(Order.id == "o-1")))

    async def stop(self) -> None:
        """Close every connection."""
        await self.gate.aclose()
        await self.engine.dispose()
        self.plain.dispose()


@pytest.fixture(params=[False, True], ids=["apart", "same"])
def shop(request: Any, tmp_path: Path) -> Shop:
    """A shop with its store elsewhere or in the same engine."""
    return Shop(tmp_path / "shop.db", same=request.param)


def test_an_unchanged_world_keeps(shop: Shop) -> None:
    """The coroutine's own commit lands with the check, once."""

    async def work() -> None:
        await shop.start()
        intent = await shop.refund.propose("o-1", amount=Decimal(80))
        verdict = await shop.gate(intent)
        assert (verdict.outcome, verdict.applied, verdict.result()) == (Outcome.KEEP, Applied.COMMITTED, "o-1: 80")
        assert await shop.refunded()
        again = await shop.gate(intent)
        assert again.committed
        await shop.stop()

    run(work())


@pytest.mark.parametrize("when", ["before", "race"])
def test_a_change_blocks(shop: Shop, when: str) -> None:
    """A limit that falls before the gate, or between its look and the effect, blocks."""

    async def work() -> None:
        await shop.start()
        intent = await shop.refund.propose("o-1", amount=Decimal(80))

        def fall() -> None:
            change(shop.plain, Policy, "uk", limit=Decimal(50))

        if when == "before":
            fall()
            verdict = await shop.gate(intent)
        else:
            with interpose(shop.gate, fall):
                verdict = await shop.gate(intent)
        assert verdict.outcome is Outcome.BLOCK
        assert not await shop.refunded()
        await shop.stop()

    run(work())


def test_a_body_that_raises_leaves_nothing(shop: Shop) -> None:
    """The body's own exception comes through, what it had written is gone, and the intent is open again."""

    async def work() -> None:
        await shop.start()
        gate = shop.gate
        order = row(Order, arg.order_id)

        @gate.effect(target=order, premises=[block_unless(~order.refunded)])
        async def fails(permit: Any, order_id: str) -> None:
            (await permit.session.get_one(Order, order_id)).refunded = True
            await permit.session.commit()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fails("o-1")
        assert not await shop.refunded()
        await shop.stop()

    run(work())


def test_a_lost_reply_is_found_again(tmp_path: Path) -> None:
    """The target committed and its answer never came: the next gate finds the commit."""
    shop = Shop(tmp_path / "shop.db", same=False)

    async def work() -> None:
        await shop.start()
        intent = await shop.refund.propose("o-1", amount=Decimal(80))

        def crash(command: Any, reply: Any) -> None:
            raise ConnectionError

        with failpoint(shop.gate, Apply, after=crash):
            verdict = await shop.gate(intent)
        assert (verdict.applied, verdict.result()) == (Applied.COMMITTED, "o-1: 80")
        await shop.stop()

    run(work())


def test_each_colour_has_its_gate(tmp_path: Path) -> None:
    """Sql under AsyncGate and AsyncSql under Gate are refused when the gate connects, with the remedy."""
    shop = Shop(tmp_path / "shop.db", same=False)
    with pytest.raises(DeclarationError, match="use AsyncSql"):
        AsyncGate(Sql(shop.plain, Order), store=Apart())
    with pytest.raises(DeclarationError, match="use AsyncGate"):
        Gate(shop.system, store=Apart())
    with pytest.raises(DeclarationError, match="use AsyncSql"):
        Sql(shop.engine, Order)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match="create_async_engine"):
        AsyncSql(shop.plain, Order)  # type: ignore[arg-type]
    run(shop.stop())


def test_in_memory() -> None:
    """A database in memory, whose one connection everybody shares, works under AsyncGate too."""
    engine = create_async_engine("sqlite+aiosqlite://")
    system = AsyncSql(engine, Order, Policy)
    gate = AsyncGate(system)
    order = row(Order, arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    async def act(permit: AsyncSqlPermit, order_id: str) -> str:
        (await permit.session.get_one(Order, order_id)).refunded = True
        return order_id

    async def work() -> None:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
            first = {"id": "o-1", "customer_name": "", "delivered": True, "refunded": False, "region": "", "total": 1}
            await connection.execute(insert(Order).values(first))
        await gate.install()
        assert await act("o-1") == "o-1"
        with pytest.raises(EffectBlocked):
            await act("o-1")
        await engine.dispose()

    run(work())
