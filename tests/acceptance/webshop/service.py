"""What the shop does, as it did before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .models import Order, Policy, Refund

if TYPE_CHECKING:
    from decimal import Decimal

    from sqlalchemy.orm import Session

__all__ = ["refund_order", "rename_customer", "set_limit"]


def refund_order(session: Session, order_id: str, amount: Decimal) -> str:
    """Give money back for an order."""
    order = session.get_one(Order, order_id)
    order.refunded = True
    order.refunds.append(Refund(amount=amount))
    session.commit()
    return f"refunded {amount} to {order.customer_name}"


def rename_customer(session: Session, order_id: str, name: str) -> None:
    """Correct a customer's name."""
    session.get_one(Order, order_id).customer_name = name
    session.commit()


def set_limit(session: Session, region: str, limit: Decimal) -> None:
    """Set how much may be refunded without asking."""
    session.merge(Policy(region=region, limit=limit))
    session.commit()
