"""The shop's endpoints."""

from contextlib import asynccontextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel
from sqlalchemy.orm import Session

from lastlook import EffectStopped

from . import service
from .database import engine, get_session
from .effects import gate, refund
from .models import Base, Order

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["app"]


@asynccontextmanager
async def lifespan(_app: FastAPI) -> "AsyncGenerator[None]":
    """Make the tables."""
    Base.metadata.create_all(engine)
    gate.install()
    yield


app = FastAPI(lifespan=lifespan)
SessionDep = Annotated[Session, Depends(get_session)]


class RefundRequest(BaseModel):
    """How much is to go back."""

    amount: Decimal


class OrderIn(BaseModel):
    """An order as the checkout sends it."""

    customer_name: str
    region: str
    total: Decimal
    delivered: bool = False


@app.put("/orders/{order_id}")
def put_order(order_id: str, order: OrderIn, session: SessionDep) -> None:
    """Store an order."""
    session.merge(Order(id=order_id, **order.model_dump()))
    session.commit()


@app.get("/orders/{order_id}")
def get_order(order_id: str, session: SessionDep) -> dict[str, Any]:
    """Show an order with its refunds."""
    order = session.get_one(Order, order_id)
    refunds = [str(refund.amount) for refund in order.refunds]
    return {"customer_name": order.customer_name, "refunded": order.refunded, "refunds": refunds}


@app.patch("/orders/{order_id}/customer/{name}")
def patch_customer(order_id: str, name: str, session: SessionDep) -> None:
    """Correct a customer's name."""
    service.rename_customer(session, order_id, name)


@app.put("/policies/{region}/{limit}")
def put_policy(region: str, limit: Decimal, session: SessionDep) -> None:
    """Set a region's limit."""
    service.set_limit(session, region, limit)


@app.post("/orders/{order_id}/refund")
def post_refund(
    order_id: str, request: RefundRequest, idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, str]:
    """Refund an order: the button in the back office."""
    try:
        return {"message": refund.options(key=idempotency_key)(order_id, amount=request.amount)}
    except EffectStopped as s:
        raise HTTPException(409, s.model_text) from s


@app.post("/orders/{order_id}/refund-proposals")
def post_proposal(order_id: str, request: RefundRequest) -> dict[str, str]:
    """Let the agent propose a refund, which somebody approves later."""
    try:
        return {"proposal": refund.propose(order_id, amount=request.amount).id}
    except EffectStopped as s:
        raise HTTPException(409, s.model_text) from s


@app.post("/refund-proposals/{proposal}/approve")
def post_approval(proposal: str) -> dict[str, Any]:
    """Release what was proposed, if it still holds."""
    verdict = gate(refund.intent(proposal))
    if not verdict.committed:
        raise HTTPException(409, verdict.model_text())
    return {"message": verdict.result(), "outcome": verdict.outcome.name}
