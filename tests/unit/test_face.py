"""The face of the library: what is given to it in another type than it takes is refused before anything happens."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastlook import (
    UNBOUND,
    AsyncGate,
    BindingPolicy,
    Change,
    DeclarationError,
    Gate,
    LastlookError,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    arg,
    block_unless,
    resource,
    rows,
)
from lastlook.errors import CanonicalError
from lastlook.records import Address
from lastlook.testing import FakeClock, events, failpoint, interpose

if TYPE_CHECKING:
    from collections.abc import Callable

ORDER = resource("orders", arg.order_id)
OK = block_unless(ORDER.ok)


class Desk:
    """A gate, its system, and one effect."""

    def __init__(self, **options: Any) -> None:
        self.memory = Memory(orders={"a": {"ok": True}}).options(queries={"spend": lambda _: 1})
        self.gate = Gate(self.memory, **options)

        @self.gate.effect(target=ORDER, premises=[OK])
        def act(permit: MemoryPermit, order_id: str) -> str:
            permit.change("orders", order_id, done=True)
            return "done"

        self.act: Any = act

    def declare(self, **declared: Any) -> Any:
        """Another effect of the gate."""
        every: dict[str, Any] = {"target": ORDER, "premises": [OK], "name": "other"} | declared
        return self.gate.effect(**every)(lambda permit, order_id: None)


class Naive:
    """A clock without a zone."""

    @staticmethod
    def now() -> dt.datetime:
        """The moment."""
        return dt.datetime(2026, 1, 1)  # noqa: DTZ001 - the mistake


class Stopped:
    """A clock that tells no moments."""

    @staticmethod
    def now() -> int:
        """A number."""
        return 3


def _assert(desk: Desk, intent: Any = None, **said: Any) -> None:
    every: dict[str, Any] = {"committed": True, "by": "an operator", "note": "seen in the ledger"} | said
    desk.gate.assert_outcome(desk.act.propose("a") if intent is None else intent, **every)


MISTAKES: dict[str, tuple[Callable[[Desk], object], str]] = {
    # Declaring.
    "lane of a text": (lambda d: d.declare(lane=["x"]), r"lane\[0\] is the text 'x', not an expression"),
    "lane of a number": (lambda d: d.declare(lane=3), r"lane takes a list, not a int"),
    "target of a number": (lambda d: d.declare(target=3), r"target got int: give a resource, such as resource\("),
    "target of nothing": (lambda d: d.declare(target=None), r"target got NoneType: give a resource"),
    "target of a field": (lambda d: d.declare(target=ORDER.ok), r"target got Field: give a resource"),
    "name of a number": (lambda d: d.declare(name=3), r"name got int: give the name by which intents find"),
    "empty name": (lambda d: d.declare(name=" "), r"name got an empty text: give the name by which"),
    "irreversible of a text": (lambda d: d.declare(irreversible="no"), r"irreversible got str: give True or False"),
    "no_preconditions of a number": (lambda d: d.declare(no_preconditions=1), r"no_preconditions got int: give True"),
    "refresh of a number": (lambda d: d.declare(refresh=[3]), r"refresh\[0\] is a int, not a field"),
    "refresh of a resource": (lambda d: d.declare(refresh=[ORDER]), r"refresh\[0\] is the resource orders"),
    "premises of a text": (lambda d: d.declare(premises="text"), r"premises takes a list, not the text 'text'"),
    "premises of a bool": (lambda d: d.declare(premises=[True]), r"premises\[0\] is a plain True, not a premise"),
    "premises of nothing": (lambda d: d.declare(premises=None), r"premises takes a list, not a NoneType"),
    "decorated number": (lambda d: d.gate.effect(target=ORDER, premises=[OK])(3), r"@gate.effect got int"),  # type: ignore[arg-type]
    "because of a number": (lambda d: block_unless(ORDER.ok, 3), r"got int as the reason: write a text"),  # type: ignore[arg-type]
    "because that cannot be stored": (lambda d: block_unless(ORDER.ok, "\ud800"), r"lone surrogate at block_unless"),
    "accept of a text": (lambda d: block_unless(ORDER.ok, accept="x"), r"accept=...\) got str: write accept=UNBOUND"),  # type: ignore[arg-type]
    "reason of a number": (lambda d: UNBOUND(3), r"accept=UNBOUND\(...\) got int: write why less is enough"),  # type: ignore[arg-type]
    "reason that cannot be stored": (lambda d: UNBOUND("\ud800"), r"lone surrogate at accept=UNBOUND"),
    "policy's text": (lambda d: BindingPolicy(critical="orders"), r"critical=...\) got str: give a set of kinds"),
    "policy's number": (lambda d: BindingPolicy(critical=3), r"critical=...\) got int: give a set of kinds"),  # type: ignore[arg-type]
    "policy's map": (lambda d: BindingPolicy(critical={"orders": 1}), r"critical=...\) got dict: give a set of kinds"),
    "policy's kinds": (lambda d: BindingPolicy(critical=[3]), r"critical=...\) got int: give a set of kinds"),  # type: ignore[list-item]
    "policy's switch": (
        lambda d: BindingPolicy(allows_no_preconditions="no"),  # type: ignore[arg-type]
        r"allows_no_preconditions=...\) got str: give True or False",
    ),
    # Connecting.
    "a dict as a system": (lambda d: Gate({"orders": {}}), r"a gate got dict: give it systems of record, such as Mem"),  # type: ignore[arg-type]
    "a dict as a system, awaited": (lambda d: AsyncGate({}), r"a gate got dict: give it systems of record"),  # type: ignore[arg-type]
    "a class as a system": (lambda d: Gate(Memory), r"a gate got the class Memory: give it systems"),  # type: ignore[arg-type]
    "nothing as a system": (lambda d: Gate(None), r"a gate got NoneType: give it systems"),  # type: ignore[arg-type]
    "connect": (lambda d: Gate().connect(3), r"a gate got int: give it systems"),  # type: ignore[arg-type]
    "connect a store": (lambda d: Gate().connect(Memory(), store=3), r"store= got int: give a"),  # type: ignore[arg-type]
    "override": (lambda d: d.gate.override(3).__enter__(), r"a gate got int: give it systems"),  # type: ignore[arg-type]
    "a store": (lambda d: Gate(Memory(), store=object()), r"store= got object: give a"),  # type: ignore[arg-type]
    "a clock": (lambda d: Gate(clock=object()), r"Gate\(clock=...\) got object: give an object whose now\(\)"),  # type: ignore[arg-type]
    "a clock, awaited": (lambda d: AsyncGate(clock=object()), r"Gate\(clock=...\) got object: give an object"),  # type: ignore[arg-type]
    "a clock of numbers": (lambda d: Gate(clock=Stopped()), r"clock=...\).now\(\) got int: give an object whose"),  # type: ignore[arg-type]
    "a clock without a zone": (lambda d: Gate(clock=Naive()), r"the clock's moments name no zone: give an object"),
    "a policy": (lambda d: Gate(policy=3), r"Gate\(policy=...\) got int: give a BindingPolicy"),  # type: ignore[arg-type]
    "a capture": (lambda d: Gate(capture="field"), r"Gate\(capture=...\) got str: give a Capture"),  # type: ignore[arg-type]
    "a store's evidence": (lambda d: MemoryStore({}), r"MemoryStore\(evidence\) got dict: give it systems"),  # type: ignore[arg-type]
    # Options.
    "expires": (lambda d: d.act.options(expires=5), r"expires=...\) got int: give a span of time"),
    "expires at once": (lambda d: d.act.options(expires=dt.timedelta(0)), r"takes a span that ends in the future"),
    "expires never": (lambda d: d.act.options(expires=dt.timedelta.max), r"takes a span that ends in the future"),
    "expires too late": (
        lambda d: d.act.options(expires=dt.timedelta(days=365 * 8000)).propose("a"),
        r"ends after the year 9999",
    ),
    "supersedes": (lambda d: d.act.options(supersedes="x"), r"supersedes=...\) got str: give the intent"),
    "actor": (lambda d: d.act.options(actor="bob"), r"actor=...\) got str: give a map of who acts"),
    "key": (lambda d: d.act.options(key=3), r"key=...\) got int: give a non-empty text"),
    "empty key": (lambda d: d.act.options(key=""), r"key=...\) got an empty text"),
    "key that cannot be stored": (lambda d: d.act.options(key="\ud800"), r"lone surrogate at options\(key=...\)"),
    # Gates.
    "gate of nothing": (lambda d: d.gate(None), r"a gate takes an intent, not NoneType: propose one, or find"),  # type: ignore[arg-type]
    "gate of an id": (lambda d: d.gate("id"), r"a gate takes an intent, not str: propose one, or find it by"),  # type: ignore[arg-type]
    "preview": (lambda d: d.gate.preview("id"), r"a gate takes an intent, not str"),  # type: ignore[arg-type]
    "withdraw": (lambda d: d.gate.withdraw("id"), r"a gate takes an intent, not str"),  # type: ignore[arg-type]
    "assert of an id": (lambda d: _assert(d, "id"), r"a gate takes an intent, not str"),
    "assert by nobody": (lambda d: _assert(d, by=""), r"assert_outcome\(by=...\) got an empty text: name the person"),
    "assert by a number": (lambda d: _assert(d, by=3), r"assert_outcome\(by=...\) got int: name the person"),
    "assert without a note": (lambda d: _assert(d, note=""), r"note=...\) got an empty text: write how it was"),
    "assert perhaps": (lambda d: _assert(d, committed="no"), r"committed=...\) got str: give True or False"),
    "affected": (lambda d: d.gate.affected("x"), r"gate.affected\(...\) got str: give it a Change\(kind, key\)"),  # type: ignore[arg-type]
    "intent": (lambda d: d.gate.intent(3), r"intent\(id\) got int: give an intent's id"),  # type: ignore[arg-type]
    "intent of a list": (lambda d: d.gate.intent([]), r"intent\(id\) got list: give an intent's id"),  # type: ignore[arg-type]
    "effect's intent": (lambda d: d.act.intent(3), r"intent\(id\) got int: give an intent's id"),
    "change of a number": (lambda d: Change(3, "a"), r"a kind of type 'int' at kind; name the kind"),  # type: ignore[arg-type]
    "change of nothing": (lambda d: Change("orders", None), r"a part that names nothing exactly at key\[0\]"),
    "change of a field": (lambda d: Change("orders", "a", 3), r"got 3 as a field: name the fields that changed"),  # type: ignore[arg-type]
    # Transactions.
    "transaction": (lambda d: d.gate.transaction(3), r"gate.transaction\(...\) got int: give the transaction's id"),  # type: ignore[arg-type]
    "empty transaction": (lambda d: d.gate.transaction(""), r"gate.transaction\(...\) got an empty text"),
    "transaction of a list": (lambda d: d.gate.transaction([]), r"gate.transaction\(...\) got list"),  # type: ignore[arg-type]
    "read": (lambda d: d.gate.transaction().read(3), r"transaction.read\(\) got 3: read a resource"),  # type: ignore[arg-type]
    "read with an object": (
        lambda d: d.gate.transaction().read(ORDER, order_id=object()),
        r"unsupported type 'object' at order_id",
    ),
    "decide": (lambda d: d.gate.transaction().decide(3), r"decide\(text\) got int: write what was concluded"),  # type: ignore[arg-type]
    "decide what cannot be stored": (lambda d: d.gate.transaction().decide("\ud800"), r"surrogate at decide\(text\)"),
    "decide on a number": (
        lambda d: d.gate.transaction().decide("x", rests_on=3),  # type: ignore[arg-type]
        r"rests_on=...\) got int: give a list",
    ),
    "decide on one read": (
        lambda d: (t := d.gate.transaction()).decide("x", rests_on=t.read(resource("orders", "a"))),  # type: ignore[arg-type]
        r"rests_on=...\) got Evidence: give a list",
    ),
    "propose a function": (
        lambda d: d.gate.transaction().propose(len, "a"),  # type: ignore[arg-type]
        r"propose\(...\) got builtin_function_or_method: give it a function that this gate's @effect made",
    ),
    "propose another gate's": (
        lambda d: d.gate.transaction().propose(Desk().act, "a"),
        r"propose\(...\) got act\(\) of another gate",
    ),
    # Memory.
    "memory of a list": (lambda d: Memory(orders=[]), r"Memory\(orders=...\) got list: give a map from key to row"),  # type: ignore[arg-type]
    "memory's row": (lambda d: Memory(orders={"a": 3}), r"the row orders/a got int: give a map of its fields"),  # type: ignore[dict-item]
    "memory's key": (lambda d: Memory(orders={1.5: {}}), r"a part that names nothing exactly at key\[0\]"),
    "memory's true key": (lambda d: Memory(orders={True: {}}), r"orders: True is no row's key"),
    "a true part of a key": (lambda d: d.memory.change("orders", ("a", True), x=1), r"is no row's key"),
    "no key": (lambda d: d.memory.change("orders", (), x=1), r"orders: \(\) is no row's key"),
    "memory's kind": (lambda d: d.memory.change(3, "a", x=1), r"a kind of this memory got int: name it by a text"),  # type: ignore[arg-type]
    "memory's kind of a list": (lambda d: d.memory.delete([], "a"), r"a kind of this memory got list"),  # type: ignore[arg-type]
    "memory's rows": (lambda d: d.memory.rows(3), r"a kind of this memory got int"),  # type: ignore[arg-type]
    "replace": (lambda d: d.memory.replace("orders", "a", 3), r"the row orders/a got int: give a map"),  # type: ignore[arg-type]
    "drop": (lambda d: d.memory.drop("orders", "a", 3), r"drop\(field\) got int: name the field"),  # type: ignore[arg-type]
    "queries": (lambda d: d.memory.options(queries=3), r"queries=...\) got int: give a map from name to function"),  # type: ignore[arg-type]
    "a query": (lambda d: d.memory.options(queries={"q": 3}), r"\['q'\] got int: give a function of the tables"),  # type: ignore[dict-item]
    "a query's name": (lambda d: d.memory.options(queries={3: len}), r"queries=...\) got int: give a map"),  # type: ignore[dict-item]
    "public": (lambda d: d.memory.options(public=3), r"public=...\) got int: give a list of names"),  # type: ignore[arg-type]
    "public of a text": (lambda d: d.memory.options(public="orders.ok"), r"public=...\) got str: give a list of names"),
    "fields": (lambda d: d.memory.options(fields=3), r"fields=...\) got int: give a map from kind to names"),  # type: ignore[arg-type]
    "fields of a text": (lambda d: d.memory.options(fields={"orders": "ok"}), r"\['orders'\] got str: give a list"),
    "separate": (lambda d: d.memory.options(separate=1), r"separate=...\) got int: give True or False"),  # type: ignore[arg-type]
    "memory's clock": (lambda d: d.memory.options(clock=3), r"options\(clock=...\) got int: give an object whose"),  # type: ignore[arg-type]
    # Tests of the user's own.
    "interpose": (lambda d: interpose(3, print).__enter__(), r"interpose\(gate, change\) got int: give it a Gate"),  # type: ignore[arg-type]
    "failpoint": (lambda d: failpoint(3, int).__enter__(), r"failpoint\(gate, command\) got int: give it a Gate"),  # type: ignore[arg-type]
    "events": (lambda d: events(3).__enter__(), r"events\(gate\) got int: give it a Gate"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_another_type_is_refused(name: str) -> None:
    """What is of another type is refused in lastlook's own words, and nothing has happened then."""
    mistake, words = MISTAKES[name]
    desk = Desk()
    before = desk.memory.rows("orders")
    with pytest.raises(LastlookError, match=words) as raised:
        mistake(desk)
    assert isinstance(raised.value, (DeclarationError, CanonicalError))
    assert not str(raised.value).endswith(".")
    assert desk.memory.rows("orders") == before
    assert not desk.memory.effects
    assert set(desk.gate.contracts) == {"act"}
    assert all(intent.effect == "act" for intent in desk.gate.pending())


def test_another_type_is_refused_by_an_awaited_gate() -> None:
    """An awaited gate refuses the same as the other one."""
    gate = AsyncGate(Memory(orders={}))
    given: Any = 3
    calls: list[Callable[[], Any]] = [
        lambda: gate(given),
        lambda: gate.preview(given),
        lambda: gate.withdraw(given),
        lambda: gate.intent(given),
        lambda: gate.affected(given),
        lambda: gate.transaction().read(given),
        lambda: gate.transaction().propose(given),
        lambda: gate.assert_outcome(given, committed=True, by="x", note="y"),
    ]
    for call in calls:
        with pytest.raises(DeclarationError, match=r"3|int"):
            asyncio.run(call())
    with pytest.raises(DeclarationError, match="got int"):
        gate.transaction(given)


def test_what_a_policy_marks_may_be_any_collection() -> None:
    """A list of critical kinds is as good as a set."""
    assert BindingPolicy(critical=["orders"]) == BindingPolicy(critical={"orders"})


# Keys.


class Colour(enum.Enum):
    """A plain enumeration."""

    RED = "red"


class Shade(enum.StrEnum):
    """One whose members are texts."""

    RED = "red"


class Mixed(str, enum.Enum):  # noqa: UP042 - the older spelling
    """One whose members are texts too."""

    RED = "red"


class Number(enum.IntEnum):
    """One whose members are numbers."""

    NINE = 9


class Pair(enum.Enum):
    """One whose members are composite keys."""

    BOTH = ("red", 9)


class Text(str):
    """A subclass of text."""

    __slots__ = ()


class Whole(int):
    """A subclass of int."""


NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
ALIKE: list[list[Any]] = [
    ["red", Colour.RED, Shade.RED, Mixed.RED, Text("red"), ("red",), (Colour.RED,)],
    [9, Number.NINE, Whole(9), Decimal(9), Decimal("9.00"), Decimal("0.9E1"), (Number.NINE,)],
    [Decimal("9.5"), Decimal("9.50"), Decimal("0.95E1")],
    [0, Decimal("-0"), Decimal("0.0")],
    [10**30, Decimal("1E30"), Decimal(10**30)],
    [Decimal("1E60"), Decimal("10E59")],
    [("red", 9), Pair.BOTH, (Shade.RED, Number.NINE), (Text("red"), Decimal("9.0"))],
    [NOON, NOON.astimezone(dt.timezone(dt.timedelta(hours=5)))],
    [b"x", bytearray(b"x")],
    ["9"],
    [dt.date(2026, 1, 1)],
]
"""Keys that are one, line by line; no two lines have any in common."""


@pytest.mark.parametrize("line", range(len(ALIKE)))
def test_one_row_is_one_address(line: int) -> None:
    """Keys that are one name one row, however they are spelt: written, read, listed, hinted at and proposed on."""
    first, *others = ALIKE[line]
    for other in (first, *others):
        memory = Memory(orders={first: {"ok": True}})
        memory.change("orders", other, more=1)
        assert list(memory.rows("orders").values()) == [{"ok": True, "more": 1}]
        assert memory.row("orders", first) == memory.row("orders", other)
        assert Change("orders", other).reached == Change("orders", first).reached
        address, same = memory.address("orders", first), memory.address("orders", other)
        key: Any = address.key
        assert address == same
        assert str(address) == str(same)
        assert [*map(type, address.key)] == [*map(type, same.key)]
        gate = Gate(memory)

        @gate.effect(target=resource("orders", *key), premises=[block_unless(rows("orders").count() == 1)])
        def act(permit: MemoryPermit, given: Any = other) -> None:  # a loop's value, not its variable
            permit.change("orders", tuple(given) if isinstance(given, list) else given, done=True)

        intent = act.propose()
        assert [preview.intent for preview in gate.affected(Change("orders", other))] == [intent]
        assert gate(intent).committed
        memory.delete("orders", other)
        assert not memory.rows("orders")
    for number, unlike in enumerate(ALIKE):
        if number != line:
            assert Change("orders", unlike[0]).address != Change("orders", first).address


_PART = st.one_of(
    st.text(alphabet="ab", min_size=1, max_size=2),
    st.sampled_from([Colour.RED, Shade.RED, Number.NINE, Text("red"), "red", 9, Whole(9)]),
    st.integers(-20, 20),
    st.decimals(-20, 20, places=2),
    st.binary(max_size=1),
    st.dates(dt.date(2026, 1, 1), dt.date(2026, 1, 3)),
)


@given(st.lists(st.lists(_PART, min_size=1, max_size=2).map(tuple), max_size=8))
def test_a_memory_has_as_many_rows_as_keys(keys: list[tuple[Any, ...]]) -> None:
    """A memory has one row for each different address, in one order whatever was written first."""
    memory, again = Memory(orders={}), Memory(orders={})
    for number, key in enumerate(keys):
        memory.change("orders", key, last=number)
    for key in reversed(keys):
        again.change("orders", key, last=0)
    different = {Address("orders", key).identity for key in keys}
    assert len(memory.rows("orders")) == len(different)
    assert list(memory.rows("orders")) == list(again.rows("orders"))
    for number, key in enumerate(keys):
        last = max(n for n, other in enumerate(keys) if Address("orders", other) == Address("orders", key))
        assert memory.row("orders", key) == {"last": last}, number


def test_numbers_are_in_order_whatever_their_type() -> None:
    """Rows stand in key order: an int among Decimals by its value."""
    memory = Memory(orders={Decimal("9.5"): {}, 3: {}, Decimal("0.5"): {}, 12: {}})
    assert list(memory.rows("orders")) == [Decimal("0.5"), 3, Decimal("9.5"), 12]


# Queries.


def test_a_query_answers_for_its_memory_only() -> None:
    """The tokens of one answer differ from memory to memory, so that nobody finds a guessable value by its digest."""
    tokens: set[object] = set()
    for _ in range(2):
        memory = Memory(orders={}).options(queries={"spend": lambda _, user: 7})
        cell: Any = memory.cell(memory.address("spend", "a"))
        assert cell.value == {"value": 7}
        tokens.add(cell.token.value)
    assert len(tokens) == 2


def test_a_query_is_asked_once_until_something_is_written() -> None:
    """Every write, and nothing else, makes every query be asked again, by whoever reads next."""
    asked: list[str] = []

    def spend(tables: Any, user: str) -> int:
        asked.append(user)
        return sum(row["amount"] for row in tables["orders"].values() if row["user"] == user)

    memory = Memory(orders={"a": {"user": "u", "amount": 1}}, other={}).options(queries={"spend": spend})
    addresses = [memory.address("spend", user) for user in ("u", "v")]
    read = memory.reader(addresses)

    def values() -> list[int]:
        cells: Any = read()
        return [cell.value["value"] for cell in cells]

    assert values() == values() == [1, 0]
    assert asked == ["u", "v"]
    memory.change("orders", "b", user="v", amount=5)
    assert values() == values() == [1, 5]
    memory.delete("orders", "a")
    assert values() == [0, 5]
    memory.change("other", "x", y=1)
    assert values() == [0, 5]
    assert asked == ["u", "v"] * 4


def test_a_query_that_writes_keeps_no_stale_answer() -> None:
    """An answer from before a write is never kept, even where the query itself made the write."""
    memory = Memory(orders={"a": {"n": 0}})

    def odd(tables: Any) -> int:
        found = tables["orders"]["a"]["n"]
        if found == 0:
            memory.change("orders", "a", n=1)
        return int(found)

    memory.options(queries={"odd": odd})
    address = Address("odd", ("x",))
    memory.options(queries={"odd": lambda tables, _: odd(tables)})
    first: Any = memory.cell(address)
    second: Any = memory.cell(address)
    assert (first.value, second.value) == ({"value": 0}, {"value": 1})


# Transactions and overrides.


def test_named_transactions_stay_with_their_systems() -> None:
    """A named transaction is found again on the systems that it was begun on, and on no others."""
    desk = Desk()
    outer = desk.gate.transaction("t")
    outer.read(resource("orders", "a").ok)
    with desk.gate.override(Memory(orders={"a": {"ok": True}})):
        inner = desk.gate.transaction("t")
        assert inner is not outer
        assert desk.gate.transaction("t") is inner
        for use in (
            lambda: outer.read(resource("orders", "a").ok),
            lambda: outer.propose(desk.act, "a"),
        ):
            with pytest.raises(DeclarationError, match="begun on other systems"):
                use()
        intent = inner.propose(desk.act, "a")
        assert desk.gate(intent).committed
    assert desk.gate.transaction("t") is outer
    with pytest.raises(DeclarationError, match="begun on other systems"):
        inner.read(resource("orders", "a").ok)
    assert desk.gate(outer.propose(desk.act, "a")).outcome is Outcome.KEEP


def test_a_transaction_without_a_name_is_found_by_its_id() -> None:
    """A transaction is found by its id for as long as somebody holds it."""
    desk = Desk()
    transaction = desk.gate.transaction()
    assert desk.gate.transaction(transaction.id) is transaction
    with desk.gate.override(Memory(orders={})):
        assert desk.gate.transaction(transaction.id) is not transaction


def test_an_expiry_is_told_by_the_gates_own_clock() -> None:
    """Whether an expiry still has a date depends on the gate's clock, and a refused one stores nothing."""
    clock = FakeClock(dt.datetime(9999, 12, 30, tzinfo=dt.UTC))
    desk = Desk(clock=clock)
    with pytest.raises(DeclarationError, match="ends after the year 9999"):
        desk.act.options(expires=dt.timedelta(days=9)).propose("a")
    assert not desk.gate.pending()
    assert desk.gate(desk.act.options(expires=dt.timedelta(hours=1)).propose("a")).committed
