"""What an effect's transaction guarantees on SQLite: bodies, locks, the caller's own settings, errors before it."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from shop import Base, Order, Policy, change, declare, open_shop
from sqlalchemy import MetaData, Table, create_engine, event, select, text, update
from sqlalchemy.exc import IntegrityError as DatabaseIntegrityError
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from lastlook import (
    Applied,
    DeclarationError,
    EffectNotBound,
    Gate,
    IntegrityError,
    MemoryStore,
    Outcome,
    State,
    arg,
    before,
    block_unless,
    exists,
    resource,
)
from lastlook.commands import Apply
from lastlook.testing import FakeClock, failpoint, interpose
from lastlook_connectors.sql import Sql, row

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from sqlalchemy import Engine


class Apart(MemoryStore):
    """A store that is durable elsewhere."""

    durable = True


@pytest.fixture
def engine(tmp_path: Path) -> Generator[Engine]:
    """A shop."""
    made = open_shop(tmp_path / "shop.db")
    yield made
    made.dispose()


def effect(engine: Engine, body: Callable[..., Any], **options: Any) -> tuple[Gate, Any]:
    """A gate with one effect over an order, of this body."""
    system = Sql(engine, Order, Policy, **options)
    system.install()
    gate = Gate(system, store=Apart())
    order = row(Order, arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def act(permit: Any, order_id: str) -> Any:
        return body(permit, order_id)

    return gate, act


def refunded(engine: Engine) -> bool:
    """Whether the order is."""
    with engine.connect() as connection:
        return bool(connection.scalar(select(Order.refunded).where(Order.id == "o-1")))


def refund(permit: Any, order_id: str) -> None:
    """A body that writes by SQL."""
    permit.connection.execute(update(Order).where(Order.id == order_id).values(refunded=True))


# --- Bodies -----------------------------------------------------------------------------------------------------------


def test_a_body_that_forgets_to_commit_its_session_is_written_all_the_same(engine: Engine) -> None:
    """What the session still holds when the body ends is part of the effect."""

    def body(permit: Any, order_id: str) -> None:
        permit.session.get_one(Order, order_id).refunded = True

    _, act = effect(engine, body)
    act("o-1")
    assert refunded(engine)


def test_a_body_may_roll_its_session_back_and_go_on(engine: Engine) -> None:
    """`rollback()` of the session reaches its savepoint only."""

    def body(permit: Any, order_id: str) -> None:
        session = permit.session
        session.add(Order(id=order_id, customer_name="", delivered=True, region="", total=Decimal(0)))
        with pytest.raises(DatabaseIntegrityError):
            session.flush()
        session.rollback()
        session.get_one(Order, order_id).refunded = True
        session.commit()

    _, act = effect(engine, body)
    act("o-1")
    assert refunded(engine)


def test_savepoints_and_scalars_of_the_connection(engine: Engine) -> None:
    """A savepoint that is rolled back leaves nothing; what is left open is released with the effect."""

    def body(permit: Any, order_id: str) -> str:
        connection = permit.connection
        point = connection.begin_nested()
        connection.execute(update(Policy).values(limit=0))
        point.rollback()
        connection.begin_nested()
        connection.execute(update(Order).values(refunded=True))
        name = connection.scalar(select(Order.customer_name).where(Order.id == order_id))
        return f"{name}{connection.scalars(select(Policy.limit)).all()[0]}"

    _, act = effect(engine, body)
    assert act("o-1") == "A100.00"
    assert refunded(engine)


def test_a_body_that_executes_nothing_is_refused(engine: Engine) -> None:
    """Nothing ties it to the check, unless it says that it means it."""

    def silent(permit: Any, order_id: str) -> str:
        return "done"

    def says_so(permit: Any, order_id: str) -> str:
        permit.no_write()
        return "done"

    gate, act = effect(engine, silent)
    intent = act.propose("o-1")
    with pytest.raises(EffectNotBound, match=r"or call permit\.no_write"):
        gate(intent)
    _, act = effect(engine, says_so)
    assert act("o-1") == "done"


@pytest.mark.parametrize(
    "statement", ["COMMIT", "  end transaction", "/* x */ rollback", "-- x\n;COMMIT", "BEGIN", "ATTACH ':memory:' AS x"]
)
def test_a_body_cannot_end_the_transaction_by_a_statement(engine: Engine, statement: str) -> None:
    """COMMIT, ROLLBACK and their like are refused before they are executed: nothing stays."""

    def body(permit: Any, order_id: str) -> None:
        refund(permit, order_id)
        permit.session.execute(text(statement))

    gate, act = effect(engine, body)
    intent = act.propose("o-1")
    with pytest.raises(EffectNotBound, match="would end the transaction"):
        gate(intent)
    assert not refunded(engine)


def test_a_body_that_commits_behind_its_permit_leaves_an_unknown_outcome(engine: Engine) -> None:
    """Nobody can tell what of it was committed: UNKNOWN until a person says so, never released again by itself."""
    tries: list[str] = []

    def body(permit: Any, order_id: str) -> None:
        tries.append(order_id)
        refund(permit, order_id)
        permit.session.connection().connection.driver_connection.commit()

    gate, act = effect(engine, body)
    intent = act.propose("o-1")
    verdict = gate(intent)
    assert verdict.applied is Applied.UNKNOWN
    assert gate(intent).applied is Applied.UNKNOWN
    assert tries == ["o-1"]
    gate.assert_outcome(intent, committed=True, by="the clerk", note="seen in the table")
    assert gate(intent).committed


def test_a_permit_is_dead_after_the_body(engine: Engine) -> None:
    """Neither it, nor its session or connection, works once the body has returned."""
    kept: list[Any] = []

    def body(permit: Any, order_id: str) -> None:
        refund(permit, order_id)
        kept.extend((permit, permit.session, permit.connection))

    _, act = effect(engine, body)
    act("o-1")
    permit, session, connection = kept
    for use in (
        lambda: permit.session,
        lambda: permit.connection,
        permit.no_write,
        lambda: connection.execute(select(Order)),
        lambda: connection.scalar(select(Order)),
        lambda: connection.scalars(select(Order)),
        connection.begin_nested,
    ):
        with pytest.raises(EffectNotBound, match="is over"):
            use()
    with pytest.raises(Exception, match="closed"):
        session.execute(select(Order))
    assert not any(hasattr(connection, name) for name in ("commit", "rollback", "close", "begin"))


def test_a_body_that_raises_leaves_nothing(engine: Engine) -> None:
    """Its own exception comes through, and the intent is open, to be released again."""
    fail = [True]

    def body(permit: Any, order_id: str) -> None:
        permit.session.get_one(Order, order_id).refunded = True
        permit.session.commit()
        if fail.pop():
            fail.append(False)
            raise ZeroDivisionError

    gate, act = effect(engine, body)
    intent = act.propose("o-1")
    with pytest.raises(ZeroDivisionError):
        gate(intent)
    assert not refunded(engine)
    assert gate(intent).committed
    assert refunded(engine)


def test_a_result_that_cannot_be_stored_leaves_nothing(engine: Engine) -> None:
    """It is encoded before the commit, so that the effect is not there either."""

    def body(permit: Any, order_id: str) -> Any:
        refund(permit, order_id)
        return object()

    gate, act = effect(engine, body)
    intent = act.propose("o-1")
    with pytest.raises(Exception, match="object"):
        gate(intent)
    assert not refunded(engine)


def test_a_gate_inside_a_body_is_refused(engine: Engine) -> None:
    """The inner one would be another transaction on the same file."""
    gates: list[Any] = []

    def body(permit: Any, order_id: str) -> None:
        refund(permit, order_id)
        gates[0].pending()

    gate, act = effect(engine, body)
    gates.append(gate)
    with pytest.raises(EffectNotBound, match="inside the body"):
        act("o-1")
    assert not refunded(engine)


def test_a_body_that_writes_through_its_own_session_is_told_so(tmp_path: Path) -> None:
    """It waits for the lock that its own effect holds: definite, with the remedy."""
    engine = open_shop(tmp_path / "shop.db", connect_args={"timeout": 0.05})

    def body(permit: Any, order_id: str) -> None:
        with Session(engine) as session:
            session.get_one(Order, order_id).refunded = True
            session.commit()

    gate, act = effect(engine, body)
    intent = act.propose("o-1")
    with pytest.raises(EffectNotBound, match="wrote through another connection"):
        gate(intent)
    assert gate.pending() == [intent]
    engine.dispose()


def test_the_body_of_other_arguments_is_refused(engine: Engine) -> None:
    """A row of the intent's id and other arguments is a fault, never a commit."""
    gate, act = effect(engine, refund)
    intent = act.propose("o-1")
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO lastlook_effect VALUES (:id, 'other', 0, NULL, NULL, NULL)"), {"id": intent.id}
        )
    with pytest.raises(IntegrityError, match="other arguments"):
        gate(intent)
    with engine.begin() as connection:
        connection.execute(text("UPDATE lastlook_effect SET result = x'00'"))
    with pytest.raises(IntegrityError, match="not written here"):
        gate(intent)
    assert not refunded(engine)


def test_a_body_that_touches_the_effect_row_is_refused(engine: Engine) -> None:
    """The effect row is marked last, and has to be the one that was locked."""

    def body(permit: Any, order_id: str) -> None:
        refund(permit, order_id)
        permit.connection.execute(text("DELETE FROM lastlook_effect"))

    gate, act = effect(engine, body)
    intent = act.propose("o-1")
    with pytest.raises(IntegrityError, match="leave lastlook_effect alone"):
        gate(intent)
    assert not refunded(engine)


# --- Deadlines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before the locks", "while the body runs"])
def test_a_deadline_counts_after_the_locks_and_after_the_body(engine: Engine, when: str) -> None:
    """A permission that ends while the effect waits, or while its body runs, releases nothing."""
    clock = FakeClock()
    system = Sql(engine, Order)
    system.install()
    gate = Gate(system, store=Apart(), clock=clock)
    order = row(Order, arg.order_id)
    end = clock.now() + dt.timedelta(minutes=1)

    @gate.effect(target=order, premises=[block_unless(~order.refunded), block_unless(before(end))])
    def act(permit: Any, order_id: str) -> None:
        refund(permit, order_id)
        if when == "while the body runs":
            clock.advance(dt.timedelta(minutes=2))

    intent = act.propose("o-1")
    late = dt.timedelta(minutes=2 if when == "before the locks" else 0)
    with interpose(gate, lambda: clock.advance(late)):
        verdict = gate(intent)
    assert verdict.outcome is Outcome.BLOCK
    assert not refunded(engine)


# --- Races ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [True, False])
def test_absence_is_bound(engine: Engine, seen: bool) -> None:
    """A row that appears between look and effect, or goes away, is found by the check."""
    system = Sql(engine, Order, Policy)
    system.install()
    gate = Gate(system, store=Apart())
    order, rule = row(Order, arg.order_id), row(Policy, arg.region)
    wanted = exists(rule) if seen else ~exists(rule)

    @gate.effect(target=order, premises=[block_unless(wanted)])
    def act(permit: Any, order_id: str, region: str) -> None:
        refund(permit, order_id)

    def appear() -> None:
        with Session(engine) as session:
            session.add(Policy(region="eu", limit=Decimal(1)))
            session.commit()

    def vanish() -> None:
        with Session(engine) as session:
            session.delete(session.get_one(Policy, "uk"))
            session.commit()

    intent = act.propose("o-1", region="uk" if seen else "eu")
    with interpose(gate, vanish if seen else appear):
        verdict = gate(intent)
    assert verdict.outcome is Outcome.BLOCK
    assert not refunded(engine)


def test_a_field_that_no_premise_names_moves_freely_between_look_and_effect(engine: Engine) -> None:
    """What is compared is the projection: another column of the same row is nobody's business, a version's too."""
    gate, act = effect(engine, refund, version={Order: "total"})
    intent = act.propose("o-1")
    with interpose(gate, lambda: change(engine, Order, "o-1", customer_name="B", total=Decimal(81))):
        verdict = gate(intent)
    assert (verdict.outcome, verdict.applied) == (Outcome.KEEP, Applied.COMMITTED)


def test_of_two_rivals_one_commits(engine: Engine) -> None:
    """Two gates on two threads, released together: the premise that one makes false stops the other."""
    answers: list[Any] = []
    start = threading.Barrier(2)
    pairs = [effect(engine, refund) for _ in range(2)]
    intents = [act.propose("o-1") for _, act in pairs]

    def release(gate: Gate, intent: Any) -> None:
        with failpoint(gate, Apply, before=lambda command: start.wait(10) if command.attempt.number == 1 else None):
            answers.append(gate(intent))

    threads = [
        threading.Thread(target=release, args=(gate, intent)) for (gate, _), intent in zip(pairs, intents, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(verdict.committed for verdict in answers) == [False, True]
    assert {verdict.outcome for verdict in answers} == {Outcome.KEEP, Outcome.BLOCK}


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_threads_on_one_gate_commit_each_effect_once(tmp_path: Path, journal: str) -> None:
    """Two threads for each order, at one gate and one engine: every order is refunded, and by one of them."""
    engine = open_shop(tmp_path / "shop.db")
    names = [f"x-{number}" for number in range(12)]
    with Session(engine) as session:
        session.execute(text(f"PRAGMA journal_mode = {journal}"))
        common: dict[str, Any] = {"customer_name": "A", "delivered": True, "region": "uk", "total": Decimal(80)}
        session.add_all(Order(id=name, **common) for name in names)
        session.commit()
    gate, act = declare(engine, engine)
    committed: list[str] = []

    def work(mine: list[str]) -> None:
        for name in mine:
            verdict = gate(gate.transaction().propose(act, name, amount=Decimal(80)))
            assert verdict.committed or verdict.outcome is Outcome.BLOCK
            committed.extend([name] * verdict.committed)

    threads = [threading.Thread(target=work, args=(names[half::2],)) for half in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(committed) == sorted(names)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT count(*), count(committed_at) FROM lastlook_effect")).one()
        assert (rows[1], connection.scalar(text("SELECT count(*) FROM orders WHERE refunded"))) == (12, 12)
    engine.dispose()


def test_a_version_that_goes_backwards_is_unverifiable(tmp_path: Path) -> None:
    """A declared version tells a restore from a change; without one the values decide."""
    engine = open_shop(tmp_path / "shop.db")
    outcomes: list[Outcome] = []
    for options in ({"version": {Policy: "v"}}, {}):
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE policies"))
            connection.execute(text('CREATE TABLE policies (region TEXT PRIMARY KEY, "limit" INTEGER, v INTEGER)'))
            connection.execute(text("INSERT INTO policies VALUES ('uk', 100, 7)"))
        table = Table("policies", MetaData(), autoload_with=engine)
        versions = {table: "v"} if options else {}
        system = Sql(engine, Order, table, version=versions)
        system.install()
        gate = Gate(system, store=Apart())
        policy = resource("policies", "uk")

        @gate.effect(target=row(Order, arg.order_id), premises=[block_unless(policy.limit >= 100)])
        def act(permit: Any, order_id: str) -> None:
            permit.no_write()

        intent = act.propose("o-1")
        with engine.begin() as connection:
            connection.execute(text("UPDATE policies SET v = 3"))
        outcomes.append(gate(intent).outcome)
    assert outcomes == [Outcome.BLOCK, Outcome.KEEP]
    engine.dispose()


# --- The caller's own settings ----------------------------------------------------------------------------------------


def _begin_by_recipe(engine: Engine) -> None:
    """SQLAlchemy's documented recipe for SQLite transactions."""

    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")


@pytest.mark.parametrize(
    "setting", ["plain", "autocommit", "recipe", "foreign keys", "deferred", "not durable", "extra"]
)
def test_the_callers_engine_is_no_hole_and_stays_as_it_was(tmp_path: Path, setting: str) -> None:
    """Whatever the engine does with transactions: a racing write is caught, and afterwards everything is as before."""
    pragmas = {"foreign keys": "foreign_keys = ON", "not durable": "synchronous = OFF", "extra": "synchronous = EXTRA"}
    options: dict[str, dict[str, Any]] = {
        "autocommit": {"isolation_level": "AUTOCOMMIT"},
        "deferred": {"connect_args": {"isolation_level": "DEFERRED", "timeout": 3}},
    }
    engine = open_shop(tmp_path / "shop.db", **options.get(setting, {}))
    if setting == "recipe":
        engine.dispose()
        _begin_by_recipe(engine)
    if setting in pragmas:
        engine.dispose()
        event.listen(engine, "connect", lambda connection, _: connection.execute(f"PRAGMA {pragmas[setting]}"))
    other = create_engine(f"sqlite:///{tmp_path / 'shop.db'}", connect_args={"timeout": 0.05})

    def settings() -> tuple[Any, ...]:
        with engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            timeout = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
            keys = connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one()
            durability = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
            return raw.isolation_level, timeout, keys, durability, engine.pool.checkedout()  # type: ignore[attr-defined]

    blocked: list[str] = []
    durable: list[int] = []

    def body(permit: Any, order_id: str) -> None:
        refund(permit, order_id)
        durable.append(permit.connection.scalar(text("PRAGMA synchronous")))
        try:
            change(other, Policy, "uk", limit=Decimal(1))
        except OperationalError as error:
            blocked.append(str(error.orig))

    was = settings()
    gate, act = effect(engine, body)
    intent = act.propose("o-1")
    assert gate(intent).committed
    assert blocked == ["database is locked"]
    assert durable == [3 if setting == "extra" else 2]
    assert settings() == was
    change(engine, Order, "o-1", refunded=False)
    raced = act.propose("o-1")
    with interpose(gate, lambda: change(engine, Order, "o-1", refunded=True)):
        assert gate(raced).outcome is Outcome.BLOCK
    assert settings() == was
    engine.dispose()
    other.dispose()


def test_the_callers_open_transaction_makes_the_target_busy(engine: Engine) -> None:
    """It is not joined, and not touched: BUSY with the cause, and the caller's writes are still there to commit."""
    clock = FakeClock()
    system = Sql(engine, Order, lock_timeout=0.01)
    system.install()
    gate = Gate(system, store=Apart(), clock=clock)
    order = row(Order, arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def act(permit: Any, order_id: str) -> None:
        refund(permit, order_id)

    intent = act.propose("o-1")
    with Session(engine) as session:
        session.get_one(Policy, "uk").limit = Decimal(7)
        session.flush()
        verdict = gate(intent)
        assert verdict.applied is Applied.BUSY
        assert "transaction of your own" in verdict.explain()
        session.commit()
    with Session(engine) as session:
        assert session.get_one(Policy, "uk").limit == 7
    assert gate(intent).committed


@pytest.mark.parametrize("pool", ["static", "thread"])
def test_in_memory_with_one_connection(pool: str) -> None:
    """A database in memory works; while the caller has a transaction open on its one connection, it is busy."""
    options: Any = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}} if pool == "static" else {}
    engine = create_engine("sqlite://", **options)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Order(id="o-1", customer_name="A", delivered=True, refunded=False, region="uk", total=Decimal(80)))
        session.add(Policy(region="uk", limit=Decimal(100)))
        session.commit()
    gate, act = declare(engine, MemoryStore(), clock=FakeClock())
    intent = act.propose("o-1", amount=Decimal(80))
    with Session(engine) as session:
        session.get_one(Policy, "uk").limit = Decimal(90)
        session.flush()
        verdict = gate(intent)
        assert not verdict.committed
        assert "a transaction of your own is open on it" in verdict.explain()
        session.commit()
    with Session(engine) as session:
        assert session.get_one(Policy, "uk").limit == 90
    assert gate(intent).committed
    assert refunded(engine)
    engine.dispose()


def test_a_memory_database_asks_for_no_durable_store() -> None:
    """What is lost with the process needs no store that survives it; a file does."""
    engine = create_engine("sqlite://")
    assert not Sql(engine, Order).capabilities.durable
    engine.dispose()


def test_a_table_of_an_attached_file_is_refused(tmp_path: Path) -> None:
    """Attached under the hood, by a listener: refused when the gate connects."""
    open_shop(tmp_path / "shop.db").dispose()
    engine = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    path = str(tmp_path / "shop.db")
    event.listen(engine, "connect", lambda connection, _: connection.execute("ATTACH ? AS shop", (path,)))
    with pytest.raises(DeclarationError, match="'orders' is not in the main database"):
        Gate(Sql(engine, Order), store=Apart())
    engine.dispose()


# --- Without the effect table, and other misfortunes ------------------------------------------------------------------


def test_without_the_effect_table_the_capabilities_drop(engine: Engine) -> None:
    """The check is as good as ever; what cannot be told is an outcome without an answer, and it is not tried again."""
    system = Sql(engine, Order)
    gate = Gate(system, store=Apart())
    order = row(Order, arg.order_id)
    tries: list[str] = []

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def act(permit: Any, order_id: str) -> None:
        tries.append(order_id)
        refund(permit, order_id)

    assert system.capabilities.closes is False
    raced = act.propose("o-1")
    with interpose(gate, lambda: change(engine, Order, "o-1", refunded=True)):
        assert gate(raced).outcome is Outcome.BLOCK
    change(engine, Order, "o-1", refunded=False)

    def lose(command: Any, reply: Any) -> None:
        raise ConnectionError

    intent = act.propose("o-1")
    with failpoint(gate, Apply, after=lose):
        verdict = gate(intent)
    assert verdict.applied is Applied.UNKNOWN
    again = gate(intent)
    assert again.applied is Applied.UNKNOWN
    assert "call gate.install()" in again.explain()
    assert tries == ["o-1"]
    gate.install()
    assert system.capabilities.closes is bool(tries)
    assert system.effect_row(intent.id) is None


def test_a_read_only_file_is_told_before_any_effect(tmp_path: Path) -> None:
    """Evidence is read; the effect fails for certain, in the database's own words."""
    writable = open_shop(tmp_path / "shop.db")
    Sql(writable, Order).install()
    writable.dispose()
    engine = create_engine(f"sqlite:///file:{tmp_path / 'shop.db'}?mode=ro&uri=true")
    gate = Gate(Sql(engine, Order), store=Apart())
    order = row(Order, arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def act(permit: Any, order_id: str) -> None:
        refund(permit, order_id)

    intent = act.propose("o-1")
    with pytest.raises(OperationalError, match="readonly"):
        gate(intent)
    assert not refunded(engine)
    assert gate.intent(intent.id) in gate.pending()
    engine.dispose()


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """SQLite rolls everything back by itself: a definite failure, and room enough makes the same intent go out."""
    engine = open_shop(tmp_path / "shop.db")

    def body(permit: Any, order_id: str) -> None:
        refund(permit, order_id)
        permit.session.execute(text("CREATE TABLE big AS SELECT zeroblob(1000000) AS z"))

    gate, act = effect(engine, body)
    limit = ["PRAGMA max_page_count = 20"]
    event.listen(engine, "checkout", lambda connection, *_: connection.execute(limit[0]))
    intent = act.propose("o-1")
    with pytest.raises(OperationalError, match="full"):
        gate(intent)
    limit[0] = "PRAGMA max_page_count = 100000"
    assert not refunded(engine)
    assert gate(intent).committed
    engine.dispose()


def test_a_missing_file_or_directory_is_told_when_the_gate_connects(tmp_path: Path) -> None:
    """Before anything is proposed."""
    engine = create_engine(f"sqlite:///{tmp_path / 'no' / 'shop.db'}")
    with pytest.raises(OperationalError, match="unable to open database file"):
        Gate(Sql(engine, Order), store=Apart())


def test_a_foreign_writer_that_holds_the_lock_makes_closing_unknown(tmp_path: Path) -> None:
    """While another process writes, nothing is closed and nothing claimed; afterwards it is."""
    engine = open_shop(tmp_path / "shop.db")
    system = Sql(engine, Order, lock_timeout=0.01)
    system.install()
    rival = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")
    said = system.close("i", 1)
    assert (said.status, "locked" in said.reason) == (Applied.UNKNOWN, True)
    rival.execute("ROLLBACK")
    rival.close()
    assert system.close("i", 1).status is Applied.NOT_ATTEMPTED
    engine.dispose()


def test_a_commit_that_readers_hold_up_is_busy_and_lands_later(tmp_path: Path) -> None:
    """In a rollback journal a reader can keep the commit out: definite, rolled back, tried again."""
    engine = open_shop(tmp_path / "shop.db")
    reader = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    clock = FakeClock()
    system = Sql(engine, Order, lock_timeout=0.01)
    system.install()
    gate = Gate(system, store=Apart(), clock=clock)
    order = row(Order, arg.order_id)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def act(permit: Any, order_id: str) -> None:
        refund(permit, order_id)

    intent = act.propose("o-1")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM orders").fetchone()
    assert gate(intent).applied is Applied.BUSY
    reader.execute("ROLLBACK")
    reader.close()
    assert not refunded(engine)
    assert gate(intent).committed
    engine.dispose()


def test_same_engine_shares_one_transaction(engine: Engine) -> None:
    """No attempt is opened beside it: a lost intent, or a lane that is taken, leaves nothing behind."""
    gate, act = declare(engine, engine)
    intent = act.propose("o-1", amount=Decimal(80))
    with interpose(gate, lambda: gate.withdraw(intent)):
        verdict = gate(intent)
    assert verdict.state is State.WITHDRAWN
    assert not refunded(engine)
    assert gate._runtime().systems["orders"].effect_row(intent.id) is None  # type: ignore[attr-defined]


def test_same_engine_reads_once_and_commits_once(engine: Engine) -> None:
    """A gate that finds nothing changed: one SELECT by the look, one by the check, one COMMIT."""
    gate, act = declare(engine, engine)
    intent = act.propose("o-1", amount=Decimal(80))
    evidence: list[str] = []
    commits: list[Any] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "lastlook_one" in statement:
            evidence.append(statement)

    event.listen(engine, "commit", commits.append)
    assert gate(intent).committed
    # The policy's key is the order's region, and recorded: all that was read is read together.
    assert [("orders" in statement, "policies" in statement) for statement in evidence] == [(True, True)] * 2
    assert len(commits) == 1


def test_a_crash_after_the_commit_is_a_commit(engine: Engine) -> None:
    """With one engine the store itself knows: the next gate answers with the stored result, and nothing runs twice."""
    gate, act = declare(engine, engine)
    intent = act.propose("o-1", amount=Decimal(80))

    def crash(command: Any, reply: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), failpoint(gate, Apply, after=crash):
        gate(intent)
    again, _ = declare(engine, engine)
    verdict = again(again.intent(intent.id))
    assert (verdict.committed, verdict.result()) == (True, "o-1: 80")


def test_an_override_keeps_its_intents_in_its_own_database(tmp_path: Path) -> None:
    """A shop's tests give another engine: effects, rows and intents are there, and nowhere else."""
    engine, other = open_shop(tmp_path / "shop.db"), open_shop(tmp_path / "test.db")
    gate, act = declare(engine, engine)
    with gate.override(Sql(other, Order, Policy)):
        gate.install()
        assert act("o-1", amount=Decimal(80)) == "o-1: 80"
        assert refunded(other)
    assert not refunded(engine)
    assert gate.pending() == []
    engine.dispose()
    other.dispose()
