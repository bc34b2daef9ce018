"""The shop's tables."""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy import ForeignKey, Numeric
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

__all__ = ["Base", "Order", "Policy", "Refund"]


class Base(DeclarativeBase):
    """The shop's metadata."""


class Order(Base):
    """What somebody bought."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    customer_name: Mapped[str]
    region: Mapped[str]
    total: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    delivered: Mapped[bool] = mapped_column(default=False)
    refunded: Mapped[bool] = mapped_column(default=False)
    refunds: Mapped[list[Refund]] = relationship(back_populates="order")


class Refund(Base):
    """Money that went back."""

    __tablename__ = "refunds"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str] = mapped_column(ForeignKey("orders.id"))
    amount: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    order: Mapped[Order] = relationship(back_populates="refunds")


class Policy(Base):
    """How much may be refunded in a region without asking."""

    __tablename__ = "policies"
    region: Mapped[str] = mapped_column(primary_key=True)
    limit: Mapped[Decimal] = mapped_column(Numeric(10, 2))
