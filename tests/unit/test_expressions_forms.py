"""What is read off a tree: its JSON form, its text, its explanation, and the evidence that it names."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import CanonicalError, DeclarationError
from lastlook.expressions import (
    EXPRESSION_SEMANTICS,
    Env,
    Expr,
    Field,
    SlotTable,
    Unverifiable,
    actor,
    analyse,
    arg,
    before,
    call_node,
    compile_expression,
    each,
    every,
    exists,
    explain,
    fresh,
    from_json,
    holds,
    largest,
    literal,
    lookup,
    none,
    render,
    resource,
    rows,
    to_json,
    unchanged,
)
from lastlook.records import Address, Observation, Token

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOKEN = Token("digest", "test", "t")

order: Any = resource("orders", arg.order_id)
policy: Any = resource("policies", order.region)

# One of every operation, with its form and its text.
KEY = (("arg", "order_id"),)
FORMS: list[tuple[Expr[Any], tuple[Any, ...], str]] = [
    (literal(Decimal("5.00")), ("lit", Decimal("5.00")), "5.00"),
    (literal({"a": [1, None]}), ("lit", {"a": (1, None)}), "{'a': [1, None]}"),
    (literal(date(2026, 1, 2)), ("lit", date(2026, 1, 2)), "2026-01-02"),
    (literal(UUID(int=1)), ("lit", UUID(int=1)), "00000000-0000-0000-0000-000000000001"),
    (literal("x" * 99), ("lit", "x" * 99), "'" + "x" * 76 + "..."),
    (arg.a["b"][0], ("arg", "a", "b", 0), "arg.a['b'][0]"),
    (arg["class "], ("arg", "class "), "arg['class ']"),
    (actor["user_id"], ("actor", "user_id"), "actor['user_id']"),
    (actor, ("actor",), "actor"),
    (each, ("each",), "each"),
    (each.a["b"], ("each", "a", "b"), "each.a['b']"),
    (each[0], ("each", 0), "each[0]"),
    (order.meta["city"], ("field", "orders", KEY, "meta", "city"), "orders[arg.order_id].meta['city']"),
    (
        policy.limit,
        ("field", "policies", (("field", "orders", KEY, "region"),), "limit"),
        "policies[orders[arg.order_id].region].limit",
    ),
    (
        resource("fees", "uk", 1).fee,
        ("field", "fees", (("lit", "uk"), ("lit", 1)), "fee"),
        "fees['uk', 1].fee",
    ),
    (rows("orders"), ("rows", "orders"), "rows('orders')"),
    (rows("orders")[0], ("item", ("rows", "orders"), 0), "rows('orders')[0]"),
    (lookup(arg.t, arg.a, "b"), ("item", ("get", ("arg", "t"), ("arg", "a")), "b"), "arg.t[arg.a]['b']"),
    (arg.a == 1, ("eq", ("arg", "a"), ("lit", 1)), "arg.a == 1"),
    (arg.a != 1, ("ne", ("arg", "a"), ("lit", 1)), "arg.a != 1"),
    (arg.a < 1, ("lt", ("arg", "a"), ("lit", 1)), "arg.a < 1"),
    (arg.a <= 1, ("le", ("arg", "a"), ("lit", 1)), "arg.a <= 1"),
    (arg.a > 1, ("gt", ("arg", "a"), ("lit", 1)), "arg.a > 1"),
    (arg.a >= 1, ("ge", ("arg", "a"), ("lit", 1)), "arg.a >= 1"),
    ((arg.a == 1) == arg.b, ("eq", ("eq", ("arg", "a"), ("lit", 1)), ("arg", "b")), "(arg.a == 1) == arg.b"),
    (arg.a + arg.b + 1, ("add", ("arg", "a"), ("arg", "b"), ("lit", 1)), "arg.a + arg.b + 1"),
    (
        arg.a - (arg.b - 1) * 2,
        ("sub", ("arg", "a"), ("mul", ("sub", ("arg", "b"), ("lit", 1)), ("lit", 2))),
        "arg.a - (arg.b - 1) * 2",
    ),
    (arg.a - (arg.b + 1), ("sub", ("arg", "a"), ("add", ("arg", "b"), ("lit", 1))), "arg.a - (arg.b + 1)"),
    (arg.a & arg.b & arg.c, ("and", ("arg", "a"), ("arg", "b"), ("arg", "c")), "arg.a & arg.b & arg.c"),
    (
        (arg.a | arg.b) & (arg.c == 1),
        ("and", ("or", ("arg", "a"), ("arg", "b")), ("eq", ("arg", "c"), ("lit", 1))),
        "(arg.a | arg.b) & (arg.c == 1)",
    ),
    (~(arg.a & arg.b), ("not", ("and", ("arg", "a"), ("arg", "b"))), "~(arg.a & arg.b)"),
    (~~arg.a, ("not", ("not", ("arg", "a"))), "~~arg.a"),
    (arg.a.in_([1]), ("in", ("arg", "a"), ("lit", (1,))), "arg.a.in_([1])"),
    ((arg.a + 1).in_([1]), ("in", ("add", ("arg", "a"), ("lit", 1)), ("lit", (1,))), "(arg.a + 1).in_([1])"),
    (arg.a.contains(1), ("contains", ("arg", "a"), ("lit", 1)), "arg.a.contains(1)"),
    (arg.a.all_in(arg.b), ("all_in", ("arg", "a"), ("arg", "b")), "arg.a.all_in(arg.b)"),
    (arg.a.is_null(), ("is_null", ("arg", "a")), "arg.a.is_null()"),
    (arg.a.total(), ("total", ("arg", "a")), "arg.a.total()"),
    (arg.a.total("b", 0), ("total", ("pluck", ("arg", "a"), "b", 0)), "arg.a.pluck('b', 0).total()"),
    (arg.a.where(each), ("where", ("arg", "a"), ("each",)), "arg.a.where(each)"),
    (every(arg.a, each), ("every", ("arg", "a"), ("each",)), "arg.a.every(each)"),
    (none(arg.a, each.b), ("none", ("arg", "a"), ("each", "b")), "arg.a.none(each.b)"),
    (arg.a.count(), ("count", ("arg", "a")), "arg.a.count()"),
    (arg.a.rounded(2), ("rounded", ("arg", "a"), 2), "arg.a.rounded(2)"),
    (arg.a.as_decimal(2), ("as_decimal", ("arg", "a"), 2), "arg.a.as_decimal(2)"),
    (arg.a.as_utc("UTC"), ("as_utc", ("arg", "a"), "UTC"), "arg.a.as_utc('UTC')"),
    (largest(arg.a, 0), ("largest", ("arg", "a"), ("lit", 0)), "largest(arg.a, 0)"),
    (largest(arg.a), ("largest_of", ("arg", "a")), "largest(arg.a)"),
    (exists(order), ("exists_row", "orders", KEY), "exists(orders[arg.order_id])"),
    (exists(arg.a), ("exists", ("arg", "a")), "exists(arg.a)"),
    (unchanged(arg.a), ("unchanged", ("arg", "a")), "unchanged(arg.a)"),
    (holds(arg.a), ("holds", ("arg", "a")), "holds(arg.a)"),
    (before(arg.a), ("before", ("arg", "a")), "before(arg.a)"),
    (before(NOW), ("before", ("lit", NOW)), "before(2026-03-01 12:00:00+00:00)"),
    (fresh(arg.a, timedelta(minutes=5)), ("fresh", ("arg", "a"), 300_000_000), "fresh(arg.a, 0:05:00)"),
    (
        call_node("credit", "2", {"floor": 5}, (arg.a, order.b)),
        ("call", "credit", "2", {"floor": 5}, ("arg", "a"), ("field", "orders", KEY, "b")),
        "credit@2(arg.a, orders[arg.order_id].b, floor=5)",
    ),
]


@pytest.mark.parametrize(("expr", "form", "text"), FORMS, ids=itertools.count())
def test_each_operation_has_one_form_and_one_text(expr: Expr[Any], form: Any, text: str) -> None:
    """The form is tagged lists, the text is what was written, and both come back from storage."""
    assert to_json(expr) == (EXPRESSION_SEMANTICS, canonical.freeze(form))
    assert render(expr) == repr(expr) == text
    loaded = from_json(canonical.decode(canonical.encode(to_json(expr))))
    assert canonical.encode(to_json(loaded)) == canonical.encode(to_json(expr))
    assert render(loaded) == text
    assert isinstance(loaded, Field) is (form[0] == "field")


def test_lists_load_as_tuples_do() -> None:
    """A form that went through plain lists is the same expression."""
    assert (
        render(from_json([1, ["eq", ["field", "orders", [["arg", "id"]], "a"], ["lit", [1]]]]))
        == "orders[arg.id].a == [1]"
    )


A = ("arg", "a")


TREES: tuple[Any, ...] = (
    None,
    "arg",
    (),
    ("arg",),
    ("arg", 0),
    ("arg", "a", -1),
    ("arg", "a", True),
    ("arg", "a", None),
    ("nothing", "a"),
    (1, "a"),
    (("arg",), "a"),
    ("eval", "1"),
    ("declared", False),
    ("lit",),
    ("lit", 1.5),
    ("lit", 1, 2),
    ("field", "orders", (A,)),
    ("field", "orders", (A,), 0),
    ("field", "orders", (), "a"),
    ("field", "orders", "key", "a"),
    ("field", 1, (A,), "a"),
    ("field", "", (A,), "a"),
    ("field", "orders", (("lit", None),), "a"),
    ("field", "orders", (("eq", A, A),), "a"),
    ("rows",),
    ("rows", 1),
    ("rows", "orders", "x"),
    ("item", A, ("lit", "a")),
    ("item", A, -1),
    ("item", A),
    ("get", A),
    ("get", A, "b"),
    ("eq", A),
    ("eq", A, A, A),
    ("eq", A, ("lit", None)),
    ("lt", A, ("lit", True)),
    ("le", ("and", A, A), A),
    ("add", A),
    ("add", A, ("lit", "x")),
    ("sub", A, A, A),
    ("and", A),
    ("or", A, ("lit", 1)),
    ("not",),
    ("not", ("lit", 1)),
    ("not", ("before", A)),
    ("in", A, ("lit", "x")),
    ("every", A),
    ("every", A, ("count", A)),
    ("pluck", A),
    ("pluck", A, ("arg", "a")),
    ("count", A, A),
    ("largest", A),
    ("largest_of", A, A),
    ("rounded", A),
    ("rounded", A, "2"),
    ("rounded", A, True),
    ("as_utc", A, "Mars/Base"),
    ("exists", ("count", A)),
    ("exists_row", "orders", ()),
    ("exists_row", "orders", 1),
    ("is_null",),
    ("unchanged", ("each", "a")),
    ("holds", ("count", A)),
    ("before", ("each", "a")),
    ("fresh", A),
    ("fresh", A, 0),
    ("fresh", A, True),
    ("fresh", A, 10**30),
    ("fresh", A, "5"),
    ("call", "v", "1"),
    ("call", "v", 1, {}),
    ("call", "v", "1", {"a": 1.5}),
    ("call", "v", "1", {}, "a"),
)


@pytest.mark.parametrize(
    "form",
    [None, (), ("arg", "a"), (1,), (2, A), (True, A), (1, A, A), ("1", A), *((1, tree) for tree in TREES)],
    ids=itertools.count(),
)
def test_what_could_not_be_declared_is_not_loaded(form: object) -> None:
    """Other versions, unknown tags, wrong numbers and types of parts, and every refusal of the declaration."""
    with pytest.raises(CanonicalError):
        from_json(form)


def test_a_form_is_loaded_within_bounds() -> None:
    """Nesting is bounded before anything is built, in keys too; a wide form is loaded in linear time."""
    deep: Any = A
    for _ in range(10_000):
        deep = ("not", deep)
    with pytest.raises(CanonicalError, match="not too deep"):
        from_json((1, deep))
    deep = A
    for _ in range(20):
        deep = ("field", "orders", (deep,), "a")
    with pytest.raises(CanonicalError):
        from_json((1, deep))
    wide = from_json((1, ("and", *[A] * 20_000)))
    assert len(render(wide)) > 20_000


# --- Analysis ---------------------------------------------------------------------------------------------------------


def static_of(expr: Expr[Any]) -> set[tuple[str, tuple[Any, ...]]]:
    """What an expression names, by text."""
    return {(repr(ref), path) for ref, path in analyse(expr).static}


def test_analysis_names_all_evidence_that_of_keys_included() -> None:
    """Resource and leading constant path, down to where a key is worked out."""
    expr = (arg.amount <= policy.limit) & ~order.meta["a"][0][arg.k] & exists(order) & (order.tags[order.n].count() > 1)
    found = analyse(expr)
    assert static_of(expr) == {
        ("policies[orders[arg.order_id].region]", ("limit",)),
        ("orders[arg.order_id]", ("region",)),
        ("orders[arg.order_id]", ("meta", "a", 0)),
        ("orders[arg.order_id]", ()),
        ("orders[arg.order_id]", ("tags",)),
        ("orders[arg.order_id]", ("n",)),
    }
    assert found.arguments == frozenset({"amount", "order_id", "k"})
    assert found.kinds == frozenset({"orders", "policies"})
    assert found.fields == frozenset(
        {("policies", "limit"), ("orders", "region"), ("orders", "meta"), ("orders", "tags"), ("orders", "n")}
    )
    assert (found.depth, found.dynamic, found.clock, found.uses_actor) == (2, True, False, False)
    assert found.collections == frozenset()
    assert analyse(expr) is found


def test_analysis_tells_what_is_known_from_arguments_alone() -> None:
    """Without derived keys nothing is dynamic, and without evidence there is no read."""
    one = analyse(order.a == actor["id"])
    assert (one.depth, one.dynamic, one.uses_actor) == (1, False, True)
    assert (analyse(arg.a == 1).depth, analyse(arg.a == 1).static) == (0, ())


def test_analysis_of_lists_and_joins_by_row() -> None:
    """Rows of a kind are a collection; a key that `each` gives is dynamic and has no static place."""
    expr = every(rows("bookings"), resource("seats", each.seat).free) & fresh(order.at, timedelta(1))
    found = analyse(expr)
    assert static_of(expr) == {("rows('bookings')", ()), ("orders[arg.order_id]", ("at",))}
    assert found.kinds == frozenset({"bookings", "seats", "orders"})
    assert found.collections == frozenset({"bookings"})
    assert found.fields == frozenset({("seats", "free"), ("orders", "at")})
    assert (found.depth, found.dynamic, found.clock) == (2, True, True)
    by_row = analyse(resource("seats", each.seat).free)
    assert by_row.dynamic


def test_all_rows_have_no_fields() -> None:
    """The resource that stands for all rows of a kind has none, as each of its rows has."""
    ((all_rows, path),) = analyse(rows("orders").count() == 1).static
    assert path == ()
    with pytest.raises(DeclarationError, match=r"rows\('orders'\) are many rows: each\.state is a field of one"):
        all_rows["state"]


def test_analysis_lists_calls_and_captures_once() -> None:
    """Validators by name, version and parameters; what `unchanged` captures, each once."""
    call = call_node("credit", "2", {"floor": 5}, (order.a, arg.x))
    found = analyse(call & unchanged(order.paid) & ~unchanged(order.paid))
    (one,) = found.calls
    assert (one.name, one.version, dict(one.params), one.arguments) == ("credit", "2", {"floor": 5}, 2)
    assert [render(captured) for captured in found.captures] == ["orders[arg.order_id].paid"]


# --- Explanations -----------------------------------------------------------------------------------------------------

ROW = {
    "region": "uk",
    "ok": True,
    "no": False,
    "refunded": True,
    "amount": 80,
    "state": "secret",
    "lines": [{"x": 1}, {"x": 7, "bad": True}, {"y": 1}],
    "null": None,
    "at": NOW - timedelta(1),
}


def told(expr: Expr[bool], *, reveal: bool = False, **options: Any) -> str:
    """The explanation where only policies are public."""
    table = SlotTable()
    compile_expression(expr, table)
    options.setdefault("read", {("orders", "o-1"): ROW, ("policies", "uk"): {"limit": 50, "zone": "secret"}})
    read = options.pop("read")
    observations = {Address(kind, (key,)).identity: seen(value) for (kind, key), value in read.items()}
    arguments: Any = canonical.freeze({"order_id": "o-1", "amount": 80, "flag": False})
    env = Env(table, arguments, observations=observations, now=NOW, captured={}, **options)
    return explain(
        expr, env, public=lambda address, path: (address.kind, path) == ("policies", ("limit",)), reveal=reveal
    )


def seen(value: object) -> Observation:
    """An observation."""
    frozen: Any = canonical.freeze(value)
    return Observation(frozen, TOKEN)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (~order.refunded, "orders/o-1.refunded is True; must be false"),
        (order.no, "orders/o-1.no is False; must be true"),
        (order.ok, "orders/o-1.ok holds"),
        (~~order.no, "orders/o-1.no is False; must be true"),
        (arg.flag, "arg.flag is False; must be true"),
        (
            arg.amount <= policy.limit,
            "arg.amount <= policies[orders/o-1.region].limit does not hold: policies[orders/o-1.region].limit is 50",
        ),
        (order.state == "open", "orders/o-1.state == 'open' does not hold"),
        (order.ok == arg.flag, "orders/o-1.ok == arg.flag does not hold: orders/o-1.ok is True, arg.flag is False"),
        (~(order.amount == 80), "orders/o-1.amount == 80 holds; must not"),
        (~holds(order.ok), "orders/o-1.ok is True; must be false"),
        (holds(order.no), "orders/o-1.no is False; must be true"),
        (holds(order.gone), "orders/o-1.gone cannot be verified: orders/o-1 has no field 'gone'"),
        (
            order.ok & order.no & ~order.refunded,
            ("orders/o-1.no is False; must be true; and orders/o-1.refunded is True; must be false"),
        ),
        (
            order.no & order.gone,
            (
                "orders/o-1.no is False; must be true; and "
                "orders/o-1.gone cannot be verified: orders/o-1 has no field 'gone'"
            ),
        ),
        (
            order.no | (order.amount > 99),
            ("none of these holds: orders/o-1.no is False; must be true; or orders/o-1.amount > 99 does not hold"),
        ),
        (order.refundd, "orders/o-1.refundd cannot be verified: orders/o-1 has no field 'refundd'"),
        (order.state == 3, "cannot be verified: orders/o-1.state == 3: a text against a number"),
        (resource("users", "u").ok, "users/u.ok cannot be verified: not everything that it names was read"),
        (
            resource("users", resource("users", "u").x).ok,
            ("users[users/u.x].ok cannot be verified: not everything that it names was read"),
        ),
        (exists(policy.zzz), "exists(policies[orders/o-1.region].zzz) is False; must be true"),
        (~exists(policy), "exists(policies[orders/o-1.region]) is True; must be false"),
        (every(order.lines, each.x < 5), "row 1 of orders/o-1.lines: each.x < 5 does not hold"),
        (none(order.lines, each.bad), "row 1 of orders/o-1.lines: each.bad is True; must be false"),
        (
            none(order.lines, (each.x == 7) & each.bad),
            ("row 1 of orders/o-1.lines: (each.x == 7) & each.bad holds; must not: each.bad is True"),
        ),
        (
            order.lines.where(each.x == policy.limit).count() > 1,
            ("orders/o-1.lines.where(each.x == policies[orders/o-1.region].limit).count() > 1 does not hold"),
        ),
        (
            unchanged(order.amount),
            ("cannot be verified: unchanged(orders/o-1.amount) was not captured when the effect was proposed"),
        ),
        (before(order.at), "before(orders/o-1.at) is over"),
        (fresh(order.at, timedelta(hours=1)), "fresh(orders/o-1.at, 1:00:00) is over"),
        (literal(False), "False is False; must be true"),
        (
            policy.limit.in_([1]),
            "policies[orders/o-1.region].limit.in_([1]) does not hold: policies[orders/o-1.region].limit is 50",
        ),
        (
            (order.no | (largest(policy.limit, order.amount) == 1)),
            (
                "none of these holds: orders/o-1.no is False; must be true; or "
                "largest(policies[orders/o-1.region].limit, orders/o-1.amount) == 1 does not hold: "
                "policies[orders/o-1.region].limit is 50"
            ),
        ),
    ],
    ids=itertools.count(),
)
def test_an_explanation_names_rows_and_shows_only_what_is_public(expr: Expr[bool], text: str) -> None:
    """The expectation is always shown; what was found where it is public, true or false; nothing secret ever."""
    assert told(expr) == text
    assert "secret" not in told(expr)


def test_a_key_that_was_read_is_shown_where_it_is_public() -> None:
    """A row is named by its key where that was given or is public, or all is revealed; else by where its key lies."""
    read = {("orders", "o-1"): ROW, ("policies", "uk"): {"limit": 50}}
    table, expr = SlotTable(), policy.limit > 90
    compile_expression(expr, table)
    observations = {Address(kind, (key,)).identity: seen(value) for (kind, key), value in read.items()}
    env = Env(table, {"order_id": "o-1"}, observations=observations)
    places = {("orders", ("region",)), ("policies", ("limit",))}
    assert explain(expr, env, public=lambda address, path: (address.kind, path) in places) == (
        "policies/uk.limit > 90 does not hold: policies/uk.limit is 50"
    )
    assert explain(expr, env, public=lambda *_: False) == "policies[orders/o-1.region].limit > 90 does not hold"
    assert explain(expr, env, public=lambda *_: False, reveal=True).startswith("policies/uk.limit > 90 does not hold")


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (resource("prices", arg.order_id, order.region).ok, "prices['o-1', orders/o-1.region]"),
        (resource("prices", arg.gone, order.region).ok, "prices[arg.gone, orders/o-1.region]"),
        (resource("prices", arg.order_id, "x").ok, "prices['o-1', 'x']"),
        (resource("prices", resource("users", order.region).zone).ok, "prices[users[orders/o-1.region].zone]"),
        (resource("prices", order.number + 1).ok, "prices[orders/o-1.number + 1]"),
        (every(order.lines, resource("prices", each.y).ok), "prices[each.y]"),
        (every(arg.keys, resource("prices", each).ok), "prices/k-1"),
        (every(arg.keys, every(order.lines, resource("prices", each.y).ok)), "prices[each.y]"),
        (every(arg.nested, every(each.keys, resource("prices", each).ok)), "prices/k-2"),
        (every(order.lines, every(each.keys, resource("prices", each).ok)), "prices[each]"),
        (resource("prices", rows("limits").count()).ok, "prices[limits/*.count()]"),
    ],
    ids=itertools.count(),
)
def test_a_key_names_what_was_given_and_only_the_place_of_what_was_read(expr: Expr[bool], name: str) -> None:
    """Parts of keys that come from arguments and constants stand there, parts that were read by where they lie."""
    table = SlotTable()
    compiled = compile_expression(expr, table)
    arguments: Any = canonical.freeze({"order_id": "o-1", "keys": ["k-1"], "nested": [{"keys": ["k-2"]}]})
    row = {"region": "secret", "number": 41, "lines": [{"y": "secret", "keys": ["secret"]}]}
    env = Env(table, arguments, unreadable={})
    env.observed(Address("orders", ("o-1",)), seen(row))
    env.observed(Address("users", ("secret",)), seen({"zone": "secret"}))
    env.observed(Address("limits", ()), seen([{}]))
    for key in (("o-1", "x"), ("o-1", "secret"), ("secret",), (42,), ("k-1",), ("k-2",), (1,)):
        env.observed(Address("prices", key), seen(ABSENT))
    with pytest.raises(Unverifiable) as stop:
        compiled(env)
    assert not re.search("secret|4[12]", stop.value.reason)
    if "gone" not in name:
        assert stop.value.reason == f"there is no {name}"
    assert name in explain(expr, env, public=lambda *_: False)
    assert not re.search("secret|4[12]", explain(expr, env, public=lambda *_: False))


def test_a_key_behind_what_was_not_read_is_not_shown() -> None:
    """Whether a key may be shown is not known before the row that it comes from is: until then, its place stands."""
    table, expr = SlotTable(), resource("prices", resource("users", order.region).zone).ok
    compile_expression(expr, table)
    text = explain(expr, Env(table, {"order_id": "o-1"}), public=lambda *_: True)
    assert text == "prices[users[orders/o-1.region].zone].ok cannot be verified: not everything that it names was read"


def test_revealing_shows_what_was_found() -> None:
    """Arguments and undeclared values are shown, each once."""
    assert told(order.state == "open", reveal=True).endswith("does not hold: orders/o-1.state is 'secret'")
    assert told(arg.amount + arg.amount <= policy.limit, reveal=True).endswith(
        "does not hold: arg.amount is 80, policies/uk.limit is 50"
    )
    assert told(every(order.lines, each.x < 5), reveal=True).endswith("does not hold: each.x is 7")
    assert told(order.null == order.amount, reveal=True).endswith("null against a number")


def test_what_changed_is_told_without_what_it_was() -> None:
    """A captured value is never shown; what is there now only where it is public or revealed."""
    table = SlotTable()
    expr = unchanged(order.amount)
    compiled = compile_expression(expr, table)
    observations = {Address("orders", ("o-1",)).identity: seen(ROW)}
    env = Env(table, {"order_id": "o-1"}, observations=observations, capturing=True)
    compiled(env)
    later = Env(table, {"order_id": "o-1"}, observations={**observations}, captured=env.captured)
    later.observations[Address("orders", ("o-1",)).identity] = seen({**ROW, "amount": 90})
    text = "orders/o-1.amount has changed since the effect was proposed"
    assert explain(expr, later, public=lambda *_: False) == text
    assert explain(expr, later, public=lambda *_: True) == f"{text}: orders/o-1.amount is 90"


def test_an_explanation_leaves_out_what_is_missing_in_a_decided_condition() -> None:
    """A part that is not there is no value to show."""
    expr = ~(order.ok | (order.gone == 1))
    assert told(expr) == "orders/o-1.ok | (orders/o-1.gone == 1) holds; must not: orders/o-1.ok is True"


def test_a_row_is_found_past_rows_that_cannot_be_judged() -> None:
    """The row that is told is the first that decides, and `each` is afterwards what it was."""
    read = {("orders", "o-1"): {"lines": [{"y": 1}, {"x": 9}], "held": ABSENT}}
    assert told(every(order.lines, each.x < 5), read=read) == "row 1 of orders/o-1.lines: each.x < 5 does not hold"
    nested = every(order.groups, every(each.lines, each.x < 5) & each.ok)
    read = {("orders", "o-1"): {"groups": [{"lines": [{"x": 9}], "ok": False}]}}
    assert told(nested, read=read) == (
        "row 0 of orders/o-1.groups: row 0 of each.lines: each.x < 5 does not hold; and each.ok is False; must be true"
    )
