"""What may be declared and what may not, and what a declaration then promises: effects, options, gates, contracts."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import re
import sys
import threading
import typing
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, cast

import pydantic
import pytest
import systems
from systems import (
    DEFECT,
    DELIVERED,
    LIMIT,
    NOT_REFUNDED,
    AsyncShop,
    Crash,
    Desk,
    DeskPermit,
    Relay,
    Shelf,
    Shop,
    checked,
    numbered,
    shop_premises,
    shop_rows,
)

import lastlook
from lastlook import (
    STRICT,
    UNBOUND,
    Applied,
    AsyncGate,
    BindingPolicy,
    Capture,
    Change,
    DeclarationError,
    EffectBlocked,
    EffectContended,
    EffectNotBound,
    EffectStopped,
    Field,
    Gate,
    Grade,
    InFlight,
    IntegrityError,
    Intent,
    KeyReused,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    ReplanRequired,
    Resource,
    State,
    actor,
    arg,
    before,
    block_unless,
    count,
    each,
    every,
    exists,
    fresh,
    holds,
    largest,
    literal,
    lookup,
    none,
    replan_unless,
    resource,
    rows,
    total,
    unchanged,
)
from lastlook.canonical import decode
from lastlook.commands import Apply, Transit
from lastlook.errors import CanonicalError, UnknownEffect, UnknownIntent
from lastlook.events import IntentProposed, LookTaken, ProposalRefused
from lastlook.ports import Capabilities
from lastlook.records import Token
from lastlook.testing import FakeClock, events, failpoint, interpose

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from systems import DeskPermit as OnlyForCheckers

    from lastlook.ports import Attempt

SEPARATE = pytest.mark.parametrize("separate", [False, True], ids=["same-engine", "separate"])
MINUTE = dt.timedelta(minutes=1)
# Of unknown type, so that what checkers would report can be written here and is refused at import.
order: Any = systems.order
policy: Any = systems.policy


def a_gate(**systems: Any) -> Gate:
    """A gate over the shop's world."""
    return Gate(Memory(**{**shop_rows(), **systems}))


def body(permit: MemoryPermit, order_id: str, amount: int = 0) -> str:
    """Refund an order."""
    permit.change("orders", order_id, refunded=True)
    return "refunded"


def declare(*premises: Any, gate: Gate | None = None, **options: Any) -> Any:
    """The body as an effect with these premises."""
    given = {"target": order, "name": "refund", "premises": list(premises)} | options
    return (gate or a_gate()).effect(**given)(body)


# --- Mistakes in a premise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: order.a and order.b,
        lambda: order.a or order.b,
        lambda: not order.a,
        lambda: 0 < arg.x <= policy.limit,
        lambda: max(arg.x, policy.limit),
        lambda: arg.x in [1, 2],
        lambda: bool(order.a),
        lambda: 1 if order.a else 2,
    ],
    ids=["and", "or", "not", "chain", "max", "in", "bool", "if"],
)
def test_truth_of_an_expression(mistake: Callable[[], object]) -> None:
    """What asks an expression for its truth at import is told what to write instead."""
    with pytest.raises(DeclarationError) as raised:
        mistake()
    text = str(raised.value)
    assert text.startswith("a premise expression has no truth value while it is being declared: ")
    for way in ("~a for not a", "a & b for a and b", "(lo <= x) & (x <= hi) for lo <= x <= hi"):
        assert way in text


@pytest.mark.parametrize("word", [block_unless, replan_unless])
@pytest.mark.parametrize("value", [False, True])
def test_a_plain_truth_value(word: Callable[..., Any], value: bool) -> None:
    """`order.refunded is False` was computed at import, and cannot be recorded."""
    with pytest.raises(DeclarationError) as raised:
        word((order.refunded is None) is value)
    assert re.search(
        rf"{word.__name__}\(\) got a plain (True|False), already computed at import: `is`, `not` and constants",
        str(raised.value),
    )
    assert "~order.refunded" in str(raised.value)


@pytest.mark.parametrize("wrong", [None, "order.refunded", 1, order, shop_premises, arg])
def test_no_condition_at_all(wrong: object) -> None:
    """What is no condition is refused by its type."""
    with pytest.raises(DeclarationError, match=r"not a condition|no condition|resource"):
        block_unless(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        arg.amount + 1,
        literal(3),
        rows("orders"),
        count(rows("orders")),
        largest(arg.a, arg.b),
        total(rows("orders"), "x"),
    ],
    ids=["sum", "constant", "rows", "count", "largest", "total"],
)
def test_an_expression_that_is_never_a_condition(wrong: Any) -> None:
    """An expression that has no truth value is refused where it is declared, not when it is judged."""
    with pytest.raises(DeclarationError):
        declare(block_unless(wrong))


def test_precedence_slip() -> None:
    """`a & b <= c` is refused with the parentheses that it needs."""
    with pytest.raises(DeclarationError) as raised:
        block_unless(order.ok & arg.amount <= policy.limit)
    text = str(raised.value)
    assert text.startswith("orders[arg.order_id].ok & arg.amount is already a condition: & and | bind tighter than <=")
    assert "put each comparison in parentheses" in text


class Order(Resource, kind="orders"):
    """The shop's orders, with their fields."""

    delivered: Field[bool]
    refunded: Field[bool]
    customer_name: Field[str] = Field(public=True)


def test_misspelt_field_of_a_typed_resource() -> None:
    """A field that a declared resource lacks is named with the nearest one."""
    with pytest.raises(DeclarationError, match=r"'orders' has no field 'refundd': did you mean 'refunded'\?"):
        block_unless(~Order(arg.order_id).refundd)  # type: ignore[attr-defined]


def test_misspelt_field_of_an_untyped_resource() -> None:
    """A field that looks like one that the system knows is named with it, and with the effect."""
    with pytest.raises(
        DeclarationError, match=r"^refund\(\): 'orders' has no field 'refundd': did you mean 'refunded'\?$"
    ):
        declare(block_unless(~order.refundd))


def test_misspelt_argument() -> None:
    """An argument that the body does not take is named with the nearest one."""
    with pytest.raises(DeclarationError, match=r"^refund\(\) has no parameter 'amuont': did you mean 'amount'\?$"):
        declare(block_unless(arg.amuont <= policy.limit))
    with pytest.raises(DeclarationError, match=r"^refund\(\) has no parameter 'zzz': it takes order_id, amount$"):
        declare(block_unless(arg.zzz == 1))


polices = resource("polices", "refund")


@pytest.mark.parametrize(
    "declaration",
    [
        {"premises": [block_unless(arg.amount <= polices.limit)]},
        {"premises": [block_unless(~order.refunded)], "refresh": [polices.text]},
        {"premises": [block_unless(~order.refunded)], "target": polices},
    ],
    ids=["premise", "refresh", "target"],
)
def test_misspelt_kind(declaration: dict[str, Any]) -> None:
    """A kind that no system answers for is named with the nearest one, wherever it stands."""
    with pytest.raises(DeclarationError, match=r"refund\(\).*'polices': did you mean 'policies'\?"):
        a_gate().effect(**({"target": order, "name": "refund"} | declaration))(body)


@pytest.mark.parametrize(
    "mistake", numbered(lambda: f"{arg.region}:{arg.id}", lambda: str(arg.region), lambda: f"{arg.id!s}")
)
def test_joined_text_as_a_key(mistake: Callable[[], str]) -> None:
    """A key is not joined text: its parts are given one by one."""
    with pytest.raises(DeclarationError) as raised:
        resource("orders", mistake())
    assert re.match(r"arg\.(region|id) has no text yet", str(raised.value))
    assert "give a key its parts" in str(raised.value)


def test_key_of_parts() -> None:
    """A key of several parts is the tuple of them, and no joined text stands for it."""
    world = Memory(orders={("a", "b:c"): {"open": True}, ("a:b", "c"): {"open": False}})
    gate = Gate(world)
    one = resource("orders", arg.first, arg.second)

    @gate.effect(target=one, premises=[block_unless(one.open)])
    def close(permit: MemoryPermit, first: str, second: str) -> None:
        permit.change("orders", (first, second), open=False)

    close("a", "b:c")
    with pytest.raises(EffectBlocked):
        close("a:b", "c")
    assert world.rows("orders") == {("a", "b:c"): {"open": False}, ("a:b", "c"): {"open": False}}


@pytest.mark.parametrize(
    "mistake",
    numbered(
        lambda: ~before(order.until),
        lambda: ~(before(order.until) & order.open),
        lambda: ~fresh(order.seen, MINUTE),
        lambda: holds(before(order.until)),
        lambda: before(order.until) == True,  # noqa: E712 - the mistake itself
        lambda: every(order.lines, before(order.until)),
        lambda: order.lines.where(fresh(order.seen, MINUTE)),
        lambda: before(each.until),
        lambda: fresh(order.seen, dt.timedelta(0)),
        lambda: fresh(order.seen, dt.timedelta(seconds=-1)),
        lambda: fresh(order.seen, 60),  # type: ignore[arg-type]
        lambda: before(dt.datetime(2026, 1, 1)),  # noqa: DTZ001 - the mistake itself
        lambda: order.seen < dt.timedelta(1),
    ),
)
def test_deadlines_stand_by_themselves(mistake: Callable[[], object]) -> None:
    """A deadline stands alone or under `&` and `|`, so that there is a last moment at which the premise holds."""
    with pytest.raises(DeclarationError):
        mistake()


@pytest.mark.parametrize("name", ["now", "within", "block_if", "replan_if", "agate", "SqlTable"])
def test_what_there_is_not(name: str) -> None:
    """There is no clock in expressions, and no word that reads as *allow* where nothing is known."""
    assert not hasattr(lastlook, name)


@pytest.mark.parametrize(
    "mistake",
    numbered(
        lambda: order.price == 0.5,
        lambda: order.price <= float("inf"),
        lambda: literal(1.0),
        lambda: order.price / 2,
        lambda: order.price**2,
        lambda: order.note == None,  # noqa: E711 - the mistake itself
        lambda: order == policy,
        lambda: order.lines[-1],
        lambda: order[0],
        lambda: [*order.lines],
        lambda: order.price == len(order.lines),
        lambda: [*order],
        lambda: setattr(order, "refunded", True),
        lambda: order.price == order.note.lower(),
        lambda: "x" in order.lines,
        lambda: order.price == order.lines.total,
        lambda: block_unless(order.lines.total == 3),
    ),
)
def test_other_operations_of_python(mistake: Callable[[], object]) -> None:
    """Whatever else Python can do with an object is refused, or is no value that a premise may hold."""
    with pytest.raises(DeclarationError):
        mistake()


@pytest.mark.parametrize("because", [order.note, 3, None])
def test_a_reason_is_text(because: Any) -> None:
    """What a model may read is a plain text."""
    with pytest.raises(DeclarationError, match="as the reason: write a text"):
        block_unless(order.ok, because)


@pytest.mark.parametrize("accept", [True, "the bank has no version", UNBOUND])
def test_acceptance_is_written(accept: Any) -> None:
    """Less than a premise's grade is accepted by UNBOUND with a reason, and by nothing else."""
    with pytest.raises(DeclarationError, match="UNBOUND"):
        block_unless(order.ok, accept=accept)


# --- Mistakes in an effect --------------------------------------------------------------------------------------------


def no_permit(order_id: str) -> None:
    """No permit."""


def permit_last(order_id: str, permit: MemoryPermit) -> None:
    """Permit last."""


def permit_by_keyword(order_id: str, *, permit: MemoryPermit) -> None:
    """Permit by keyword."""


@pytest.mark.parametrize("function", [no_permit, permit_last, permit_by_keyword, lambda order_id: None])
def test_permit_comes_first(function: Any) -> None:
    """A body takes its permit first, and is told the line to write."""
    with pytest.raises(DeclarationError) as raised:
        a_gate().effect(target=order, premises=shop_premises()[:3], name="refund")(function)
    assert str(raised.value) == "refund() must take `permit` first: def refund(permit, order_id)"


class Desk_(Desk):  # noqa: N801 - a class with methods, for the next test
    """A class with methods."""

    def method(self, permit: DeskPermit, order_id: str) -> None:
        """An effect it cannot be."""

    @classmethod
    def of_class(cls, permit: DeskPermit, order_id: str) -> None:
        """Nor this."""


@pytest.mark.parametrize("function", [Desk_.method, Desk_.__dict__["of_class"].__func__])
def test_methods_are_refused(function: Any) -> None:
    """An intent outlives `self`."""
    with pytest.raises(DeclarationError, match=r"an intent outlives `(self|cls)`: use a module-level function"):
        a_gate().effect(target=order, premises=shop_premises()[:3])(function)


@dataclass
class StructuredTool:
    """What a framework's decorator makes of a function."""

    function: Callable[..., Any]
    name: str = "refund"


@pytest.mark.parametrize("wrong", [StructuredTool(body), StructuredTool, print, int, body.__get__(object())])
def test_decorators_in_the_wrong_order(wrong: Any) -> None:
    """What a framework has made of the function is told to stand above."""
    with pytest.raises(DeclarationError, match=r"@gate\.effect got \w+: put the framework's decorator above"):
        a_gate().effect(target=order, premises=shop_premises())(wrong)


def variadic(permit: MemoryPermit, *order_ids: str) -> None:
    """Variadic."""


def keywords(permit: MemoryPermit, **options: str) -> None:
    """Keywords."""


@pytest.mark.parametrize("function", [variadic, keywords])
def test_arguments_have_names(function: Any) -> None:
    """An intent stores its arguments by name, so each has one."""
    with pytest.raises(DeclarationError, match=r"takes \*.*: an intent stores its arguments by name"):
        a_gate().effect(target=order, premises=shop_premises()[:3])(function)


def test_colours_do_not_mix() -> None:
    """A coroutine function belongs to AsyncGate, any other to Gate."""

    async def later(permit: MemoryPermit, order_id: str, amount: int) -> None: ...

    with pytest.raises(DeclarationError, match=r"is a coroutine function.*use AsyncGate"):
        a_gate().effect(target=order, premises=shop_premises())(later)
    with pytest.raises(DeclarationError, match=r"not a coroutine function.*use Gate"):
        AsyncGate(Memory(**shop_rows())).effect(target=order, premises=shop_premises())(cast("Any", body))


@dataclass
class Receipt:
    """A result that can be stored."""

    number: int


class Colour(Enum):
    """Another."""

    RED = "red"


class Model(pydantic.BaseModel):
    """A third."""

    number: int


class Mapped:
    """What an ORM makes of a class."""

    __table__ = "orders"


def returning(hint: Any) -> Any:
    """A body with this return annotation."""

    def refund(permit: MemoryPermit, order_id: str, amount: int) -> Any:
        permit.no_write()

    refund.__annotations__["return"] = hint
    return refund


@pytest.mark.parametrize("hint", [object, Mapped, list[Mapped], dict[str, object], int | Mapped, set[int], type, Gate])
def test_result_without_a_stored_form(hint: Any) -> None:
    """A result that could never be stored is refused at import."""
    with pytest.raises(DeclarationError, match=r"refund\(\) returns .*, which cannot be stored with the commit"):
        a_gate().effect(target=order, premises=shop_premises())(returning(hint))


@pytest.mark.parametrize(
    "hint",
    [None, str, int | None, Decimal, dt.datetime, list[str], dict[str, int], Receipt, Model, Colour, Literal["a"], Any],
)
def test_result_with_a_stored_form(hint: Any) -> None:
    """What has a stored form may be returned."""
    a_gate().effect(target=order, premises=shop_premises())(returning(hint))


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Receipt, Receipt(7)),
        (Model, Model(number=7)),
        (Colour, Colour.RED),
        (Decimal, Decimal("7.50")),
        (list[str], ["a"]),
    ],
    ids=["dataclass", "model", "enum", "decimal", "list"],
)
@SEPARATE
def test_result_comes_back_as_it_was_returned(hint: Any, value: Any, separate: bool) -> None:
    """A committed intent gives the result in its own type, in this process and in a restarted one."""
    store, world = MemoryStore(), Memory(**shop_rows()).options(separate=separate)

    def refund(permit: MemoryPermit, order_id: str) -> Any:
        permit.change("orders", order_id, refunded=True)
        return value

    refund.__annotations__["return"] = hint
    gate = Gate(world, store=store)
    effect = gate.effect(target=order, premises=[block_unless(~order.refunded)])(refund)
    intent = effect.propose("o-1")
    assert gate(intent).result() == value
    assert gate(intent).result() == value
    later = Gate(world, store=store.reopened())
    later.effect(target=order, premises=[block_unless(~order.refunded)])(refund)
    assert later(intent).result() == value


@pytest.mark.parametrize(
    "mistake",
    numbered(
        lambda: {"premises": []},
        lambda: {"premises": [block_unless(order.a), block_unless(order.a)]},
        lambda: {"premises": [block_unless(order.a), replan_unless(order.a)]},
        lambda: {"premises": [block_unless(order.a)], "awaits": [block_unless(order.a)]},
        lambda: {"premises": [block_unless(order.a)], "refresh": [order.a == 1]},
        lambda: {"premises": [block_unless(order.a)], "refresh": [arg.amount]},
        lambda: {"premises": [block_unless(order.a)], "refresh": [rows("orders")]},
        lambda: {"premises": [order.a]},
        lambda: {"premises": block_unless(order.a)},
        lambda: {"premises": [block_unless(every(order.lines, each.x == each.y) & each.z)]},
        lambda: {"premises": [block_unless(order.a)], "target": "courier"},
        lambda: {"premises": [block_unless(order.a)], "target": rows("orders")},
        lambda: {"premises": [block_unless(order.a)], "target": resource("orders", order.a == 1)},
        lambda: {"premises": [block_unless(order.a)], "target": order.a},
        lambda: {"premises": [block_unless(order.a)], "target": None},
    ),
)
def test_mistakes_of_an_effect(mistake: Callable[[], dict[str, Any]]) -> None:
    """What no effect can mean is refused at import."""
    with pytest.raises(TypeError):  # DeclarationError is one
        a_gate().effect(**({"target": order} | mistake()))(body)


def test_a_bare_target_needs_a_lane() -> None:
    """A plain function has no key that attempts could exclude each other on, unless it is given one."""
    with pytest.raises(DeclarationError, match=r"refund\(\) acts on 'courier', which has no key.*lane="):
        declare(block_unless(~order.refunded), target="courier")


def test_names_are_unique() -> None:
    """An intent finds its effect by its name, so no two of one gate share it."""
    gate = a_gate()
    declare(*shop_premises(), gate=gate)
    with pytest.raises(DeclarationError, match="has an effect 'refund' already"):
        declare(*shop_premises(), gate=gate)
    gate.effect(target=order, name="refund again", premises=shop_premises())(body)


def test_a_target_that_applies_nothing() -> None:
    """A system that can only be read is no target."""
    gate = Gate(Shelf(orders={"o-1": {"a": True}}))
    with pytest.raises(DeclarationError, match="applies no effects"):
        gate.effect(target=order, premises=[block_unless(order.a)])(body)


def test_evidence_that_can_never_be_bound() -> None:
    """A premise that blocks on what the target cannot check is refused at import, with the ways out."""
    gate = Gate(Memory(orders=shop_rows()["orders"]), Shelf(policies={"refund": {"limit": 100}}))
    with pytest.raises(DeclarationError) as raised:
        declare(*shop_premises(), gate=gate)
    text = str(raised.value)
    assert text.startswith(
        f"refund() could never be released: '{LIMIT}' reads 'policies', which 'memory(orders)' cannot"
    )
    for way in ("keep it in a system that can hold it", "move it", "accept=UNBOUND('why')"):
        assert way in text


@pytest.mark.parametrize("irreversible", [False, True])
def test_irreversible_lifts_replan_evidence(irreversible: bool) -> None:
    """An irreversible effect has its REPLAN evidence bound too, with the same way out."""
    world, shelf = Memory(orders=shop_rows()["orders"]), Shelf(weather={"uk": {"rain": True}})
    rain = resource("weather", "uk").rain
    if irreversible:
        with pytest.raises(DeclarationError, match="could never be released"):
            declare(replan_unless(rain), gate=Gate(world, shelf), irreversible=True)
        accepted = declare(
            replan_unless(rain, accept=UNBOUND("no version")), gate=Gate(world, shelf), irreversible=True
        )
        assert accepted("o-1") == "refunded"
    else:
        effect = declare(replan_unless(rain), gate=Gate(world, shelf))
        assert set(effect.contract.bindings().values()) == {Grade.UNBOUND}
        assert effect("o-1") == "refunded"


def test_irreversible_needs_a_token_that_binds() -> None:
    """Under an irreversible effect a weak token blocks a REPLAN premise too."""
    for irreversible, outcome in ((False, Outcome.KEEP), (True, Outcome.BLOCK)):
        desk = Desk(accounts={"a": {"open": True}})
        desk.put("accounts", "a", {"open": True}, token=Token("weak", "desk", "1"))
        gate, account = Gate(desk), resource("accounts", arg.name)

        @gate.effect(target=account, premises=[replan_unless(account.open)], irreversible=irreversible)
        def close(permit: DeskPermit, name: str) -> None:
            permit.put("accounts", name, open=False)

        assert gate.preview(close.propose("a")).outcome is outcome


@pytest.mark.parametrize("mark", ["orders", "orders.defect"])
def test_binding_policy_marks_evidence(mark: str) -> None:
    """A policy makes a premise block that was declared to replan, whether it is false or unverifiable."""
    for change in ({"defect": False}, {"defect": None}):
        shop = Shop(policy=BindingPolicy(critical=frozenset({mark})))
        intent = shop.refund.propose("o-1", amount=80)
        shop.world.change("orders", "o-1", **change)
        assert shop.gate(intent).outcome is Outcome.BLOCK
    shop = Shop(policy=BindingPolicy(critical=frozenset({"orders.colour", "weather"})))
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", defect=False)
    assert shop.gate(intent).outcome is Outcome.REPLAN, "what is not marked is as declared"


def test_binding_policy_demands_binding() -> None:
    """Evidence that a policy marks has to be bound, although its premise only replans."""
    rain = replan_unless(resource("weather", "uk").rain)
    shelf = Shelf(weather={"uk": {"rain": True}})
    for marked in (frozenset[str](), frozenset({"weather"})):
        gate = Gate(Memory(orders=shop_rows()["orders"]), shelf, policy=BindingPolicy(critical=marked))
        if marked:
            with pytest.raises(DeclarationError, match="could never be released"):
                declare(rain, gate=gate)
        else:
            declare(rain, gate=gate)


# --- Names that users choose ------------------------------------------------------------------------------------------

OWN = [
    "key",
    "value",
    "in_",
    "count",
    "total",
    "kind",
    "fields",
    "name",
    "contains",
    "self",
    "world",
    "permit",
    "class",
]


@pytest.mark.parametrize("name", OWN)
def test_attributes_of_a_resource_are_fields(name: str) -> None:
    """Each attribute and item of a resource is its field, whatever it is called."""
    field = resource("orders", arg.order_id)[name]
    assert repr(field) == f"orders[arg.order_id].{name}"
    if name != "class":
        assert repr(getattr(resource("orders", arg.order_id), name)) == repr(field)


@pytest.mark.parametrize("name", OWN)
def test_writes_take_any_name(name: str) -> None:
    """No parameter of a write is in the way of a field of the same name."""
    world = Memory(orders={"o-1": {name: 1}})
    world.change("orders", "o-1", **{name: 2})
    assert world.row("orders", "o-1") == {name: 2}
    gate = Gate(world)

    @gate.effect(target=order, premises=[block_unless(order[name] == 2)])
    def write(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, **{name: 3})

    write("o-1")
    assert world.row("orders", "o-1") == {name: 3}


@pytest.mark.parametrize(
    "name", ["key", "expires", "actor", "supersedes", "intent", "args", "kwargs", "declared", "options", "self"]
)
def test_arguments_take_any_name(name: str) -> None:
    """No option of a call is in the way of an argument of the same name."""
    source = f"def refund(permit, order_id, {name}): permit.change('orders', order_id, refunded={name})"
    module = compile(source, "<test>", "exec")
    namespace: dict[str, Any] = {}
    function = FunctionType(next(code for code in module.co_consts if hasattr(code, "co_name")), namespace)
    gate = a_gate()
    effect = gate.effect(target=order, premises=[block_unless(arg[name] == 1)])(function)
    assert gate(effect.options(key="k").propose("o-1", **{name: 1})).committed
    tx = gate.transaction()
    assert gate.preview(tx.propose(effect, "o-2", **{name: 2})).outcome is Outcome.BLOCK


def test_model_checks_names() -> None:
    """A pydantic model, an ORM table or a plain annotated class says which fields there are."""

    class Table:
        class columns:  # noqa: N801 - as SQLAlchemy spells it
            @staticmethod
            def keys() -> list[str]:
                return ["number"]

    class Orm:
        __table__ = Table

    for model in (Model, Receipt, Orm):
        known = resource("receipts", arg.order_id, model=model)
        assert repr(known.number) == "receipts[arg.order_id].number"
        with pytest.raises(DeclarationError, match=r"'receipts' has no field 'numbr': did you mean 'number'\?"):
            block_unless(known.numbr)


def test_premises_and_records_compare() -> None:
    """Premises are objects of their own: they compare by identity, and stand in lists and sets."""
    one, other = block_unless(order.a), block_unless(order.a)
    assert one == one  # noqa: PLR0124 - the very point
    assert (one == other, one != other, {one, other} == {other, one}) == (False, True, True)
    assert [one, other].index(other) == 1
    assert one.label == other.label == "orders[arg.order_id].a"


@pytest.mark.parametrize("thing", ["verdict", "preview", "intent", "evidence", "expression", "resource", "Resource"])
def test_what_has_no_truth(thing: str) -> None:
    """What is neither yes nor no says so, with a TypeError."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    things: dict[str, Callable[[], object]] = {
        "verdict": lambda: shop.gate(intent),
        "preview": lambda: shop.gate.preview(intent),
        "intent": lambda: intent,
        "evidence": lambda: shop.gate.transaction().read(policy),
        "expression": lambda: order.refunded,
        "resource": lambda: order,
        "Resource": lambda: Order(arg.order_id),
    }
    made = things[thing]()
    said = {
        "verdict": r"^a verdict is not a yes or no: test verdict\.committed, or match verdict\.outcome$",
        "preview": r"^a preview is not a yes or no: test preview\.outcome$",
        "intent": r"^an intent is not a yes or no: call gate\(intent\)$",
    }
    with pytest.raises(TypeError, match=said.get(thing)):
        bool(made)


# --- A real function --------------------------------------------------------------------------------------------------


def documented(permit: MemoryPermit, order_id: str, amount: Decimal = Decimal("1.50"), *, reason: str = "none") -> str:
    """Refund an order.

    With reason.
    """
    permit.change("orders", order_id, refunded=True)
    return f"{amount} because {reason}"


def test_an_effect_is_a_function() -> None:
    """Frameworks take an effect for what it is: a function with a name, a docstring, and a signature without permit."""
    effect: Any = a_gate().effect(target=order, premises=[block_unless(~order.refunded)])(documented)
    assert inspect.isfunction(effect)
    assert not inspect.iscoroutinefunction(effect)
    assert (effect.__name__, effect.__doc__, effect.__module__) == ("documented", documented.__doc__, __name__)
    assert inspect.unwrap(effect) is documented
    signature = inspect.signature(effect)
    assert list(signature.parameters) == ["order_id", "amount", "reason"]
    assert signature.parameters["amount"].default == Decimal("1.50")
    assert signature.parameters["reason"].kind is inspect.Parameter.KEYWORD_ONLY
    assert typing.get_type_hints(effect) == {"order_id": str, "amount": Decimal, "reason": str, "return": str}
    assert "permit" in inspect.signature(documented).parameters, "the body keeps its own"


def test_an_async_effect_is_a_coroutine_function() -> None:
    """The same for asyncio."""
    shop = AsyncShop()
    assert inspect.iscoroutinefunction(shop.refund)
    assert list(inspect.signature(shop.refund).parameters) == ["order_id", "amount"]


def test_a_framework_decorator_above() -> None:
    """A decorator that reads signature and annotations, and calls what it wraps, works on an effect."""
    effect: Any = a_gate().effect(target=order, premises=[block_unless(~order.refunded)])(documented)
    tool: Any = pydantic.validate_call(effect)
    assert tool("o-1", amount="2.50", reason="broken") == "2.50 because broken"
    with pytest.raises(pydantic.ValidationError):
        tool("o-2", amount="many")
    schema = pydantic.TypeAdapter[Any](effect).json_schema()
    assert set(schema["properties"]) == {"order_id", "amount", "reason"}


def test_the_annotation_of_permit_is_the_checkers() -> None:
    """A permit's type may be imported for checkers only: its argument is never stored."""
    gate, account = Gate(Desk(accounts={"a": {"open": True}})), resource("accounts", arg.name)

    @gate.effect(target=account, premises=[block_unless(account.open)])
    def close(permit: OnlyForCheckers, name: str) -> str:
        permit.put("accounts", name, open=False)
        return "closed"

    assert close("a") == "closed"
    assert gate.pending() == []


def test_an_annotation_that_does_not_resolve() -> None:
    """An argument whose type cannot be found is told at the first call, with its effect's name."""
    gate = a_gate()

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the point

    with pytest.raises(DeclarationError, match=r"refund\(\) has an annotation that does not resolve"):
        refund("o-1")


# --- Arguments --------------------------------------------------------------------------------------------------------


def test_arguments_are_bound_by_name() -> None:
    """However a call is spelt, the intent stores its arguments by name, with the defaults of that day."""
    shop = Shop()
    tx = shop.gate.transaction()
    ways = [
        shop.refund.options(key="k").propose("o-1", 80),
        shop.refund.options(key="k").propose("o-1", amount=80),
        shop.refund.options(key="k").propose(amount=80, order_id="o-1"),
        tx.propose(shop.refund.options(key="k"), "o-1", amount=80),
    ]
    assert len(set(ways)) == 1
    effect = a_gate().effect(target=order, premises=[block_unless(~order.refunded)])(documented)
    assert effect("o-1") == "1.50 because none"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), (("o-1",), {}), (("o-1", 80, 1), {}), (("o-1",), {"amont": 80}), (("o-1", 80), {"amount": 80})],
    ids=["none", "one", "three", "misspelt", "twice"],
)
def test_calls_that_do_not_fit(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A call that does not fit the signature is a TypeError, as of any function, and stores nothing."""
    shop = Shop()
    for call in (shop.refund, shop.refund.propose):
        with pytest.raises(TypeError):
            call(*args, **kwargs)
    assert shop.gate.pending() == []


@pytest.mark.parametrize(
    "amount", ["80", 80.0, True, None, Decimal(80), [80], b"80", 10**38], ids=lambda value: f"{value!r}"[:12]
)
def test_arguments_are_decoded_strictly(amount: Any) -> None:
    """An argument that is not of its annotation is refused: no text becomes a number, no bool, no float."""
    shop = Shop()
    with pytest.raises(CanonicalError, match="amount"):
        shop.refund.propose("o-1", amount=amount)
    with pytest.raises(CanonicalError, match="amount"):
        shop.refund("o-1", amount=amount)
    assert (shop.gate.pending(), shop.ran) == ([], [])


def test_arguments_arrive_as_annotated() -> None:
    """Stored and brought back, in this process or another, each argument is of its annotation again."""
    got: list[Any] = []
    store, world = MemoryStore(), Memory(**shop_rows())

    def refund(
        permit: MemoryPermit, order_id: str, when: dt.datetime, price: Decimal, receipt: Receipt, colours: list[Colour]
    ) -> None:
        got.append((when, price, receipt, colours))
        permit.change("orders", order_id, refunded=True)

    given = (dt.datetime(2026, 3, 1, tzinfo=dt.UTC), Decimal("1.50"), Receipt(7), [Colour.RED])
    intents = []
    for name in ("o-1", "o-2"):
        gate = Gate(world, store=store)
        effect = gate.effect(target=order, premises=[block_unless(~order.refunded)])(refund)
        intents.append(effect.propose(name, *given))
    gate(intents[1])
    restarted = Gate(world, store=store.reopened())
    restarted.effect(target=order, premises=[block_unless(~order.refunded)])(refund)
    restarted(intents[0])
    assert got == [given, given]


def test_arguments_are_stored_deeply_frozen() -> None:
    """What a caller changes in an argument after proposing reaches neither record nor body."""
    got: list[Any] = []
    gate = a_gate()

    @gate.effect(target=order, premises=[block_unless(count(arg.lines) == 1)])
    def refund(permit: MemoryPermit, order_id: str, lines: list[dict[str, int]]) -> None:
        got.append(lines)
        lines.append({"price": 3})
        permit.change("orders", order_id, refunded=True)

    lines = [{"price": 1}]
    intent = refund.propose("o-1", lines)
    lines[0]["price"] = 2
    lines.append({"price": 9})
    assert gate(intent).committed
    assert got == [[{"price": 1}, {"price": 3}]]


# --- One-shot calls ---------------------------------------------------------------------------------------------------


@SEPARATE
def test_one_shot_validates_once(separate: bool) -> None:
    """`refund(...)` records its premises unproven and judges each of them once, at the gate."""
    shop = Shop(separate=separate)
    with events(shop.gate) as found:
        assert shop.refund("o-1", amount=80) == "refunded o-1"
    assert checked(found) == [DELIVERED, DEFECT, NOT_REFUNDED, LIMIT]
    assert len([event for event in found if isinstance(event, LookTaken)]) == 1
    (proposed,) = [event for event in found if isinstance(event, IntentProposed)]
    assert proposed.unproven == (DELIVERED, DEFECT, NOT_REFUNDED, LIMIT)
    kinds = [entry.kind for entry in shop.store.journal(proposed.intent_id)]
    assert kinds == (["PROPOSED", "ATTEMPT", "COMMITTED"] if separate else ["PROPOSED", "COMMITTED"])


@pytest.mark.parametrize(("change", "stop"), [({"refunded": True}, EffectBlocked), ({"defect": False}, ReplanRequired)])
def test_one_shot_raises_its_stop(change: dict[str, bool], stop: type[EffectStopped]) -> None:
    """A one-shot call raises the stop, with its verdict, and leaves no intent that a sweep could release later."""
    shop = Shop()
    shop.world.change("orders", "o-1", **change)
    with pytest.raises(stop) as raised:
        shop.refund("o-1", amount=80)
    verdict = raised.value.verdict
    assert (verdict.applied, verdict.committed) == (Applied.NOT_ATTEMPTED, False)
    assert raised.value.retryable is False
    assert raised.value.model_text == str(raised.value)
    assert (shop.gate.pending(), shop.ran) == ([], [])
    shop.world.change("orders", "o-1", refunded=False, defect=True)
    assert verdict.intent is not None
    assert shop.gate(verdict.intent).applied is Applied.NOT_ATTEMPTED, "it was withdrawn"
    assert shop.ran == []


def test_one_shot_contended() -> None:
    """A one-shot call that finds its row held is safe to repeat, and says so."""
    shop = Shop()
    with shop.world.lock("orders", "o-1"), pytest.raises(EffectContended) as raised:
        shop.refund("o-1", amount=80)
    assert raised.value.retryable is True
    assert "safe to try again" in raised.value.model_text
    assert shop.gate.pending() == []
    assert shop.refund("o-1", amount=80) == "refunded o-1"


def test_one_shot_async() -> None:
    """The same for asyncio."""

    async def main() -> None:
        shop = AsyncShop()
        assert await shop.refund("o-1", amount=80) == "refunded o-1"
        with pytest.raises(EffectBlocked, match="already refunded"):
            await shop.refund("o-1", amount=80)
        assert await shop.gate.pending() == []

    asyncio.run(main())


def test_one_shot_finds_unchanged_what_it_finds() -> None:
    """A one-shot call has no earlier look, so `unchanged` holds it to nothing."""
    assert declare(block_unless(unchanged(order.customer_name)))("o-1") == "refunded"


# --- Options ----------------------------------------------------------------------------------------------------------


def test_call_key_names_the_intent() -> None:
    """An intent's id is a function of store, effect and call key; without a key a repeat is a new action."""
    shop = Shop()
    key = shop.refund.options(key="call-1")
    first = key.propose("o-1", amount=80)
    assert key.propose("o-1", amount=80) == shop.again().refund.options(key="call-1").propose("o-1", amount=80) == first
    assert len(first.id) == 26
    others = [
        shop.refund.options(key="call-2").propose("o-1", amount=80),
        Shop(world=shop.world).refund.options(key="call-1").propose("o-1", amount=80),
        shop.refund.propose("o-1", amount=80),
        shop.refund.propose("o-1", amount=80),
    ]
    assert len({first, *others}) == 5
    same = shop.gate.effect(target=order, name="other", premises=shop_premises())(body)
    assert same.options(key="call-1").propose("o-1", amount=80) != first


def test_call_key_of_an_intent_that_blocked() -> None:
    """A repeated call whose intent is open is looked at anew, and can go out then."""
    shop = Shop()
    shop.world.change("policies", "refund", limit=50)
    call = shop.refund.options(key="call-1")
    with pytest.raises(EffectBlocked):
        call("o-1", amount=80)
    (pending,) = shop.gate.pending()
    shop.world.change("policies", "refund", limit=100)
    assert call("o-1", amount=80) == "refunded o-1"
    assert shop.gate(pending).committed
    assert shop.ran == [80]


@pytest.mark.parametrize("end", ["withdrawn", "expired", "superseded"])
def test_call_key_of_a_dead_intent(end: str) -> None:
    """A call key whose intent has ended without effect is used up, and names the state."""
    shop = Shop()
    call = shop.refund.options(key="call-1", expires=MINUTE)
    intent = call.propose("o-1", amount=80)
    if end == "withdrawn":
        shop.gate.withdraw(intent)
    elif end == "expired":
        shop.clock.advance(MINUTE)
        shop.gate(intent)
    else:
        shop.refund.options(supersedes=intent).propose("o-1", amount=70)
    for repeat in (call, call.propose):
        with pytest.raises(KeyReused, match=f"which is {end}: a new action needs a new key"):
            repeat("o-1", amount=80)
    assert shop.ran == []


@pytest.mark.parametrize("key", ["", 7, b"k", ("a", "b")])
def test_a_call_key_is_text(key: Any) -> None:
    """A call key is a text that is not empty."""
    with pytest.raises(DeclarationError, match="give a non-empty text"):
        Shop().refund.options(key=key)


@pytest.mark.parametrize("span", [dt.timedelta(0), dt.timedelta(seconds=-1)])
def test_expiry_lies_in_the_future(span: dt.timedelta) -> None:
    """An intent that has expired before it is proposed is none."""
    with pytest.raises(DeclarationError, match="in the future"):
        Shop().refund.options(expires=span)


@SEPARATE
def test_expiry(separate: bool) -> None:
    """An expired intent blocks by that name, reads nothing, and stays so whatever the clock does then."""
    shop = Shop(separate=separate)
    intent = shop.refund.options(expires=MINUTE).propose("o-1", amount=80)
    shop.clock.advance(MINUTE - dt.timedelta(microseconds=1))
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    shop.clock.advance(dt.timedelta(microseconds=1))
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.applied, verdict.state) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED, State.EXPIRED)
    assert "expired" in verdict.explain()
    assert [event for event in found if isinstance(event, LookTaken)] == []
    shop.clock.advance(-2 * MINUTE)
    assert shop.gate(intent).state is State.EXPIRED
    assert (shop.gate.pending(), shop.ran) == ([], [])


def test_expiry_never_ends_an_attempt() -> None:
    """An intent that expires while its effect is under way is not called expired: its outcome comes first."""
    shop = Shop(separate=True)
    intent = shop.refund.options(expires=MINUTE).propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, after=_crash), pytest.raises(Crash):
        shop.gate(intent)
    shop.clock.advance(2 * MINUTE)
    assert shop.again().gate(intent).committed


def _crash(*_: object) -> Any:
    raise Crash


@SEPARATE
def test_expiry_between_look_and_attempt(separate: bool) -> None:
    """An attempt is opened by the store's own clock: an intent that expires after the look is not released."""
    shop = Shop(separate=separate)
    intent = shop.refund.options(expires=MINUTE).propose("o-1", amount=80)

    def late(_: object) -> None:
        shop.clock.advance(MINUTE)

    with failpoint(shop.gate, Transit if separate else Apply, before=late):
        verdict = shop.gate(intent)
    assert (verdict.committed, verdict.state, shop.ran) == (False, State.EXPIRED, [])
    kinds = [entry.kind for entry in shop.store.journal(intent.id)]
    assert kinds == (["PROPOSED", "EXPIRED"] if separate else ["PROPOSED", "VERDICT", "EXPIRED"])


def test_actor_is_a_trusted_root() -> None:
    """Who acts is said by the caller's options and stored, and no argument of a model's can stand for it."""
    world = Memory(**shop_rows(), clerks={"c-1": {"may": ["refund"]}})
    gate = Gate(world)
    clerk = resource("clerks", actor["user_id"])

    @gate.effect(target=order, premises=[block_unless(clerk.may.contains("refund"), "not yours to do")])
    def refund(permit: MemoryPermit, order_id: str, user_id: str = "c-1") -> None:
        permit.change("orders", order_id, refunded=True)

    with pytest.raises(EffectBlocked):
        refund("o-1", user_id="c-1")
    with pytest.raises(EffectBlocked):
        refund.options(actor={"user_id": "c-2"}).propose("o-1", user_id="c-1")
    given = {"user_id": "c-1"}
    intent = refund.options(actor=given).propose("o-1")
    given["user_id"] = "c-2"
    assert gate(intent).committed


def test_options_add_up() -> None:
    """Options chain, each keeping those before it, and leave the effect that they were asked of alone."""
    shop = Shop()
    call = shop.refund.options(key="call-1").options(expires=MINUTE)
    intent = call.propose("o-1", amount=80)
    assert shop.refund.options(key="call-1").propose("o-1", amount=80) == intent
    shop.clock.advance(MINUTE)
    assert shop.gate(intent).state is State.EXPIRED
    assert shop.refund.propose("o-1", amount=80) != intent


@SEPARATE
def test_supersede(separate: bool) -> None:
    """A successor ends its predecessor in one step, on the same lane, and the old one says so."""
    shop = Shop(separate=separate)
    old = shop.refund.propose("o-1", amount=80)
    new = shop.refund.options(supersedes=old).propose("o-1", amount=70)
    verdict = shop.gate(old)
    assert (verdict.outcome, verdict.applied, verdict.state) == (
        Outcome.BLOCK,
        Applied.NOT_ATTEMPTED,
        State.SUPERSEDED,
    )
    assert "superseded" in verdict.explain()
    assert shop.gate.pending() == [new]
    assert shop.gate(new).committed
    assert shop.ran == [70]


def test_supersede_what_cannot_be() -> None:
    """Only an open intent on the same target is superseded, and a successor that is untrue supersedes nothing."""
    shop = Shop()
    old, elsewhere, done = (shop.refund.propose(name, amount=80) for name in ("o-1", "o-2", "o-2"))
    assert shop.gate(done).committed
    with pytest.raises(DeclarationError, match="acts on another target"):
        shop.refund.options(supersedes=elsewhere).propose("o-1", amount=70)
    with pytest.raises(EffectStopped, match="committed already"):
        shop.refund.options(supersedes=done).propose("o-1", amount=70)
    with pytest.raises(UnknownIntent):
        shop.refund.options(supersedes=Intent("nobody", "refund")).propose("o-1", amount=70)
    with pytest.raises(EffectBlocked):
        shop.refund.options(supersedes=old).propose("o-1", amount=700)
    assert set(shop.gate.pending()) == {old, elsewhere}


def test_supersede_or_withdraw_an_open_attempt() -> None:
    """While an effect may be under way its intent can be neither withdrawn nor superseded; once closed, it can."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, before=_crash), pytest.raises(Crash):
        shop.gate(intent)
    other = shop.again()
    with pytest.raises(InFlight, match="has an open attempt"):
        other.gate.withdraw(intent)
    with pytest.raises(InFlight, match="cannot be superseded"):
        other.refund.options(supersedes=intent).propose("o-1", amount=70)
    shop.clock.advance(dt.timedelta(seconds=31))
    new = other.refund.options(supersedes=intent).propose("o-1", amount=70)
    assert other.gate(intent).state is State.SUPERSEDED
    assert other.gate(new).committed
    assert shop.ran == [70]


def test_withdraw() -> None:
    """A withdrawn intent is never released; withdrawing twice is no error, and nothing that has committed is undone."""
    shop = Shop()
    intent, done = shop.refund.propose("o-1", amount=80), shop.refund.propose("o-2", amount=80)
    shop.gate.withdraw(intent)
    shop.gate.withdraw(intent)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.applied, verdict.state) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED, State.WITHDRAWN)
    assert "withdrawn" in verdict.explain()
    with pytest.raises(EffectBlocked, match="withdrawn"):
        verdict.result()
    assert shop.gate(done).committed
    with pytest.raises(EffectStopped, match="committed already"):
        shop.gate.withdraw(done)
    assert shop.gate.affected(Change("orders", "o-1")) == []


# --- Handles ----------------------------------------------------------------------------------------------------------


def test_intents_are_handles() -> None:
    """An intent is its id and its effect's name: found again by either, here and after a restart."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    later = shop.again(shop.store.reopened())
    for gate, refund in ((shop.gate, shop.refund), (later.gate, later.refund)):
        assert gate.intent(intent.id) == refund.intent(intent.id) == intent
        assert gate.pending() == [intent]
        assert (intent.effect, gate.intent(intent.id).effect) == ("refund", "refund")
        with pytest.raises(UnknownIntent):
            gate.intent("nobody")
    other = shop.gate.effect(target=order, name="other", premises=shop_premises())(body)
    with pytest.raises(UnknownIntent, match="of effect 'other'"):
        other.intent(intent.id)
    assert later.gate(intent).committed
    assert isinstance(UnknownIntent("x"), LookupError)


def test_intents_of_another_gate() -> None:
    """A gate releases nothing that its own store does not hold."""
    shop, other = Shop(), Shop()
    intent = other.refund.propose("o-1", amount=80)
    for call in (shop.gate, shop.gate.preview, shop.gate.withdraw):
        with pytest.raises(UnknownIntent, match="in this gate's store"):
            call(intent)


def test_worker_without_the_module() -> None:
    """A worker that lacks an effect's module is told so, and leaves the intent alone."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    worker = Gate(shop.world, store=shop.store)
    for call in (worker, worker.preview):
        with pytest.raises(LookupError) as raised:
            call(intent)
        assert str(raised.value) == (
            f"intent {intent.id} is for effect 'refund', which is not declared in this process: "
            "import the module that declares it"
        )
    assert isinstance(raised.value, UnknownEffect)
    assert shop.gate(intent).committed


@pytest.mark.parametrize("wrong", ["id", None, 7, object(), {"id": "x"}])
def test_a_gate_takes_an_intent(wrong: Any) -> None:
    """A gate takes a handle, and neither an id nor a record."""
    gate = Shop().gate
    for call in (gate, gate.preview, gate.withdraw):
        with pytest.raises(TypeError, match=r"a gate takes an intent, not .*: propose one, or find it by gate\.intent"):
            call(wrong)


# --- Refused proposals ------------------------------------------------------------------------------------------------


def test_false_already() -> None:
    """A premise that is false already is refused with its reason, that it was so already, an event, and no record."""
    shop = Shop()
    shop.world.change("policies", "refund", limit=50)
    with events(shop.gate) as found, pytest.raises(EffectBlocked) as raised:
        shop.refund.propose("o-1", amount=80)
    assert str(raised.value) == ("BLOCK refund: over the refund limit (already so when proposed: nothing was stored)")
    assert found == [ProposalRefused("refund", Outcome.BLOCK, (LIMIT,))]
    assert raised.value.verdict.intent is None
    assert raised.value.verdict.state is None
    assert shop.gate.pending() == []


@pytest.mark.parametrize("how", ["unreadable", "no row", "unlike kind", "key of no row"])
def test_unverifiable_already(how: str) -> None:
    """What cannot be verified when it is proposed is refused like what is false."""
    shop = Shop(premises=[block_unless(resource("policies", order.region).limit >= 1)])
    shop.world.change("orders", "o-1", region="refund" if how != "key of no row" else None)
    if how == "no row":
        shop.world.delete("policies", "refund")
    if how == "unlike kind":
        shop.world.change("policies", "refund", limit="100")
    if how == "unreadable":
        with shop.world.unreadable("policies"), pytest.raises(EffectBlocked):
            shop.refund.propose("o-1", amount=80)
    else:
        with pytest.raises(EffectBlocked):
            shop.refund.propose("o-1", amount=80)
    assert shop.gate.pending() == []


def test_a_target_that_cannot_be_named() -> None:
    """An effect whose target has no key in the evidence is not stored at all."""
    gate = a_gate()
    elsewhere = resource("orders", order.replacement)

    @gate.effect(target=elsewhere, premises=[replan_unless(order.delivered)])
    def replace(permit: MemoryPermit, order_id: str) -> None:
        permit.no_write()

    for call in (replace, replace.propose, lambda name: gate.transaction().propose(replace, name)):
        with pytest.raises(EffectBlocked, match="cannot be named"):
            call("o-1")
    assert gate.pending() == []


# --- Transactions -----------------------------------------------------------------------------------------------------


def test_transaction_reads() -> None:
    """A transaction reads rows, fields and whole kinds, frozen, with arguments in their keys."""
    shop = Shop()
    tx = shop.gate.transaction()
    row = tx.read(order, order_id="o-1")
    assert row["delivered"] is True
    assert tx.read(policy.limit).value == 100
    assert len(tx.read(rows("orders")).value) == 2
    assert tx.read(resource("orders", "nobody")).value is None
    with pytest.raises(TypeError):
        row.value["delivered"] = False
    with pytest.raises(DeclarationError, match="read a resource, one of its fields"):
        tx.read(policy.limit + 1)
    with pytest.raises(DeclarationError, match=r"give it what transaction\.read returned"):
        tx.decide("x", rests_on=[row.value])


def test_transaction_read_fails() -> None:
    """What cannot be read is no evidence."""
    shop = Shop()
    with shop.world.unreadable("policies"), pytest.raises(lastlook.errors.LastlookError, match="could not be read"):
        shop.gate.transaction().read(policy)


def test_transaction_by_its_id() -> None:
    """A named transaction is found again at its gate, with what was read and decided in it."""
    shop = Shop()
    tx = shop.gate.transaction("turn-1")
    tx.decide("it rains", rests_on=[tx.read(resource("weather", "uk"))])
    again = shop.gate.transaction("turn-1")
    assert again is tx
    assert shop.gate.transaction("turn-2") is not tx
    unnamed = shop.gate.transaction()
    assert shop.gate.transaction(unnamed.id) is unnamed
    intent = again.propose(shop.refund, "o-1", amount=80)
    shop.world.change("weather", "uk", rain=False)
    assert shop.gate(intent).outcome is Outcome.REPLAN


@pytest.mark.parametrize("named", ["premise", "refresh"])
def test_what_is_named_is_no_conservative_edge(named: str) -> None:
    """A read that a premise or refresh rule names is judged by that, although a decision rests on it."""
    shop = Shop()
    tx = shop.gate.transaction()
    what = policy.limit if named == "premise" else order.customer_name
    tx.decide("so", rests_on=[tx.read(what, order_id="o-1") if named == "refresh" else tx.read(what)])
    intent = tx.propose(shop.refund, "o-1", amount=80)
    if named == "premise":
        shop.world.change("policies", "refund", limit=90)
    else:
        shop.world.change("orders", "o-1", customer_name="reader 8")
    assert shop.gate(intent).outcome is (Outcome.KEEP if named == "premise" else Outcome.REFRESH)


def test_whole_row_as_an_edge() -> None:
    """A decision that rests on a whole row rests on each of its fields that no premise names."""
    shop = Shop()
    for field, outcome in (("defect", Outcome.KEEP), ("colour", Outcome.REPLAN)):
        shop.world.change("orders", "o-1", colour="red")
        tx = shop.gate.transaction()
        tx.decide("so", rests_on=[tx.read(order, order_id="o-1")])
        intent = tx.propose(shop.refund, "o-1", amount=80)
        shop.world.change("orders", "o-1", **{field: "green" if field == "colour" else True})
        assert shop.gate.preview(intent).outcome is outcome


def test_agents_read_is_compared_with_the_proposal() -> None:
    """What the agent read otherwise than it was when the intent was proposed is recorded as a difference."""
    shop = Shop()
    tx = shop.gate.transaction()
    tx.read(policy.limit)
    shop.world.change("policies", "refund", limit=90)
    intent = tx.propose(shop.refund, "o-1", amount=80)
    record = decode(shop.store.journal(intent.id)[0].body)
    assert record["differences"] == ("policies/refund.limit",)  # type: ignore[index,call-overload]


def test_async_transaction() -> None:
    """The same for asyncio."""

    async def main() -> None:
        shop = AsyncShop()
        tx = shop.gate.transaction()
        tx.decide("it rains", rests_on=[await tx.read(resource("weather", "uk").rain)])
        intent = await tx.propose(shop.refund, "o-1", amount=80)
        shop.world.change("weather", "uk", rain=False)
        assert [p.outcome for p in await shop.gate.affected(Change("weather", "uk"))] == [Outcome.REPLAN]
        assert (await shop.gate.preview(intent)).outcome is Outcome.REPLAN
        verdict = await shop.gate(intent)
        assert (verdict.outcome, verdict.committed) == (Outcome.REPLAN, False)
        await shop.gate.withdraw(intent)
        assert (await shop.gate(intent)).state is State.WITHDRAWN
        assert await shop.gate.intent(intent.id) == await shop.refund.intent(intent.id) == intent

    asyncio.run(main())


# --- Logic, through the gate ------------------------------------------------------------------------------------------


def judged(condition: Any, row: dict[str, Any], **kinds: Any) -> list[bool | None]:
    """What the gate finds of one condition over an order; nothing where it holds."""
    gate = Gate(Memory(orders={"o-1": row}, **kinds))
    effect = declare(block_unless(condition), gate=gate)
    return [finding.holds for finding in gate.preview(gate.transaction().propose(effect, "o-1", amount=80)).findings]


@pytest.mark.parametrize(
    ("condition", "row", "found"),
    [
        (~(order.a & order.b), {"a": True}, [None]),
        (~(order.a & order.b), {"a": False}, []),
        (order.a | order.b, {"a": True}, []),
        (order.a | order.b, {"a": False}, [None]),
        (order.a & order.b, {"a": False}, [False]),
        (every(order.lines, each.x == 1), {"lines": [{"x": 1}, {}]}, [None]),
        (every(order.lines, each.x == 1), {"lines": [{"x": 2}, {}]}, [False]),
        (every(order.lines, each.x == 1), {"lines": []}, []),
        (none(order.lines, each.x == 1), {"lines": [{"x": 2}, {}]}, []),
        (none(order.lines, each.x == 1), {"lines": [{"x": "1"}]}, [None]),
        (count(order.lines.where(each.x == 1)) == 1, {"lines": [{"x": 1}, {}]}, []),
        (count(order.lines.where(each.x == 1)) == 1, {"lines": [{"x": 1}, {"x": "1"}]}, [None]),
        (exists(order.a), {"a": None}, []),
        (exists(order.a), {}, [False]),
        (~exists(order.a), {}, []),
        (holds(order.a == 3), {}, [False]),
        (~holds(order.a == 3), {}, []),
        (~holds(order.a == 3), {"a": "3"}, []),
        (order.a.all_in(["x", "x", "y"]), {"a": ["x", "x"]}, []),
        (order.a.all_in(["x", "y"]), {"a": ["x", "x"]}, [False]),
        (order.a.in_(["x"]), {"a": "x"}, []),
        (order.a.contains("x"), {"a": "axb"}, [None]),
        (
            order.total - total(order.lines, "price") == Decimal("0.30"),
            {"total": 1, "lines": [{"price": Decimal("0.7")}]},
            [],
        ),
        (largest(0, order.a) == 0, {"a": -1}, []),
        (lookup(order.fees, arg.order_id, "fast") == 3, {"fees": {"o-1": {"fast": 3}}}, []),
        (lookup(order.fees, arg.order_id, "fast") == 3, {"fees": {}}, [None]),
        (order.meta["city"] == "York", {"meta": {"city": "York"}}, []),
        (order.lines[1] == "b", {"lines": ["a", "b"]}, []),
        (order.a == 9, {"a": Decimal("9.0")}, []),
    ],
)
def test_three_valued_logic(condition: Any, row: dict[str, Any], found: list[bool | None]) -> None:
    """True, false and unverifiable come out of the gate as Kleene's logic has them."""
    assert judged(condition, row) == found


def test_absence_needs_a_successful_read() -> None:
    """A system that cannot be read says nothing of what is there: neither `exists` nor its opposite holds."""
    for condition in (exists(policy), ~exists(policy), exists(policy.limit), ~exists(policy.limit)):
        shop = Shop(premises=[block_unless(condition)])
        intent = shop.gate.transaction().propose(shop.refund, "o-1", amount=80)
        with shop.world.unreadable("policies"):
            assert [finding.holds for finding in shop.gate(intent).findings] == [None]


def test_unchanged_captures_when_proposed() -> None:
    """`unchanged` holds the world to what stood there when the effect was proposed, and to nothing else."""
    shop = Shop(premises=[block_unless(unchanged(order.lines))])
    shop.world.change("orders", "o-1", lines=[{"price": 1}])
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", lines=[{"price": 2}])
    assert shop.gate(intent).outcome is Outcome.BLOCK
    shop.world.drop("orders", "o-1", "lines")
    assert [finding.holds for finding in shop.gate(intent).findings] == [None]
    shop.world.change("orders", "o-1", lines=[{"price": Decimal("1.0")}])
    later = shop.again(shop.store.reopened())
    assert later.gate(intent).committed


def _attempts(made: list[Attempt]) -> Callable[[Any], None]:
    return lambda at: made.append(at.attempt)


def test_deadlines_under_or_and_and() -> None:
    """Under `|` the latest deadline of the branches that are true counts, under `&` the earliest."""
    clock = FakeClock()
    soon, late = clock.now() + MINUTE, clock.now() + 2 * MINUTE
    cases = [
        (before(order.soon) & before(order.late), soon),
        (before(order.soon) | before(order.late), late),
        (before(order.soon) | (before(order.late) & order.no), soon),
        (before(order.soon) | order.yes, None),
    ]
    for condition, ends in cases:
        shop = Shop(clock=clock, premises=[block_unless(condition)])
        shop.world.change("orders", "o-1", soon=soon, late=late, no=False, yes=True)
        made: list[Attempt] = []
        intent = shop.refund.propose("o-1", amount=80)
        with failpoint(shop.gate, Apply, before=_attempts(made)):
            assert shop.gate(intent).committed
        assert made[0].not_after == (None if ends is None else ends - dt.timedelta(microseconds=1))


# --- Derived keys -----------------------------------------------------------------------------------------------------


def region_shop(**options: Any) -> Shop:
    """A shop whose limit is that of the order's region."""
    world = Memory(
        orders={"o-1": {"region": "uk", "refunded": False, "customer_name": ""}},
        policies={"uk": {"limit": 100}, "fr": {"limit": 100}},
    )
    limit = resource("policies", order.region).limit
    return Shop(world=world, premises=[block_unless(arg.amount <= limit), block_unless(~order.refunded)], **options)


REGION = "arg.amount <= policies[orders[arg.order_id].region].limit"


@SEPARATE
def test_derived_key_unchanged(separate: bool) -> None:
    """A premise whose key comes from evidence is skipped like any other while every stage stands as it was."""
    shop = region_shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "fr", limit=1)
    shop.world.change("orders", "o-1", colour="red")
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, checked(found)) == (Outcome.KEEP, True, [])


@pytest.mark.parametrize("limit", [100, 50])
def test_derived_key_moves(limit: int) -> None:
    """Where an earlier stage moved, the premise runs on the row that it names now."""
    shop = region_shop()
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "fr", limit=limit)
    shop.world.change("orders", "o-1", region="fr")
    verdict = shop.gate(intent)
    assert verdict.checked == (REGION,)
    assert verdict.outcome is (Outcome.KEEP if limit == 100 else Outcome.BLOCK)


@SEPARATE
@pytest.mark.parametrize("moved", [False, True])
def test_derived_evidence_is_bound(separate: bool, moved: bool) -> None:
    """The row that a key newly reaches is bound too: what happens to it after the look is caught."""
    shop = region_shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    name = "fr" if moved else "uk"
    shop.world.change("orders", "o-1", region=name)
    with interpose(shop.gate, lambda: shop.world.change("policies", name, limit=50)):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, shop.ran) == (Outcome.BLOCK, False, [])


def test_derived_key_of_no_row() -> None:
    """A key that has become null or of an unlike kind leaves its premise unverifiable."""
    for region in (None, True, ["uk"], "\u202euk"):
        shop = region_shop()
        intent = shop.refund.propose("o-1", amount=80)
        shop.world.change("orders", "o-1", region=region)
        verdict = shop.gate(intent)
        assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])


# --- Capture ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capture", "colour", "defect"),
    [
        (Capture.PREDICATE, 0, 1),
        (Capture.FIELD, 0, 4),
        (Capture.OBJECT, 4, 4),
    ],
)
def test_granularity(capture: Capture, colour: int, defect: int) -> None:
    """A coarser capture runs more premises on a change, never fewer, and never another outcome."""
    for field, ran in (("colour", colour), ("defect", defect)):
        shop = Shop(capture=capture)
        intent = shop.refund.propose("o-1", amount=80)
        shop.world.change("orders", "o-1", **{field: 1 if field == "colour" else False})
        verdict = shop.gate.preview(intent)
        assert len(verdict.checked) == ran
        assert verdict.outcome is (Outcome.KEEP if field == "colour" else Outcome.REPLAN)
    assert DEFECT in verdict.checked


# --- Grades -----------------------------------------------------------------------------------------------------------


def recorded_shop(*, separate: bool) -> tuple[Shop, Memory]:
    """A shop whose approvals live with the store."""
    owned = Memory(approvals={"o-1": {"granted": True, "note": ""}})
    granted = resource("approvals", arg.order_id).granted
    shop = Shop(
        separate=separate,
        store=MemoryStore(evidence=owned),
        premises=[block_unless(granted, "not approved"), block_unless(~order.refunded)],
    )
    return shop, owned


@SEPARATE
def test_recorded_evidence(separate: bool) -> None:
    """Evidence that the store owns suffices for a premise that blocks, and is graded as what it is."""
    shop, owned = recorded_shop(separate=separate)
    assert shop.refund.contract.bindings() == {
        "approvals[arg.order_id].granted": Grade.RECORDED,
        NOT_REFUNDED: Grade.BOUND,
    }
    intent = shop.refund.propose("o-1", amount=80)
    owned.change("approvals", "o-1", granted=False)
    assert shop.gate(intent).outcome is Outcome.BLOCK
    owned.change("approvals", "o-1", granted=True)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.KEEP, True)
    assert verdict.bindings["approvals[arg.order_id].granted"] is Grade.RECORDED
    assert "recorded: approvals" in verdict.explain()


@SEPARATE
@pytest.mark.parametrize("harmful", [True, False])
def test_recorded_evidence_is_checked_with_the_attempt(separate: bool, harmful: bool) -> None:
    """What the store owns is compared where the attempt is recorded: a revocation after the look stops the effect."""
    shop, owned = recorded_shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    moved = iter([True])

    def revoke(_: object) -> None:
        if next(moved, False):
            owned.change("approvals", "o-1", **({"granted": False} if harmful else {"note": "seen"}))

    with failpoint(shop.gate, Transit if separate else Apply, before=revoke):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == ((Outcome.BLOCK, False) if harmful else (Outcome.KEEP, True))
    row = shop.world.row("orders", "o-1")
    assert row is not None
    assert row["refunded"] is not harmful


def test_recorded_after_the_attempt() -> None:
    """A revocation after the attempt was opened comes too late, and the record tells which came first."""
    shop, owned = recorded_shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, before=lambda _: owned.change("approvals", "o-1", granted=False)):
        assert shop.gate(intent).committed


@SEPARATE
def test_unbound_evidence_on_another_system(separate: bool) -> None:
    """A REPLAN premise on what the target cannot check is looked at, named as unbound, and no obstacle otherwise."""
    shelf = Shelf(weather={"uk": {"rain": True}})
    shop = Shop(
        separate=separate,
        world=Memory(orders=shop_rows()["orders"]),
        others=(shelf,),
        premises=[replan_unless(resource("weather", "uk").rain), block_unless(~order.refunded)],
    )
    intent = shop.refund.propose("o-1", amount=80)
    shelf.put("weather", "uk", {"rain": False})
    assert shop.gate(intent).outcome is Outcome.REPLAN
    shelf.put("weather", "uk", {"rain": True})
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, checked(found)) == (Outcome.KEEP, True, [])
    assert "unbound: weather['uk'].rain" in verdict.explain()


@SEPARATE
def test_conservative_edge_on_another_system(separate: bool) -> None:
    """A decision may rest on what the target cannot check: compared by the gate, and no obstacle while it stands."""
    shelf = Shelf(weather={"uk": {"rain": True}})
    world = Memory(**{kind: shop_rows()[kind] for kind in ("orders", "policies")})
    shop = Shop(separate=separate, world=world, others=(shelf,))
    tx = shop.gate.transaction()
    tx.decide("so", rests_on=[tx.read(resource("weather", "uk"))])
    intent = tx.propose(shop.refund, "o-1", amount=80)
    shelf.put("weather", "uk", {"rain": False})
    assert shop.gate(intent).outcome is Outcome.REPLAN
    shelf.put("weather", "uk", {"rain": True})
    assert shop.gate(intent).committed


# --- Contracts over time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_same_contract_after_a_restart(restarted: bool) -> None:
    """A deployment that changes nothing skips what was proven as before: digests are compared, not objects."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    later = shop.again(shop.store.reopened() if restarted else None)
    with events(later.gate) as found:
        verdict = later.gate(intent)
    assert (verdict.outcome, verdict.committed, checked(found)) == (Outcome.KEEP, True, [])


def test_drift_names_the_difference() -> None:
    """A premise that today's contract adds is not known to have held, so it runs; the recorded ones are skipped."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    later = shop.again(premises=[*shop_premises(), block_unless(arg.amount > 0)])
    with events(later.gate) as found:
        assert later.gate(intent).outcome is Outcome.KEEP
    assert checked(found) == ["arg.amount > 0"]


def test_drift_raises_a_severity() -> None:
    """A condition that blocks today blocks, although it was recorded to replan; the other way it still blocks."""
    for then, now in ((replan_unless, block_unless), (block_unless, replan_unless)):
        shop = Shop(premises=[then(order.defect)])
        intent = shop.refund.propose("o-1", amount=80)
        later = shop.again(premises=[now(order.defect)])
        shop.world.change("orders", "o-1", defect=False)
        assert later.gate(intent).outcome is Outcome.BLOCK


def test_drift_withdraws_an_acceptance() -> None:
    """An acceptance of less that today's contract no longer gives is not taken from the record."""
    desk, account = Desk(accounts={"a": {"open": True}}), resource("accounts", arg.name)
    desk.put("accounts", "a", {"open": True}, token=Token("weak", "desk", "1"))
    store = MemoryStore()

    def gate_with(*premises: Any) -> tuple[Gate, Any]:
        gate = Gate(desk, store=store)

        @gate.effect(target=account, premises=list(premises))
        def close(permit: DeskPermit, name: str) -> None:
            permit.put("accounts", name, open=False)

        return gate, close

    gate, close = gate_with(block_unless(account.open, accept=UNBOUND("the desk's tokens are weak")))
    intent = close.propose("a")
    assert gate.preview(intent).outcome is Outcome.KEEP
    for more in ([], [block_unless(arg.name != "")]):
        today, _ = gate_with(block_unless(account.open), *more)
        assert today.preview(intent).outcome is Outcome.BLOCK


def test_drift_of_the_target_kind() -> None:
    """A recorded premise on a kind that no system answers for any more is unverifiable, not a crash."""
    shop = Shop(premises=[block_unless(resource("weather", "uk").rain), block_unless(~order.refunded)])
    intent = shop.refund.propose("o-1", amount=80)
    smaller = Memory(orders=shop_rows()["orders"])
    later = shop.again(world=smaller, premises=[block_unless(~order.refunded)])
    verdict = later.gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.BLOCK, False)
    assert None in [finding.holds for finding in verdict.findings]


# --- Verdicts ---------------------------------------------------------------------------------------------------------


def test_explanations_show_only_what_is_public() -> None:
    """The expectation and booleans are always shown, another value only where it was declared public, or revealed."""
    shop = Shop(premises=[block_unless(arg.amount <= policy.limit), replan_unless(order.customer_name == "reader 7")])
    shop.world.options(public=["orders.customer_name"])
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "refund", limit=51)
    shop.world.change("orders", "o-1", customer_name="reader 8")
    verdict = shop.gate(intent)
    text = verdict.explain()
    assert "51" not in text
    assert "policies/refund.limit" in text
    assert "'reader 8'" in text
    assert "51" in verdict.explain(reveal=True)
    assert "51" not in shop.again().gate(intent).explain(), "what is not live was never stored"
    assert verdict.result is not None


def test_texts_name_the_resolved_resource() -> None:
    """A model reads which row it is about, and what must be so, not how it was declared."""
    shop = Shop(premises=[block_unless(~order.refunded)])
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", refunded=True)
    verdict = shop.gate(intent)
    with pytest.raises(EffectBlocked, match=r"orders/o-1\.refunded is True; must be false"):
        verdict.result()
    assert "orders/o-1.refunded is True; must be false" in verdict.explain()


def test_preview_authorises_nothing() -> None:
    """A preview has no result and no effect, and writes nothing."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    for _ in range(3):
        preview = shop.gate.preview(intent)
        assert preview.outcome is Outcome.KEEP
    assert not hasattr(preview, "applied")
    assert not hasattr(preview, "result")
    assert [entry.kind for entry in shop.store.journal(intent.id)] == ["PROPOSED"]
    assert shop.ran == []
    with pytest.raises(TypeError, match="a gate takes an intent"):
        shop.gate(preview)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["committed", "withdrawn"])
def test_preview_of_an_ended_intent(end: str) -> None:
    """A preview of an intent that has ended tells its record, and reads nothing."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    if end == "committed":
        shop.gate(intent)
    else:
        shop.gate.withdraw(intent)
    with events(shop.gate) as found:
        preview = shop.gate.preview(intent)
    assert preview.outcome is (Outcome.KEEP if end == "committed" else Outcome.BLOCK)
    assert found == []


@SEPARATE
def test_every_validation_is_recorded(separate: bool) -> None:
    """Each validation leaves its own record: outcome, changes, premises, evidence; and nothing is rewritten."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    before_ = list[Any]()
    for limit in (50, 40, 100):
        shop.world.change("policies", "refund", limit=limit)
        shop.gate(intent)
        entries = shop.store.journal(intent.id)
        assert list(entries[: len(before_)]) == before_, "a journal only grows"
        before_ = list(entries)
    kinds = [entry.kind for entry in before_]
    assert kinds == ["PROPOSED", "VERDICT", "VERDICT", *(["ATTEMPT"] if separate else []), "COMMITTED"]
    body_: Any = decode(before_[1].body)
    assert (body_["outcome"], body_["applied"], body_["changed"]) == (
        "BLOCK",
        "NOT_ATTEMPTED",
        ("policies/refund.limit",),
    )
    assert [premise["label"] for premise in body_["premises"]] == [LIMIT]
    assert {(kind, *key) for kind, key, _ in body_["evidence"]} == {("orders", "o-1"), ("policies", "refund")}
    assert all(decode(entry.body)["schema"] == 1 for entry in before_)  # type: ignore[index,call-overload]
    shop.store.verify(intent.id)


# --- Persons and sweeps -----------------------------------------------------------------------------------------------


def courier(clock: FakeClock) -> tuple[Gate, Any, list[Any]]:
    """An effect through a plain function, which raises what stands first in the list."""
    gate = Gate(Memory(orders={"o-1": {"open": True}, "o-2": {"open": True}}), clock=clock)
    does: list[Any] = []

    @gate.effect(
        target="courier",
        lane=(arg.order_id,),
        premises=[block_unless(resource("orders", arg.order_id).open, accept=UNBOUND("the courier checks nothing"))],
    )
    def send(permit: Any, order_id: str) -> str:
        if does:
            raise does.pop(0)
        return "sent"

    return gate, send, does


@pytest.mark.parametrize("committed", [True, False])
def test_assert_outcome(committed: bool) -> None:
    """A named person says what nobody else can; it is recorded as asserted, with the name and the note."""
    gate, send, does = courier(FakeClock())
    intent = send.propose("o-1")
    does[:] = [TimeoutError()]
    assert gate(intent).applied is Applied.UNKNOWN
    gate.assert_outcome(intent, committed=committed, by="the clerk", note="asked on the telephone")
    store: Any = gate._runtime().store
    entry = store.journal(intent.id)[-1]
    said: Any = decode(entry.body)
    assert (entry.kind, said["by"], said["note"], said["committed"]) == (
        "ASSERTED",
        "the clerk",
        "asked on the telephone",
        committed,
    )
    verdict = gate(intent)
    assert (verdict.committed, verdict.state) == (True, State.COMMITTED)
    assert verdict.result() == (None if committed else "sent")


def test_assert_outcome_where_nothing_is_unknown() -> None:
    """Nobody asserts what is open, has ended, or can be asked of the target."""
    gate, send, _ = courier(FakeClock())
    intent = send.propose("o-1")
    with pytest.raises(InFlight, match="only an open attempt's outcome"):
        gate.assert_outcome(intent, committed=True, by="the clerk", note="asked")
    assert gate(intent).committed
    with pytest.raises(InFlight, match="is committed"):
        gate.assert_outcome(intent, committed=False, by="the clerk", note="asked")
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, after=_crash), pytest.raises(Crash):
        shop.gate(intent)
    with pytest.raises(InFlight, match="asks the target"):
        shop.gate.assert_outcome(intent, committed=False, by="the clerk", note="asked")
    assert shop.gate(intent).committed


def test_reconcile() -> None:
    """A sweep resolves what dead gates left open, one verdict for each, and leaves the rest alone."""
    shop = Shop(separate=True)
    done, undone = shop.refund.propose("o-1", amount=80), shop.refund.propose("o-2", amount=70)
    untouched = shop.refund.propose("o-2", amount=60)
    for intent, point in ((done, "after"), (undone, "before")):
        with failpoint(shop.gate, Apply, **cast("Any", {point: _crash})), pytest.raises(Crash):
            shop.gate(intent)
    sweeper = shop.again(shop.store.reopened())
    assert [verdict.applied for verdict in sweeper.gate.reconcile()] == [Applied.IN_PROGRESS] * 2
    shop.clock.advance(dt.timedelta(seconds=31))
    found = {verdict.intent: verdict for verdict in sweeper.gate.reconcile()}
    assert {intent: verdict.applied for intent, verdict in found.items()} == {
        done: Applied.COMMITTED,
        undone: Applied.NOT_ATTEMPTED,
    }
    assert found[done].result() == "refunded o-1"
    assert sweeper.gate.reconcile() == []
    assert set(sweeper.gate.pending()) == {undone, untouched}
    assert shop.ran == [80]


def test_reconcile_an_older_store() -> None:
    """A commit that only the target knows of, because the store is older, is taken over and not made again."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    older = shop.store.reopened()
    assert shop.gate(intent).committed
    restored = shop.again(older)
    (verdict,) = restored.gate.reconcile()
    assert (verdict.intent, verdict.applied, verdict.result()) == (intent, Applied.COMMITTED, "refunded o-1")
    other = shop.again(older.reopened())
    assert other.gate(intent).committed
    assert shop.ran == [80]


def test_gate_on_an_older_store() -> None:
    """The gate itself asks the target at every look, so that an older store leads to no second effect and no BLOCK."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    restored = shop.again(shop.store.reopened())
    assert shop.gate(intent).committed
    verdict = restored.gate(intent)
    assert (verdict.applied, verdict.state, shop.ran) == (Applied.COMMITTED, State.COMMITTED, [80])


def test_reconcile_beside_what_this_process_does_not_know() -> None:
    """One intent that this process cannot resolve does not keep a sweep from the others."""
    shop = Shop(separate=True)
    foreign = shop.gate.effect(target=order, name="foreign", premises=[block_unless(~order.refunded)])(body)
    for intent in (foreign.propose("o-2"), shop.refund.propose("o-1", amount=80)):
        with failpoint(shop.gate, Apply, after=_crash), pytest.raises(Crash):
            shop.gate(intent)
    shop.clock.advance(dt.timedelta(seconds=31))
    found = shop.again(shop.store.reopened()).gate.reconcile()
    assert Applied.COMMITTED in [verdict.applied for verdict in found]


# --- Gates ------------------------------------------------------------------------------------------------------------


def test_connect_later() -> None:
    """A gate that is made at import is connected at start-up, and all declaration checks run there."""
    gate = Gate()
    effect = declare(*shop_premises(), gate=gate)
    for call in (effect, effect.propose):
        with pytest.raises(DeclarationError, match=r"has no systems yet: call gate\.connect"):
            call("o-1", amount=80)
    with pytest.raises(DeclarationError, match="without systems"):
        effect.contract.bindings()
    gate.connect(Memory(**shop_rows()))
    assert effect("o-1", amount=80) == "refunded"
    assert set(effect.contract.bindings()) == {DELIVERED, DEFECT, NOT_REFUNDED, LIMIT}
    with pytest.raises(DeclarationError, match="connected already"):
        gate.connect(Memory())
    with pytest.raises(DeclarationError, match="did you mean 'refunded'"):
        gate.effect(target=order, premises=[block_unless(~order.refundd)])(documented)


def test_connect_refuses_what_could_never_be_released() -> None:
    """Systems that cannot carry a declared effect are refused, and the gate stays without any."""
    gate = Gate()
    effect = declare(*shop_premises(), gate=gate)
    for wrong in (
        (Memory(orders={}),),
        (Memory(orders={}), Shelf(policies={})),
        (Memory(orders={}, policies={}), Shelf(policies={})),
    ):
        with pytest.raises(DeclarationError):
            gate.connect(*wrong)
    gate.connect(Memory(**shop_rows()))
    assert effect("o-1", amount=80) == "refunded"


def test_one_owner_for_each_kind() -> None:
    """Two systems for one kind are refused by both their names."""
    with pytest.raises(DeclarationError, match=r"two systems answer for 'orders'.*give each kind one owner"):
        Gate(Memory(orders={}), Shelf(orders={}))
    with pytest.raises(DeclarationError, match=r"two systems answer for 'orders'"):
        Gate(Memory(orders={}), store=MemoryStore(evidence=Memory(orders={})))


class Durable(Relay):
    """A relay that says it outlives the process."""

    @property
    def capabilities(self) -> Capabilities:
        """Durable."""
        return Capabilities(durable=True, rolls_back=True, closes=True, checks_absence=True, checks_collections=True)


def test_memory_store_beside_a_durable_system() -> None:
    """Intents that would be lost with the process are refused beside effects that would not, unless it is said."""
    with pytest.raises(DeclarationError, match="would live in memory and be lost with the process: give store="):
        Gate(Durable(Memory(**shop_rows())))
    gate = Gate(Durable(Memory(**shop_rows())), store=MemoryStore())
    assert declare(*shop_premises(), gate=gate)("o-1", amount=80) == "refunded"
    with pytest.raises(DeclarationError, match="store= got"):
        Gate(Memory(), store={})  # type: ignore[arg-type]


def test_override() -> None:
    """For a test other systems stand in, nothing is remembered before, in or after, and all is put back."""
    gate = a_gate()
    effect = declare(*shop_premises(), gate=gate)
    intent = effect.propose("o-1", amount=80)
    with gate.override(other := Memory(**shop_rows())):
        assert gate.pending() == []
        with pytest.raises(UnknownIntent):
            gate(intent)
        inner = effect.propose("o-1", amount=80)
        with gate.override(Memory(**shop_rows())):
            assert gate.pending() == []
            assert effect("o-1", amount=80) == "refunded"
        assert gate(inner).committed
        with pytest.raises(EffectBlocked):
            effect("o-1", amount=80)
        assert len(other.effects) == 1
    assert gate.pending() == [intent]
    assert gate(intent).committed


def test_override_of_a_gate_without_systems() -> None:
    """A gate that was never connected can be tested."""
    gate = Gate()
    effect = declare(*shop_premises(), gate=gate)
    for _ in range(2):
        with gate.override(Memory(**shop_rows())):
            assert effect("o-1", amount=80) == "refunded"
    with pytest.raises(DeclarationError, match="has no systems yet"):
        effect("o-1", amount=80)


def test_override_with_fewer_fields() -> None:
    """A test's world need not have every field, only every kind."""
    gate = Gate()
    effect = declare(*shop_premises(), gate=gate)
    with gate.override(Memory(orders={}, policies={})), pytest.raises(EffectBlocked):
        effect("o-1", amount=80)
    with pytest.raises(DeclarationError, match="no system answers"), gate.override(Memory(orders={})):
        pass


def test_effects_declared_while_overridden() -> None:
    """An effect that is declared inside an override works there, and with the gate's own systems afterwards."""
    gate = a_gate()
    with gate.override(Memory(**shop_rows())):
        effect = declare(*shop_premises(), gate=gate)
        assert effect("o-1", amount=80) == "refunded"
    assert effect("o-1", amount=80) == "refunded"


def test_integrity_is_told() -> None:
    """A gate says what protects its records, and promises no more."""
    gate = a_gate()
    assert gate.integrity == "checksum"
    gate.install()


def test_store_of_a_newer_version() -> None:
    """A record of a newer schema is not guessed at."""
    from lastlook.store.bodies import intent_body, intent_from_body

    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    stored = shop.store.load(intent.id)
    assert stored is not None
    newer = dict(intent_body(stored.record)) | {"schema": 2}
    with pytest.raises(IntegrityError, match=r"schema 2.*upgrade"):
        intent_from_body(newer)


def test_permit_is_over() -> None:
    """A permit lives inside of its body: every use afterwards is refused."""
    shop = Shop()
    kept: list[MemoryPermit] = []

    @shop.gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def keep(permit: MemoryPermit, order_id: str) -> None:
        kept.append(permit)
        permit.change("orders", order_id, refunded=True)
        row = permit.row("orders", order_id)
        assert row is not None
        assert row["refunded"] is True, "a body sees its own writes"

    keep("o-1")
    (permit,) = kept
    assert permit.key.startswith("ll-")
    uses: list[Callable[[], object]] = [
        lambda: permit.change("orders", "o-1", refunded=False),
        lambda: permit.replace("orders", "o-1", {}),
        lambda: permit.delete("orders", "o-1"),
        lambda: permit.row("orders", "o-1"),
        permit.no_write,
    ]
    for use in uses:
        with pytest.raises(EffectNotBound, match="is over"):
            use()
    assert STRICT.critical == frozenset()


# --- Refreshing -------------------------------------------------------------------------------------------------------


def refreshing(world: Memory, *fields: Any, premise: Any = None, **options: Any) -> tuple[Gate, Any, list[Any]]:
    """An effect that refreshes these fields, and what each body was given."""
    gate, got = Gate(world, **options), list[Any]()

    @gate.effect(target=order, premises=[premise or block_unless(~order.refunded)], refresh=list(fields))
    def refund(permit: MemoryPermit, order_id: str) -> str:
        got.append(dict(permit.fresh))
        permit.change("orders", order_id, refunded=True)
        return "refunded"

    return gate, refund, got


@SEPARATE
@pytest.mark.parametrize(
    "value",
    [4.5, float("nan"), dt.datetime(2026, 1, 1), None, "", [4.5], {"a": 4.5}, b"x", Decimal("4.5")],  # noqa: DTZ001
    ids=repr,
)
@pytest.mark.parametrize("from_start", [False, True])
def test_refreshed_values_can_be_recorded(value: object, from_start: bool, separate: bool) -> None:
    """Whatever a presentation field holds: the body is given it, and the journal can be written and read."""
    world, store = Memory(**shop_rows()).options(separate=separate), MemoryStore()
    world.change("orders", "o-1", shown=value if from_start else "before")
    gate, refund, got = refreshing(world, order.shown, store=store)
    intent = refund.propose("o-1")
    world.change("orders", "o-1", shown=value)
    verdict = gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.KEEP if from_start else Outcome.REFRESH, True)
    assert repr(got) == repr([{"orders/o-1.shown": (world.row("orders", "o-1") or {})["shown"]}])
    assert len(store.journal(intent.id)) > 1
    assert list(store.reopened().pending()) == []


@SEPARATE
def test_refreshed_field_that_is_gone(separate: bool) -> None:
    """A presentation field that is gone is refreshed to absent, and no obstacle."""
    world, store = Memory(**shop_rows()).options(separate=separate), MemoryStore()
    gate, refund, _ = refreshing(world, order.customer_name, store=store)
    intent = refund.propose("o-1")
    world.drop("orders", "o-1", "customer_name")
    assert gate(intent).outcome is Outcome.REFRESH
    assert list(store.reopened().pending()) == []


@SEPARATE
def test_what_is_only_presentation_is_not_bound(separate: bool) -> None:
    """A row that is only refreshed may move after the look: the effect goes out at the first attempt, as looked at."""
    world = Memory(**shop_rows(), customers={"c": {"name": "reader 7"}}).options(separate=separate)
    gate, refund, got = refreshing(world, resource("customers", "c").name)
    intent = refund.propose("o-1")
    with interpose(gate, lambda: world.change("customers", "c", name="reader 8")):
        verdict = gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.KEEP, True)
    assert got == [{"customers/c.name": "reader 7"}]


@pytest.mark.parametrize(
    ("name", "outcome"), [("reader 8", Outcome.REFRESH), ("nobody", Outcome.REPLAN)], ids=["true", "false"]
)
def test_a_field_that_decides_and_is_refreshed(name: str, outcome: Outcome) -> None:
    """A field may be both: the premise runs, the rule fires, and the worse of the two counts."""
    world = Memory(**shop_rows())
    premise = replan_unless(order.customer_name.in_(["reader 7", "reader 8"]))
    gate, refund, _ = refreshing(world, order.customer_name, premise=premise)
    intent = refund.propose("o-1")
    world.change("orders", "o-1", customer_name=name)
    verdict = gate(intent)
    assert (verdict.outcome, len(verdict.checked)) == (outcome, 1)


def test_one_shot_is_given_what_it_refreshes() -> None:
    """A one-shot call's body is given its presentation fields as the gate read them."""
    _, refund, got = refreshing(Memory(**shop_rows()), order.customer_name)
    assert refund("o-1") == "refunded"
    assert got == [{"orders/o-1.customer_name": "reader 7"}]


# --- Conservative edges -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["a row that is not there", "all rows"])
def test_absence_as_an_edge(what: str) -> None:
    """A decision that rests on what was not there is planned anew once something is."""
    shop = Shop(world=Memory(**shop_rows(), notes={}))
    tx = shop.gate.transaction()
    seen = tx.read(rows("notes")) if what == "all rows" else tx.read(resource("notes", "n-1"))
    tx.decide("nobody objects", rests_on=[seen])
    intent = tx.propose(shop.refund, "o-1", amount=80)
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    shop.world.change("notes", "n-1", text="I do")
    assert [preview.outcome for preview in shop.gate.affected(Change("notes", "n-1"))] == [Outcome.REPLAN]
    assert shop.gate(intent).outcome is Outcome.REPLAN
    shop.world.delete("notes", "n-1")
    assert shop.gate(intent).committed


@SEPARATE
@pytest.mark.parametrize("how", ["changed in the window", "unreadable"])
def test_an_edge_is_bound_and_read(separate: bool, how: str) -> None:
    """What a decision rests on is bound where the target can compare it, and has to be readable."""
    shop = Shop(separate=separate)
    tx = shop.gate.transaction()
    tx.decide("it rains", rests_on=[tx.read(resource("weather", "uk").rain)])
    intent = tx.propose(shop.refund, "o-1", amount=80)
    if how == "unreadable":
        with shop.world.unreadable("weather"):
            verdict = shop.gate(intent)
    else:
        with interpose(shop.gate, lambda: shop.world.change("weather", "uk", rain=False)):
            verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, shop.ran) == (Outcome.REPLAN, False, [])


# --- More of hints, options and attempts ------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True], ids=["another worker", "a restarted one"])
def test_affected_after_a_restart(restarted: bool) -> None:
    """A process that did not propose them reaches the pending intents of its store by a hint, too."""
    shop = Shop()
    first = shop.refund.propose("o-1", amount=80)
    later = shop.again(shop.store.reopened() if restarted else None)
    second = later.refund.propose("o-2", amount=40)
    later.world.change("policies", "refund", limit=50)
    found = {preview.intent: preview.outcome for preview in later.gate.affected(Change("policies", "refund"))}
    assert found == {first: Outcome.BLOCK, second: Outcome.KEEP}


def test_what_waits_is_reached_by_what_it_waits_for() -> None:
    """The arrival of an approval reaches the intents that await it."""
    approval = resource("approvals", arg.order_id)
    shop = Shop(world=Memory(**shop_rows(), approvals={}), awaits=[block_unless(approval.granted)])
    intent = shop.refund.propose("o-1", amount=80)
    (preview,) = shop.gate.affected(Change("approvals", "o-1", "granted"))
    assert (preview.intent, preview.outcome) == (intent, Outcome.BLOCK)
    shop.world.change("approvals", "o-1", granted=True)
    (preview,) = shop.gate.affected(Change("approvals", "o-1", "granted"))
    assert preview.outcome is Outcome.KEEP


def test_preview_of_an_expired_intent() -> None:
    """A preview says what the gate would: an intent that has expired blocks, journaled or not."""
    shop = Shop()
    intent = shop.refund.options(expires=MINUTE).propose("o-1", amount=80)
    shop.clock.advance(MINUTE)
    assert shop.gate.preview(intent).outcome is Outcome.BLOCK
    assert Outcome.KEEP not in [preview.outcome for preview in shop.gate.affected(Change("policies", "refund"))]
    assert [entry.kind for entry in shop.store.journal(intent.id)] == ["PROPOSED"], "it writes nothing"
    assert shop.gate(intent).state is State.EXPIRED


def test_a_repeated_call_supersedes_once() -> None:
    """A call with key and predecessor that is delivered twice is one successor of one predecessor."""
    shop = Shop()
    old = shop.refund.propose("o-1", amount=80)
    call = shop.refund.options(key="call-1", supersedes=old)
    new = call.propose("o-1", amount=70)
    assert call.propose("o-1", amount=70) == new
    assert shop.gate.pending() == [new]
    assert [entry.kind for entry in shop.store.journal(old.id)] == ["PROPOSED", "SUPERSEDED"]


def test_a_lane_spans_effects() -> None:
    """Effects that are declared with one lane exclude each other while an attempt of either is unknown."""
    gate, does = Gate(Memory(**shop_rows()), clock=FakeClock()), list[Exception]()
    effects: list[Any] = []
    for name in ("send", "recall"):

        def act(permit: Any, order_id: str) -> str:
            if does:
                raise does.pop(0)
            return "done"

        premises = [block_unless(order.delivered, accept=UNBOUND("the courier checks nothing"))]
        effects.append(gate.effect(target="courier", name=name, lane=(arg.order_id,), premises=premises)(act))
    send, recall = effects
    first, second, elsewhere = send.propose("o-1"), recall.propose("o-1"), recall.propose("o-2")
    does[:] = [TimeoutError()]
    assert gate(first).applied is Applied.UNKNOWN
    assert gate(second).applied is Applied.IN_PROGRESS
    assert gate(elsewhere).committed


def test_an_attempt_is_what_was_recorded() -> None:
    """Key, number, deadline and evidence that the target is given are those of the record, in order of address."""
    clock = FakeClock()
    soon = clock.now() + dt.timedelta(seconds=10)
    shop = Shop(separate=True, clock=clock, premises=[block_unless(~order.refunded), block_unless(before(order.until))])
    shop.world.change("orders", "o-1", until=soon)
    intent = shop.refund.propose("o-1", amount=80)
    made: list[Attempt] = []
    with failpoint(shop.gate, Apply, before=_attempts(made)):
        shop.gate(intent)
    (attempt,) = made
    body_: Any = decode(shop.store.journal(intent.id)[1].body)
    assert (body_["attempt"], body_["key"]) == (attempt.number, attempt.key) == (1, attempt.key)
    assert attempt.not_after == soon - dt.timedelta(microseconds=1)
    assert [(kind, *key) for kind, key, _ in body_["evidence"]] == [
        (address.kind, *address.key) for address, _ in attempt.binding
    ]


@pytest.mark.parametrize(("span", "waits"), [(10, 10), (60, 30)])
def test_the_deadline_of_an_attempt(span: int, waits: int) -> None:
    """A dead gate's attempt is left alone for its 30 seconds, or until the permission ends if that is earlier."""
    shop = Shop(separate=True, premises=[block_unless(before(order.until)), block_unless(~order.refunded)])
    shop.world.change("orders", "o-1", until=shop.clock.now() + dt.timedelta(seconds=span))
    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, after=_crash), pytest.raises(Crash):
        shop.gate(intent)
    other = shop.again()
    shop.clock.advance(dt.timedelta(seconds=waits, microseconds=-2))
    assert other.gate(intent).applied is Applied.IN_PROGRESS
    shop.clock.advance(dt.timedelta(microseconds=2))
    assert other.gate(intent).committed


def test_evidence_of_every_type() -> None:
    """Keys and values of each evidence type are compared by value, from argument to row and back."""
    number = uuid.UUID(int=7)
    row = {
        "bytes": b"x",
        "day": dt.date(2026, 1, 1),
        "when": dt.datetime(2026, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        "id": number,
        "colour": Colour.RED,
        "list": [1, {"a": 2}],
        "none": None,
    }
    gate, item = Gate(Memory(items={number: row})), resource("items", arg.number)
    premises = [
        block_unless(item.bytes == b"x"),
        block_unless(item.day == dt.date(2026, 1, 1)),
        block_unless(item.when == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        block_unless(item.id == arg.number),
        block_unless(item.colour == Colour.RED),
        block_unless(item.list[1]["a"] == 2),
        block_unless(item.list == [Decimal("1.0"), {"a": 2}]),
        block_unless(item.none.is_null()),
    ]

    @gate.effect(target=item, premises=premises)
    def take(permit: MemoryPermit, number: uuid.UUID) -> uuid.UUID:
        permit.delete("items", number)
        return number

    assert take(number) == number


def test_public_fields_of_a_declared_resource() -> None:
    """A field that its class declares public shows its value, as one that its system declares does."""

    class Limit(Resource, kind="policies"):
        limit: Field[int] = Field(public=True)
        other: Field[int]

    limits = Limit("refund")
    shop = Shop(premises=[block_unless(arg.amount <= limits.limit), block_unless(arg.amount <= limits.other)])
    shop.world.change("policies", "refund", limit=51, other=52)
    text = shop.gate.preview(shop.gate.transaction().propose(shop.refund, "o-1", amount=80)).explain()
    assert ("51" in text, "52" in text) == (True, False)


# --- Threads and tasks ------------------------------------------------------------------------------------------------


@pytest.fixture
def eager_threads() -> Generator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def together(*calls: Callable[[], object]) -> list[BaseException]:
    """What these calls raise, each in a thread of its own, begun at once."""
    raised: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait()
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - told below
            raised.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.usefixtures("eager_threads")
@SEPARATE
def test_many_threads_one_intent(separate: bool) -> None:
    """However many threads and gates release one intent at once, it is committed once and nobody is told otherwise."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    gates = [shop.gate, shop.gate, shop.again().gate, shop.again().gate]
    said: list[Any] = []
    assert together(*(lambda gate=gate: said.append(gate(intent)) for gate in gates)) == []
    assert {verdict.applied for verdict in said} <= {Applied.COMMITTED, Applied.IN_PROGRESS}
    assert [row["committed_at"] is not None for row in shop.world.effects.values()] == [True]
    assert shop.gate(intent).committed
    shop.store.verify(intent.id)


@pytest.mark.usefixtures("eager_threads")
def test_hints_beside_proposals() -> None:
    """Hints may be followed in one thread while another proposes and withdraws."""
    shop = Shop()
    done = threading.Event()

    def propose() -> None:
        for number in range(200):
            shop.gate.withdraw(shop.refund.propose("o-1", amount=1 + number % 80))
        done.set()

    def hint() -> None:
        while not done.is_set():
            shop.gate.affected(Change("policies", "refund", "limit"))

    assert together(propose, hint, hint) == []


@SEPARATE
def test_many_tasks_one_intent(separate: bool) -> None:
    """However many tasks release one intent at once, it is committed once."""

    async def main() -> None:
        shop = AsyncShop(separate=separate)
        intent = await shop.refund.propose("o-1", amount=80)
        said = await asyncio.gather(*(shop.gate(intent) for _ in range(8)))
        assert {verdict.applied for verdict in said} <= {Applied.COMMITTED, Applied.IN_PROGRESS}
        assert [row["committed_at"] is not None for row in shop.world.effects.values()] == [True]
        assert (await shop.gate(intent)).result() == "refunded o-1"

    asyncio.run(main())
