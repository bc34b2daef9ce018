"""A shop's own models and service, as they are: no version column, and a service that commits by itself."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import Numeric, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lastlook import Gate, arg, block_unless, replan_unless
from lastlook_connectors.sql import Sql, SqlPermit, row

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

    from lastlook.ports import Clock, Store

__all__ = ["Base", "Order", "Policy", "change", "declare", "open_shop", "refund_order"]


class Base(DeclarativeBase):
    """The shop's metadata."""


class Order(Base):
    """An order, which may be refunded once."""

    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    customer_name: Mapped[str]
    delivered: Mapped[bool]
    refunded: Mapped[bool] = mapped_column(default=False)
    region: Mapped[str]
    total: Mapped[Decimal] = mapped_column(Numeric(10, 2))


class Policy(Base):
    """How much may be refunded in a region."""

    __tablename__ = "policies"

    region: Mapped[str] = mapped_column(primary_key=True)
    limit: Mapped[Decimal] = mapped_column(Numeric(10, 2))


def open_shop(path: Path, **options: Any) -> Engine:
    """An engine on a new file with one order of 80 and a limit of 100."""
    engine = create_engine(f"sqlite:///{path}", **options)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        order = Order(id="o-1", customer_name="A", delivered=True, refunded=False, region="uk", total=Decimal(80))
        session.add_all([order, Policy(region="uk", limit=Decimal(100))])
        session.commit()
    return engine


def refund_order(session: Session, order_id: str, amount: Decimal) -> str:
    """The shop's service, which commits by itself."""
    order = session.get_one(Order, order_id)
    order.refunded = True
    session.commit()
    return f"{order.id}: {amount}"


def change(engine: Engine, model: type[Base], key: object, **fields: object) -> None:
    """Another actor's write, on a connection of its own."""
    with Session(engine) as session:
        found = session.get_one(model, key)
        for name, value in fields.items():
            setattr(found, name, value)
        session.commit()


def declare(engine: Engine, store: Store | Engine, *, clock: Clock | None = None, **options: Any) -> tuple[Gate, Any]:
    """A gate over the shop and its refund."""
    system = Sql(engine, Order, Policy, **options)
    gate = Gate(system, store=store) if clock is None else Gate(system, store=store, clock=clock)
    gate.install()
    order = row(Order, arg.order_id)
    policy = row(Policy, order.region)

    @gate.effect(
        target=order,
        refresh=[order.customer_name],
        premises=[
            replan_unless(order.delivered),
            block_unless(~order.refunded),
            block_unless(arg.amount <= policy.limit),
        ],
    )
    def refund(permit: SqlPermit, order_id: str, amount: Decimal) -> str:
        return refund_order(permit.session, order_id, amount)

    return gate, refund
