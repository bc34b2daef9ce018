"""Evaluating expressions: three values, exact numbers, lists, captured values, deadlines, and what is asked for."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.expressions import (
    Env,
    Expr,
    Pending,
    SlotTable,
    Unverifiable,
    actor,
    arg,
    before,
    call_node,
    compile_expression,
    each,
    every,
    exists,
    fresh,
    holds,
    largest,
    literal,
    lookup,
    none,
    ref_kind,
    resource,
    rows,
    to_json,
    unchanged,
    valid_until,
)
from lastlook.records import Address, Observation, Token

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN = Token("digest", "test", "t")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MISSING = "missing"
UNLIKE = "unlike"
UNREADABLE = "unreadable"
FLOAT = 1.5
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - what a column without a zone holds

order: Any = resource("orders", "o-1")


def seen(value: object) -> Observation:
    """An observation of a row, or of all rows."""
    frozen: Any = canonical.freeze(value)
    return Observation(frozen, TOKEN)


def env_of(table: SlotTable, row: Mapping[str, Any] | None = None, **options: Any) -> Env:
    """An environment in which the order o-1 has the fields of `row`, or is not there."""
    observations = {Address("orders", ("o-1",)).identity: seen(ABSENT if row is None else row)}
    observations |= {Address(*name).identity: seen(value) for name, value in options.pop("read", {}).items()}
    arguments: Any = canonical.freeze(options.pop("arguments", {}))
    return Env(table, arguments, observations=observations, **options)


def judge(expr: Expr[Any], row: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """The value of an expression, or how it is unverifiable."""
    table = SlotTable()
    compiled = compile_expression(expr, table)
    try:
        return compiled(env_of(table, row, **options))
    except Unverifiable as stop:
        return UNREADABLE if stop.unreadable else MISSING if stop.missing else UNLIKE


def reason(expr: Expr[Any], row: Mapping[str, Any] | None = None, **options: Any) -> str:
    """Why an expression is unverifiable."""
    table = SlotTable()
    compiled = compile_expression(expr, table)
    with pytest.raises(Unverifiable) as caught:
        compiled(env_of(table, row, **options))
    assert str(caught.value) == caught.value.reason
    return caught.value.reason


# --- Kleene's logic ---------------------------------------------------------------------------------------------------

TRUTHS: dict[str, tuple[Any, Any]] = {  # what stands in the row, and what it is worth
    "true": (True, True),
    "false": (False, False),
    "missing": (ABSENT, MISSING),
    "null": (None, UNLIKE),
    "one": (1, UNLIKE),
    "text": ("true", UNLIKE),
    "list": ([True], UNLIKE),
}


@pytest.mark.parametrize(("a", "b"), [*itertools.product(TRUTHS, repeat=2)])
def test_and_and_or_follow_kleene(a: str, b: str) -> None:
    """False decides & and True decides |, whatever else is unverifiable; else the unverifiable wins."""
    (left, left_worth), (right, right_worth) = TRUTHS[a], TRUTHS[b]
    row = {"a": left, "b": right}
    worths = (left_worth, right_worth)
    first = next((worth for worth in worths if not isinstance(worth, bool)), None)
    assert judge(order.a & order.b, row) == (False if False in worths else first or True)
    assert judge(order.a | order.b, row) == (True if True in worths else first or False)
    chain = order.a & order.b & order.a
    assert judge(chain, row) == judge(order.a & order.b, row)


@pytest.mark.parametrize("name", TRUTHS)
def test_not_keeps_the_unverifiable(name: str) -> None:
    """`~` turns true and false round and makes nothing else true, twice as little; `holds` makes it false."""
    value, worth = TRUTHS[name]
    known = isinstance(worth, bool)
    assert judge(~order.a, {"a": value}) == (not worth if known else worth)
    assert judge(~~order.a, {"a": value}) == worth
    assert judge(~(order.a & order.a), {"a": value}) == (not worth if known else worth)
    assert judge(holds(order.a), {"a": value}) is (worth if known else False)
    assert judge(~holds(order.a), {"a": value}) is (not worth if known else True)


def test_only_true_itself_comes_out_of_a_condition() -> None:
    """Conditions are real bools, so that a caller can ask `is True`."""
    row = {"a": 1, "l": [1], "t": "x", "n": None}
    for condition in (
        order.a == 1,
        order.a < 2,
        order.a.in_([1]),
        order.n.is_null(),
        order.l.all_in([1]),
        exists(order),
    ):
        assert judge(condition, row) is True
        assert judge(~condition, row) is False


# --- Comparison -------------------------------------------------------------------------------------------------------

BY_KIND: dict[str, tuple[Any, Any]] = {  # two values of each kind, the first before the second where there is an order
    "bool": (False, True),
    "number": (Decimal("2.50"), 3),
    "text": ("a", "b"),
    "bytes": (b"a", b"b"),
    "day": (date(2026, 1, 1), date(2026, 1, 2)),
    "moment": (NOW, NOW + timedelta(seconds=1)),
    "uuid": (UUID(int=1), UUID(int=2)),
    "list": ([1], [1, 2]),
    "map": ({"a": 1}, {"a": 2}),
    "null": (None, None),
}
ORDERED = {"number", "text", "day", "moment"}


@pytest.mark.parametrize("kind", BY_KIND)
def test_values_of_one_kind_compare(kind: str) -> None:
    """Equality is of all kinds, order only of numbers, texts, days and moments."""
    small, large = BY_KIND[kind]
    row = {"a": small, "b": large, "c": small}
    assert judge(order.a == order.c, row) is True
    assert judge(order.a != order.c, row) is False
    assert judge(order.a == order.b, row) is (kind == "null")
    assert judge(order.a != order.b, row) is (kind != "null")
    orders = [order.a < order.b, order.a <= order.b, order.a > order.b, order.a >= order.b, order.a <= order.c]
    expected = [True, True, False, False, True] if kind in ORDERED else [UNLIKE] * 5
    assert [judge(one, row) for one in orders] == expected


@pytest.mark.parametrize(("a", "b"), [*itertools.permutations(BY_KIND, 2)])
def test_values_of_unlike_kinds_are_unverifiable(a: str, b: str) -> None:
    """No comparison of two kinds is true or false, and so neither is its contrary."""
    row = {"a": BY_KIND[a][1], "b": BY_KIND[b][1]}
    for one in (order.a == order.b, order.a != order.b, order.a < order.b, order.a >= order.b, ~(order.a != order.b)):
        assert judge(one, row) == UNLIKE


@pytest.mark.parametrize(
    ("value", "constant"), [("3", 3), (True, 1), (1, True), ("", False), (0, False), (Decimal(0), False)]
)
def test_what_merely_looks_equal_is_unlike(value: Any, constant: Any) -> None:
    """A number in a text and a bool are not numbers, under `!=` and `~` too."""
    for one in (order.a == constant, order.a != constant, ~(order.a == constant)):
        assert judge(one, {"a": value}) == UNLIKE


def test_numbers_compare_by_value() -> None:
    """9, 9.0 and 9.00 are one number, within lists and maps too."""
    row = {"a": 9, "b": Decimal("9.00"), "c": [{"x": 9}]}
    assert judge(order.a == order.b, row) is True
    assert judge(order.a <= order.b, row) is True
    assert judge(order.c == [{"x": Decimal("9.0")}], row) is True


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda x: x == 1, "a float, which has no exact value; declare .as_decimal(places) on it"),
        (lambda x: x != Decimal("1.5"), "a float"),
        (lambda x: x < 2, "a float"),
        (lambda x: x + 1 == 2, "a float"),
        (lambda x: x.in_([1]), "a float"),
        (lambda x: x.rounded(1) == 1, "a float"),
        (lambda x: largest(x, 1) == 1, "a float"),
        (unchanged, "a float"),
    ],
    ids=["eq", "ne", "lt", "add", "in", "rounded", "largest", "unchanged"],
)
def test_floats_are_unverifiable_and_say_the_way_out(build: Any, what: str) -> None:
    """A float is compared with nothing; nor is a list or map that holds one."""
    message = reason(build(order.a), {"a": FLOAT}, capturing=True)
    assert what in message
    assert "orders/o-1.a" in message
    assert "1.5" not in message.replace("== 1.5", "").replace("!= 1.5", "")
    for holder in ([FLOAT], {"x": FLOAT}):
        assert judge(order.a == order.b, {"a": holder, "b": [1]}) == UNLIKE
    assert judge(order.a.as_decimal(1) == Decimal("1.5"), {"a": FLOAT}) is True


def test_datetimes_without_a_zone_are_unverifiable_and_say_the_way_out() -> None:
    """A naive datetime compares once its zone is declared."""
    assert "declare .as_utc(zone)" in reason(order.a == NOW, {"a": NAIVE})
    assert "declare .as_utc(zone)" in reason(order.a < NOW, {"a": NAIVE})
    assert judge(order.a.as_utc("Europe/Berlin") == datetime(2025, 12, 31, 23, tzinfo=UTC), {"a": NAIVE}) is True
    assert judge(order.a.as_utc("Europe/Berlin") == NOW, {"a": NOW}) is True


@pytest.mark.parametrize(
    "shown",
    [datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30), datetime(1, 1, 1, 0, 0), date(2026, 1, 1), "noon"],  # noqa: DTZ001
    ids=str,
)
def test_a_time_that_is_no_one_moment_is_unverifiable(shown: Any) -> None:
    """Skipped and repeated hours, times out of bounds, days and texts are no moments."""
    assert judge(order.a.as_utc("Europe/Berlin") < NOW, {"a": shown}) == UNLIKE


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity")], ids=str)
def test_no_number_is_unverifiable_even_from_a_careless_system(value: Decimal) -> None:
    """NaN and Infinity, which freezing refuses, are neither equal nor unequal nor large, and no sum."""
    for one in (order.a == 1, order.a != 1, order.a > 1, order.a + 1 == 2, largest(order.a, 1) == 1):
        table = SlotTable()
        compiled = compile_expression(one, table)
        env = Env(table, {}, observations={Address("orders", ("o-1",)).identity: Observation({"a": value}, TOKEN)})
        with pytest.raises(Unverifiable):
            compiled(env)


def test_what_was_not_frozen_is_unverifiable() -> None:
    """A set that a careless system left in a row is compared with nothing."""
    table = SlotTable()
    compiled = compile_expression(order.a == 1, table)
    careless: Any = {"a": {1}}
    env = Env(table, {}, observations={Address("orders", ("o-1",)).identity: Observation(careless, TOKEN)})
    with pytest.raises(Unverifiable, match="was not frozen"):
        compiled(env)


# --- Missing, null, unreadable ----------------------------------------------------------------------------------------

ALL_OPERATIONS: dict[str, Any] = {
    "eq": order.a == order.b,
    "ne": order.b != order.a,
    "lt": order.a < order.b,
    "ge": order.b >= order.a,
    "add": order.a + order.b == 1,
    "sub": order.b - order.a == 1,
    "mul": order.a * order.b == 1,
    "in": order.a.in_(order.b),
    "contains": order.a.contains(order.b),
    "all_in": order.b.all_in(order.a),
    "is_null": order.a.is_null(),
    "total": order.a.total() == 0,
    "pluck": order.a.pluck("x") == [],
    "where": order.a.where(each.x == 1) == [],
    "every": every(order.a, each.x == 1),
    "none": none(order.a, each.x == 1),
    "count": order.a.count() == 0,
    "largest": largest(order.a, order.b) == 1,
    "largest_of": largest(order.a) == 1,
    "rounded": order.a.rounded(2) == 1,
    "as_decimal": order.a.as_decimal(2) == 1,
    "as_utc": order.a.as_utc("UTC") == NOW,
    "item": order.a["x"] == 1,
    "get": order.a[order.b] == 1,
    "unchanged": unchanged(order.a),
    "before": before(order.a),
    "fresh": fresh(order.a, timedelta(1)),
    "not": ~order.a,
    "key": resource("users", order.a).x == 1,
    "row": resource("users", order.a).x.is_null(),
    "call": call_node("v", "1", {}, (order.a, order.b)),
}


@pytest.mark.parametrize("name", ALL_OPERATIONS)
def test_a_missing_field_makes_every_operation_missing(name: str) -> None:
    """A row that is gone, a field that is not there and a field held as absent are three ways to be missing."""
    for row in (None, {"b": 1}, {"a": ABSENT, "b": 1}):
        assert judge(ALL_OPERATIONS[name], row, now=NOW, captured={}) == MISSING


@pytest.mark.parametrize("name", ALL_OPERATIONS)
def test_an_unreadable_system_makes_every_operation_unreadable(name: str) -> None:
    """The reason that the system gave is passed on, and it is not a missing row."""
    table = SlotTable()
    compiled = compile_expression(ALL_OPERATIONS[name], table)
    env = Env(table, {}, unreadable={Address("orders", ("o-1",)).identity: "no answer in 5 s"}, now=NOW)
    with pytest.raises(Unverifiable, match=r"orders/o-1 is unreadable: no answer in 5 s") as caught:
        compiled(env)
    assert caught.value.unreadable
    assert not caught.value.missing


@pytest.mark.parametrize("name", sorted(set(ALL_OPERATIONS) - {"eq", "ne", "is_null", "unchanged", "call"}))
def test_null_takes_part_in_nothing_but_equality(name: str) -> None:
    """Null is a value, but no number, text, list, map, moment or truth; as a key it names a row that is not there."""
    expected = MISSING if name in {"item", "get", "key", "row"} else UNLIKE
    row = {"a": None, "b": {"get": "x", "in": ["x"]}.get(name, [])}
    assert judge(ALL_OPERATIONS[name], row, now=NOW) == expected


def test_null_absent_and_empty_are_three_values() -> None:
    """`is_null` is true of null alone and unverifiable of what is missing; null equals null only."""
    assert judge(order.a.is_null(), {"a": None}) is True
    empty: tuple[Any, ...] = ("", 0, False, (), {})
    for value in empty:
        assert judge(order.a.is_null(), {"a": value}) is False
    assert judge(order.a.is_null(), {}) == MISSING
    assert judge(order.a == order.b, {"a": None, "b": None}) is True
    assert judge(order.a == "", {"a": None}) == UNLIKE


@pytest.mark.parametrize(
    ("expr", "there"),
    [
        (exists(order), True),
        (exists(order.a), True),
        (exists(order.null), True),
        (exists(order.zzz), False),
        (exists(order.a["x"]), True),
        (exists(order.a["x"]["deep"]), False),
        (exists(order.a["y"]), False),
        (exists(order.list[0]), True),
        (exists(order.list[1]), False),
        (exists(order.list["x"]), False),
        (exists(order.a[0]), False),
        (exists(order.a[arg.key]), True),
        (exists(order.a[arg.nothing]), False),
        (exists(order.list.where(each == 2)[0]), False),
        (exists(resource("orders", order.gone)), False),
        (exists(resource("orders", order.null)), False),
        (exists(resource("orders", order.gone).x), False),
        (exists(arg.key), True),
        (exists(arg.nothing), False),
        (exists(arg.map["x"]), True),
        (exists(actor), False),
        (exists(actor["user_id"]), False),
        (exists(order.null["x"]), False),
    ],
    ids=itertools.count(),
)
def test_exists_is_whether_the_way_is_there(expr: Expr[bool], there: bool) -> None:
    """Null is there; what leads through something missing or through no container is not."""
    row = {"a": {"x": "t"}, "null": None, "list": [1], "held": ABSENT}
    arguments = {"key": "x", "map": {"x": 1}}
    assert judge(expr, row, arguments=arguments) is there
    assert judge(~expr, row, arguments=arguments) is (not there)


def test_exists_is_false_only_after_a_read() -> None:
    """Of a row that is gone it is false; of an unreadable one and of a key that names none it is unverifiable."""
    assert judge(exists(order)) is False
    assert judge(exists(order.a)) is False
    for expr in (exists(order), exists(order.a), ~exists(order)):
        table = SlotTable()
        compiled = compile_expression(expr, table)
        with pytest.raises(Unverifiable):
            compiled(Env(table, {}, unreadable={Address("orders", ("o-1",)).identity: "down"}))
        with pytest.raises(Pending):
            compiled(Env(table, {}))
    assert judge(exists(resource("orders", order.list)), {"list": [1]}) == UNLIKE
    assert judge(exists(order.a[order.list]), {"a": {}, "list": [1]}) == UNLIKE


def test_reasons_name_places_and_never_values() -> None:
    """What is missing, of which kinds, and where, with the resource resolved."""
    row = {"state": "secret", "meta": {"a": "secret"}, "next": "o-2", "lines": [{"x": "secret"}]}
    after: Any = resource("orders", order.next)
    read = {("orders", ("o-2",)): {"a": 1}}
    found = {
        reason(order.sttae == 1, row): "orders/o-1 has no field 'sttae'",
        reason(order.meta["b"]["c"] == 1, row): "orders/o-1.meta has no item 'b'",
        reason(order.meta["a"]["c"] == 1, row): "orders/o-1.meta['a'] has no item 'c'",
        reason(order.state == 3, row): "orders/o-1.state == 3: a text against a number",
        reason(order.state & order.state, row): "orders/o-1.state is neither true nor false",
        reason(after.b == 1, row, read=read): "orders[orders/o-1.next] has no field 'b'",
        reason(after.a == "x", row, read=read): "orders[orders/o-1.next].a == 'x': a number against a text",
        reason(order.a == 1): "there is no orders/o-1",
        reason(arg.x == 1): "there is no argument 'x'",
        reason(arg.x["y"] == 1): "there is no arg.x['y']",
        reason(actor["id"] == 1): "there is no actor['id']",
        reason(order.state[arg.k] == 1, row, arguments={"k": "x"}): "there is no orders/o-1.state[arg.k]",
        reason(order.meta[arg.k] == 1, row, arguments={"k": None}): (
            "orders/o-1.meta[arg.k]: the key is neither text nor a position"
        ),
        reason(every(order.lines, each.y == 1), row): "there is no each.y",
        reason(every(order.lines, resource("orders", each.y).a == 1), row): "there is no each.y",
        reason(every(order.lines, each.x < 1), row): "each.x < 1: a text against a number",
        reason(resource("orders", order.meta).a == 1, row): "the key of orders[orders['o-1'].meta] names no row",
        reason(resource("orders", order.gone["x"], "k").a + 1 == 1, row): "orders/o-1 has no field 'gone'",
    }
    assert list(found) == list(found.values())


# --- Numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        (order.a + order.b - 1 * order.b, 2),
        (order.a + Decimal("0.10"), Decimal("2.10")),
        (order.cents * 3, Decimal("0.3")),
        (order.lines.total("price"), Decimal("0.30")),
        (order.none.total(), 0),
        (order.prices.total(), 6),
        (largest(0, order.a - 5), 0),
        (largest(order.prices), 3),
        (largest("a", order.text), "x"),
        (largest(order.day, order.day), date(2026, 1, 1)),
        ((order.a * Decimal("0.3125")).rounded(2), Decimal("0.62")),
        ((order.a * Decimal("0.3175")).rounded(2), Decimal("0.64")),
        ((order.a * Decimal("-0.3125")).rounded(2), Decimal("-0.62")),
        (order.a.rounded(2), 2),
        (order.huge.rounded(2), Decimal("1E+64")),
        (order.float.as_decimal(2), Decimal("0.1")),
        (order.sum.as_decimal(2), Decimal("0.3")),
        (order.a.as_decimal(1), 2),
        (order.lines.count(), 2),
        (lookup(order.table, order.text, "fee"), 7),
        (order.prices[order.a - 2], 1),
    ],
    ids=itertools.count(),
)
def test_numbers_are_exact(expr: Expr[Any], result: Any) -> None:
    """Sums and products have no rounding of their own; halves round to the even neighbour where it is asked for."""
    row = {
        "a": 2,
        "b": 3,
        "cents": Decimal("0.1"),
        "lines": [{"price": Decimal("0.1")}, {"price": Decimal("0.20")}],
        "none": [],
        "prices": [1, 2, 3],
        "text": "x",
        "day": date(2026, 1, 1),
        "huge": Decimal("1E+64"),
        "float": 0.1,
        "sum": 0.1 + 0.2,
        "table": {"x": {"fee": 7}},
    }
    found = judge(expr, row)
    assert canonical.same(found, result), found


@pytest.mark.parametrize(
    "expr",
    [
        order.big + 1,
        order.big * order.big,
        order.neg - 1,
        order.wide + Decimal("0.1"),
        order.large * order.large,
        order.small * order.small,
        order.inf.as_decimal(2),
        order.vast.as_decimal(2),
        order.text + 1,
        order.yes + 1,
        order.text.as_decimal(1),
        order.yes.rounded(1),
        order.lines.total(),
        order.text.count(),
        order.map.count(),
        order.text.total(),
        largest(order.empty),
        largest(order.yes, order.yes),
        largest(order.text, 1),
        order.lines[order.neg],
        order.lines[order.minus],
        order.map[order.yes],
    ],
    ids=repr,
)
def test_what_has_no_exact_value_is_unverifiable(expr: Expr[Any]) -> None:
    """More than 38 digits, exponents beyond 64, floats that are no number, bools and texts as numbers."""
    row = {
        "big": 10**38 - 1,
        "neg": -(10**38) + 1,
        "wide": Decimal(10**37 + 1),
        "large": Decimal("1E+40"),
        "small": Decimal("1E-40"),
        "inf": float("inf"),
        "vast": 1e300,
        "text": "1",
        "yes": True,
        "lines": [1, "2"],
        "map": {"1": 1},
        "empty": [],
        "minus": -1,
    }
    assert judge(expr, row) in {UNLIKE, MISSING}


# --- Membership -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "elements", "result"),
    [
        ("a", ["a", "b"], True),
        ("c", ["a", "b"], False),
        ("a", [], False),
        (1, [Decimal("1.0"), "1"], True),
        ("1", [1], UNLIKE),
        (1, [True], UNLIKE),
        (1, [True, 2], False),
        (None, [None], True),
        (None, ["a"], UNLIKE),
        ({"a": 1}, [{"a": Decimal(1)}], True),
        ("a", "abc", UNLIKE),
        ("a", {"a": 1}, UNLIKE),
        ("a", ["a", FLOAT], UNLIKE),
        (FLOAT, ["a"], UNLIKE),
    ],
)
def test_membership_needs_an_element_of_the_kind(value: Any, elements: Any, result: Any) -> None:
    """Elements of other kinds do not match; if there are elements and all are of other kinds it is unverifiable."""
    row = {"a": value, "b": elements}
    assert judge(order.a.in_(order.b), row) == result
    assert judge(order.b.contains(order.a), row) == result
    assert judge(~order.a.in_(order.b), row) == (not result if isinstance(result, bool) else result)


@pytest.mark.parametrize(
    ("values", "others", "result"),
    [
        ([], [], True),
        ([], ["a"], True),
        (["a"], [], False),
        (["a", "b"], ["b", "c", "a"], True),
        (["a", "a"], ["a", "b"], False),
        (["a", "a"], ["a", "b", "a"], True),
        ([1, Decimal("1.0")], [1, 1], True),
        ([1, 1], [Decimal("1.0"), "1"], False),
        (["a", 1], ["a"], UNLIKE),
        (["b", 1], ["a"], False),
        ([1, "b"], ["a"], False),
        ([1], ["a"], UNLIKE),
        ("a", ["a"], UNLIKE),
        (["a"], "a", UNLIKE),
        ([FLOAT], ["a"], UNLIKE),
    ],
)
def test_inclusion_counts(values: Any, others: Any, result: Any) -> None:
    """Each element is found as often as it is there; false decides over what is unlike."""
    row = {"a": values, "b": others}
    assert judge(order.a.all_in(order.b), row) == result
    assert judge(~order.a.all_in(order.b), row) == (not result if isinstance(result, bool) else result)


# --- Quantifiers ------------------------------------------------------------------------------------------------------

GOOD, OTHER, LACKING, ODD = {"x": 1}, {"x": 2}, {"y": 1}, {"x": "1"}


@pytest.mark.parametrize(
    ("lines", "all_match", "none_matches", "matching"),
    [
        ([], True, True, 0),
        ([GOOD, GOOD], True, False, 2),
        ([GOOD, OTHER], False, False, 1),
        ([OTHER], False, True, 0),
        ([GOOD, LACKING], MISSING, False, 1),
        ([OTHER, LACKING], False, True, 0),
        ([LACKING], MISSING, True, 0),
        ([GOOD, ODD], UNLIKE, UNLIKE, UNLIKE),
        ([OTHER, ODD], False, UNLIKE, UNLIKE),
        ([LACKING, ODD], UNLIKE, UNLIKE, UNLIKE),
        (["text"], MISSING, True, 0),
        ("text", UNLIKE, UNLIKE, UNLIKE),
        (ABSENT, MISSING, MISSING, MISSING),
    ],
    ids=itertools.count(),
)
def test_a_row_that_lacks_a_field_does_not_poison_the_others(
    lines: Any, all_match: Any, none_matches: Any, matching: Any
) -> None:
    """It makes `every` not true and is no match for the others; an unlike kind makes all but a false `every` unlike."""
    row = {"lines": lines}
    assert judge(every(order.lines, each.x == 1), row) == all_match
    assert judge(none(order.lines, each.x == 1), row) == none_matches
    assert judge(order.lines.where(each.x == 1).count(), row) == matching


def test_missing_evidence_that_is_not_of_the_row_is_not_passed_over() -> None:
    """A limit that is gone makes no row harmless: only an item of the row itself is passed over."""
    row = {"lines": [GOOD], "ids": ["o-1"]}
    assert judge(none(order.lines, each.x == order.limit), row) == MISSING
    assert judge(none(order.lines, each.x == arg.limit), row) == MISSING
    assert judge(none(order.ids, resource("orders", each).limit == 1), row) == MISSING
    assert judge(none(order.lines, (each.y == 1) & (each.x == arg.limit)), row) == MISSING
    assert judge(none(order.lines, each.y == arg.limit), row) == MISSING
    assert judge(none(order.lines, arg.limit == each.y), row) == MISSING
    assert judge(none(order.lines, each.y + arg.limit == 1), row) == MISSING
    assert judge(none(order.lines, resource("orders", each.y).x == 1), row) is True
    assert judge(none(order.lines, each[order.key] == 1), {**row, "key": "y"}) is True
    assert judge(none(order.lines, each.x.pluck("a") == []), {"lines": [{"x": [GOOD]}]}) is True
    assert judge(none(order.lines, largest(each.x)["a"] == 1), {"lines": [{"x": [1]}]}) is True


def test_each_is_the_innermost_row_and_comes_back() -> None:
    """After an inner quantifier `each` is the outer row again, an error in it or not."""
    row = {"lines": [{"parts": [1, 2], "max": 2}, {"parts": [], "max": 0}, {"max": 1}]}
    fits = every(each.parts, each <= 2) & (each.max <= 2)
    assert judge(every(order.lines, fits), row) == MISSING
    assert judge(order.lines.where(fits).count(), row) == 2
    assert judge(none(order.lines, every(each.parts, each == 9) & (each.max == 2)), row) is True
    assert judge(none(order.lines, every(each.parts, each == 9) & (each.max == 0)), row) is False


def test_plain_values_are_rows_too() -> None:
    """Of a list of texts `each` is the text."""
    assert judge(every(arg.ids, each != "x"), arguments={"ids": ["a", "b"]}) is True
    assert judge(every(arg.ids, literal(["a"]).contains(each)), arguments={"ids": ["a", "b"]}) is False
    assert judge(every(["a"], each == arg.id), arguments={"id": "a"}) is True
    assert judge(every(arg.ids, each), arguments={"ids": [True, True]}) is True


def test_all_rows_of_a_kind() -> None:
    """`rows` is the list that was read in one go; one that is not there is missing."""
    expr = none(rows("bookings"), each.seat == arg.seat)
    table = {("bookings", ()): [{"seat": "1A"}, {"seat": "1B"}]}
    assert judge(expr, read=table, arguments={"seat": "1B"}) is False
    assert judge(expr, read=table, arguments={"seat": "1C"}) is True
    assert judge(expr, read={("bookings", ()): []}, arguments={"seat": "1C"}) is True
    assert judge(expr, read={("bookings", ()): ABSENT}, arguments={"seat": "1C"}) == MISSING
    assert judge(expr, read={("bookings", ()): {"a": 1}}, arguments={"seat": "1C"}) == UNLIKE
    assert judge(resource("orders", "o-1").a == 1, None, read={("orders", ("o-1",)): [{"a": 1}]}) == MISSING


def test_sums_over_joined_rows() -> None:
    """The rows for which joined evidence holds are found row by row."""
    price: Any = resource("products", each.id).price
    expr = order.lines.where(price <= 10).total("n") == 3
    read = {("products", ("p",)): {"price": 5}, ("products", ("q",)): {"price": 50}}
    row = {"lines": [{"id": "p", "n": 3}, {"id": "q", "n": 4}]}
    assert judge(expr, row, read=read) is True


# --- What was captured ------------------------------------------------------------------------------------------------


def test_unchanged_compares_with_what_was_captured() -> None:
    """Captured under the text of the expression; any difference, of kind too, is false, and equal numbers are one."""
    expr = unchanged(order.paid)
    table = SlotTable()
    compiled = compile_expression(expr, table)
    env = env_of(table, {"paid": [{"n": 1}]}, capturing=True)
    assert compiled(env) is True
    form: Any = to_json(order.paid)
    assert list(env.captured) == [canonical.encode(form[1]).decode()]
    for paid, same in [([{"n": Decimal("1.0")}], True), ([{"n": 2}], False), ([{"n": "1"}], False), (None, False)]:
        assert judge(expr, {"paid": paid}, captured=env.captured) is same
        assert judge(~expr, {"paid": paid}, captured=env.captured) is not same
    assert judge(expr, {"paid": 1}) == UNLIKE
    assert "was not captured" in reason(expr, {"paid": 1})
    assert judge(expr, {}, captured=env.captured) == MISSING
    assert judge(expr, {}, capturing=True) == MISSING


# --- Deadlines --------------------------------------------------------------------------------------------------------

TICK = timedelta(microseconds=1)


def until(expr: Expr[bool], row: Mapping[str, Any], now: datetime = NOW) -> Any:
    """The last moment of a premise that holds."""
    table = SlotTable()
    compiled, last = compile_expression(expr, table), valid_until(expr, table)
    env = env_of(table, row, now=now)
    assert compiled(env) is True
    return last(env)


def test_before_ends_just_before_its_moment() -> None:
    """True up to one microsecond before, and that is the last moment."""
    expr = before(order.at)
    assert judge(expr, {"at": NOW + TICK}, now=NOW) is True
    assert judge(expr, {"at": NOW}, now=NOW) is False
    assert until(expr, {"at": NOW + TICK}) == NOW
    assert until(before(NOW + TICK), {}) == NOW


def test_fresh_ends_with_its_span() -> None:
    """True for the span, its last moment included; a moment in the future is unverifiable."""
    expr = fresh(order.at, timedelta(minutes=5))
    assert judge(expr, {"at": NOW}, now=NOW) is True
    assert judge(expr, {"at": NOW - timedelta(minutes=5)}, now=NOW) is True
    assert judge(expr, {"at": NOW - timedelta(minutes=5) - TICK}, now=NOW) is False
    assert judge(expr, {"at": NOW + TICK}, now=NOW) == UNLIKE
    assert "lies in the future" in reason(expr, {"at": NOW + TICK}, now=NOW)
    assert until(expr, {"at": NOW}) == NOW + timedelta(minutes=5)


@pytest.mark.parametrize("value", ["noon", NAIVE, FLOAT, None, datetime.max.replace(tzinfo=UTC)], ids=str)
def test_a_deadline_needs_a_moment(value: Any) -> None:
    """Texts, naive datetimes and moments beyond the calendar are unverifiable."""
    assert judge(fresh(order.at, timedelta(1)), {"at": value}, now=NOW) == UNLIKE
    if not isinstance(value, datetime) or value.tzinfo is None:
        assert judge(before(order.at), {"at": value}, now=NOW) == UNLIKE
    assert judge(before(order.at), {"at": datetime.min.replace(tzinfo=UTC)}, now=NOW) == UNLIKE


def test_without_a_clock_deadlines_are_unverifiable() -> None:
    """An environment without the time judges no deadline."""
    assert "no clock" in reason(before(order.at), {"at": NOW})
    assert "no clock" in reason(fresh(order.at, timedelta(1)), {"at": NOW})


def test_the_earliest_counts_under_and_the_latest_true_branch_under_or() -> None:
    """A branch that is false, unverifiable or over does not count, and one without a deadline has no end."""
    soon, late, gone = before(order.soon), before(order.late), before(order.gone)
    row = {
        "soon": NOW + timedelta(1),
        "late": NOW + timedelta(2),
        "gone": NOW - timedelta(1),
        "yes": True,
        "no": False,
    }
    first, second = row["soon"] - TICK, row["late"] - TICK  # type: ignore[operator]
    for expr, last in [
        (soon & late, first),
        (late & soon & order.yes, first),
        (soon | late, second),
        (late | soon, second),
        (soon | gone, first),
        (soon | order.no, first),
        (order.yes | soon, None),
        (soon | (late & order.no), first),
        (soon | (late & order.missing), first),
        ((soon | late) & late, second),
        (order.yes & order.yes, None),
    ]:
        assert until(expr, row) == last
    table = SlotTable()
    last_moment = valid_until(gone | order.no, table)
    with pytest.raises(Unverifiable, match="no branch of the premise holds"):
        last_moment(env_of(table, row, now=NOW))


# --- Validators' judgements -------------------------------------------------------------------------------------------


def test_a_validator_is_asked_once_for_equal_values() -> None:
    """What is to be judged is left in `unjudged`, by name, version, parameters and values; the answer is looked up."""
    expr = call_node("credit", "2", {"floor": 5}, (order.a, arg.x))
    table = SlotTable()
    compiled = compile_expression(expr & ~call_node("credit", "2", {"floor": 5}, (order.a, arg.x)), table)
    env = env_of(table, {"a": 1}, arguments={"x": "y"})
    with pytest.raises(Pending):
        compiled(env)
    (call,) = env.unjudged.values()
    assert (call.name, call.version, dict(call.params), call.values) == ("credit", "2", {"floor": 5}, (1, "y"))
    env.judged[call.key] = True
    assert compiled(env) is False
    env.judged[call.key] = "timed out"
    with pytest.raises(Unverifiable, match="credit@2: timed out"):
        compiled(env)


def test_what_cannot_be_asked_is_unverifiable() -> None:
    """Floats and values too large to be recorded are not handed to a validator."""
    expr = call_node("v", "1", {}, (order.a,))
    assert judge(expr, {"a": [FLOAT]}) == UNLIKE
    assert judge(expr, {"a": "x" * canonical.MAX_BYTES}) == UNLIKE


# --- What is asked for and what was used ------------------------------------------------------------------------------


def waves(expr: Expr[Any], world: dict[tuple[str, tuple[Any, ...]], Any], **options: Any) -> list[set[str]]:
    """What is asked for, wave by wave, until there is an outcome."""
    table = SlotTable()
    compiled = compile_expression(expr, table)
    env = Env(table, canonical.freeze(options.get("arguments", {})))  # type: ignore[arg-type]
    asked: list[set[str]] = []
    for _ in range(9):
        try:
            compiled(env)
        except Pending:
            if not env.missing:
                break
            asked.append({str(address) for address in env.missing.values()})
            for address in env.missing.values():
                env.observations[address.identity] = seen(world.get((address.kind, address.key), ABSENT))
            env.missing.clear()
        except Unverifiable:
            break
        else:
            break
    return asked


WORLD: dict[tuple[str, tuple[Any, ...]], Any] = {
    ("orders", ("o-1",)): {"user": "u-1", "region": "uk", "ok": True, "lines": [{"id": "p"}, {"id": "q"}], "n": 1},
    ("users", ("u-1",)): {"card": "c-1", "ok": False},
    ("cards", ("c-1",)): {"open": True},
    ("limits", ("uk",)): {"max": 5},
    ("products", ("p",)): {"price": 1},
    ("products", ("q",)): {"price": 2},
}
user: Any = resource("users", order.user)
card: Any = resource("cards", user.card)
limit: Any = resource("limits", order.region)


@pytest.mark.parametrize(
    "expr",
    [
        card.open & (limit.max >= order.n) & ~user.ok,
        ~user.ok | card.open | (limit.max == 1),
        (card.open == user.ok) & (limit.max == 1),
        largest(card.open, user.ok, limit.max) == 1,
        call_node("v", "1", {}, (card.open, user.ok, limit.max)),
        order.lines[limit.max][card.open] == user.ok,
    ],
    ids=["and", "or", "eq", "largest", "call", "get"],
)
def test_a_join_is_read_in_one_wave_a_stage(expr: Expr[Any]) -> None:
    """Whatever the operation, all that can be read next is asked for at once."""
    assert waves(expr, WORLD) == [{"orders/o-1"}, {"users/u-1", "limits/uk"}, {"cards/c-1"}]


def test_a_quantifier_asks_for_all_its_rows_and_what_they_share() -> None:
    """The rows' joins are one wave; what does not depend on the row is asked for with the list."""
    expr = every(order.lines, (resource("products", each.id).price <= resource("limits", arg.r).max) & limit.ok)
    asked = [{"orders/o-1", "limits/uk"}, {"products/p", "products/q"}]
    assert waves(expr, WORLD, arguments={"r": "uk"}) == asked


def test_one_pending_part_makes_the_whole_pending() -> None:
    """An outcome does not depend on what was read first: nothing is false or unverifiable before all is there."""
    table = SlotTable()
    other: Any = resource("orders", "o-2")
    for expr in (order.no & other.x, other.x & order.no, order.yes | other.x, order.gone == other.x, holds(other.x)):
        compiled = compile_expression(expr, table)
        env = env_of(table, {"yes": True, "no": False})
        with pytest.raises(Pending):
            compiled(env)
        assert [str(address) for address in env.missing.values()] == ["orders/o-2"]


def test_slots_are_shared_and_ordered_by_stage() -> None:
    """Each resource has one slot in all expressions; evidence for a key comes before what it is the key of."""
    table = SlotTable()
    compile_expression(card.open, table)
    compile_expression(user.ok & (limit.max == 1) & every(rows("cards"), each.open), table)
    assert [ref_kind(ref) for ref in table.refs] == ["orders", "users", "cards", "limits", "cards"]
    assert table.stages == [1, 2, 3, 2, 1]
    assert table.derived == [False, True, True, True, False]
    assert table.slot(resource("users", resource("orders", "o-1").user)) == 1


def test_a_plan_may_fill_slots_and_addresses() -> None:
    """What is in a slot is taken as it is; addresses and observations are then not looked at."""
    table = SlotTable()
    compiled = compile_expression(order.ok & user.ok, table)
    slots: list[Observation | None] = [seen({"user": "u-1", "ok": True}), seen({"ok": True})]
    env = Env(table, {}, slots=slots, addresses=[None, Address("users", ("u-1",))])
    assert compiled(env) is True
    assert env.missing == {}
    assert str(env.address(0)) == "orders/o-1"


def test_the_evidence_in_use_is_traced() -> None:
    """Every place that decides, those of keys and of rows included, whoever fetched them first."""
    table = SlotTable()
    first = compile_expression(card.open, table)
    second = compile_expression(
        user.ok
        | exists(limit)
        | every(order.lines, resource("products", each.id).price["x"] == 1)
        | none(rows("n"), each.a),
        table,
    )
    read = {**WORLD, ("n", ()): []}
    env = env_of(table, WORLD["orders", ("o-1",)], read=read)
    assert first(env) is True
    assert env.touched is None
    env.touched = []
    second(env)
    assert {(str(address), path) for address, path in env.touched} == {
        ("orders/o-1", ("user",)),
        ("users/u-1", ("ok",)),
        ("orders/o-1", ("region",)),
        ("limits/uk", ()),
        ("orders/o-1", ("lines",)),
        ("products/p", ("price", "x")),
        ("products/q", ("price", "x")),
        ("n/*", ()),
    }


def test_what_a_comparison_of_fields_uses_is_traced() -> None:
    """Where somebody traces what is used, each field of a comparison is named, whatever way it is evaluated."""
    slots = SlotTable()
    row, policy = resource("orders", "o-1"), resource("policies", "p")
    compiled = compile_expression(row.amount <= policy.limit, slots)
    cells: list[Any] = [
        Observation(MappingProxyType({"amount": 80}), Token("counter", "t", 1)),
        Observation(MappingProxyType({"limit": 100}), Token("counter", "t", 1)),
    ]
    quick, traced = Env(slots, {}, slots=[*cells]), Env(slots, {}, slots=[*cells], touched=[])
    assert compiled(quick) is compiled(traced) is True
    assert [(str(address), path) for address, path in traced.touched or ()] == [
        ("orders/o-1", ("amount",)),
        ("policies/p", ("limit",)),
    ]
