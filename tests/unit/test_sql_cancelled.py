"""A caller under AsyncGate on SQL that is cancelled: at any command, and while the body runs."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from quick import quick_folder
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from lastlook import Applied, AsyncGate, Outcome, arg, block_unless
from lastlook.commands import Apply, Load, Now, Observe, Transit
from lastlook.testing import FakeClock, failpoint
from lastlook_connectors.sql import AsyncSql, AsyncSqlPermit, row

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    refunded: Mapped[bool]


class Refund(Base):
    __tablename__ = "refunds"
    number: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str]


class Shop:
    """A process: engines, an AsyncGate and an effect of its own."""

    def __init__(self, folder: Path, form: str, minutes: int = 0) -> None:
        self.engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'shop.db'}")
        self.store = create_async_engine(f"sqlite+aiosqlite:///{folder / 'store.db'}") if form == "apart" else None
        clock = FakeClock()
        clock.advance(dt.timedelta(minutes=minutes))
        self.gate = AsyncGate(AsyncSql(self.engine, Order), store=self.store or self.engine, clock=clock)
        self.started, self.hold = asyncio.Event(), asyncio.Event()
        self.hold.set()
        order = row(Order, arg.order_id)

        @self.gate.effect(target=order, premises=[block_unless(~order.refunded)])
        async def refund(permit: AsyncSqlPermit, order_id: str) -> str:
            (await permit.session.get_one(Order, order_id)).refunded = True
            permit.session.add(Refund(order_id=order_id))
            self.started.set()
            await self.hold.wait()
            await permit.session.commit()
            return f"refunded {order_id}"

        self.refund: Any = refund

    async def install(self) -> None:
        """One order."""
        async with self.engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
            await connection.execute(insert(Order).values(id="o-1", refunded=False))
        await self.gate.install()

    async def refunds(self) -> list[str]:
        """The ledger."""
        async with self.engine.connect() as connection:
            return list(await connection.scalars(select(Refund.order_id)))

    async def stop(self) -> None:
        """Wait for what still runs, and close every connection."""
        await self.gate.aclose()
        await self.engine.dispose()
        if self.store is not None:
            await self.store.dispose()


@pytest.fixture
def folder() -> Generator[Path]:
    """Where the databases are."""
    with quick_folder() as made:
        yield made


FORM = pytest.mark.parametrize("form", ["one database", "apart"])


@FORM
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("command", [Load, Observe, Now, Transit, Apply], ids=lambda command: command.__name__)
def test_cancelled_at_a_command(folder: Path, form: str, when: str, command: type[Any]) -> None:
    """Whichever command is under way: the effect lands at most once, and a fresh process lands it exactly once."""

    async def main() -> None:
        shop = Shop(folder, form)
        await shop.install()
        intent = await shop.refund.propose("o-1")
        callers: list[asyncio.Task[Any]] = []

        def cancel(_: Any, reply: Any = None) -> Any:
            callers[0].cancel()
            return reply

        steps: dict[str, Any] = {when: cancel}
        with failpoint(shop.gate, command, **steps):
            callers.append(asyncio.create_task(_gated(shop, intent)))
            (found,) = await asyncio.gather(*callers, return_exceptions=True)
            await shop.gate.aclose()
        before = await shop.refunds()
        assert len(before) <= 1
        if not isinstance(found, BaseException):
            assert (found.applied, before) == (Applied.COMMITTED, ["o-1"])
        await shop.stop()
        later = Shop(folder, form, minutes=1)
        await later.gate.reconcile()
        assert await later.refunds() == before
        assert (await later.gate(intent)).result() == "refunded o-1"
        assert await later.refunds() == ["o-1"]
        await later.stop()

    asyncio.run(main())


@FORM
def test_trap_40_cancelled_while_the_body_runs(folder: Path, form: str) -> None:
    """The caller leaves at once; the effect is applied to its end and journaled, for whoever asks next."""

    async def main() -> None:
        shop = Shop(folder, form)
        await shop.install()
        intent = await shop.refund.propose("o-1")
        shop.hold.clear()
        caller = asyncio.create_task(_gated(shop, intent))
        await shop.started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        shop.hold.set()
        await shop.gate.aclose()
        assert await shop.refunds() == ["o-1"]
        verdict = await shop.gate(intent)
        assert (verdict.applied, verdict.result()) == (Applied.COMMITTED, "refunded o-1")
        second = await shop.gate.preview(intent)
        assert second.outcome is Outcome.KEEP
        await shop.stop()

    asyncio.run(main())


async def _gated(shop: Shop, intent: Any) -> Any:
    return await shop.gate(intent)
