"""Two processes, each with a gate and a connection of its own, that race pair by pair over one account's remainder.

`race` is what each of them runs. Nothing is asserted of durability, so that the databases may lie in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lastlook import Gate, arg, block_unless
from lastlook_connectors.sql import Sql, SqlPermit, row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

    from sqlalchemy import Engine

    from lastlook.effects import Effect

__all__ = ["AMOUNT", "BATCH", "REMAINING", "Account", "Payment", "made", "race"]

REMAINING, AMOUNT, BATCH = 100, 80, 20
_PATIENCE = 60.0


class _Base(DeclarativeBase):
    pass


class Account(_Base):
    """What the payments come from, which each of them reduces."""

    __tablename__ = "accounts"
    id: Mapped[str] = mapped_column(primary_key=True)
    remaining: Mapped[int]


class Payment(_Base):
    """The ledger: one row each time that the body took effect."""

    __tablename__ = "payments"
    number: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[str]


def _gate(engine: Engine) -> tuple[Gate, Effect[..., int]]:
    gate = Gate(Sql(engine, Account), store=engine)
    account = row(Account, arg.account)

    @gate.effect(target=account, premises=[block_unless(arg.amount <= account.remaining, "more than remains")])
    def pay(permit: SqlPermit, account: str, amount: int) -> int:
        found = permit.session.get_one(Account, account)
        found.remaining -= amount
        permit.session.add(Payment(account=account))
        return found.remaining

    return gate, pay


def made(url: str, accounts: Sequence[str], *, same: bool) -> list[tuple[str, str]]:
    """The database, an account a pair, and the intents that both racers gate: the same one, or one each."""
    engine = create_engine(url)
    _Base.metadata.create_all(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    with Session(engine) as session:
        session.add_all([Account(id=account, remaining=REMAINING) for account in accounts])
        session.commit()
    gate, pay = _gate(engine)
    gate.install()
    pairs: list[tuple[str, str]] = []
    for account in accounts:
        first = pay.propose(account, amount=AMOUNT).id
        pairs.append((first, first if same else pay.propose(account, amount=AMOUNT).id))
    engine.dispose()
    return pairs


def race(url: str, barrier: Barrier, mine: Sequence[str], answers: Connection) -> None:
    """Gate these intents, in order, meeting the rival at each batch; then send what was answered to each."""
    engine = create_engine(url)
    gate, _ = _gate(engine)
    told: list[str] = []
    for number, intent_id in enumerate(mine):
        intent = gate.intent(intent_id)
        if number % BATCH == 0:
            barrier.wait(_PATIENCE)
        told.append(gate(intent).applied.name)
    answers.send(told)
    engine.dispose()
