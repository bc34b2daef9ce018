"""A worker process that gates refunds and is killed at a step of its own choosing, and one that recovers after it.

A step is a command of the protocol, before or after it; a statement that writes or ends a transaction, before or after
it; or a place in the effect's body. `run` is what a process runs; nothing here waits for time to pass.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import signal
import sqlite3
import sys
import tempfile
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lastlook import Gate, arg, block_unless
from lastlook.errors import EffectStopped
from lastlook.testing import FakeClock, failpoint
from lastlook_connectors.sql import Sql, SqlPermit, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook.effects import Effect

__all__ = ["FORMS", "LIMIT", "run", "serve", "template"]

FORMS = ("same, rollback journal", "same, write-ahead log", "apart")
"""The store in the shop's own database, in both journal modes of SQLite, or in a file of its own."""

LIMIT = 100
_PASSES = "SELECT", "PRAGMA"


class _Base(DeclarativeBase):
    pass


class Order(_Base):
    """What is refunded once."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    refunded: Mapped[bool]


class Policy(_Base):
    """How much may be."""

    __tablename__ = "policies"
    id: Mapped[str] = mapped_column(primary_key=True)
    limit: Mapped[int]


class Refund(_Base):
    """The ledger: one row each time that the body took effect."""

    __tablename__ = "refunds"
    number: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str]


class _Steps:
    """Counts the steps of this process, which ends at the one that was asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.kill_at: int | None = None
        self.on = False

    def __call__(self, name: str) -> None:
        if self.on:
            self.names.append(name)
            if len(self.names) - 1 == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)


_STEP = _Steps()


class _Cursor(sqlite3.Cursor):
    def execute(self, sql: str, *parameters: Any) -> Any:
        told = not sql.lstrip().upper().startswith(_PASSES)
        if told:
            _STEP(f"before {sql[:40]}")
        found = super().execute(sql, *parameters)
        if told:
            _STEP(f"after {sql[:40]}")
        return found


class _Connection(sqlite3.Connection):
    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, *parameters: Any) -> Any:
        return self.cursor().execute(sql, *parameters)

    def commit(self) -> None:
        _STEP("before commit()")
        super().commit()
        _STEP("after commit()")


class _Shop:
    """The shop as a process sees it: its engines, its gate and its effect."""

    def __init__(self, folder: str, form: str, *, watched: bool, minutes: int) -> None:
        options: dict[str, Any] = {"connect_args": {"factory": _Connection}} if watched else {}
        self.engine = create_engine(f"sqlite:///{folder}/shop.db", **options)
        store: Engine = self.engine
        if form == "apart":
            store = create_engine(f"sqlite:///{folder}/store.db", **options)
        self.store = store
        clock = FakeClock()
        clock.advance(dt.timedelta(minutes=minutes))  # each process comes after the deadline of the last one's attempts
        self.gate = Gate(Sql(self.engine, Order, Policy), store=store, clock=clock)
        self.refund: Effect[..., str] = self._declared(self.gate)

    @staticmethod
    def _declared(gate: Gate) -> Effect[..., str]:
        order, policy = row(Order, arg.order_id), row(Policy, "refund")

        @gate.effect(
            target=order,
            premises=[
                block_unless(~order.refunded, "already refunded"),
                block_unless(arg.amount <= policy.limit, "over the limit"),
            ],
        )
        def refund(permit: SqlPermit, order_id: str, amount: int) -> str:
            _STEP("body, before it wrote")
            permit.session.get_one(Order, order_id).refunded = True
            permit.session.add(Refund(order_id=order_id))
            permit.session.flush()
            _STEP("body, between flush and commit")
            permit.session.commit()
            _STEP("body, after its commit")
            return f"refunded {amount} of {order_id}"

        return refund

    def ledger(self) -> dict[str, int]:
        """How often each order was refunded."""
        with Session(self.engine) as session:
            counted = session.execute(select(Refund.order_id, func.count()).group_by(Refund.order_id))
            return {str(order_id): int(number) for order_id, number in counted}


def template(folder: Path, form: str) -> str:
    """Make the shop, its tables and one pending intent, whose id this returns."""
    shop = _Shop(str(folder), form, watched=False, minutes=0)
    _Base.metadata.create_all(shop.engine)
    with shop.engine.connect() as connection:
        mode = "DELETE" if form == FORMS[0] else "WAL"
        connection.exec_driver_sql(f"PRAGMA journal_mode = {mode}")
    with Session(shop.engine) as session:
        session.add_all([Order(id=f"o-{number}", refunded=False) for number in range(1, 5)])
        session.add(Policy(id="refund", limit=LIMIT))
        session.commit()
    shop.gate.install()
    intent = shop.refund.propose("o-1", amount=80)
    shop.engine.dispose()
    shop.store.dispose()
    return intent.id


def serve() -> None:
    """Fork a process for each line, the arguments of `run` as JSON, and answer with how it ended."""
    with tempfile.TemporaryDirectory() as folder:  # so that what is imported late is imported here
        template(Path(folder), FORMS[0])
        run(folder, FORMS[0], "work", "commands", None, 0)
        run(folder, FORMS[0], "judge", "commands", None, 1)
        _STEP.names.clear()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()  # nothing is open here: no connection, no thread
        if child == 0:
            gc.disable()  # it is too short to need it
            status = 1
            try:
                run(*json.loads(line))
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(ended)}\n")
        sys.stdout.flush()


def run(folder: str, form: str, job: str, watch: str, kill_at: int | None, minutes: int) -> None:
    """Do a job in this process, `work`, `recover` or `judge`, and die at a step; a job that ends writes its steps.

    Args:
        folder: where the databases are.
        form: one of `FORMS`.
        job: what to do.
        watch: which steps count, `commands` or `statements`.
        kill_at: the step to die at, if any.
        minutes: how far this process's clock is past the first one's.
    """
    shop = _Shop(folder, form, watched=watch == "statements", minutes=minutes)
    _STEP.kill_at = kill_at
    jobs: dict[str, Callable[[_Shop, str], None]] = {"work": _work, "recover": _recover, "judge": _judge}
    with ExitStack() as stack:
        if watch == "commands":
            stack.enter_context(
                failpoint(
                    shop.gate,
                    object,
                    before=lambda command: _STEP(f"before {type(command).__name__}"),
                    after=_after,
                )
            )
        _STEP.on = job != "judge"
        jobs[job](shop, folder)
        _STEP.on = False
    Path(folder, "steps.json").write_text(json.dumps(_STEP.names))
    shop.engine.dispose()
    shop.store.dispose()


def _after(command: Any, reply: Any) -> Any:
    _STEP(f"after {type(command).__name__}")
    return reply


def _tell(folder: str, what: str, name: str) -> None:
    """Note what this process was told, in a file that its end does not take back."""
    noted = os.open(f"{folder}/told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(noted, f"{json.dumps([what, name])}\n".encode())
    os.close(noted)


def _work(shop: _Shop, folder: str) -> None:
    """Gate the pending intent; call with a key; propose and be refused; propose, and withdraw."""
    gate, refund = shop.gate, shop.refund
    (pending,) = gate.pending()
    if gate(pending).committed:
        _tell(folder, "refunded", "o-1")
    refund.options(key="call-2")("o-2", amount=70)
    _tell(folder, "refunded", "o-2")
    blocked = refund.propose("o-3", amount=90)
    _tell(folder, "proposed", blocked.id)
    with Session(shop.engine) as session:
        session.get_one(Policy, "refund").limit = 85
        session.commit()
    if not gate(blocked).committed:
        _tell(folder, "refused", blocked.id)
    given_up = refund.propose("o-4", amount=10)
    _tell(folder, "proposed", given_up.id)
    gate.withdraw(given_up)
    _tell(folder, "withdrawn", given_up.id)


def _recover(shop: _Shop, folder: str) -> None:
    """Ask the target about what is open, and gate what is still pending of the first order."""
    shop.gate.reconcile()
    for intent in shop.gate.pending():
        if shop.gate(intent).committed:
            _tell(folder, "committed", intent.id)


def _judge(shop: _Shop, folder: str) -> None:
    """Reconcile, and report everything that can be asked: journal, rows, effect table, and verdicts."""
    gate, before = shop.gate, shop.ledger()
    gate.reconcile()
    store = gate._runtime().store
    intents: dict[str, Any] = {}
    after = shop.ledger()
    for intent_id in list(store.intents()):
        store.verify(intent_id)
        stored = store.load(intent_id)
        assert stored is not None
        intents[intent_id] = {
            "order": stored.record.arguments["order_id"],
            "state": stored.row.state.name,
            "journal": [entry.kind for entry in store.journal(intent_id)],
            "marked": _marked(shop.engine, intent_id),
        }
    for intent_id, told in intents.items():
        verdict = gate(gate.intent(intent_id))
        told["applied"] = verdict.applied.name
        told["outcome"] = verdict.outcome.name
        told["again"] = gate(gate.intent(intent_id)).applied.name
    try:
        again: Any = shop.refund.options(key="call-2")("o-2", amount=70)
    except EffectStopped as stopped:
        again = stopped.model_text
    report = {"before": before, "after": after, "end": shop.ledger(), "intents": intents, "again": again}
    Path(folder, "report.json").write_text(json.dumps(report))


def _marked(engine: Engine, intent_id: str) -> bool:
    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT committed_at IS NOT NULL FROM lastlook_effect WHERE intent_id = ?", (intent_id,)
        ).scalar()
    return bool(found)
