"""Traps and threats that need a database: each with its right answer on `Sql`, in one database and apart."""

from __future__ import annotations

import datetime as dt
import pickle
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import pytest
from quick import quick_folder
from sqlalchemy import Engine, bindparam, create_engine, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lastlook import (
    Applied,
    Change,
    Gate,
    IntegrityError,
    KeyReused,
    Outcome,
    State,
    StoreError,
    arg,
    block_unless,
    replan_unless,
    resource,
    rows,
    total,
)
from lastlook.canonical import decode, encode
from lastlook.commands import Apply, Close, FindRow, Load, Now, Observe, Transit
from lastlook.store.chains import chain_digest
from lastlook.testing import FakeClock, failpoint, interpose
from lastlook_connectors.sql import Sql, SqlPermit, row

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    customer: Mapped[str]
    note: Mapped[str | None]
    delivered: Mapped[bool] = mapped_column(default=True)
    refunded: Mapped[bool] = mapped_column(default=False)


class Policy(Base):
    __tablename__ = "policies"
    id: Mapped[str] = mapped_column(primary_key=True)
    limit: Mapped[int]


class Refund(Base):
    __tablename__ = "refunds"
    number: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str]
    amount: Mapped[int]


order = row(Order, arg.order_id)
policy = row(Policy, "refund")
SPENT = select(func.coalesce(func.sum(Refund.amount), 0)).where(Refund.order_id == bindparam("order"))
NOT_REFUNDED = block_unless(~order.refunded, "already refunded")
WITHIN = block_unless(arg.amount <= policy.limit, "over the limit")
PREMISES = (replan_unless(order.delivered, "not delivered"), NOT_REFUNDED, WITHIN)


class Shop:
    """A process on the shop's database: an engine, a gate and a refund of its own."""

    def __init__(
        self, folder: Path, form: str, minutes: int = 0, *, premises: Any = PREMISES, reduces: bool = False
    ) -> None:
        self.folder, self.form, self.minutes, self.reduces = folder, form, minutes, reduces
        self.file = folder / "shop.db"
        self.engine = create_engine(f"sqlite:///{self.file}")
        self.store: Engine | None = None
        if form == "apart":
            self.store = create_engine(f"sqlite:///{folder / 'store.db'}")
        self.clock = FakeClock()
        self.clock.advance(dt.timedelta(minutes=minutes))
        system = Sql(self.engine, Order, Policy, Refund, queries={"spent": SPENT})
        self.gate = Gate(system, store=self.store or self.engine, clock=self.clock)
        self.ran = 0

        @self.gate.effect(target=order, refresh=[order.customer], premises=premises)
        def refund(permit: SqlPermit, order_id: str, amount: int) -> str:
            self.ran += 1
            found = permit.session.get_one(Order, order_id)
            found.refunded = True
            permit.session.add(Refund(order_id=order_id, amount=amount))
            if self.reduces:
                permit.session.get_one(Policy, "refund").limit -= amount
            permit.session.commit()
            return f"refunded {amount} to {found.customer}"

        self.refund = refund

    def install(self) -> None:
        """Two orders and a limit of 100."""
        Base.metadata.create_all(self.engine)
        with Session(self.engine) as session:
            session.add_all([Order(id=name, customer="A", note="") for name in ("o-1", "o-2")])
            session.add(Policy(id="refund", limit=100))
            session.commit()
        self.gate.install()

    def again(self, **options: Any) -> Shop:
        """A fresh process, after the deadline of this one's attempts."""
        options = {"reduces": self.reduces} | options
        return opened(Shop(self.folder, self.form, self.minutes + 1, **options))

    def change(self, model: type[Base], key: object, **fields: object) -> None:
        """Another actor's write."""
        with Session(self.engine) as session:
            found = session.get_one(model, key)
            for name, value in fields.items():
                setattr(found, name, value)
            session.commit()

    def refunds(self) -> list[tuple[str, int]]:
        """The ledger."""
        with Session(self.engine) as session:
            return [(found.order_id, found.amount) for found in session.scalars(select(Refund))]

    def stored(self) -> Path:
        """The file in which the intents are."""
        return self.file if self.store is None else self.folder / "store.db"

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()
        if self.store is not None:
            self.store.dispose()


OPENED: list[Shop] = []


def opened(shop: Shop) -> Shop:
    """A shop that is closed when its test ends."""
    OPENED.append(shop)
    return shop


@pytest.fixture
def folder() -> Generator[Path]:
    """Where a shop's databases are, until the shops that were opened there are closed."""
    with quick_folder() as made:
        yield made
        while OPENED:
            OPENED.pop().close()


@pytest.fixture(params=["one database", "apart"])
def shop(request: Any, folder: Path) -> Shop:
    """A shop whose intents are in its own database, or in a file of their own."""
    made = opened(Shop(folder, request.param))
    made.install()
    return made


LATE = pytest.mark.parametrize("late", [False, True], ids=["before the look", "after the look"])


def gated(shop: Shop, intent: Any, change: Any, *, late: bool) -> Any:
    """The verdict of a gate with a change before its look, or between its look and the effect."""
    if late:
        with interpose(shop.gate, change):
            return shop.gate(intent)
    change()
    return shop.gate(intent)


# --- Evidence ---------------------------------------------------------------------------------------------------------


@LATE
def test_trap_18_changed_and_changed_back(shop: Shop, late: bool) -> None:
    """A value that moved and came back still holds: KEEP, since no version tells otherwise."""
    intent = shop.refund.propose("o-1", amount=80)

    def there_and_back() -> None:
        for limit in (50, 100):
            shop.change(Policy, "refund", limit=limit)

    verdict = gated(shop, intent, there_and_back, late=late)
    assert (verdict.outcome, shop.refunds()) == (Outcome.KEEP, [("o-1", 80)])


@LATE
def test_trap_21_a_deleted_row_is_unverifiable(shop: Shop, late: bool) -> None:
    """A policy whose row is gone allows nothing."""
    intent = shop.refund.propose("o-1", amount=80)

    def delete() -> None:
        with Session(shop.engine) as session:
            session.delete(session.get_one(Policy, "refund"))
            session.commit()

    verdict = gated(shop, intent, delete, late=late)
    assert (verdict.outcome, shop.refunds()) == (Outcome.BLOCK, [])


@LATE
def test_trap_22_null_is_not_empty(shop: Shop, late: bool) -> None:
    """A note that was empty and is null now is another one."""
    shop = shop.again(premises=[block_unless(order.note == "", "there is a note")])
    intent = shop.refund.propose("o-1", amount=80)
    verdict = gated(shop, intent, lambda: shop.change(Order, "o-1", note=None), late=late)
    assert (verdict.outcome, shop.refunds()) == (Outcome.BLOCK, [])


@LATE
@pytest.mark.parametrize(
    "premise",
    [
        block_unless(resource("spent", arg.order_id).value + arg.amount <= 100, "spent"),
        block_unless(total(rows("refunds"), "amount") + arg.amount <= 100, "spent"),
    ],
    ids=["query", "all rows"],
)
def test_trap_51_a_child_row_appears(shop: Shop, premise: Any, late: bool) -> None:
    """A row that a sum is taken over, put in by another between look and effect, is caught."""
    shop = shop.again(premises=[premise])
    intent = shop.refund.propose("o-1", amount=80)

    def add() -> None:
        with Session(shop.engine) as session:
            session.add(Refund(order_id="o-1", amount=30))
            session.commit()

    verdict = gated(shop, intent, add, late=late)
    assert (verdict.outcome, shop.refunds()) == (Outcome.BLOCK, [("o-1", 30)])


@pytest.mark.parametrize("reduces", [False, True])
def test_trap_52_a_premise_reserves_nothing(shop: Shop, reduces: bool) -> None:
    """Two refunds of 80 under a limit of 100 both go out by comparison; a limit that the body reduces stops one."""
    shop = shop.again(reduces=reduces)
    intents = [shop.refund.propose(name, amount=80) for name in ("o-1", "o-2")]
    verdicts = [shop.gate(intent) for intent in intents]
    assert [verdict.committed for verdict in verdicts] == [True, not reduces]
    assert len(shop.refunds()) == (1 if reduces else 2)


# --- Attempts ---------------------------------------------------------------------------------------------------------


def test_trap_25_rejected_and_attempted_anew(shop: Shop) -> None:
    """What moved in the window and still holds is bound anew, and the effect lands once."""
    intent = shop.refund.propose("o-1", amount=80)
    with interpose(shop.gate, lambda: shop.change(Policy, "refund", limit=90)):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, shop.refunds()) == (Outcome.KEEP, True, [("o-1", 80)])


def test_trap_25_rejections_are_bounded(shop: Shop) -> None:
    """A row that moves at every attempt stops the gate after four, with nothing applied; later it lands."""
    intent = shop.refund.propose("o-1", amount=80)
    limits = iter(range(200, 300))
    with failpoint(shop.gate, Apply, before=lambda _: shop.change(Policy, "refund", limit=next(limits))):
        verdict = shop.gate(intent)
    assert (verdict.applied, verdict.state, shop.refunds()) == (Applied.REJECTED, State.OPEN, [])
    assert next(limits) == 204
    assert shop.again().gate(intent).committed


def test_trap_28_a_committed_intent_is_answered_from_the_record(shop: Shop) -> None:
    """A fresh process gives the recorded result, with no body and no premise, whatever the world says now."""
    intent = shop.refund.propose("o-1", amount=80)
    assert shop.gate(intent).committed
    shop.change(Policy, "refund", limit=0)
    later = shop.again()
    verdict = later.gate(later.gate.intent(intent.id))
    assert (verdict.committed, verdict.result(), later.ran) == (True, "refunded 80 to A", 0)
    assert shop.refunds() == [("o-1", 80)]


def test_trap_29_two_processes_gate_one_intent(shop: Shop) -> None:
    """A second process that gates it within the first one's window: one effect, and nobody is told of a second."""
    intent = shop.refund.propose("o-1", amount=80)
    other = opened(Shop(shop.folder, shop.form))
    told: list[Any] = []
    with interpose(shop.gate, lambda: told.append(other.gate(other.gate.intent(intent.id)))):
        verdict = shop.gate(intent)
    assert verdict.committed
    assert told[0].applied is (Applied.IN_PROGRESS if shop.form == "apart" else Applied.COMMITTED)
    assert shop.refunds() == [("o-1", 80)]


def test_trap_37_the_record_fails_after_the_commit(folder: Path) -> None:
    """The target committed and the store is full: COMMITTED with the error; a fresh process records it."""
    shop = opened(Shop(folder, "apart"))
    shop.install()

    def full(command: Any) -> None:
        if command.append.kind == "COMMITTED":
            raise StoreError("the disk is full")

    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Transit, before=full):
        verdict = shop.gate(intent)
    assert (verdict.committed, type(verdict.error)) == (True, StoreError)
    later = shop.again()
    assert [found.state for found in later.gate.reconcile()] == [State.COMMITTED]
    assert (later.gate(intent).result(), later.ran) == ("refunded 80 to A", 0)
    assert shop.refunds() == [("o-1", 80)]


COMMANDS = [Load, Observe, FindRow, Now, Transit, Apply, Close]


@pytest.mark.parametrize("error", [RuntimeError, StoreError, KeyboardInterrupt], ids=lambda error: error.__name__)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_threat_09_an_exception_at_any_command(
    shop: Shop, command: type[Any], when: str, error: type[BaseException]
) -> None:
    """Whatever is raised wherever: what the first gate says is true, and a fresh one lands the effect exactly once."""

    def fail(*_: Any) -> None:
        raise error("canary")

    intent = shop.refund.propose("o-1", amount=80)
    steps: dict[str, Any] = {when: fail}
    applied = None
    try:
        with failpoint(shop.gate, command, **steps):
            applied = shop.gate(intent).applied
    except (error, LookupError):
        pass
    if applied is Applied.COMMITTED:
        assert shop.refunds() == [("o-1", 80)]
    elif applied is not None and applied is not Applied.UNKNOWN:
        assert shop.refunds() == []
    later = shop.again()
    later.gate.reconcile()
    assert later.gate(intent).result() == "refunded 80 to A"
    assert shop.refunds() == [("o-1", 80)]


# --- Over time --------------------------------------------------------------------------------------------------------


def test_trap_46_the_contract_changed_while_it_was_pending(shop: Shop) -> None:
    """After a deployment the recorded premises and today's both run, whichever says no."""
    intents = [shop.refund.propose("o-1", amount=80) for _ in range(2)]
    fewer = shop.again(premises=[NOT_REFUNDED])
    fewer.change(Policy, "refund", limit=50)
    assert fewer.gate(intents[0]).outcome is Outcome.BLOCK
    fewer.change(Policy, "refund", limit=100)
    more = fewer.again(premises=[*PREMISES, block_unless(order.note == "ok", "no note")])
    assert more.gate(intents[1]).outcome is Outcome.BLOCK
    more.change(Order, "o-1", note="ok")
    assert more.gate(intents[1]).committed
    assert shop.refunds() == [("o-1", 80)]


def test_trap_48_one_call_key_over_a_restart(shop: Shop) -> None:
    """The same call delivered again to a fresh process gives its result; with other arguments the key is refused."""
    assert shop.refund.options(key="call-1")("o-1", amount=80) == "refunded 80 to A"
    later = shop.again()
    assert later.refund.options(key="call-1")("o-1", amount=80) == "refunded 80 to A"
    with pytest.raises(KeyReused):
        later.refund.options(key="call-1")("o-1", amount=81)
    assert (later.ran, shop.refunds()) == (0, [("o-1", 80)])


def test_trap_49_the_lane_of_an_attempt_that_died(folder: Path) -> None:
    """While a dead process's attempt is open, another intent of its target waits; once that is closed, it may go."""
    shop = opened(Shop(folder, "apart"))
    shop.install()
    first, second = shop.refund.propose("o-1", amount=80), shop.refund.propose("o-1", amount=40)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), failpoint(shop.gate, Apply, before=die):
        shop.gate(first)
    verdict = opened(Shop(folder, "apart")).gate(second)
    assert (verdict.applied, verdict.state) == (Applied.IN_PROGRESS, State.OPEN)
    assert first.id in verdict.explain()
    later = shop.again()
    assert [found.state for found in later.gate.reconcile()] == [State.OPEN]
    assert later.gate(second).committed
    assert later.gate(first).outcome is Outcome.BLOCK
    assert shop.refunds() == [("o-1", 40)]


# --- Threats ----------------------------------------------------------------------------------------------------------


def recorded(shop: Shop, intent_id: str) -> dict[str, Any]:
    """The stored proposal."""
    with closing(sqlite3.connect(shop.stored())) as connection:
        asked = "SELECT body FROM lastlook_journal WHERE intent_id = ? AND seq = 0"
        return dict(cast("Any", decode(connection.execute(asked, (intent_id,)).fetchone()[0])))


def forge(shop: Shop, intent_id: str, body: bytes, *, at: int = 0) -> None:
    """Put another body in the place of a stored one, and chain the records as the library would have."""
    with closing(sqlite3.connect(shop.stored())) as connection:
        asked = "SELECT seq, kind, at_us, body FROM lastlook_journal WHERE intent_id = ? ORDER BY seq"
        digest = ""
        for seq, kind, at_us, was in connection.execute(asked, (intent_id,)).fetchall():
            now = body if seq == at else was
            digest = chain_digest(digest, intent_id, seq, kind, at_us, now)
            put = "UPDATE lastlook_journal SET body = ?, digest = ? WHERE intent_id = ? AND seq = ?"
            connection.execute(put, (now, digest, intent_id, seq))
        connection.execute("UPDATE lastlook_intent SET head = ? WHERE intent_id = ?", (digest, intent_id))
        connection.commit()


@pytest.mark.parametrize("left_out", range(len(PREMISES)))
def test_threat_02_a_premise_cut_from_the_stored_record(shop: Shop, left_out: int) -> None:
    """Who writes the store and chains anew can drop a recorded premise; the contract's own still stops the effect."""
    intent = shop.refund.propose("o-1", amount=80)
    body = recorded(shop, intent.id)
    premises = list(body["premises"])
    del premises[left_out]
    forge(shop, intent.id, encode(body | {"premises": tuple(premises)}))
    later = shop.again()
    changes: list[tuple[type[Base], str, dict[str, object]]] = [
        (Order, "o-1", {"delivered": False}),
        (Order, "o-1", {"refunded": True}),
        (Policy, "refund", {"limit": 50}),
    ]
    model, key, fields = changes[left_out]
    later.change(model, key, **fields)
    verdict = later.gate(later.gate.intent(intent.id))
    assert verdict.outcome is (Outcome.REPLAN if left_out == 0 else Outcome.BLOCK)
    assert shop.refunds() == []


class Trap:
    """What a pickle would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Shop, (None, "never made")


MALICIOUS = {
    "a pickle": pickle.dumps(Trap()),
    "nothing": b"",
    "no document": b"\x00\xff\xfe",
    "another document": encode({"another": 1}),
    "deep": b"[" * 100_000,
    "a text": encode("__import__('os')"),
    "large": b'"' + b"x" * 2_000_000 + b'"',
}


@pytest.mark.parametrize("at", [0, 1], ids=["the proposal", "the last record"])
@pytest.mark.parametrize("body", MALICIOUS.values(), ids=MALICIOUS)
def test_threat_08_a_record_that_is_none(shop: Shop, body: bytes, at: int) -> None:
    """Bytes of another kind, chained as if they were a record, are an integrity error; a sweep sees to the others."""
    forged, other = shop.refund.propose("o-1", amount=80), shop.refund.propose("o-2", amount=80)
    shop.change(Policy, "refund", limit=50)
    assert shop.gate(forged).outcome is Outcome.BLOCK
    shop.change(Policy, "refund", limit=100)
    forge(shop, forged.id, body, at=at)
    later = shop.again()
    for use in (later.gate, later.gate.preview):
        with pytest.raises(IntegrityError):
            use(forged)
    with pytest.raises(IntegrityError):
        later.gate.reconcile()
    assert (later.ran, shop.refunds()) == (0, [])
    assert later.gate(other).committed


@pytest.mark.parametrize("key", ["'", "'; DROP TABLE orders; --", '"', "%", "o-1' OR '1'='1", ":order_id", "?", "\\"])
def test_threat_12_a_hostile_key_refunds_its_own_row(shop: Shop, key: str) -> None:
    """Whatever text names an order, the gate refunds that one, in one database and through the effect table."""
    with Session(shop.engine) as session:
        session.add(Order(id=key, customer="B", note=""))
        session.commit()
    assert shop.refund.options(key=key)(key, amount=80) == "refunded 80 to B"
    assert shop.refunds() == [(key, 80)]


CANARY = "canary-9f3c"


@pytest.mark.parametrize("end", ["committed", "blocked", "failed"])
def test_threat_13_what_was_read_stands_nowhere(
    shop: Shop, end: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that a premise read is in no text, no log and no table of ours, however the effect ends."""
    shop.change(Order, "o-1", note=CANARY)
    secret = shop.again(premises=[block_unless(order.note != "x"), WITHIN])
    intent = secret.refund.propose("o-1", amount=80)
    if end == "blocked":
        secret.change(Order, "o-1", note="x")
        secret.change(Order, "o-2", note=CANARY)
    if end == "failed":
        with Session(shop.engine) as session:
            session.connection().exec_driver_sql("DROP TABLE refunds")
            session.commit()
    try:
        said = secret.gate(intent)
    except OperationalError as error:  # the body's own
        texts = [str(error)]
    else:
        texts = [said.explain(), said.model_text(), repr(said)]
    assert CANARY not in str(texts)
    printed = capsys.readouterr()
    assert CANARY not in caplog.text + printed.out + printed.err
    with closing(sqlite3.connect(shop.stored())) as connection:
        for table in ("lastlook_intent", "lastlook_journal", "lastlook_meta"):
            assert CANARY not in str(connection.execute(f"SELECT * FROM {table}").fetchall())
    with closing(sqlite3.connect(shop.file)) as connection:
        assert CANARY not in str(connection.execute("SELECT * FROM lastlook_effect").fetchall())


@pytest.mark.parametrize("limit", [50, 100])
def test_threat_14_hints_decide_nothing(shop: Shop, limit: int) -> None:
    """Early, false, repeated and missing hints: the outcome is that of no hints, and they write nothing."""
    intent = shop.refund.propose("o-1", amount=80)
    later = shop.again()
    hints = [Change("policies", "refund", "limit"), Change("orders", "o-1", "delivered"), Change("orders", "none")]
    for hint in [*hints, *reversed(hints)]:
        later.gate.affected(hint)
    later.change(Policy, "refund", limit=limit)
    later.gate.affected(hints[2])
    assert later.refunds() == []
    assert later.gate(intent).outcome is (Outcome.BLOCK if limit == 50 else Outcome.KEEP)
