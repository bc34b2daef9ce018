"""What `Sql` reads of a SQLite file: types, keys, queries, whole kinds, one statement, and what it cannot read."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Date,
    DateTime,
    Enum,
    ForeignKey,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    PickleType,
    String,
    Table,
    Uuid,
    bindparam,
    create_engine,
    event,
    func,
    select,
    text,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, deferred, mapped_column, relationship

from lastlook import DeclarationError, Gate, MemoryStore, Outcome, arg, block_unless, count, resource, rows
from lastlook.canonical import ABSENT
from lastlook.ports import Unreadable
from lastlook.records import Address, Observation
from lastlook_connectors.sql import Sql, row

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from sqlalchemy import Engine


class Base(DeclarativeBase):
    """The models of these tests."""


class Colour(enum.Enum):
    """An enumeration whose names and values differ."""

    RED = "r"
    BLUE = "b"


class Thing(Base):
    """A row of every type."""

    __tablename__ = "things"

    key: Mapped[int] = mapped_column("id", primary_key=True)
    flag: Mapped[bool | None]
    amount: Mapped[Decimal | None] = mapped_column(Numeric(10, 2))
    ratio: Mapped[float | None]
    data: Mapped[bytes | None]
    day: Mapped[dt.date | None]
    seen: Mapped[dt.datetime | None] = mapped_column(DateTime)
    ident: Mapped[uuid.UUID | None]
    colour: Mapped[Colour | None]
    meta: Mapped[Any] = mapped_column(JSON, nullable=True)
    span: Mapped[dt.timedelta | None] = mapped_column(Interval)
    pickled: Mapped[Any] = mapped_column(PickleType, nullable=True)
    large: Mapped[str | None] = deferred(mapped_column(String))
    owner_id: Mapped[str | None] = mapped_column(ForeignKey("owners.id"))
    owner: Mapped[Owner | None] = relationship()

    @hybrid_property
    def twice(self) -> int:
        """No column."""
        return 2 * self.key


class Owner(Base):
    """A row with a text as its key."""

    __tablename__ = "owners"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str | None]


class Part(Base):
    """A row with a composite key, in another order than the attributes."""

    __tablename__ = "parts"

    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))
    region: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


STOCK = Table("stock", MetaData(), Column("sku", String(collation="NOCASE"), primary_key=True), Column("left", Integer))
QUERIES = {
    "spent": select(func.sum(Part.price)).where(Part.region == bindparam("region")),
    "dear": select(Part.number, Part.price)
    .where(Part.region == bindparam("region"), Part.price > bindparam("least", type_=Numeric(10, 2)))
    .order_by(Part.number),
    "all_parts": select(Part.number).where(Part.region.in_(["eu", "uk"])).order_by(Part.number),
}


@pytest.fixture
def engine(tmp_path: Path) -> Generator[Engine]:
    """An engine on a new file."""
    made = create_engine(f"sqlite:///{tmp_path / 'things.db'}")
    Base.metadata.create_all(made)
    STOCK.metadata.create_all(made)
    yield made
    made.dispose()


@pytest.fixture
def system(engine: Engine) -> Sql:
    """All of it."""
    return Sql(engine, Thing, Owner, Part, STOCK, queries=QUERIES, public=["owners.name"])


def put(engine: Engine, *objects: object) -> None:
    """Write some objects."""
    with Session(engine) as session:
        session.add_all(objects)
        session.commit()


def read(system: Sql, kind: str, *key: Any) -> Any:
    """The value at an address, or why it cannot be read."""
    found = system.read_many([Address(kind, key)])[0]
    return found.reason if isinstance(found, Unreadable) else found.value


def one_thing(**fields: Any) -> Thing:
    """A thing with the key 1."""
    return Thing(key=1, **fields)


# --- Types ------------------------------------------------------------------------------------------------------------


def test_every_type_is_read_as_what_it_is(engine: Engine, system: Sql) -> None:
    """A row has its mapped, loaded columns with canonical types, by attribute; nothing else is a field."""
    number, moment = uuid.uuid4(), dt.datetime(2026, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001 - naive on purpose
    thing = one_thing(
        flag=True,
        amount=Decimal("80.10"),
        ratio=0.1,
        data=b"\x00\xff",
        day=moment.date(),
        seen=moment,
        ident=number,
        colour=Colour.BLUE,
        meta={"a": [1, 0.1, None]},
        span=dt.timedelta(1),
        pickled=[1],
        large="x",
    )
    put(engine, thing)
    expected = {
        "key": 1,
        "flag": True,
        "amount": Decimal("80.1"),
        "ratio": 0.1,
        "data": b"\x00\xff",
        "day": moment.date(),
        "seen": moment,
        "ident": number,
        "colour": "b",
        "meta": {"a": (1, Decimal("0.1"), None)},
        "owner_id": None,
    }
    value = dict(read(system, "things", 1))
    value["meta"] = dict(value["meta"])
    assert value == expected
    assert {name: type(item) for name, item in value.items()} == {name: type(item) for name, item in expected.items()}
    assert system.fields("things").names == set(expected)
    assert system.fields("things").complete


def test_null_is_null_in_every_type(engine: Engine, system: Sql) -> None:
    """A column without a value is None, whatever its type."""
    put(engine, one_thing())
    value = dict(read(system, "things", 1))
    assert value.pop("key") == 1
    assert set(value.values()) == {None}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("80", Decimal(80)),
        ("80.10", Decimal("80.1")),
        ("0.1 + 0.2", Decimal("0.3")),
        ("1e14 + 0.25", 100000000000000.25),
        ("-0.005", Decimal("-0.005")),
        ("'80.10'", Decimal("80.1")),
        ("1234567890123456789", Decimal(1234567890123456789)),
    ],
)
def test_a_stored_number_is_the_decimal_that_it_stands_for(
    engine: Engine, system: Sql, stored: str, expected: Decimal | float
) -> None:
    """Whole numbers exactly, doubles by the 15 digits that they hold; any other double stays a float."""
    put(engine, one_thing())
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE things SET amount = {stored}"))
    found = read(system, "things", 1)["amount"]
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("column", "stored", "why"),
    [
        ("amount", "'dear'", "column 'amount' holds what is no Numeric"),
        ("flag", "7", "column 'flag' holds what is no Boolean"),
        ("day", "'soon'", "column 'day' holds what is no Date"),
        ("colour", "'GREEN'", "column 'colour' holds what is no Enum"),
        ("meta", "'{'", "column 'meta' holds what is no JSON"),
        ("meta", """'{"a": 1, "a": 2}'""", "column 'meta' holds what is no JSON"),
    ],
)
def test_what_is_none_of_its_type_makes_its_row_unreadable(
    engine: Engine, system: Sql, column: str, stored: str, why: str
) -> None:
    """SQLite stores anything anywhere: such a row has no value, and the reason names the column, never the content."""
    put(engine, one_thing(), Thing(key=2, flag=True))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE things SET {column} = {stored} WHERE id = 1"))
    assert read(system, "things", 1) == why
    assert read(system, "things", 2)["flag"] is True


def gate_of(system: Sql) -> Gate:
    """A gate over a system whose intents live elsewhere."""
    store = MemoryStore()
    store.durable = True
    system.install()
    return Gate(system, store=store)


def test_a_float_is_refused_where_a_premise_names_it(engine: Engine, system: Sql) -> None:
    """The message has the way out, which holds; and a premise over another column is not troubled."""
    put(engine, one_thing(ratio=0.1, flag=True))
    gate = gate_of(system)
    thing = row(Thing, arg.key)

    @gate.effect(target=thing, premises=[block_unless(thing.ratio <= 1)])
    def named(permit: Any, key: int) -> None: ...

    @gate.effect(target=thing, premises=[block_unless(arg.most >= resource("things", arg.key).ratio.as_decimal(2))])
    def way_out(permit: Any, key: int, most: Decimal) -> None:
        permit.no_write()

    @gate.effect(target=thing, premises=[block_unless(thing.flag == True)])  # noqa: E712 - an expression
    def other(permit: Any, key: int) -> None:
        permit.no_write()

    with pytest.raises(Exception, match=r"as_decimal"):
        named.propose(1)
    way_out(1, Decimal("0.1"))
    other(1)


def test_a_naive_datetime_is_refused_where_a_premise_names_it(engine: Engine, system: Sql) -> None:
    """The message has the way out, which holds."""
    put(engine, one_thing(seen=dt.datetime(2026, 7, 1, 12)))  # noqa: DTZ001 - naive on purpose
    gate = gate_of(system)
    thing = resource("things", arg.key)

    @gate.effect(target=thing, premises=[block_unless(thing.seen < dt.datetime(2027, 1, 1, tzinfo=dt.UTC))])
    def named(permit: Any, key: int) -> None: ...

    noon = dt.datetime(2026, 7, 1, 11, tzinfo=dt.UTC)

    @gate.effect(target=thing, premises=[block_unless(thing.seen.as_utc("Europe/London") == noon)])
    def way_out(permit: Any, key: int) -> None:
        permit.no_write()

    with pytest.raises(Exception, match=r"as_utc"):
        named.propose(1)
    way_out(1)


# --- Keys -------------------------------------------------------------------------------------------------------------

HOSTILE = ["'", '"', "'; DROP TABLE owners; --", "a/b", "%", "_", "🦉", "é", " ", "x" * 1000, ":p", "?", "\\", "NULL"]


@pytest.mark.parametrize("key", HOSTILE)
def test_a_key_is_only_ever_a_bound_value(engine: Engine, system: Sql, key: str) -> None:
    """Whatever stands in a key, it finds its own row, and no other."""
    put(engine, Owner(id=key, name="found"), Owner(id="other", name="other"))
    assert read(system, "owners", key)["name"] == "found"
    assert read(system, "owners", key + "x") is ABSENT


def test_a_composite_key_is_in_the_order_of_its_columns(engine: Engine, system: Sql) -> None:
    """The primary key's own order counts, also for `row`."""
    put(engine, Part(region="eu", number=7, price=Decimal(3)))
    assert read(system, "parts", "eu", 7)["price"] == 3
    assert repr(row(Part, (arg.region, arg.number))) == repr(resource("parts", arg.region, arg.number))
    with pytest.raises(DeclarationError, match="region, number"):
        row(Part, arg.region)


@pytest.mark.parametrize(
    ("kind", "key", "why"),
    [
        ("owners", ("a", "b"), "'owners' has a key of 1 parts, and 2 are given"),
        ("parts", ("eu",), "'parts' has a key of 2 parts, and 1 are given"),
        ("things", ("1",), "'things' has the key column 'id': a whole number, and the key gives str"),
        ("things", (Decimal("1.5"),), "'things' has the key column 'id': a whole number, and the key gives Decimal"),
        ("things", (1 << 80,), "'things' has the key column 'id': a number of more than 64 bits"),
        ("owners", (1,), "'owners' has the key column 'id': a text, and the key gives int"),
        ("spent", ("eu", "uk"), "query 'spent' takes region, and 2 parts are given"),
        ("dear", ("eu", "3"), "query 'dear': a number, and the key gives str"),
        ("stock", ("A",), "the database takes its key for that of another row"),
    ],
)
def test_a_key_that_fits_no_row_is_unreadable(
    engine: Engine, system: Sql, kind: str, key: tuple[Any, ...], why: str
) -> None:
    """What the database would convert, or compare loosely, names no row: unreadable, with the reason."""
    put(engine, Owner(id="1"), one_thing(), Part(region="eu", number=7, price=Decimal(3)))
    with engine.begin() as connection:
        connection.execute(STOCK.insert().values(sku="a", left=1))
    assert read(system, kind, *key) == why


def test_a_whole_decimal_names_the_row_of_its_number(engine: Engine, system: Sql) -> None:
    """1 and Decimal(1) are one key everywhere."""
    put(engine, one_thing(flag=True))
    assert read(system, "things", Decimal("1.0"))["flag"] is True


@pytest.mark.parametrize(
    ("kind", "key", "named"),
    [
        (Integer(), -7, -7),
        (String(), "a", "a"),
        (Numeric(10, 2), Decimal("80.10"), Decimal("80.1")),
        (Numeric(10, 2), Decimal(80), 80),
        (Date(), dt.date(2026, 2, 3), dt.date(2026, 2, 3)),
        (Uuid(), uuid.UUID(int=7), uuid.UUID(int=7)),
        (LargeBinary(), b"\x00a", b"\x00a"),
        (Enum(Colour), Colour.BLUE, "b"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_keys_of_every_type(engine: Engine, kind: Any, key: Any, named: Any) -> None:
    """A key is bound as its column stores it: it finds its own row, and its neighbour finds none."""
    table = Table("keyed", MetaData(), Column("key", kind, primary_key=True), Column("name", String))
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert().values(key=key, name="found"))
    assert read(Sql(engine, table), "keyed", named)["name"] == "found"
    other = {int: 8, str: "b", Decimal: Decimal("80.2"), dt.date: dt.date(2026, 2, 4), bytes: b"\x00"}
    absent = "r" if isinstance(kind, Enum) else other.get(type(named), uuid.UUID(int=8))
    assert read(Sql(engine, table), "keyed", absent) is ABSENT


def test_a_moment_is_no_key_of_a_column_without_zones(engine: Engine) -> None:
    """Its zone would be dropped, and two moments name one row."""
    table = Table("keyed", MetaData(), Column("key", DateTime, primary_key=True))
    table.create(engine)
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert "a datetime without a zone" in read(Sql(engine, table), "keyed", moment)


# --- Queries and whole kinds ------------------------------------------------------------------------------------------


def test_queries_answer_with_rows_and_with_their_one_value(engine: Engine, system: Sql) -> None:
    """The key's parts are the parameters in order of occurrence; nothing found is an empty list, or null."""
    put(engine, *(Part(region="eu", number=number, price=Decimal(number) / 10) for number in (1, 2, 3)))
    assert read(system, "spent", "eu")["value"] == Decimal("0.6")
    assert read(system, "spent", "uk")["value"] is None
    dear = read(system, "dear", "eu", Decimal("0.15"))
    assert [dict(found) for found in dear["rows"]] == [
        {"number": 2, "price": Decimal("0.2")},
        {"number": 3, "price": Decimal("0.3")},
    ]
    assert "value" not in dear
    assert read(system, "dear", "uk", 0) == {"rows": ()}
    assert [dict(found) for found in read(system, "all_parts")] == [{"number": 1}, {"number": 2}, {"number": 3}]


def test_all_rows_of_a_kind_in_key_order(engine: Engine, system: Sql) -> None:
    """A collection is its rows in the order of their keys."""
    put(engine, *(Owner(id=name, name=name.upper()) for name in ("b", "a", "B")))
    assert [found["id"] for found in read(system, "owners")] == ["B", "a", "b"]


def test_sums_absence_and_whole_kinds_are_bound(engine: Engine, system: Sql) -> None:
    """One writer at a time: what a query, a missing row and a whole kind say is checked with the effect."""
    put(engine, Part(region="eu", number=1, price=Decimal(3)))
    gate = gate_of(system)
    part = resource("parts", arg.region, arg.number)

    @gate.effect(
        target=part,
        premises=[
            block_unless(resource("spent", arg.region).value <= 10),
            block_unless(count(rows("parts")) < 2),
            block_unless(~(count(resource("dear", arg.region, 9).rows) > 0)),
        ],
    )
    def buy(permit: Any, region: str, number: int) -> None:
        permit.session.add(Part(region=region, number=number, price=Decimal(4)))

    grades = {grade.name for grade in buy.contract.bindings().values()}
    assert grades == {"BOUND"}
    buy("eu", 2)
    intent = gate.transaction().propose(buy, "eu", 3)
    assert gate(intent).outcome is Outcome.BLOCK
    assert len(read(system, "parts")) == 2


# --- Statements -------------------------------------------------------------------------------------------------------


def counted(engine: Engine) -> list[str]:
    """The statements that the engine executes from now on."""
    seen: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def note(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    return seen


@pytest.mark.parametrize(("number", "statements"), [(1, 1), (2, 1), (25, 1), (60, 1), (61, 2), (500, 9)])
def test_one_statement_reads_a_stage(engine: Engine, system: Sql, number: int, statements: int) -> None:
    """All rows of a stage, of several kinds, are one SELECT; beyond what SQLite can join, as few as that allows."""
    put(engine, *(Owner(id=f"o{index}", name=str(index)) for index in range(number)), one_thing(flag=True))
    addresses = [Address("owners", (f"o{index}",)) for index in range(number - 1)] + [Address("things", (1,))]
    seen = counted(engine)
    found = system.read_many(addresses)
    assert [text for text in seen if text.startswith("SELECT")] == seen[1:-1] if statements > 1 else seen
    assert len([text for text in seen if text.startswith("SELECT")]) == statements
    values = [cell.value for cell in found if isinstance(cell, Observation)]
    assert [value["name"] for value in values[:-1]] == [str(index) for index in range(number - 1)]  # type: ignore[index,call-overload]
    assert values[-1]["flag"] is True  # type: ignore[index,call-overload]


def test_several_statements_are_one_snapshot(engine: Engine, system: Sql, tmp_path: Path) -> None:
    """A write that comes between the statements of one read is not seen by any of them."""
    with engine.begin() as connection:
        connection.execute(text("PRAGMA journal_mode = WAL"))
    put(engine, Owner(id="a", name="old"))
    other = create_engine(f"sqlite:///{tmp_path / 'things.db'}")
    pending = ["UPDATE owners SET name = 'new'"]

    @event.listens_for(engine, "after_cursor_execute")
    def between(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith("SELECT") and pending:
            with other.begin() as writer:
                writer.execute(text(pending.pop()))

    by_key, whole = system.read_many([Address("owners", ("a",)), Address("owners", ())])
    assert not pending
    assert isinstance(by_key, Observation)
    assert isinstance(whole, Observation)
    assert (by_key.value["name"], whole.value[0]["name"]) == ("old", "old")  # type: ignore[index,call-overload]
    assert read(system, "owners", "a")["name"] == "new"
    other.dispose()


def test_what_did_not_move_is_the_very_same_observation(engine: Engine, system: Sql) -> None:
    """So an unchanged look is told by identity; and 1 is not taken for 1.0, nor for true."""
    put(engine, one_thing(flag=True, ratio=1.0))
    address = Address("things", (1,))
    first, again = system.read_many([address])[0], system.read_many([address])[0]
    assert first is again
    with engine.begin() as connection:
        connection.execute(text("UPDATE things SET owner_id = 1"))
    before = read(system, "things", 1)["owner_id"]
    with engine.begin() as connection:
        connection.execute(text("UPDATE things SET owner_id = NULL"))
    assert (before, read(system, "things", 1)["owner_id"]) == ("1", None)


# --- Unreadable -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("ALTER TABLE owners DROP COLUMN name", "no such column: r0.name"),
        ("DROP TABLE owners", "no such table: owners"),
    ],
)
def test_what_was_dropped_is_unreadable_with_the_reason(engine: Engine, system: Sql, change: str, why: str) -> None:
    """A column or table that went away at run time: no value, and the database's own words."""
    put(engine, Owner(id="a", name="x"))
    with engine.begin() as connection:
        connection.execute(text("PRAGMA foreign_keys = OFF"))
        connection.execute(text(change))
    assert read(system, "owners", "a").endswith(f"could not be read: OperationalError: {why}")


def test_an_unreadable_row_blocks(engine: Engine, system: Sql) -> None:
    """A dropped table is evidence that cannot be verified: the effect does not go out, and says why."""
    put(engine, Owner(id="a", name="x"))
    gate = gate_of(system)
    owner = resource("owners", arg.key)

    @gate.effect(target=owner, premises=[block_unless(owner.name == "x")])
    def act(permit: Any, key: str) -> None:
        raise AssertionError

    intent = act.propose("a")
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE owners"))
    verdict = gate(intent)
    assert verdict.outcome is Outcome.BLOCK
    assert "no such table: owners" in verdict.explain()


# --- Declarations -----------------------------------------------------------------------------------------------------


class Unmapped:
    """No mapped class."""


class Special(Owner):
    """A class that shares its rows with another."""


def test_mistakes_are_refused_when_the_system_is_made(engine: Engine) -> None:
    """Each with what was wrong and what to do, before anything is read."""
    bare = Table("bare", MetaData(), Column("a", Integer))
    attached = Table("t", MetaData(), Column("a", Integer, primary_key=True), schema="other")
    mistakes: list[tuple[Any, str]] = [
        (lambda: Sql(engine), "no mapped class, table or query"),
        (lambda: Sql(engine, Unmapped), "Unmapped is neither: map the class"),
        (lambda: Sql(engine, bare), "'bare' has no primary key"),
        (lambda: Sql(engine, attached), "attached to this one"),
        (lambda: Sql(engine, Special), "Special inherits its mapping"),
        (lambda: Sql(engine, Owner, Owner), "'owners' twice"),
        (lambda: Sql(engine, Owner, queries={"owners": select(Owner.id)}), "'owners' twice"),
        (lambda: Sql(engine, Owner, queries={"q": "SELECT 1"}), "give it select"),  # type: ignore[dict-item]
        (lambda: Sql(engine, queries={"q": select(Owner.id, Part.price, Owner.id.label("id"))}), "two columns"),
        (lambda: Sql(engine, Owner, public=["owners"]), "write 'kind.field'"),
        (lambda: Sql(engine, Owner, public=["owner.name"]), "did you mean 'owners'"),
        (lambda: Sql(engine, Owner, public=["owners.nam"]), "did you mean 'name'"),
        (lambda: Sql(engine, Owner, version={Owner: "nam"}), "did you mean 'name'"),
        (lambda: Sql(engine, Owner, version={Part: "number"}), "names 'parts', which Sql"),
        (lambda: Sql("sqlite://", Owner), "takes an engine first, not str"),  # type: ignore[arg-type]
        (lambda: row(Unmapped, 1), "takes a mapped class"),
        (lambda: row(Owner, 1.5), "float"),
    ]
    for make, message in mistakes:
        with pytest.raises(DeclarationError, match=message):
            make()


def test_a_misspelt_field_is_refused_at_import(engine: Engine, system: Sql) -> None:
    """By `row` at once, by `resource` when the effect is declared; a deferred column, a relationship are none."""
    with pytest.raises(DeclarationError, match="did you mean 'amount'"):
        row(Thing, 1).amont  # type: ignore[attr-defined]  # noqa: B018 - on purpose
    gate = gate_of(system)
    for name in ("flagg", "large", "owner", "twice", "span", "pickled"):
        with pytest.raises(DeclarationError, match=f"'things' has no field '{name}'"):
            gate.effect(target=resource("things", arg.key), premises=[block_unless(resource("things", 1)[name] == 1)])(
                lambda permit, key: None
            )


def test_public_values_are_shown(system: Sql) -> None:
    """Only those that were named."""
    assert system.is_public("owners", "name")
    assert not system.is_public("owners", "id")


def test_who_listens_hears_what_is_read(engine: Engine, system: Sql, caplog: pytest.LogCaptureFixture) -> None:
    """A log, as a listener, is told of every read of evidence; what is read is the same without them."""

    def told(found: object) -> object:
        return (found.value, found.token) if isinstance(found, Observation) else found

    put(engine, Owner(id="a", name="A"))
    addresses = [Address("owners", ("a",)), Address("owners", ())]
    unheard = system.read_many(addresses)
    assert not caplog.messages
    with caplog.at_level("INFO", "sqlalchemy.engine"):
        logged = create_engine(engine.url)
        again = Sql(logged, Owner).read_many(addresses)
        logged.dispose()
    assert len([message for message in caplog.messages if message.startswith("SELECT")]) == 2
    assert [told(found) for found in unheard] == [told(found) for found in again]
