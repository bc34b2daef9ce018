"""500 torn or flipped write-ahead logs of a shop with its intents: a gate sees a prefix of the history, or is told."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from quick import quick_folder
from sqlalchemy import create_engine
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lastlook import Gate, IntegrityError, StoreError, arg, block_unless
from lastlook_connectors.sql import Sql, SqlPermit, row

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_SEED, _IMAGES, _ORDERS = 20260102, 500, 8
_TABLES = ("orders", "refunds", "lastlook_intent", "lastlook_journal", "lastlook_effect", "lastlook_meta")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    limit: Mapped[int]
    refunded: Mapped[bool]


class Refund(Base):
    __tablename__ = "refunds"
    number: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str]


class Shop:
    """The shop on a file."""

    def __init__(self, file: Path) -> None:
        self.engine = create_engine(f"sqlite:///{file}")
        self.gate = Gate(Sql(self.engine, Order), store=self.engine)
        order = row(Order, arg.order_id)

        @self.gate.effect(target=order, premises=[block_unless(~order.refunded), block_unless(order.limit >= 80)])
        def refund(permit: SqlPermit, order_id: str) -> str:
            permit.session.get_one(Order, order_id).refunded = True
            permit.session.add(Refund(order_id=order_id))
            return f"refunded {order_id}"

        self.refund = refund


def _rows(file: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(file)) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for table in _TABLES}


@pytest.fixture(scope="module")
def history() -> Generator[tuple[Path, list[dict[str, list[Any]]], list[int]]]:
    """A file and its log; all rows after each transaction of the history; and how long the log was by then."""
    with quick_folder() as folder:
        live = folder / "live.db"
        shop = Shop(live)
        Base.metadata.create_all(shop.engine)
        shop.gate.install()
        with closing(sqlite3.connect(live)) as keep:  # so that the log is not written back when others close
            keep.execute("PRAGMA journal_mode = WAL")
            keep.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            after, sizes = [_rows(live)], [0]

            def note() -> None:
                after.append(_rows(live))
                sizes.append((folder / "live.db-wal").stat().st_size)

            for number in range(_ORDERS):
                name = f"o-{number}"
                with Session(shop.engine) as session:
                    session.add(Order(id=name, limit=100, refunded=False))
                    session.commit()
                note()
                intent = shop.refund.propose(name)
                note()
                if number % 4 == 1:
                    with Session(shop.engine) as session:
                        session.get_one(Order, name).limit = 50
                        session.commit()
                    note()
                if number % 4 != 2:
                    shop.gate(intent)
                    note()
            for suffix in ("", "-wal"):
                shutil.copy(f"{live}{suffix}", folder / f"image.db{suffix}")
            shop.engine.dispose()
        yield folder / "image.db", after, sizes


def _damaged(rng: random.Random, whole: bytes) -> tuple[str, int, bytes]:
    """A log that was cut, has a flipped bit, garbage in it, or zeros at its end; and where that begins."""
    at = rng.randrange(len(whole))
    how = rng.choice(["cut", "flipped", "garbage", "zeros"])
    if how == "cut":
        return how, at, whole[:at]
    if how == "flipped":
        return how, at, whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
    if how == "garbage":
        other = rng.randbytes(rng.randrange(1, 200))
        return how, at, (whole[:at] + other + whole[at + len(other) :])[: len(whole)]
    return how, at, whole[:at] + bytes(len(whole) - at)


@pytest.mark.slow
def test_a_damaged_log_shows_a_prefix_or_is_told_of(
    history: tuple[Path, list[dict[str, list[Any]]], list[int]],
) -> None:
    """Rows, effects and journal are those after some transaction, none that was whole is lost, and each lands once."""
    image, after, sizes = history
    whole = (image.parent / "image.db-wal").read_bytes()
    rng = random.Random(_SEED)
    shown: set[int] = set()
    for number in range(_IMAGES):
        how, at, wal = _damaged(rng, whole)
        what = f"seed {_SEED}, image {number}: {how} at {at} of {len(whole)}"
        file = image.parent / "torn.db"
        for suffix in ("", "-wal", "-shm"):
            (image.parent / f"torn.db{suffix}").unlink(missing_ok=True)
        shutil.copy(image, file)
        (image.parent / "torn.db-wal").write_bytes(wal)
        shop = Shop(file)
        try:
            intents = list(shop.gate._runtime().store.intents())
            for intent_id in intents:
                shop.gate._runtime().store.verify(intent_id)
            found = _rows(file)
            assert found in after, f"{what}: {found} is no state of the history"
            last = max(index for index, rows in enumerate(after) if rows == found)
            assert sizes[last + 1 :] == [] or sizes[last + 1] > at, f"{what}: only {last} transactions are there"
            shown.add(last)
            shop.gate.reconcile()
            for intent in shop.gate.pending():
                shop.gate(intent)
        except (IntegrityError, StoreError, DatabaseError):
            continue  # told of
        finally:
            shop.engine.dispose()
        landed = [order_id for _, order_id in _rows(file)["refunds"]]
        assert len(landed) == len(set(landed)), f"{what}: {landed}"
        assert set(landed) == {row[0] for row in _rows(file)["orders"] if row[2]}, f"{what}: {landed}"
    assert len(shown) > len(after) // 2, f"seed {_SEED}: the images show only {sorted(shown)}"
