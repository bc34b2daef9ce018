"""`Sql` against `Memory`: the same world, effect, changes and races give the same outcome and leave the same world.

One difference is meant: `Memory` binds a row whole, and `Sql` the fields that decide. So once somebody wrote between a
look and its effect, a REFRESH there may be a KEEP here, and what changed is not compared.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    and_,
    bindparam,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.dialects.sqlite import insert

from lastlook import (
    EffectStopped,
    Gate,
    Memory,
    MemoryStore,
    Outcome,
    arg,
    block_unless,
    count,
    each,
    every,
    exists,
    largest,
    none,
    replan_unless,
    resource,
    rows,
    total,
    unchanged,
)
from lastlook.canonical import ABSENT
from lastlook.commands import Apply
from lastlook.errors import LastlookError
from lastlook.testing import failpoint
from lastlook_connectors.sql import Sql, release

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sqlalchemy import Engine

METADATA = MetaData()
TABLES = {
    "orders": Table(
        "orders",
        METADATA,
        Column("id", String, primary_key=True),
        Column("state", String),
        Column("paid", Boolean),
        Column("amount", Numeric(10, 2)),
        Column("owner", String),
    ),
    "owners": Table(
        "owners",
        METADATA,
        Column("id", Integer, primary_key=True),
        Column("tier", String),
        Column("limit", Numeric(10, 2)),
    ),
    "stock": Table(
        "stock",
        METADATA,
        Column("region", String, primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("left", Integer),
        Column("state", String),
    ),
}
KEYS: dict[str, list[Any]] = {
    "orders": ["o-1", "o-2"],
    "owners": [1, 2],
    "stock": [("eu", 1), ("eu", 2), ("uk", 1)],
}
VALUES: dict[str, list[Any]] = {
    "state": ["open", "shut", None],
    "paid": [True, False],
    "amount": [Decimal("9.99"), Decimal(80), Decimal("0.30"), None],
    "owner": ["eu", "uk", "xx", None],
    "tier": ["gold", "tin"],
    "limit": [Decimal(50), Decimal(100), Decimal("100.10")],
    "left": [0, 1, 5],
}
Write = tuple[str, Any, "Mapping[str, Any] | None"]
"""A kind, a key, and the fields to set, or None to delete the row."""

order, other = resource("orders", arg.order_id), resource("orders", "o-2")
owner, part = resource("owners", arg.owner_id), resource("stock", order.owner, 1)
CONDITIONS = [
    order.state == "open",
    ~order.paid,
    order.amount <= owner.limit,
    order.amount + other.amount <= 100,
    owner.tier.in_(["gold", "silver"]),
    exists(other),
    ~exists(resource("stock", "uk", 1)),
    exists(order.state) & ~order.state.is_null(),
    part.left > 0,
    (part.state == "open") | (order.state == "shut"),
    unchanged(order.amount),
    unchanged(owner.tier),
    count(rows("stock")) < 3,
    total(rows("stock"), "left") >= 1,
    every(rows("stock"), each.left >= 0),
    none(rows("orders"), each.paid),
    largest(order.amount, owner.limit) == owner.limit,
    arg.most >= order.amount,
    resource("spent", "open").value >= arg.most,
    count(resource("sold", "eu", 1).rows) == 0,
]
REFRESH = [order.owner, owner.tier, order.amount, other.state]


def spent(tables: Any, state: str) -> Any:
    """The query `spent` in memory."""
    found = [found["amount"] for found in tables["orders"].values() if found["state"] == state]
    amounts = [amount for amount in found if amount is not None]
    return sum(amounts, Decimal(0)) if amounts else None


def sold(tables: Any, region: str, least: int) -> Any:
    """The query `sold` in memory."""
    return [
        {"number": key[1], "left": found["left"]}
        for key, found in tables["stock"].items()
        if key[0] == region and found["left"] is not None and found["left"] < least
    ]


def queries() -> dict[str, Any]:
    """The same two in SQL."""
    orders, stock = TABLES["orders"].c, TABLES["stock"].c
    return {
        "spent": select(func.sum(orders.amount)).where(orders.state == bindparam("state")),
        "sold": select(stock.number, stock.left)
        .where(stock.region == bindparam("region"), stock.left < bindparam("least"))
        .order_by(stock.region, stock.number),
    }


class InMemory:
    """The model."""

    def __init__(self, separate: bool) -> None:
        self.world = Memory(orders={}, owners={}, stock={}).options(
            queries={"spent": spent, "sold": sold}, separate=separate
        )
        self.gate = Gate(self.world)

    def write(self, write: Write) -> None:
        """Another actor's write."""
        kind, key, fields = write
        if fields is None:
            self.world.delete(kind, key)
        else:
            self.world.replace(kind, key, {**parts_of(kind, key), **blank(kind), **fields})

    @staticmethod
    def do(permit: Any, write: Write) -> None:
        """The effect's write."""
        kind, key, fields = write
        if fields is None:
            permit.delete(kind, key)
        else:
            permit.replace(kind, key, {**parts_of(kind, key), **blank(kind), **fields})

    def contents(self) -> Any:
        """All rows."""
        return {kind: {key: dict(found) for key, found in self.world.rows(kind).items()} for kind in TABLES}


class InSql:
    """What is compared with it."""

    def __init__(self, engine: Engine, separate: bool) -> None:
        self.engine = engine
        store: Any = MemoryStore()
        store.durable = True
        if not separate:
            store.engine = engine
        system = Sql(engine, *TABLES.values(), queries=queries())
        system.install()
        self.gate = Gate(system, store=store)
        with engine.begin() as connection:
            for table in TABLES.values():
                connection.execute(table.delete())

    def write(self, write: Write) -> None:
        """Another actor's write, on its own connection."""
        with self.engine.begin() as connection:
            self._execute(connection, write)

    def do(self, permit: Any, write: Write) -> None:
        """The effect's write."""
        self._execute(permit.connection, write)

    @staticmethod
    def _execute(connection: Any, write: Write) -> None:
        kind, key, fields = write
        table = TABLES[kind]
        parts = parts_of(kind, key)
        here = and_(*(table.c[name] == value for name, value in parts.items()))
        if fields is None:
            connection.execute(table.delete().where(here))
            return
        row = {**parts, **blank(kind), **fields}
        connection.execute(insert(table).values(row).on_conflict_do_update(index_elements=list(parts), set_=row))

    def contents(self) -> Any:
        """All rows."""
        found: dict[str, Any] = {}
        with self.engine.connect() as connection:
            for kind, table in TABLES.items():
                keys = [column.name for column in table.primary_key]
                listed = [dict(row) for row in connection.execute(select(table)).mappings()]
                rows_ = {tuple(row[name] for name in keys): row for row in listed}
                found[kind] = {key[0] if len(key) == 1 else key: row for key, row in rows_.items()}
        return found


def blank(kind: str) -> dict[str, Any]:
    """A row's fields, all null; the key is none of them."""
    return {column.name: None for column in TABLES[kind].columns if not column.primary_key}


def parts_of(kind: str, key: Any) -> dict[str, Any]:
    """The key's columns."""
    names = [column.name for column in TABLES[kind].primary_key]
    return dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True))


class Scenario:
    """One world, one effect, and what happens to them, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = Random(seed)
        self.separate = draw.random() < 0.5
        self.start = [self.drawn(kind, key) for kind, keys in KEYS.items() for key in keys if draw.random() < 0.85]
        chosen = draw.sample(CONDITIONS, draw.choice((1, 1, 2, 3, 5)))
        self.premises = [draw.choice((block_unless, replan_unless))(condition) for condition in chosen]
        self.refresh = draw.sample(REFRESH, draw.choice((0, 2, 4)))
        self.arguments: dict[str, Any] = {
            "order_id": "o-1",
            "owner_id": 1,
            "most": draw.choice((Decimal(80), Decimal("9.99"))),
        }
        self.effect = [self.change() for _ in range(draw.randint(1, 2))]
        self.prove = draw.random() < 0.5
        self.gates = [(self.changes(), self.changes(), draw.random() < 0.15) for _ in range(draw.randint(1, 2))]

    def drawn(self, kind: str, key: Any) -> Write:
        """A whole row."""
        return kind, key, {name: self.draw.choice(VALUES[name]) for name in blank(kind)}

    def change(self) -> Write:
        """A row written, mostly as it began but for one field, or deleted."""
        kind = self.draw.choice(list(KEYS))
        key = self.draw.choice(KEYS[kind])
        if self.draw.random() < 0.15:
            return kind, key, None
        _, _, fields = self.drawn(kind, key)
        first = next((found for at, name, found in self.start if (at, name) == (kind, key)), None)
        if first is None or self.draw.random() < 0.3:
            return kind, key, fields
        name = self.draw.choice(list(first))
        return kind, key, {**first, name: (fields or {})[name]}

    def changes(self) -> list[Write]:
        """What somebody else does, often nothing."""
        return [self.change() for _ in range(self.draw.choice((0, 0, 1, 1, 2)))]

    def run(self, side: Any) -> list[Any]:
        """What the gate answers, and the world that is left."""
        for write in self.start:
            side.write(write)
        gate: Gate = side.gate
        fail = [False]

        @gate.effect(target=order, premises=self.premises, refresh=self.refresh)
        def act(permit: Any, order_id: str, owner_id: int, most: Decimal) -> str:
            for write in self.effect:
                side.do(permit, write)
            if fail[0]:
                raise ZeroDivisionError
            return f"{order_id}: {sorted(permit.fresh)}"

        try:
            propose: Any = act.propose if self.prove else partial(side.gate.transaction().propose, act)
            intent = propose(**self.arguments)
        except EffectStopped as stop:
            return ["refused", str(stop), side.contents()]
        told: list[Any] = []
        raced = False
        for before, between, raising in self.gates:
            for write in before:
                side.write(write)
            pending, fail[0] = list(between), raising
            told.append([preview_of(gate, intent, raced=raced)])
            raced = raced or bool(between)

            def race(_: Any, pending: list[Write] = pending) -> None:
                while pending:
                    side.write(pending.pop())

            try:
                with failpoint(gate, Apply, before=race):
                    verdict = gate(intent)
            except (ZeroDivisionError, LastlookError) as error:
                told.append([type(error).__name__, side.contents()])
                continue
            findings = [(found.premise, found.severity, found.holds, found.text) for found in verdict.findings]
            told.append(
                [
                    *(decided(verdict, raced=raced), verdict.applied, verdict.checked, findings),
                    () if raced else verdict.changed,
                    *(side.contents(), verdict.result() if verdict.committed else None, verdict.bindings),
                ]
            )
        return told


def preview_of(gate: Gate, intent: Any, *, raced: bool) -> Any:
    """What the gate would say."""
    preview = gate.preview(intent)
    return decided(preview, raced=raced), preview.checked


def decided(answer: Any, *, raced: bool) -> Outcome:
    """Its outcome; after a race, REFRESH is KEEP."""
    return Outcome.KEEP if raced and answer.outcome is Outcome.REFRESH else answer.outcome


@pytest.fixture(scope="module")
def engine(tmp_path_factory: Any) -> Any:
    """An engine on one file, which no crash threatens here."""
    path: Path = tmp_path_factory.mktemp("model") / "world.db"
    made = create_engine(f"sqlite:///{path}")
    event.listen(made, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
    METADATA.create_all(made)
    yield made
    made.dispose()


def agree(engine: Engine, seeds: range) -> dict[str, int]:
    """Run the scenarios of these seeds on both sides; how often each kind of answer came."""
    tally: dict[str, int] = {}
    for seed in seeds:
        wanted = Scenario(seed).run(InMemory(Scenario(seed).separate))
        found = Scenario(seed).run(InSql(engine, Scenario(seed).separate))
        assert found == wanted, f"seed {seed}"
        refused = wanted[0] == "refused"
        for name in ["refused"] if refused else [part[0].name for part in wanted if hasattr(part[0], "name")]:
            tally[name] = tally.get(name, 0) + 1
    return tally


def test_sql_answers_as_memory_does(engine: Engine) -> None:
    """Outcome, what became of the effect, premises that ran, findings, grades, result and every row are the same."""
    tally = agree(engine, range(300))
    assert all(tally.get(name, 0) > 1 for name in ("refused", "KEEP", "REFRESH", "REPLAN", "BLOCK")), tally


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_sql_answers_as_memory_does_at_length(engine: Engine, block: int) -> None:
    """As above, with more seeds."""
    agree(engine, range(1_000 * (block + 1), 1_000 * (block + 2)))


def blind(*_: object) -> None:
    """Another check, which finds nothing."""


def never_differs(*_: object) -> bool:
    """Another comparison, for which nothing moves."""
    return False


def only_tokens(seen: Any, now: Any, fields: Any) -> bool:
    """Another comparison, which takes every other content of a row for a change, and none of its absence."""
    return seen.value is not ABSENT and now.value is not ABSENT and seen.token != now.token


@pytest.mark.parametrize(
    ("where", "name", "broken"),
    [
        (release.Release, "_moved", blind),
        (release, "differs", never_differs),
        (release, "differs", only_tokens),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_broken_check_is_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, broken: Any
) -> None:
    """The scenarios tell a target that compares nothing, or the wrong thing, from one that compares."""
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError, match="seed"):
        agree(engine, range(300))
