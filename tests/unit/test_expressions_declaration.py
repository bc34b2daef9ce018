"""Declaring expressions: what builds, what is refused, and what the refusal says."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pydantic import BaseModel
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import lastlook.expressions
from lastlook.canonical import ABSENT
from lastlook.errors import DeclarationError
from lastlook.expressions import (
    Expr,
    Field,
    Resource,
    SlotTable,
    actor,
    call_node,
    compile_expression,
    condition_of,
    count,
    exists,
    field_place,
    holds,
    literal,
    lookup,
    make_ref,
    none,
    ref_fields,
    ref_key,
    ref_public,
    render,
    rows,
    to_json,
    total,
    unchanged,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# What checkers would report at once is called here too.
arg: Any = lastlook.expressions.arg
before: Any = lastlook.expressions.before
each: Any = lastlook.expressions.each
every: Any = lastlook.expressions.every
fresh: Any = lastlook.expressions.fresh
largest: Any = lastlook.expressions.largest
ref_kind: Any = lastlook.expressions.ref_kind
resource: Any = lastlook.expressions.resource

order: Any = resource("orders", arg.order_id)
policy: Any = resource("policies", order.region)


class Incident(Resource, kind="incidents"):
    """A declared kind."""

    state: Field[str]
    title: Field[str] = Field(public=True)
    note: ClassVar[str] = "no field"


def refusal(declare: Callable[[], object]) -> str:
    """What a declaration is refused with."""
    with pytest.raises(DeclarationError) as caught:
        declare()
    message = str(caught.value)
    assert "\n" not in message
    assert not message.endswith(".")
    return message


# --- The usual mistakes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declare",
    [
        lambda: order.a and order.b,
        lambda: not order.a,
        lambda: 0 < arg.x <= 5,
        lambda: max(arg.x, order.b),
        lambda: arg.x in [order.a, order.b],
        lambda: 1 if order.a else 2,
    ],
    ids=itertools.count(),
)
def test_truth_at_declaration_is_refused_with_what_to_write(declare: Callable[[], object]) -> None:
    """`and`, `not`, chained comparisons, `max` and `in` ask for a truth value, and the message names each way out."""
    message = refusal(declare)
    assert message.startswith("a premise expression has no truth value while it is being declared: ")
    for way in ("~a for not a", "a & b for a and b", "(lo <= x) & (x <= hi) for lo <= x <= hi", "x.in_(y)", "largest("):
        assert way in message


def test_a_plain_bool_is_no_condition() -> None:
    """What `is` or a constant made of a premise is named as computed at import."""
    message = refusal(lambda: condition_of(order.refunded is False, "block_unless()"))
    assert message.startswith(
        "block_unless() got a plain False, already computed at import: `is`, `not` and constants cannot be recorded"
    )
    assert refusal(lambda: order.ok & True).startswith("& got a plain True")
    assert refusal(lambda: False & order.ok).startswith("& got a plain False")
    assert refusal(lambda: False | order.ok).startswith("| got a plain False")
    assert refusal(lambda: every(rows("orders"), each.count == 3)).startswith("every() got a plain False")


@pytest.mark.parametrize(
    "declare", [lambda: order.ok & arg.x <= order.y, lambda: order.y == (order.ok | arg.x)], ids=["order", "equality"]
)
def test_the_precedence_slip_is_named(declare: Callable[[], object]) -> None:
    """`a & b <= c` says that & binds tighter and asks for parentheses."""
    message = refusal(declare)
    assert "is already a condition: & and | bind tighter than" in message
    assert message.endswith("so put each comparison in parentheses")


def test_an_unknown_field_of_a_declared_kind_is_refused_with_the_nearest_name() -> None:
    """A typo says what was meant, and a name like no other what there is."""
    incident: Any = Incident(arg.incident_id)
    assert refusal(lambda: incident.sttae) == "'incidents' has no field 'sttae': did you mean 'state'?"
    assert refusal(lambda: incident["zzz"]) == "'incidents' has no field 'zzz': it has 'state', 'title'"
    bare: Any = make_ref("bare", ("k",), fields=())
    assert refusal(lambda: bare.x) == "'bare' has no field 'x': it has none"


@pytest.mark.parametrize(
    "text",
    [lambda: f"{arg.region}:{arg.id}", lambda: str(arg.region), lambda: f"{arg.region:>9}"],
    ids=["f-string", "str", "format"],
)
def test_a_text_of_an_expression_is_refused(text: Callable[[], object]) -> None:
    """An f-string or str() as a key would be a constant, so that the parts of a key are asked for."""
    message = refusal(text)
    assert message.startswith("arg.region has no text yet, so ")
    assert 'give a key its parts, resource("orders", arg.region, arg.region)' in message


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: arg.x == 0.1, "0.1 is a float, which has no exact value: write Decimal('0.1')"),
        (
            lambda: largest(arg.x, float("nan")),
            "nan is a float, which has no exact value: use null where there is no number",
        ),
        (lambda: arg.x == Decimal("NaN"), "not a constant: NaN or Infinity at constant; use null"),
        (lambda: arg.x == [1, 0.5], "not a constant: a float, which has no exact value, at [1]"),
        (lambda: arg.at < datetime(2026, 1, 1), "datetime 2026-01-01 00:00:00 names no moment: give it a zone"),  # noqa: DTZ001
        (lambda: arg.at + timedelta(1), "a span of time is no value to compare with"),
        (lambda: arg.x == object(), "not a constant: unsupported type 'object'"),
        (lambda: arg.x == arg, "not a constant: unsupported type 'Arguments'"),
        (lambda: arg.x == ABSENT, "ABSENT is no constant to compare with: write exists(x) or ~exists(x)"),
        (lambda: arg.x == each.count, "'count' is an operation: call it, or write ['count'] for a field of that name"),
        (lambda: arg.x == order, "orders[arg.order_id] is a resource and no value"),
        (lambda: order.x == None, "null is not compared with ==: write orders[arg.order_id].x.is_null()"),  # noqa: E711
        (lambda: literal(None) != order.x, "null is not compared with !=: write orders[arg.order_id].x.is_null()"),
        (lambda: order.x < True, "< puts numbers, texts and dates in order: True is none"),
        (lambda: order.x >= [1], ">= puts numbers, texts and dates in order: [1] is none"),
        (lambda: ~order.x > order.y, "> puts numbers, texts and dates in order: ~orders[arg.order_id].x is none"),
        (lambda: rows("orders") > order.y, "> puts numbers, texts and dates in order: rows('orders') is none"),
        (lambda: "no-" + arg.x, "+ takes numbers: 'no-' is none; give a key its parts instead of joined text"),
        (lambda: order.x - True, "- takes numbers: True is none"),
        (lambda: order.x * exists(order), "* takes numbers: exists(orders[arg.order_id]) is none"),
        (lambda: arg.x / 2, "there is no division, which is not exact"),
        (lambda: 2 % arg.x, "there is no division, which is not exact"),
        (lambda: order.x & (order.y + 1), "& takes conditions: orders[arg.order_id].y + 1 is neither true nor false"),
        (lambda: ~rows("orders"), "~ takes conditions: rows('orders') is neither true nor false"),
        (lambda: literal(1) | order.x, "| takes conditions: 1 is neither true nor false"),
        (lambda: order.x | 1, "| got a plain int instead of a condition over evidence"),
        (lambda: order.x | order, "| got the resource orders[arg.order_id]: name one of its fields, or exists(...)"),
        (lambda: order.meta.city, "orders[arg.order_id].meta has no operation 'city': an item of that name is"),
        (lambda: list(order.lines), "orders[arg.order_id].lines has no rows yet to go through"),
        (lambda: "x" in order.tags, "orders[arg.order_id].tags has no elements yet: write .contains(x) for x in it"),
        (lambda: len(order.tags), "orders[arg.order_id].tags has no length yet: write count(x) for len(x)"),
        (lambda: order.x.in_("open"), "in() takes a list: 'open' is none"),
        (lambda: literal(3).contains(order.x), "contains() takes a list: 3 is none"),
        (lambda: order.x.all_in(exists(order)), "all_in() takes a list: exists(orders[arg.order_id]) is none"),
        (lambda: count(order.x + 1), "count() takes a list: orders[arg.order_id].x + 1 is none"),
        (lambda: every(order.at.as_utc("UTC"), each), "every() takes a list: "),
        (lambda: order.lines.where(each.x + 1), "where() takes conditions: each.x + 1 is neither true nor false"),
        (order.lines.pluck, "pluck() takes the constant path of one item of each row"),
        (lambda: order.lines.pluck(arg.x), "each[arg.x] is no item: items are named by text or counted from 0"),
        (lambda: order.x[True], "orders[arg.order_id].x[True] is no item: items are named by text or counted from 0"),
        (lambda: order.x[-1], "orders[arg.order_id].x[-1] is no item"),
        (lambda: order.x[None], "orders[arg.order_id].x[None] is no item"),
        (lambda: order.x[arg.a == 1], "an item is looked up by text or position, not by arg.a == 1"),
        (lambda: order.x[order], "orders[arg.order_id].x[orders[arg.order_id]] is no item: items are named by"),
        (lambda: arg[0], "an argument has a name: arg.amount, not arg[0]"),
        (lambda: order[0], "a field is named by text, not by 0: orders[arg.order_id] is a row"),
        (lambda: order.x.rounded(-1), "places are a whole number from 0 to 38, not -1"),
        (lambda: order.x.as_decimal(True), "places are a whole number from 0 to 38, not True"),
        (lambda: order.x.as_utc("Mars/Base"), "'Mars/Base' is no time zone: name one of the IANA's"),
        (lambda: order.x.as_utc(1), "1 is no time zone"),
        (lambda: order.x.as_utc("../x"), "'../x' is no time zone"),
        (largest, "largest() of nothing: give it values or one list"),
        (lambda: largest(order.x, [1]), "largest() puts numbers, texts and dates in order: [1] is none"),
        (lambda: largest(order.x, exists(order)), "largest() puts numbers, texts and dates in order: "),
        (lambda: largest(3), "largest() takes a list: 3 is none"),
        (lambda: exists(order.x + 1), "exists() asks whether a row, a field or an item is there: "),
        (lambda: unchanged(order), "orders[arg.order_id] is a resource and no value"),
        (lambda: holds(order.x + 1), "holds() takes conditions: "),
        (lambda: fresh(order.at, 5), "fresh() takes a span of time, such as timedelta(minutes=5), not 5"),
        (lambda: fresh(order.at, timedelta(0)), "fresh() takes a span of time"),
        (lambda: before(order.at + 1), "before() takes a datetime with a zone: orders[arg.order_id].at + 1 is none"),
        (lambda: before("noon"), "before() takes a datetime with a zone: 'noon' is none"),
        (lambda: resource("orders"), "'orders' has no key: give its parts, or write rows(\"orders\") for all rows"),
        (lambda: resource("", 1), "[1] names no row: an empty kind of resource"),
        (lambda: resource(3, 1), "a kind of resource is named by text, not by 3"),
        (lambda: resource("orders", None), "orders[None] names no row: a part that names nothing exactly"),
        (lambda: resource("orders", True), "a key is text, a number or the like: True names no row"),
        (lambda: resource("orders", arg.x == 1), "a key is text, a number or the like: arg.x == 1 names no row"),
        (lambda: resource("orders", rows("x")), "a key is text, a number or the like: rows('x') names no row"),
        (lambda: resource("orders", order), "orders[arg.order_id] is a resource and no value"),
        (lambda: ref_kind(arg.x), "a resource is needed here, not Term"),
        (lambda: field_place(arg.x), "a field of a resource is needed here, such as order.note: got arg.x"),
        (lambda: field_place(resource("x", each.id).a), "a field of a resource is needed here"),
        (lambda: call_node("v", "1", {"limit": 0.5}, ()), "not a constant: a float"),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_recorded_is_refused(declare: Callable[[], object], message: str) -> None:
    """Each refusal names the place as it was written, and what to write instead."""
    assert refusal(declare).startswith(message)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: bool(order),
        lambda: list(order),
        lambda: "x" in order,
        lambda: f"{order}",
        lambda: str(order),
        lambda: order == order,  # noqa: PLR0124
        lambda: order != 3,
        lambda: order < 3,
        lambda: order & order,
        lambda: ~order,
    ],
    ids=itertools.count(),
)
def test_a_resource_is_no_value(declare: Callable[[], object]) -> None:
    """Truth, text, order and logic of a resource ask for one of its fields."""
    message = refusal(declare)
    assert message.startswith("orders[arg.order_id] is a resource and no value: name one of its fields")


def test_evidence_cannot_be_set() -> None:
    """Assigning to a field of a resource is refused, whether it is declared or not."""
    incident: Any = Incident("i-1")
    for ref in (order, incident):
        with pytest.raises(DeclarationError, match="is evidence and cannot be set"):
            ref.state = "closed"


# --- Deadlines, depth and size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declare",
    [
        lambda: ~before(order.until),
        lambda: holds(fresh(order.at, timedelta(1))),
        lambda: unchanged(before(order.until)),
        lambda: before(order.until) == order.ok,
        lambda: every(rows("orders"), before(order.until)),
        lambda: order.items[before(order.until)],
        lambda: call_node("v", "1", {}, (before(order.until),)),
        lambda: ~(order.ok & before(order.until)),
    ],
    ids=itertools.count(),
)
def test_a_deadline_stands_only_where_it_ends(declare: Callable[[], object]) -> None:
    """Under anything but & and | a deadline would make a truth that begins with time, or have no last moment."""
    message = refusal(declare)
    assert message.startswith(("a deadline stands by itself or under & and |", "an item is looked up"))


def test_a_deadline_cannot_differ_by_row() -> None:
    """A moment that `each` gives is refused by both deadlines."""
    assert refusal(lambda: before(each.until)) == "a deadline cannot differ by row: before() got each.until"
    assert refusal(lambda: fresh(each.at, timedelta(1))).startswith("a deadline cannot differ by row: fresh()")


def test_what_is_unchanged_cannot_differ_by_row() -> None:
    """Rows come and go, so that the list is captured and not an item of each."""
    assert refusal(lambda: unchanged(each.seat)).startswith(
        "unchanged() cannot tell the rows of a list apart: each.seat"
    )
    assert render(unchanged(order.lines.pluck("seat"))) == "unchanged(orders[arg.order_id].lines.pluck('seat'))"


def test_keys_follow_each_other_through_three_reads_at_most() -> None:
    """A fourth read in a row is refused, and the rows of a quantifier count as one."""
    first = resource("a", arg.x)
    third = resource("c", resource("b", first.k).k)
    assert refusal(lambda: resource("d", third.k)).endswith("through more than 3 reads: name the row by an argument")
    deep = resource("c", resource("b", each.k).k)
    assert every(arg.ids, deep.ok) is not None
    assert every(first.lines, resource("b", each.k).ok) is not None
    assert refusal(lambda: every(resource("b", first.k).lines, deep.ok)).endswith("name the row by an argument")


def test_each_stands_only_within_a_quantifier() -> None:
    """An expression over the row of no list is not compiled, and has no slot."""
    table = SlotTable()
    assert refusal(lambda: compile_expression(each.ok, table)).startswith("each stands only within every(), none()")
    assert refusal(lambda: table.slot(resource("orders", each.id))).endswith(
        "each stands only within every() and others"
    )
    assert refusal(lambda: table.slot(arg.x)).endswith("each stands only within every() and others")
    assert table.refs == []


def test_an_expression_is_nested_within_bounds() -> None:
    """What would not fit into a record is refused, by operations and by constants; long chains are flat."""
    deep = arg.x
    for _ in range(23):
        deep = deep * 2
    message = refusal(lambda: deep * 2)
    assert message == "an expression nested more than 24 deep: split it into several premises"
    constant: list[Any] = []
    for _ in range(23):
        constant = [constant]
    assert refusal(lambda: literal(constant)) == message
    chain, sum_of_many = order.ok, arg.x
    for _ in range(100):
        chain, sum_of_many = chain & order.ok, sum_of_many + 1
    assert isinstance(to_json(chain), tuple)
    assert isinstance(to_json(sum_of_many), tuple)


# --- What builds ------------------------------------------------------------------------------------------------------


def test_comparisons_read_the_way_they_are_written() -> None:
    """A field on the right does not turn the comparison round, as Python would for a subclass."""
    assert render(arg.amount <= policy.limit) == "arg.amount <= policies[orders[arg.order_id].region].limit"
    assert render(each.x == order.x) == "each.x == orders[arg.order_id].x"
    assert render(order.x >= 80) == "orders[arg.order_id].x >= 80"


def test_methods_and_functions_build_the_same_tree() -> None:
    """Each function form has the method's JSON form."""
    lines, ok = order.lines, each.ok == True  # noqa: E712
    for one, other in [
        (every(lines, ok), lines.every(ok)),
        (none(lines, ok), lines.none(ok)),
        (count(lines), lines.count()),
        (total(lines, "price"), lines.total("price")),
        (total(lines), lines.total()),
        (total(lines, "a", 0), lines.pluck("a", 0).total()),
        (lookup(order.table, arg.a, "b", 0), order.table[arg.a]["b"][0]),
        (literal(order.x), order.x),
        (order.x[literal("a")], order.x["a"]),
        (order.x.in_({3, 1, 2}), order.x.in_([1, 2, 3])),
        (order.x + 1 - 1 * order.y, (order.x + 1) - (1 * order.y)),
        (5 - order.x, literal(5) - order.x),
        (5 + order.x, literal(5) + order.x),
    ]:
        assert to_json(one) == to_json(other)


def test_items_with_constant_keys_stay_fields() -> None:
    """A refresh rule can name a place within a field; a key that is worked out makes it another expression."""
    city: Any = order.meta["city"][0]
    assert isinstance(city, Field)
    ref, path = field_place(city)
    assert (repr(ref), path) == ("orders[arg.order_id]", ("meta", "city", 0))
    assert not isinstance(order.meta[arg.x], Field)
    assert not isinstance(arg.x["a"], Field)


def test_names_that_python_does_not_take_are_reached_by_item() -> None:
    """Keywords, names of operations and names with an underscore are items, of rows and of arguments."""
    assert to_json(order["class"]) == (1, ("field", "orders", (("arg", "order_id"),), "class"))
    assert to_json(arg["class"]["in_"]) == (1, ("arg", "class", "in_"))
    assert to_json(each["count"]) == (1, ("each", "count"))
    assert to_json(order["_id"]) == (1, ("field", "orders", (("arg", "order_id"),), "_id"))
    assert to_json(order.in_) == (1, ("field", "orders", (("arg", "order_id"),), "in_"))
    assert to_json(actor["user_id"]) == (1, ("actor", "user_id"))


@pytest.mark.parametrize("thing", [arg, each, order, order.x, arg.x], ids=repr)
def test_what_python_probes_for_is_not_there(thing: object) -> None:
    """Frameworks that look for special and private names find none, rather than a field of that name."""
    assert not hasattr(thing, "__wrapped__")
    assert thing is arg or not hasattr(thing, "_repr_html_")


def test_expressions_are_hashed_by_identity() -> None:
    """Equality builds an expression, so that two alike ones are still two keys."""
    one, other = arg.x == 1, arg.x == 1
    assert len({one: 1, other: 2, order: 3}) == 3
    assert isinstance(one == other, Expr)
    assert repr(arg) == "arg"


# --- Resources --------------------------------------------------------------------------------------------------------


def test_a_declared_kind_has_the_fields_of_its_annotations() -> None:
    """Its rows know kind, key, fields and which are public; class variables are no fields."""
    incident = Incident(arg.region, 7)
    assert ref_kind(incident) == "incidents"
    assert [render(part) for part in ref_key(incident)] == ["arg.region", "7"]
    assert ref_fields(incident) == frozenset({"state", "title"})
    assert ref_public(incident) == frozenset({"title"})
    assert isinstance(incident.state, Field)
    assert isinstance(incident.title, Field)
    assert render(incident.title) == "incidents[arg.region, 7].title"
    assert incident.note == "no field"


def test_a_kind_inherits_fields_and_kind() -> None:
    """A subclass has the fields of its base and its own; a kind of its own is optional."""

    class Outage(Incident):
        _rank: Field[int]

    outage = Outage("i-1")
    assert ref_kind(outage) == "incidents"
    assert ref_fields(outage) == frozenset({"state", "title", "_rank"})
    assert ref_public(outage) == frozenset({"title"})
    assert render(outage._rank) == "incidents['i-1']._rank"


def test_annotations_may_be_text_or_types() -> None:
    """With or without postponed annotations a field is a Field, bare or with its type."""
    typed = type("Typed", (Resource,), {"__annotations__": {"a": Field[int], "b": Field, "c": "ll.Field"}}, kind="t")
    assert ref_fields(typed("k")) == frozenset({"a", "b", "c"})
    for annotation in (int, "int"):
        with pytest.raises(DeclarationError, match=r"Wrong\.a is no field: declare it as a: Field\[\.\.\.\]"):
            type("Wrong", (Resource,), {"__annotations__": {"a": annotation}}, kind="t")


def test_a_declaration_that_would_be_lost_is_refused() -> None:
    """No kind, a default without annotation, and names that the class itself needs."""
    with pytest.raises(DeclarationError, match="Nameless names no kind"):
        type("Nameless", (Resource,), {})
    with pytest.raises(DeclarationError, match=r"Untyped\.title has no type: declare it as title: Field"):
        type("Untyped", (Resource,), {"title": Field(public=True)}, kind="t")
    with pytest.raises(DeclarationError, match=r"Taken\._kind is taken"):
        type("Taken", (Resource,), {"__annotations__": {"_kind": Field[str]}}, kind="t")


def test_a_field_needs_a_row() -> None:
    """On the class a field is not there, and the error says how to name a row; a bare Field has no value."""
    with pytest.raises(AttributeError, match=r"Incident\.state is a field of a row: name one, Incident\(arg\.id\)"):
        _ = Incident.state
    bare: Field[Any] = Field()
    assert refusal(lambda: compile_expression(bare, SlotTable())).startswith("Field(...) declares a field in the body")


class Plain:
    """A class with annotations."""

    a: int


@dataclass
class Further(Plain):
    """A dataclass over it."""

    b: str


class Model(BaseModel):
    """A pydantic model."""

    a: int
    b: str


class Base(DeclarativeBase):
    """The registry of mapped classes."""


class Table(Base):
    """A mapped class, whose attribute and column differ."""

    __tablename__ = "tables"
    a: Mapped[int] = mapped_column(primary_key=True)
    b: Mapped[str]


@pytest.mark.parametrize("model", [Further, Model, Table])
def test_a_model_checks_names(model: type) -> None:
    """Annotations, pydantic fields and mapped columns say which fields there are."""
    row: Any = resource("kinds", 1, model=model)
    assert ref_fields(row) == frozenset({"a", "b"})
    assert isinstance(row.b, Field)
    assert refusal(lambda: row.bb) == "'kinds' has no field 'bb': did you mean 'b'?"


def test_a_connector_makes_resources() -> None:
    """`make_ref` takes kind, key, fields and the public ones; nothing known of fields allows any."""
    ref = make_ref("orders", ("a", arg.x), fields=["total"], public=["total"])
    assert (ref_kind(ref), ref_fields(ref), ref_public(ref)) == ("orders", frozenset({"total"}), frozenset({"total"}))
    assert ref_fields(order) is None
    assert ref_public(order) == frozenset()


def test_the_deadline_of_a_constant_moment_needs_a_zone() -> None:
    """An aware constant is a moment like any evidence."""
    assert "2026-01-01" in render(before(datetime(2026, 1, 1, tzinfo=UTC)))


# --- The package ------------------------------------------------------------------------------------------------------


def test_the_face_is_sorted_and_complete() -> None:
    """Every exported name is there and has a docstring where it can."""
    names = lastlook.expressions.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    for name in names:
        thing = getattr(lastlook.expressions, name)
        assert name in {"EXPRESSION_SEMANTICS", "KeyPart"} or thing.__doc__, name


def test_importing_expressions_loads_nothing_heavy() -> None:
    """Neither pydantic nor SQLAlchemy nor numpy nor zoneinfo is loaded by the import."""
    script = (
        "import sys, lastlook.expressions; "
        "print(*sorted({'pydantic', 'sqlalchemy', 'numpy', 'zoneinfo'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
