"""What is new: ten lines."""

from decimal import Decimal

from lastlook import Gate, arg, block_unless, replan_unless
from lastlook_connectors.sql import Sql, SqlPermit, row

from . import service
from .database import engine
from .models import Order, Policy

__all__ = ["gate", "refund"]

gate = Gate(Sql(engine, Order, Policy), store=engine)
order = row(Order, arg.order_id)
policy = row(Policy, order.region)


@gate.effect(
    target=order,
    refresh=[order.customer_name],
    premises=[replan_unless(order.delivered), block_unless(~order.refunded), block_unless(arg.amount <= policy.limit)],
)
def refund(permit: SqlPermit, order_id: str, amount: Decimal) -> str:  # noqa: D103 - one of the ten lines
    return service.refund_order(permit.session, order_id, amount)
