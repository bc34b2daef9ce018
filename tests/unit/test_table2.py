"""Table 2 of the ATR paper: what changes after a refund of 80 under a limit of 100, and programs of its users."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from systems import DEFECT, LIMIT, NOT_REFUNDED, AsyncShop, Shop, changed, checked, shop_rows

from lastlook import (
    Applied,
    AsyncGate,
    EffectBlocked,
    Field,
    Gate,
    Memory,
    MemoryPermit,
    Outcome,
    ReplanRequired,
    Resource,
    State,
    arg,
    block_unless,
    replan_unless,
    resource,
)
from lastlook.events import ApplyAnswered, LookTaken, OutcomeDecided
from lastlook.testing import events, interpose

if TYPE_CHECKING:
    from collections.abc import Generator

    from lastlook.events import Event

KEEP, REFRESH, REPLAN, BLOCK = Outcome.KEEP, Outcome.REFRESH, Outcome.REPLAN, Outcome.BLOCK
SEPARATE = pytest.mark.parametrize("separate", [False, True], ids=["same-engine", "separate"])

# Where, what, the outcome, the premises that run, and the place that is found changed.
ROWS = [
    pytest.param(("orders", "o-1"), {"customer_name": "reader 8"}, REFRESH, [], "orders/o-1.customer_name", id="name"),
    pytest.param(("policies", "refund"), {"limit": 90}, KEEP, [LIMIT], "policies/refund.limit", id="limit-90"),
    pytest.param(("orders", "o-1"), {"defect": False}, REPLAN, [DEFECT], "orders/o-1.defect", id="defect"),
    pytest.param(("policies", "refund"), {"limit": 50}, BLOCK, [LIMIT], "policies/refund.limit", id="limit-50"),
    pytest.param(("orders", "o-1"), {"refunded": True}, BLOCK, [NOT_REFUNDED], "orders/o-1.refunded", id="refunded"),
    pytest.param(("weather", "uk"), {"rain": False}, KEEP, [], "", id="unrelated"),
]
TABLE2 = pytest.mark.parametrize(("where", "change", "outcome", "ran", "place"), ROWS)


def answers(found: list[Event]) -> list[Applied]:
    """What the target answered."""
    return [event.applied for event in found if isinstance(event, ApplyAnswered)]


@TABLE2
@SEPARATE
def test_table2(
    where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: list[str], place: str, separate: bool
) -> None:
    """Each change has the paper's outcome, runs exactly the premises it touches, and commits where that permits."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change(*where, **change)
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert verdict.outcome is outcome
    assert verdict.committed is (outcome in (KEEP, REFRESH))
    assert verdict.applied is (Applied.COMMITTED if outcome <= REFRESH else Applied.NOT_ATTEMPTED)
    assert verdict.state is (State.COMMITTED if outcome <= REFRESH else State.OPEN)
    assert (checked(found), list(verdict.checked)) == (ran, ran)
    assert (changed(found), list(verdict.changed)) == (([place],) * 2 if place else ([], []))
    assert answers(found) == ([Applied.COMMITTED] if outcome <= REFRESH else [])
    assert [event.trigger for event in found if isinstance(event, OutcomeDecided)] == ["PRE_EFFECT"]
    assert shop.ran == ([80] if outcome <= REFRESH else [])
    row = shop.world.row("orders", "o-1")
    assert row is not None
    assert row["refunded"] is (outcome <= REFRESH or "refunded" in change)


@TABLE2
@SEPARATE
def test_table2_async(
    where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: list[str], place: str, separate: bool
) -> None:
    """The same through the asynchronous gate, which runs the same protocol."""

    async def main() -> None:
        shop = AsyncShop(separate=separate)
        intent = await shop.refund.propose("o-1", amount=80)
        shop.world.change(*where, **change)
        with events(shop.gate) as found:
            verdict = await shop.gate(intent)
        assert (verdict.outcome, verdict.committed) == (outcome, outcome <= REFRESH)
        assert (checked(found), changed(found)) == (ran, [place] if place else [])
        assert answers(found) == ([Applied.COMMITTED] if outcome <= REFRESH else [])
        assert shop.ran == ([80] if outcome <= REFRESH else [])

    asyncio.run(main())


@TABLE2
def test_table2_in_the_window(
    where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: list[str], place: str
) -> None:
    """The same change after the look: the outcome is the paper's still, because every token is bound."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    with interpose(shop.gate, lambda: shop.world.change(*where, **change)), events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (outcome, outcome <= REFRESH)
    assert checked(found) == ran
    assert answers(found)[0] is (Applied.REJECTED if place else Applied.COMMITTED)
    assert len([event for event in found if isinstance(event, LookTaken)]) == (2 if place else 1)


@TABLE2
def test_table2_after_a_restart(
    where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: list[str], place: str
) -> None:
    """The same in a fresh process, which has digests and tokens of what was seen and no observations."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change(*where, **change)
    later = shop.again(shop.store.reopened())
    with events(later.gate) as found:
        verdict = later.gate(later.gate.intent(intent.id))
    assert (verdict.outcome, verdict.committed) == (outcome, outcome <= REFRESH)
    assert (checked(found), changed(found)) == (ran, [place] if place else [])


@TABLE2
def test_table2_one_shot(
    where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: list[str], place: str
) -> None:
    """A one-shot call after the change does what the outcome says: it returns, or raises the stop that is its name."""
    shop = Shop()
    shop.world.change(*where, **change)
    if outcome <= REFRESH:
        assert shop.refund("o-1", amount=80) == "refunded o-1"
    else:
        with pytest.raises(EffectBlocked if outcome is BLOCK else ReplanRequired) as stopped:
            shop.refund("o-1", amount=80)
        assert [finding.premise for finding in stopped.value.verdict.findings] == ran


def test_table2_all_at_once() -> None:
    """All changes together: the worst outcome wins, every premise touched runs once, and nothing is released."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", customer_name="reader 8", defect=False, refunded=True)
    shop.world.change("policies", "refund", limit=50)
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (BLOCK, False)
    assert sorted(checked(found)) == sorted([DEFECT, NOT_REFUNDED, LIMIT])
    assert {finding.severity for finding in verdict.findings} == {REPLAN, BLOCK}


def test_outcomes_are_not_final() -> None:
    """Neither REPLAN nor BLOCK ends an intent: evidence returns, and so does the permission."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    for change, back in (({"limit": 50}, {"limit": 100}), ({"limit": 79}, {"limit": 80})):
        shop.world.change("policies", "refund", **change)
        assert shop.gate(intent).outcome is BLOCK
        shop.world.change("policies", "refund", **back)
    shop.world.change("orders", "o-1", defect=False)
    assert shop.gate(intent).outcome is REPLAN
    shop.world.change("orders", "o-1", defect=True)
    assert shop.gate(intent).committed


# --- The programs that users write ------------------------------------------------------------------------------------

gate = Gate()
order, policy = resource("orders", arg.order_id), resource("policies", "refund")


@gate.effect(
    target=order,
    refresh=[order.customer_name],
    premises=[
        replan_unless(order.delivered),
        replan_unless(order.defect),
        block_unless(~order.refunded),
        block_unless(arg.amount <= policy.limit, "over the refund limit"),
    ],
)
def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
    """Refund an order."""
    permit.change("orders", order_id, refunded=True)
    return f"refunded {amount}"


@pytest.fixture
def world() -> Generator[Memory]:
    """The shop's gate over a world of its own."""
    with gate.override(m := Memory(**shop_rows())):
        yield m


@pytest.mark.parametrize(
    ("where", "change", "outcome", "ran"),
    [
        (("policies", "refund"), {"limit": 50}, Outcome.BLOCK, 1),
        (("policies", "refund"), {"limit": 90}, Outcome.KEEP, 1),
        (("orders", "o-1"), {"customer_name": "reader 8"}, Outcome.REFRESH, 0),
        (("orders", "o-1"), {"defect": False}, Outcome.REPLAN, 1),
        (("orders", "o-1"), {"refunded": True}, Outcome.BLOCK, 1),
        (("weather", "uk"), {"rain": False}, Outcome.KEEP, 0),
    ],
    ids=["limit-50", "limit-90", "name", "defect", "refunded", "unrelated"],
)
def test_refund(world: Memory, where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: int) -> None:
    """Table 2, as a user of the library writes it."""
    intent = refund.propose("o-1", amount=80)
    world.change(*where, **change)
    v = gate(intent)
    assert (v.outcome, v.committed, len(v.checked)) == (outcome, outcome <= Outcome.REFRESH, ran)


def test_race(world: Memory) -> None:
    """The window between look and apply, without sleeps."""
    intent = refund.propose("o-1", amount=80)
    with interpose(gate, lambda: world.change("policies", "refund", limit=50)):
        assert gate(intent).outcome is Outcome.BLOCK


class Incident(Resource, kind="incidents"):
    """What went wrong."""

    state: Field[str]
    remediated: Field[bool]
    title: Field[str]


class Agent(Resource, kind="agents"):
    """Who may do what."""

    may: Field[list[str]]


class Freeze(Resource, kind="freezes"):
    """When nobody may do anything."""

    active: Field[bool]


agate = AsyncGate()
incident, agent, freeze = Incident(arg.incident_id), Agent("bot"), Freeze(arg.region)


@agate.effect(
    target=incident,
    refresh=[incident.title],
    premises=[
        replan_unless(incident.state == "open"),
        block_unless(~incident.remediated),
        block_unless(agent.may.contains("restart")),
        block_unless(~freeze.active, "a maintenance freeze is on"),
    ],
)
async def restart(permit: MemoryPermit, incident_id: str, region: str) -> str:
    """Restart what an incident is about."""
    permit.change("incidents", incident_id, remediated=True)
    return f"restarted in {region}"


def operations() -> Memory:
    """An open incident, and a bot that may restart."""
    return Memory(
        incidents={"i-1": {"state": "open", "remediated": False, "title": "slow"}},
        agents={"bot": {"may": ["restart", "page"]}},
        freezes={"eu": {"active": False}},
        weather={"uk": {"rain": True}},
    )


OPEN = "incidents[arg.incident_id].state == 'open'"
UNDONE = "~incidents[arg.incident_id].remediated"
MAY = "agents['bot'].may.contains('restart')"
THAWED = "~freezes[arg.region].active"
REMEDIATION = [
    pytest.param(("incidents", "i-1"), {"title": "slower"}, REFRESH, [], id="title"),
    pytest.param(("incidents", "i-1"), {"state": "closed"}, REPLAN, [OPEN], id="closed"),
    pytest.param(("incidents", "i-1"), {"remediated": True}, BLOCK, [UNDONE], id="done"),
    pytest.param(("agents", "bot"), {"may": ["page"]}, BLOCK, [MAY], id="authority"),
    pytest.param(("freezes", "eu"), {"active": True}, BLOCK, [THAWED], id="freeze"),
    pytest.param(("agents", "bot"), {"may": ["restart"]}, KEEP, [MAY], id="fewer"),
    pytest.param(("weather", "uk"), {"rain": False}, KEEP, [], id="unrelated"),
]


@pytest.mark.parametrize(("where", "change", "outcome", "ran"), REMEDIATION)
def test_remediation(where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: list[str]) -> None:
    """The remediation program: typed resources, asyncio, and each mutation with its outcome."""

    async def main() -> None:
        with agate.override(ops := operations()):
            intent = await restart.propose("i-1", region="eu")
            ops.change(*where, **change)
            with events(agate) as found:
                v = await agate(intent)
            assert (v.outcome, v.committed, checked(found)) == (outcome, outcome <= REFRESH, ran)

    asyncio.run(main())


def test_remediation_one_shot() -> None:
    """`await restart("i-1", region="eu")` returns the body's result, and a freeze stops it with its reason."""

    async def main() -> None:
        with agate.override(ops := operations()):
            assert await restart("i-1", region="eu") == "restarted in eu"
            ops.change("incidents", "i-1", remediated=False)
            ops.change("freezes", "eu", active=True)
            with pytest.raises(EffectBlocked, match="a maintenance freeze is on"):
                await restart("i-1", region="eu")

    asyncio.run(main())


class Request(Resource, kind="requests"):
    """What somebody wants bought."""

    state: Field[str]
    vendor: Field[str]
    lines: Field[list[dict[str, int]]]
    label: Field[str]


class Budget(Resource, kind="budgets"):
    """What may be spent, and with whom."""

    left: Field[int]
    auto_cap: Field[int]
    vendors: Field[list[str]]


request, budget = Request(arg.request_id), Budget("office")
cost = request.lines.total("price")


purchases = Gate()


@purchases.effect(
    target=request,
    refresh=[request.label],
    premises=[
        replan_unless(request.state == "ready"),
        replan_unless(budget.vendors.contains(request.vendor)),
        block_unless(cost <= budget.left),
        block_unless(cost <= budget.auto_cap),
    ],
)
def buy(permit: MemoryPermit, request_id: str) -> str:
    """Buy what a request asks for."""
    row = permit.row("budgets", "office")
    lines = permit.row("requests", request_id)
    assert row is not None
    assert lines is not None
    spent = sum(line["price"] for line in lines["lines"])  # type: ignore[union-attr,index,call-overload,misc]
    permit.change("budgets", "office", left=row["left"] - spent)  # type: ignore[operator]
    permit.change("requests", request_id, state="bought")
    return "bought"


def purchasing() -> Memory:
    """A ready request of 300 with an approved vendor, under a budget of 1000 and a cap of 500."""
    return Memory(
        requests={
            "r-1": {"state": "ready", "vendor": "v-1", "label": "chairs", "lines": [{"price": 100}, {"price": 200}]}
        },
        budgets={"office": {"left": 1000, "auto_cap": 500, "vendors": ["v-1", "v-2"]}},
        weather={"uk": {"rain": True}},
    )


STATE = "requests[arg.request_id].state == 'ready'"
VENDOR = "budgets['office'].vendors.contains(requests[arg.request_id].vendor)"
LEFT = "requests[arg.request_id].lines.pluck('price').total() <= budgets['office'].left"
CAP = "requests[arg.request_id].lines.pluck('price').total() <= budgets['office'].auto_cap"


@pytest.mark.parametrize(
    ("where", "change", "outcome", "ran"),
    [
        pytest.param(("requests", "r-1"), {"label": "stools"}, REFRESH, [], id="label"),
        pytest.param(("requests", "r-1"), {"state": "draft"}, REPLAN, [STATE], id="draft"),
        pytest.param(("budgets", "office"), {"vendors": ["v-2"]}, REPLAN, [VENDOR], id="vendor"),
        pytest.param(("budgets", "office"), {"left": 299}, BLOCK, [LEFT], id="budget"),
        pytest.param(("budgets", "office"), {"auto_cap": 299}, BLOCK, [CAP], id="cap"),
        pytest.param(("budgets", "office"), {"left": 300}, KEEP, [LEFT], id="enough"),
        pytest.param(("requests", "r-1"), {"lines": [{"price": 501}]}, BLOCK, [LEFT, CAP], id="lines"),
        pytest.param(("weather", "uk"), {"rain": False}, KEEP, [], id="unrelated"),
    ],
)
def test_procurement(where: tuple[str, str], change: dict[str, Any], outcome: Outcome, ran: list[str]) -> None:
    """The procurement program: a sum over lines against two bounds, and each mutation with its outcome."""
    with purchases.override(office := purchasing()):
        intent = buy.propose("r-1")
        office.change(*where, **change)
        with events(purchases) as found:
            v = purchases(intent)
        assert (v.outcome, v.committed, checked(found)) == (outcome, outcome <= REFRESH, ran)
        row = office.row("budgets", "office")
        assert row is not None
        if v.committed:
            assert row["left"] == {"left": 1000, **change}["left"] - 300


def test_procurement_spends_once() -> None:
    """Two requests under one remainder: the second finds what the first has left."""
    with purchases.override(office := purchasing()):
        office.change("requests", "r-2", **(office.row("requests", "r-1") or {}))
        office.change("budgets", "office", left=500)
        first, second = buy.propose("r-1"), buy.propose("r-2")
        assert purchases(first).result() == "bought"
        assert purchases(second).outcome is BLOCK
