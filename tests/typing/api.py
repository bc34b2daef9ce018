"""The whole public face as its users write it, for the type checkers; it is never run.

Each planted mistake is ignored by name, and both checkers complain of an ignored mistake that is none: one that is no
longer found fails the run, as one that is newly found does. Pyright reads `type: ignore` too, whatever code it names.
"""
# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnusedExpression=false

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, assert_never, assert_type

from lastlook import (
    STRICT,
    UNBOUND,
    Applied,
    AsyncGate,
    AsyncTransaction,
    BindingPolicy,
    CanonicalError,
    Capture,
    Change,
    DeclarationError,
    Declined,
    EffectBlocked,
    EffectContended,
    EffectNotBound,
    EffectStopped,
    EffectUnknown,
    Field,
    FunctionPermit,
    Gate,
    Grade,
    InFlight,
    IntegrityError,
    Intent,
    KeyReused,
    LastlookError,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    Preview,
    ReplanRequired,
    Resource,
    State,
    StoreBusy,
    StoreError,
    Transaction,
    UnknownEffect,
    UnknownIntent,
    Verdict,
    __version__,
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
    validator,
)
from lastlook.expressions import Expr
from lastlook.premises import Premise
from lastlook.testing import FakeClock, events, failpoint, forget_edges, interpose, without_validator


class Order(Resource, kind="orders"):
    """An order."""

    delivered: Field[bool]
    refunded: Field[bool]
    region: Field[str]
    total: Field[Decimal]
    count: Field[int]
    seen: Field[dt.datetime]
    day: Field[dt.date]
    lines: Field[list[Mapping[str, Any]]]
    note: Field[str | None]
    customer_name: Field[str] = Field(public=True)


class Policy(Resource, kind="policies"):
    """What may be refunded where."""

    limit: Field[Decimal]


order, policy = Order(arg.order_id), Policy("refund")
loose = resource("orders", arg.order_id)
MINUTES = dt.timedelta(minutes=5)

# --- Gates ------------------------------------------------------------------------------------------------------------

world = Memory(orders={"o-1": {"refunded": False}}, policies={("eu", 1): {"limit": 100}})
assert_type(world.options(queries={"spent": len}, separate=True, clock=FakeClock(), fields={}, public=[]), Memory)
gate = Gate(world, store=MemoryStore(), policy=STRICT, clock=FakeClock(), capture=Capture.FIELD)
agate = AsyncGate(world, store=MemoryStore(evidence=world), policy=BindingPolicy(critical=frozenset({"orders"})))
later = Gate()
later.connect(world, store=None)
later.install()
assert_type(later.integrity, str)
assert_type(__version__, str)

# --- Expressions ------------------------------------------------------------------------------------------------------

assert_type(order.refunded, Field[bool])
assert_type(order.total <= policy.limit, Expr[bool])
assert_type(order.count + 1, Expr[Decimal])
assert_type(~order.refunded & order.delivered | exists(order), Expr[bool])
assert_type(order.region == "eu", Expr[bool])
assert_type(order.region.in_(["eu", "uk"]), Expr[bool])
assert_type(order.note.is_null(), Expr[bool])
assert_type(order.lines.contains("x"), Expr[bool])
assert_type(order.lines.total("price"), Expr[Decimal])
assert_type(total(order.lines, "price"), Expr[Decimal])
assert_type(order.lines.count(), Expr[int])
assert_type(count(rows("orders").where(each.refunded)), Expr[int])
assert_type(every(order.lines, each.price <= 3), Expr[bool])
assert_type(none(order.lines, each["price"] == 3), Expr[bool])
assert_type(order.lines.all_in([]), Expr[bool])
assert_type(before(order.seen), Expr[bool])
assert_type(fresh(order.seen, MINUTES), Expr[bool])
assert_type(unchanged(order.lines), Expr[bool])
assert_type(holds(order.refunded), Expr[bool])
assert_type(order.seen < dt.datetime(2026, 1, 1, tzinfo=dt.UTC), Expr[bool])
assert_type(order.day <= dt.date(2026, 1, 1), Expr[bool])
assert_type(largest(0, order.total), Expr[Any])
assert_type(lookup(order.lines, order.region, "fast"), Expr[Any])
assert_type(literal(3), Expr[Any])
assert_type(actor["user_id"], Expr[Any])
assert_type(arg.amount, Expr[Any])
assert_type(arg["class"], Expr[Any])
assert_type(loose.anything, Field[Any])
assert_type(loose["class"], Field[Any])
assert_type(order["class"], Field[Any])
assert_type(loose.price.as_decimal(2).rounded(1), Expr[Decimal])
assert_type(loose.when.as_utc("Europe/London"), Expr[dt.datetime])
assert_type(order.lines.pluck("price"), Expr[Any])
assert_type(block_unless(~order.refunded, "already refunded"), Premise)
assert_type(replan_unless(order.delivered, accept=UNBOUND("why")), Premise)


@validator("within", version="2", judges=["1"], reads_clock=False, timeout=MINUTES, revision="r")
def within(amount: Decimal, limit: Decimal) -> bool:
    return amount <= limit


assert_type(within(arg.amount, policy.limit, strict=True), Expr[bool])

# --- Effects ----------------------------------------------------------------------------------------------------------


@dataclass
class Receipt:
    """What a refund returns."""

    number: int


@gate.effect(
    target=order,
    premises=[
        replan_unless(order.delivered),
        block_unless(~order.refunded, "already refunded"),
        block_unless(arg.amount <= policy.limit),
        block_unless(within(arg.amount, policy.limit)),
    ],
    refresh=[order.customer_name],
    awaits=[block_unless(resource("approvals", arg.order_id).granted)],
    name="refund",
    irreversible=True,
    lane=(arg.order_id,),
)
def refund(permit: MemoryPermit, order_id: str, amount: Decimal, *, reason: str = "") -> Receipt:
    permit.change("orders", order_id, refunded=True, kind="x")
    permit.replace("orders", order_id, {"refunded": True})
    permit.delete("orders", order_id)
    permit.no_write()
    assert_type(permit.key, str)
    return Receipt(len(permit.fresh))


@agate.effect(target=order, no_preconditions=True)
async def restart(permit: MemoryPermit, order_id: str) -> str:
    return permit.key


@gate.effect(target="courier", lane=(arg.order_id,), premises=[block_unless(order.delivered, accept=UNBOUND("none"))])
def send(permit: FunctionPermit, order_id: str) -> int:
    if not order_id:
        raise Declined(permit.key)
    return 1


def releasing() -> None:
    assert_type(refund("o-1", Decimal(80)), Receipt)
    assert_type(refund(order_id="o-1", amount=Decimal(80), reason="broken"), Receipt)
    intent = refund.propose("o-1", amount=Decimal(80))
    assert_type(intent, Intent[Receipt])
    assert_type(intent.id, str)
    verdict = gate(intent)
    assert_type(verdict, Verdict[Receipt])
    assert_type(verdict.result(), Receipt)
    assert_type(verdict.result().number, int)
    assert_type(verdict.outcome, Outcome)
    assert_type(verdict.applied, Applied)
    assert_type(verdict.state, State | None)
    assert_type(verdict.committed, bool)
    assert_type(verdict.checked, tuple[str, ...])
    assert_type(verdict.bindings, Mapping[str, Grade])
    assert_type(verdict.explain(reveal=True), str)
    assert_type(verdict.outcome.permits, bool)
    assert_type(send("o-1"), int)
    assert_type(refund.intent("id"), Intent[Receipt])
    assert_type(refund.options(key="k").options(expires=MINUTES).propose("o-1", Decimal(80)), Intent[Receipt])
    assert_type(refund.options(actor={"user_id": 7}, supersedes=intent)("o-1", Decimal(80)), Receipt)
    assert_type(gate.preview(intent), Preview)
    assert_type(gate.affected(Change("orders", "o-1", "refunded")), list[Preview])
    assert_type(gate.intent("id"), Intent[Any])
    assert_type(gate.pending(), list[Intent[Any]])
    assert_type(gate.reconcile(), list[Verdict[Any]])
    gate.withdraw(intent)
    gate.assert_outcome(intent, committed=True, by="the clerk", note="seen")
    assert_type(refund.contract.bindings(), Mapping[str, Grade])
    for finding in verdict.findings:
        assert_type(finding.holds, Literal[False] | None)
        assert_type(finding.severity, Outcome)


async def releasing_async() -> None:
    assert_type(await restart("o-1"), str)
    intent = await restart.propose(order_id="o-1")
    assert_type(intent, Intent[str])
    assert_type(await agate(intent), Verdict[str])
    assert_type((await agate(intent)).result(), str)
    assert_type(await agate.preview(intent), Preview)
    assert_type(await restart.options(key="k")("o-1"), str)
    assert_type(await restart.intent("id"), Intent[str])
    assert_type(await agate.pending(), list[Intent[Any]])
    assert_type(await agate.affected(Change("orders", ("eu", 1))), list[Preview])
    await agate.withdraw(intent)
    await agate.aclose()
    tx = agate.transaction("turn-1")
    assert_type(tx, AsyncTransaction)
    tx.decide("eligible", rests_on=[await tx.read(order, order_id="o-1")])
    assert_type(await tx.propose(restart, "o-1"), Intent[str])


def reasoning() -> None:
    tx = gate.transaction()
    assert_type(tx, Transaction)
    tx.decide("eligible", rests_on=[tx.read(order, order_id="o-1"), tx.read(policy.limit), tx.read(rows("orders"))])
    assert_type(tx.propose(refund, "o-1", amount=Decimal(80)), Intent[Receipt])
    assert_type(tx.propose(refund.options(key="k"), "o-1", Decimal(80)), Intent[Receipt])


def stopping() -> str:
    try:
        refund("o-1", Decimal(80))
    except (EffectBlocked, ReplanRequired, EffectContended, EffectUnknown) as stop:
        assert_type(stop.verdict, Verdict[Any])
        return stop.model_text if stop.retryable else str(stop)
    except EffectStopped as stop:
        return stop.model_text
    except (
        KeyReused,
        InFlight,
        IntegrityError,
        EffectNotBound,
        StoreBusy,
        StoreError,
        UnknownEffect,
        UnknownIntent,
    ) as error:
        return str(error)
    except (CanonicalError, DeclarationError) as error:
        return str(error)
    except LastlookError as error:
        return str(error)
    return ""


def deciding(verdict: Verdict[Receipt]) -> str:
    match verdict.outcome:
        case Outcome.KEEP | Outcome.REFRESH:
            return "go"
        case Outcome.REPLAN:
            return "again"
        case Outcome.BLOCK:
            return "stop"
        case other:  # pyright: ignore[reportUnnecessaryComparison]
            assert_never(other)


def trying() -> None:
    with gate.override(Memory(orders={})), interpose(gate, lambda: world.change("orders", "o-1", refunded=True)):
        intent = refund.propose("o-1", Decimal(80))
    with events(gate) as found, failpoint(gate, type(found), before=print), without_validator("within", "2"):
        forget_edges(gate, intent)
    with world.lock("orders", "o-1"), world.unreadable("orders"):
        world.replace("orders", "o-1", {})
        world.delete("orders", "o-1")
        world.drop("orders", "o-1", "refunded")
    assert_type(world.row("orders", "o-1") is None, bool)


def framework(tool: Any) -> Any:
    """A decorator without types above an effect."""
    return tool(refund)


# --- Mistakes ---------------------------------------------------------------------------------------------------------


def in_expressions() -> None:
    order.refundd  # type: ignore[attr-defined]
    Order.refunded.missing  # type: ignore[attr-defined]
    order.refunded = True  # type: ignore[assignment]
    _ = order.region <= 3  # type: ignore[operator]
    _ = order.total <= "100"  # type: ignore[operator]
    _ = order.seen < dt.timedelta(1)  # type: ignore[operator]
    _ = order.total <= 0.5  # type: ignore[operator]
    _ = order.delivered & order.total <= policy.limit  # type: ignore[operator]
    _ = order.delivered & order.region == "eu"  # type: ignore[operator]
    ~order.total  # type: ignore[misc]
    order.total / 2  # type: ignore[operator]
    order.total + "1"  # type: ignore[operator]
    len(order.lines)  # type: ignore[arg-type]
    order.lines.first  # type: ignore[attr-defined]
    _ = order <= policy  # type: ignore[operator]
    before(3)  # type: ignore[arg-type]
    fresh(order.seen, 60)  # type: ignore[arg-type]
    order.total.rounded("2")  # type: ignore[arg-type]
    resource("orders", 1.5)  # type: ignore[arg-type]


def in_premises() -> None:
    block_unless(order.total)  # type: ignore[arg-type]
    block_unless(order.total + 1)  # type: ignore[arg-type]
    block_unless(count(rows("orders")))  # type: ignore[arg-type]
    block_unless(order)  # type: ignore[arg-type]
    block_unless(True)  # type: ignore[arg-type]
    replan_unless(order.total)  # type: ignore[arg-type]
    block_unless(order.refunded, because="x")  # type: ignore[call-arg]
    block_unless(order.refunded, accept="why")  # type: ignore[arg-type]
    block_unless(order.refunded, 3)  # type: ignore[arg-type]
    UNBOUND()  # type: ignore[call-arg]
    Premise(order.refunded, Outcome.KEEP, "", None)  # type: ignore[arg-type]
    Premise(order.refunded, Outcome.REFRESH, "", None)  # type: ignore[arg-type]
    BindingPolicy(relaxed=True)  # type: ignore[call-arg]


def in_calls() -> None:
    refund("o-1", "80")  # type: ignore[arg-type]
    refund("o-1", Decimal(80), permit=None)  # type: ignore[call-arg]
    refund(None, "o-1", Decimal(80))  # type: ignore[call-arg, arg-type]
    refund("o-1", amont=Decimal(80))  # type: ignore[call-arg]
    refund("o-1")  # type: ignore[call-arg]
    refund("o-1", Decimal(80), "positional")  # type: ignore[call-arg]
    refund.propose("o-1", "80")  # type: ignore[arg-type]
    refund.propose("o-1", amont=Decimal(80))  # type: ignore[call-arg]
    refund.options(key=7)  # type: ignore[arg-type]
    refund.options(kee="k")  # type: ignore[call-arg]
    refund.options(expires=60)  # type: ignore[arg-type]
    refund.options(supersedes="id")  # type: ignore[arg-type]
    gate.transaction().propose(refund, "o-1", amount="80")  # type: ignore[arg-type]
    gate("id")  # type: ignore[arg-type]
    gate(gate.preview(refund.intent("id")))  # type: ignore[arg-type]
    gate.preview(refund.intent("id")).result()  # type: ignore[attr-defined]
    gate.preview(refund.intent("id")).applied  # type: ignore[attr-defined]
    gate(refund.intent("id")).apply  # type: ignore[attr-defined]
    gate.assert_outcome(refund.intent("id"), committed=True)  # type: ignore[call-arg]
    gate.affected("orders")  # type: ignore[arg-type]
    number: str = gate(refund.intent("id")).result()  # type: ignore[assignment]
    assert_type(number, str)


async def in_async_calls() -> None:
    await restart(7)  # type: ignore[arg-type]
    await restart("o-1", permit=None)  # type: ignore[call-arg]
    (await agate(await restart.intent("id"))).result().number  # type: ignore[attr-defined]
    wrong: str = restart("o-1")  # type: ignore[assignment]
    assert_type(wrong, str)


def in_truths(verdict: Verdict[Receipt], preview: Preview) -> None:
    _ = 1 if verdict else 2  # type: ignore[redundant-expr]
    _ = 1 if preview else 2  # type: ignore[redundant-expr]
    _ = 1 if order.refunded else 2  # type: ignore[redundant-expr]
    if verdict:  # pyright: ignore[reportGeneralTypeIssues]
        raise ValueError


def in_truths_of_a_resource() -> None:
    _ = 1 if order else 2  # type: ignore[redundant-expr]
    _ = 1 if loose else 2  # type: ignore[redundant-expr]


def in_declarations() -> None:
    @gate.effect(target=order, premises=[order.refunded])  # type: ignore[list-item]
    def no_premise(permit: MemoryPermit, order_id: str) -> None: ...

    @gate.effect(target=order, premises=[], awaiting=[])  # type: ignore[call-arg]
    def no_option(permit: MemoryPermit, order_id: str) -> None: ...

    @gate.effect(target=7, premises=[])  # type: ignore[arg-type]
    def no_target(permit: MemoryPermit, order_id: str) -> None: ...

    @gate.effect(premises=[])  # type: ignore[call-arg]
    def without_target(permit: MemoryPermit, order_id: str) -> None: ...

    @agate.effect(target=order, premises=[])  # type: ignore[arg-type]
    def not_a_coroutine(permit: MemoryPermit, order_id: str) -> None: ...


def in_systems() -> None:
    Gate(Memory(), policy="strict")  # type: ignore[arg-type]
    Gate(Memory(), clock=7)  # type: ignore[arg-type]
    Gate({"orders": {}})  # type: ignore[arg-type]
    Memory(orders=[])  # type: ignore[arg-type]
    Change()  # type: ignore[call-arg]
    Change("orders")  # type: ignore[call-arg]
    Intent("id")  # type: ignore[call-arg]
