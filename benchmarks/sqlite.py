"""Compare a gate on SQLite with the transaction that a shop would write by hand, interleaved in one process.

    python benchmarks/sqlite.py --json ratios.json

All sides use one file in WAL mode with `synchronous=FULL`, in a directory of its own (`--directory`: no file system in
memory). The hand-written transaction takes the write lock, reads the order and its policy, checks the same four
premises, writes the order and inserts one journal row. It is written twice: with SQLAlchemy Core, as a shop on
SQLAlchemy would (`gate`, the figure with the goal of at most 2.5), and with `sqlite3` alone (`gate_to_sqlite3`).

Every figure is a ratio to a hand-written transaction, the minimum of small windows taken in turn on each side;
absolute times mean nothing on a shared machine. `gate` is `gate(intent)` of an intent proposed before the window, with
target and store on one engine. `call` proposes and releases in one; `propose` only proposes: neither has a goal.
"""

from __future__ import annotations

import argparse
import gc
import json
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import LargeBinary, bindparam, create_engine, event, insert, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from lastlook import Gate, arg, block_unless, replan_unless
from lastlook_connectors.sql import Sql, SqlPermit, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GOAL = 2.5
WARM, WINDOW, WINDOWS = 20, 20, 40


class Base(DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """The target: refunded once."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    customer_name: Mapped[str]
    region: Mapped[str]
    delivered: Mapped[bool]
    refunded: Mapped[bool]


class Policy(Base):
    """Evidence: how much may be refunded in a region."""

    __tablename__ = "policies"
    region: Mapped[str] = mapped_column(primary_key=True)
    limit: Mapped[int]
    may_refund: Mapped[bool]


class Audit(Base):
    """The journal of the hand-written transaction."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str]
    at_us: Mapped[int]
    body: Mapped[bytes] = mapped_column(LargeBinary)


READ_ORDER = select(Order.__table__).where(Order.id == bindparam("id"))
READ_POLICY = select(Policy.__table__).where(Policy.region == bindparam("region"))
WRITE = update(Order).where(Order.id == bindparam("key")).values(refunded=True)
JOURNAL = insert(Audit)


def judged(delivered: object, refunded: object, limit: int, may_refund: object, amount: int) -> None:
    """The premises by hand."""
    if not delivered or refunded or amount > limit or not may_refund:
        raise SystemExit("the hand-written transaction was refused")


class Shop:
    """One file, one row of the target for every call."""

    def __init__(self, directory: Path, orders: int) -> None:
        path = directory / "shop.db"
        self.engine = create_engine(f"sqlite:///{path}")
        event.listen(self.engine, "connect", durable)
        Base.metadata.create_all(self.engine)
        rows = [
            {"id": f"o-{n}", "customer_name": "A", "region": "uk", "delivered": True, "refunded": False}
            for n in range(orders)
        ]
        with self.engine.begin() as connection:
            connection.execute(insert(Order), rows)
            connection.execute(insert(Policy), {"region": "uk", "limit": 100, "may_refund": True})
        self.raw = sqlite3.connect(path, isolation_level=None)
        durable(self.raw, None)
        self.orders: Iterator[str] = iter([f"o-{n}" for n in range(orders)])
        self.gate = Gate(Sql(self.engine, Order, Policy), store=self.engine)
        self.gate.install()
        order, policy = row(Order, arg.order_id), row(Policy, row(Order, arg.order_id).region)

        @self.gate.effect(
            target=order,
            premises=[
                replan_unless(order.delivered),
                block_unless(~order.refunded),
                block_unless(arg.amount <= policy.limit),
                block_unless(policy.may_refund),
            ],
        )
        def refund(permit: SqlPermit, order_id: str, amount: int) -> str:
            permit.connection.execute(WRITE, {"key": order_id})
            return "refunded"

        self.refund = refund

    def core(self, order_id: str) -> None:
        """The transaction with SQLAlchemy Core."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            order = connection.execute(READ_ORDER, {"id": order_id}).one()
            policy = connection.execute(READ_POLICY, {"region": order.region}).one()
            judged(order.delivered, order.refunded, policy.limit, policy.may_refund, 80)
            connection.execute(WRITE, {"key": order_id})
            connection.execute(JOURNAL, {"order_id": order_id, "at_us": time.time_ns() // 1000, "body": b"refunded 80"})
            connection.commit()

    def plain(self, order_id: str) -> None:
        """The transaction with sqlite3."""
        run = self.raw.execute
        run("BEGIN IMMEDIATE")
        region, delivered, refunded = run(
            "SELECT region, delivered, refunded FROM orders WHERE id = ?", (order_id,)
        ).fetchone()
        limit, may = run('SELECT "limit", may_refund FROM policies WHERE region = ?', (region,)).fetchone()
        judged(delivered, refunded, limit, may, 80)
        run("UPDATE orders SET refunded = 1 WHERE id = ?", (order_id,))
        run(
            "INSERT INTO audit (order_id, at_us, body) VALUES (?, ?, ?)",
            (order_id, time.time_ns() // 1000, b"refunded 80"),
        )
        run("COMMIT")

    def released(self, intent: Any) -> None:
        """The gate of an intent."""
        if not (verdict := self.gate(intent)).committed:
            raise SystemExit(f"the gate did not release: {verdict.model_text()}")


def durable(connection: Any, _record: object) -> None:
    """The settings of every side."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def measured(shop: Shop) -> dict[str, float]:
    """Ratios of the minima of windows taken in turn."""

    def propose(key: str) -> Any:
        return shop.refund.propose(key, amount=80)

    sides: dict[str, tuple[Callable[[str], Any], Callable[[Any], Any]]] = {
        "core": (str, shop.core),
        "sqlite3": (str, shop.plain),
        "gate": (propose, shop.released),
        "call": (str, lambda key: shop.refund(key, amount=80)),
        "propose": (str, propose),
    }
    best = dict.fromkeys(sides, float("inf"))
    gc.disable()
    try:
        for number in range(WINDOWS + 1):
            for name, (prepare, call) in sides.items():
                given = [prepare(next(shop.orders)) for _ in range(WINDOW if number else WARM)]
                start = time.perf_counter_ns()
                for value in given:
                    call(value)
                taken = (time.perf_counter_ns() - start) / len(given)
                if number:
                    best[name] = min(best[name], taken)
            gc.collect()
    finally:
        gc.enable()
    return {
        "gate": best["gate"] / best["core"],
        "gate_to_sqlite3": best["gate"] / best["sqlite3"],
        "call": best["call"] / best["core"],
        "propose": best["propose"] / best["core"],
    }


def main() -> None:
    """Print the ratios, and write them where asked to."""
    parser = argparse.ArgumentParser(description="Ratios of a gate on SQLite to a hand-written transaction.")
    parser.add_argument("--json", type=Path, help="a file for the ratios, a flat object")
    parser.add_argument("--directory", type=Path, help="where the temporary directory is made: a real file system")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        shop = Shop(Path(directory), 5 * (WARM + WINDOW * WINDOWS))
        ratios = measured(shop)
        shop.raw.close()
        shop.engine.dispose()
    for name, value in ratios.items():
        print(f"{name:16} {value:6.2f}" + (f"  goal: at most {GOAL}" if name == "gate" else ""))
    if options.json:
        options.json.write_text(json.dumps({name: round(value, 3) for name, value in ratios.items()}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
