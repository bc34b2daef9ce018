"""The SQL connector as its users write it, for the type checkers; it is never run. As `api.py`, with the same rules."""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnusedExpression=false

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import assert_type

from sqlalchemy import Column, MetaData, String, Table, bindparam, create_engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lastlook import (
    AsyncGate,
    Gate,
    MemoryStore,
    Transaction,
    arg,
    before,
    block_unless,
    exists,
    replan_unless,
    resource,
    unchanged,
)
from lastlook_connectors.sql import AsyncSql, AsyncSqlPermit, Sql, SqlConnection, SqlPermit, row


class Base(DeclarativeBase):
    """The application's own."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    refunded: Mapped[bool]
    region: Mapped[str]
    count: Mapped[int]
    total: Mapped[Decimal]
    closes: Mapped[dt.datetime]
    note: Mapped[str | None]


class Policy(Base):
    """What may be refunded where."""

    __tablename__ = "policies"

    region: Mapped[str] = mapped_column(primary_key=True)
    tier: Mapped[str] = mapped_column(primary_key=True)
    limit: Mapped[Decimal]


plain = Table("stock", MetaData(), Column("sku", String, primary_key=True))
engine = create_engine("sqlite:///shop.db")
spent = select(func.sum(Order.total)).where(Order.region == bindparam("region"))
system = Sql(engine, Order, Policy, plain, queries={"spent": spent}, public=["orders.region"], version={Order: "count"})
gate = Gate(system, store=MemoryStore())
order = row(Order, arg.order_id)
policy = row(Policy, (order.region, "gold"))
assert_type(order, type[Order])
assert_type(policy, type[Policy])


@gate.effect(
    target=order,
    refresh=[order.note],
    lane=[order.region],
    premises=[
        block_unless(~order.refunded),
        block_unless(arg.amount <= policy.limit),
        block_unless(order.total <= 100),
        block_unless(exists(order) & before(order.closes) & unchanged(order.note)),
        replan_unless(order.region.in_(["eu", "uk"])),
        block_unless(resource("spent", order.region).value <= policy.limit),
        block_unless(order.refunded == order.refunded),
        block_unless(order.refunded | order.refunded),
    ],
)
def refund(permit: SqlPermit, order_id: str, amount: Decimal) -> str:
    """Refund an order."""
    assert_type(permit.session, Session)
    assert_type(permit.connection, SqlConnection)
    assert_type(permit.key, str)
    permit.no_write()
    with permit.connection.begin_nested():
        permit.connection.execute(select(Order.id), {"a": 1})
    return permit.session.get_one(Order, order_id).id


def reading(tx: Transaction) -> None:
    tx.read(order, order_id="o-1")
    tx.read(order.note, order_id="o-1")
    assert_type(refund("o-1", Decimal(80)), str)


asystem = AsyncSql(create_async_engine("sqlite+aiosqlite:///shop.db"), Order)
agate = AsyncGate(asystem, store=MemoryStore())


@agate.effect(target=order, premises=[block_unless(~order.refunded)])
async def close(permit: AsyncSqlPermit, order_id: str) -> None:
    """Close an order."""
    await agate.install()
    assert_type(permit.session, AsyncSession)
    await permit.session.commit()


# --- Mistakes ---------------------------------------------------------------------------------------------------------


def in_premises() -> None:
    order.refundd  # type: ignore[attr-defined]
    policy.limits  # type: ignore[attr-defined]
    block_unless(order.total)  # type: ignore[arg-type]
    block_unless(order.region)  # type: ignore[arg-type]
    block_unless(order)  # type: ignore[arg-type]
    replan_unless(policy.limit)  # type: ignore[arg-type]


def in_systems() -> None:
    Sql("sqlite:///shop.db", Order)  # type: ignore[arg-type]
    Sql(engine, "orders")  # type: ignore[arg-type]
    Sql(engine, Order, queries=[spent])  # type: ignore[arg-type]
    AsyncSql(engine, Order)  # type: ignore[arg-type]
    row(Order)  # type: ignore[call-arg]
    row("orders", arg.order_id)  # type: ignore[arg-type]


def in_bodies(permit: SqlPermit) -> None:
    permit.connection.commit()  # type: ignore[attr-defined]
    permit.connection.rollback()  # type: ignore[attr-defined]
    permit.connection.close()  # type: ignore[attr-defined]
    permit.fresh = {}  # type: ignore[misc]
