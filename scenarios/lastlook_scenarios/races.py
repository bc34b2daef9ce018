"""Two gates, each in a process and on a connection of its own, race for one intent, or for two intents of one lane.

Before each pair both wait at a barrier. What the target's ledger holds afterwards decides, not what the gates say.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from lastlook import Gate, arg, block_unless
from lastlook_connectors.sql import Sql, SqlPermit, row
from lastlook_scenarios.raw import RaceRow
from lastlook_scenarios.units import UnitFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

    from sqlalchemy import Engine

    from lastlook.effects import Effect

__all__ = ["OVER", "Order", "RaceFailed", "Racer", "Refund", "run"]

OVER: Final = ("intent", "lane")
_PATIENCE: Final = 60.0
"""Seconds that a racer waits for the other before it gives up: who waits longer waits for a process that is dead."""


class RaceFailed(UnitFailed):
    """A racer ended before its race."""


class _Base(DeclarativeBase):
    pass


class Order(_Base):
    """What is refunded once."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    refunded: Mapped[bool]


class Refund(_Base):
    """The ledger: one row an effect."""

    __tablename__ = "refunds"
    number: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str]


def _gate(engine: Engine) -> tuple[Gate, Effect[..., str]]:
    gate = Gate(Sql(engine, Order), store=engine)
    order = row(Order, arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded, "already refunded")])
    def refund(permit: SqlPermit, order_id: str) -> str:
        permit.session.get_one(Order, order_id).refunded = True
        permit.session.add(Refund(order_id=order_id))
        return f"refunded {order_id}"

    return gate, refund


class Racer:
    """One of the two processes.

    Args:
        file: the database.
        barrier: where it meets the other.
        mine: the intents that it gates, in order.
    """

    def __init__(self, file: str, barrier: Barrier, mine: Sequence[str]) -> None:
        self._file = file
        self._barrier = barrier
        self._mine = mine

    def __call__(self, answers: Connection) -> None:
        """Race; what became of each attempt is sent as it is known."""
        engine = create_engine(f"sqlite:///{self._file}")
        try:
            gate, _ = _gate(engine)
            for intent_id in self._mine:
                intent = gate.intent(intent_id)
                self._barrier.wait(_PATIENCE)
                answers.send(gate(intent).applied.name)
        finally:
            engine.dispose()


def run(pairs: int, *, repetition: int = 1) -> Iterator[RaceRow]:
    """Let that many pairs race, by turns for one intent and for one lane.

    Raises:
        RaceFailed: a racer died.
    """
    with tempfile.TemporaryDirectory(prefix="lastlook-races-") as folder:
        file = str(Path(folder) / "races.db")
        yield from _raced(file, _proposed(file, pairs), repetition)


def _proposed(file: str, pairs: int) -> list[tuple[str, str]]:
    """An order a pair, and the intents of both racers: twice the same one, or two of one lane."""
    engine = create_engine(f"sqlite:///{file}")
    try:
        _Base.metadata.create_all(engine)
        gate, refund = _gate(engine)
        gate.install()
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executemany("INSERT INTO orders VALUES (?, 0)", [(f"o-{pair}",) for pair in range(1, pairs + 1)])
            connection.commit()
        proposed: list[tuple[str, str]] = []
        for pair in range(1, pairs + 1):
            first = refund.propose(f"o-{pair}").id
            proposed.append((first, first if _over(pair) == "intent" else refund.propose(f"o-{pair}").id))
        return proposed
    finally:
        engine.dispose()


def _over(pair: int) -> str:
    return OVER[(pair - 1) % len(OVER)]


def _raced(file: str, proposed: Sequence[tuple[str, str]], repetition: int) -> Iterator[RaceRow]:
    context = get_context("spawn")
    barrier = context.Barrier(2)
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    racers = [
        context.Process(target=Racer(file, barrier, mine), args=(pipe[1],), daemon=True)
        for pipe, mine in zip(pipes, zip(*proposed, strict=True), strict=True)
    ]
    try:
        for racer, (_, sending) in zip(racers, pipes, strict=True):
            racer.start()
            sending.close()  # so that a racer's end is seen here
        answers = [_received(receiving) for receiving, _ in pipes]
        with closing(sqlite3.connect(file)) as ledger:
            for pair in range(1, len(proposed) + 1):
                first, second = answers[0](), answers[1]()
                found = ledger.execute("SELECT count(*) FROM refunds WHERE order_id = ?", (f"o-{pair}",)).fetchone()
                yield RaceRow(repetition, _over(pair), pair, first, second, found[0])
    finally:
        for racer in racers:
            racer.terminate()
            racer.join()


def _received(receiving: Connection) -> Callable[[], str]:
    def receive() -> str:
        try:
            return str(receiving.recv())
        except EOFError:
            raise RaceFailed("a racer ended before its race: its own message stands above") from None

    return receive
