"""What one look makes of clocks, validators, unreadable systems, and tokens that are not those that were recorded."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from systems import NOT_REFUNDED, Desk, DeskPermit, Shelf, Shop, opaque, order, shop_premises, shop_rows

from lastlook import (
    UNBOUND,
    Applied,
    Change,
    Gate,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    actor,
    arg,
    before,
    block_unless,
    exists,
    resource,
    validator,
)
from lastlook.commands import Apply
from lastlook.records import Token
from lastlook.testing import FakeClock, failpoint
from lastlook.validators import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from lastlook import Intent
    from lastlook.canonical import Value

HOUR = dt.timedelta(hours=1)


@pytest.fixture(autouse=True)
def registry() -> Generator[None]:
    """Forget the validators of each test."""
    known = dict(REGISTRY._known)
    yield
    REGISTRY._known.clear()
    REGISTRY._known.update(known)
    REGISTRY.generation += 1


# --- Previews and hints -----------------------------------------------------------------------------------------------


def test_a_deadline_is_judged_by_the_clock_of_each_preview() -> None:
    """Previews, of an intent and of a hint, judge a deadline by the time at which they are asked for."""
    shop = Shop(premises=[*shop_premises(), block_unless(before(order.until), "too late")])
    shop.world.change("orders", "o-1", until=shop.clock.now() + HOUR)
    intent = shop.refund.propose("o-1", amount=80)
    hint = Change("orders", "o-1", "until")
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    assert [preview.outcome for preview in shop.gate.affected(hint)] == [Outcome.KEEP]
    shop.clock.advance(HOUR)
    assert shop.gate.preview(intent).outcome is Outcome.BLOCK
    assert [preview.outcome for preview in shop.gate.affected(hint)] == [Outcome.BLOCK]


def test_a_hint_waits_for_a_validator() -> None:
    """The preview of a hint runs the validators of the premises that the hint touches."""
    asked: list[object] = []

    @validator("fair", version="1", revision="1")
    def fair(limit: int) -> bool:
        asked.append(limit)
        return limit > 50

    shop = Shop(premises=[*shop_premises(), block_unless(fair(resource("policies", "refund").limit))])
    shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "refund", limit=90)
    assert [preview.outcome for preview in shop.gate.affected(Change("policies", "refund", "limit"))] == [Outcome.KEEP]
    assert asked == [100, 90]


def test_a_hint_about_what_cannot_be_read() -> None:
    """While its system cannot be read, a hint's preview blocks, and says why."""
    shop = Shop(relay=True)
    shop.refund.propose("o-1", amount=80)
    shop.line.failure = ConnectionError("the line")
    (preview,) = shop.gate.affected(Change("orders", "o-1", "refunded"))
    assert preview.outcome is Outcome.BLOCK
    assert preview.checked == (NOT_REFUNDED,)
    assert "ConnectionError" in preview.explain()


def test_more_hints_than_are_remembered() -> None:
    """However many different hints were followed, each reaches what it names."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "refund", limit=1)
    for n in range(200):
        (preview,) = shop.gate.affected(Change("policies", "refund", "limit", f"other-{n}"))
        assert preview.outcome is Outcome.BLOCK
    assert len(shop.gate._runtime().plans[intent.id]._hints) < 200


def test_what_still_waits_is_never_dropped() -> None:
    """A premise that must wait is judged, even where its plan was taken for one that lacks nothing."""
    answers = [True, False]

    @validator("fair", version="1", revision="1")
    def fair(_: int) -> bool:
        return answers.pop(0)

    shop = Shop(premises=[block_unless(fair(resource("policies", "refund").limit), "unfair")])
    intent = shop.refund.propose("o-1", amount=80)
    shop.gate._runtime().plans[intent.id].simple = True
    shop.world.change("policies", "refund", limit=90)
    verdict = shop.gate(intent)
    assert (verdict.outcome, len(verdict.checked), answers) == (Outcome.BLOCK, 1, [])


# --- Tokens -----------------------------------------------------------------------------------------------------------


def at_desk(desk: Desk, store: MemoryStore) -> tuple[Gate, Any]:
    """A gate over a desk, with one effect."""
    gate = Gate(desk, store=store, clock=FakeClock())

    @gate.effect(target=order, premises=[block_unless(~order.refunded), block_unless(order.amount < 10)])
    def refund(permit: DeskPermit, order_id: str) -> str:
        permit.put("orders", order_id, refunded=True)
        return order_id

    return gate, refund


def moved(desk: Desk, token: Token, *, amount: int) -> None:
    """The order's row as it is said to stand now."""
    desk.put("orders", "o-1", {"refunded": False, "amount": amount}, token=token)


@pytest.mark.parametrize(
    ("token", "outcome"),
    [
        pytest.param(opaque("v2"), Outcome.KEEP, id="that the target compares"),
        pytest.param(opaque("v2", of="elsewhere"), Outcome.BLOCK, id="that it cannot compare"),
    ],
)
def test_a_token_of_another_kind(token: Token, outcome: Outcome) -> None:
    """A row under another kind of token is told by its values, and released only if the target can compare it."""
    desk = Desk(orders={"o-1": {"refunded": False, "amount": 1}})
    gate, refund = at_desk(desk, MemoryStore())
    intent = refund.propose("o-1")
    moved(desk, token, amount=1)
    verdict = gate(intent)
    assert (verdict.outcome, verdict.changed, verdict.checked) == (outcome, (), ())
    assert verdict.committed is outcome.permits


def after_restart(desk: Desk, token: Token, *, amount: int) -> Any:
    """The verdict of another process, on the stored record alone, where the row now stands like this."""
    store = MemoryStore()
    _, refund = at_desk(desk, store)
    intent: Intent[str] = refund.propose("o-1")
    later, _ = at_desk(desk, store.reopened())
    moved(desk, token, amount=amount)
    return later(later.intent(intent.id))


def test_a_version_that_went_backwards_while_no_process_ran() -> None:
    """A version smaller than the recorded one blocks after a restart too, whatever the values say."""
    desk = Desk(orders={"o-0": {}, "o-1": {"refunded": False, "amount": 1}})
    verdict = after_restart(desk, Token("counter", "desk", 1), amount=1)
    assert (verdict.outcome, verdict.applied) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED)
    assert "went backwards" in verdict.explain()


def test_another_value_under_the_recorded_token() -> None:
    """A token that came with another value when it was recorded binds nothing after a restart, though it is equal."""
    desk = Desk(orders={"o-1": {"refunded": False, "amount": 2}})
    verdict = after_restart(desk, Token("counter", "desk", 1), amount=1)
    assert (verdict.outcome, verdict.changed) == (Outcome.BLOCK, ("orders/o-1.amount",))
    assert "cannot be bound" in verdict.explain()


# --- Plans ------------------------------------------------------------------------------------------------------------


def test_a_refresh_field_that_names_no_row() -> None:
    """A refresh field whose key names no row, as that of an actor whom nobody named, is not handed to the body."""
    fresh: list[Mapping[str, Value]] = []
    gate = Gate(Memory(profiles={"p-1": {"name": "reader 7"}}, **shop_rows()), clock=FakeClock())

    @gate.effect(
        target=order,
        premises=[block_unless(~order.refunded)],
        refresh=[resource("profiles", actor["profile"]).name, order.customer_name],
    )
    def refund(permit: MemoryPermit, order_id: str) -> None:
        fresh.append(dict(permit.fresh))
        permit.change("orders", order_id, refunded=True)

    refund("o-1")
    refund.options(actor={"profile": "p-1"})("o-2")
    assert fresh == [
        {"orders/o-1.customer_name": "reader 7"},
        {"profiles/p-1.name": "reader 7", "orders/o-2.customer_name": "reader 7"},
    ]


def test_a_plan_works_out_its_premises_once() -> None:
    """Which premises always run, and which a mask names, is worked out once; a new registry makes it be again."""
    premises = [*shop_premises(), block_unless(before(order.until))]
    shop = Shop(premises=premises)
    shop.world.change("orders", "o-1", until=shop.clock.now() + HOUR)
    plan = shop.gate._runtime().plans[shop.refund.propose("o-1", amount=80).id]
    assert plan.always == plan.always == 1 << len(premises) - 1
    assert plan.affected(0b101) is plan.affected(0b101)
    assert plan.affected(0b101) == (0, 2)
    REGISTRY.generation += 1
    assert plan.always == 1 << len(premises) - 1


def test_nothing_is_found_before_a_look() -> None:
    """A plan that was made from a record alone has no observation at hand, and no finding either."""
    shelf = Shelf(accounts={"a": {"tier": "gold"}}, tiers={"gold": {"open": True}})
    tier = resource("tiers", resource("accounts", arg.account).tier)
    store = MemoryStore()

    def gate_with(store: MemoryStore) -> tuple[Gate, Any]:
        gate = Gate(Memory(**shop_rows()), shelf, store=store, clock=FakeClock())

        @gate.effect(target=order, premises=[block_unless(tier.open, accept=UNBOUND("only read"))])
        def refund(permit: MemoryPermit, order_id: str, account: str) -> None:
            permit.change("orders", order_id, refunded=True)

        return gate, refund

    _, refund = gate_with(store)
    intent = refund.propose("o-1", account="a")
    fresh_store = store.reopened()
    later, _ = gate_with(fresh_store)
    stored = fresh_store.load(intent.id)
    assert stored is not None
    plan = later._runtime().plan(stored)
    assert set(plan.seen) == {None}
    assert plan.keep.findings == ()
    assert later(later.intent(intent.id)).committed


# --- What a target compares -------------------------------------------------------------------------------------------


def test_a_target_compares_the_fields_that_decide_and_no_others() -> None:
    """The projection of a bound row has the fields of premises, keys and decisions; or all of it counts."""
    world = Memory(
        orders={"o-1": {"open": True, "name": "A", "customer": "c-1", "note": "", "tags": ("a",)}},
        customers={"c-1": {"tier": "gold", "mail": "x"}},
        flags={"f": {"on": True, "why": ""}},
        seals={"s": {"by": "x"}},
    )
    gate = Gate(world)
    row, seal = resource("orders", arg.order_id), resource("seals", "s")

    @gate.effect(
        target=row,
        refresh=[row.name],
        premises=[
            block_unless(row.open & (row.tags[0] == "a")),
            block_unless(resource("customers", row.customer).tier == "gold"),
            block_unless(exists(seal)),
        ],
    )
    def ship(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, open=False)

    made: list[Any] = []
    transaction = gate.transaction()
    flag = transaction.read(resource("flags", "f").on)
    transaction.decide("the flag is on", rests_on=[flag])
    intents = [transaction.propose(ship, "o-1"), ship.options(key="k").propose("o-1")]
    for intent in intents:
        with failpoint(gate, Apply, before=lambda command: made.append(command.attempt)):
            gate(intent)
        world.change("orders", "o-1", open=True)
    with failpoint(gate, Apply, before=lambda command: made.append(command.attempt)):
        ship("o-1")
    expected = {"orders/o-1": {"open", "tags", "customer"}, "customers/c-1": {"tier"}, "seals/s": None}
    found = [{str(address): attempt.projection(address) for address, _ in attempt.binding} for attempt in made]
    assert found == [expected | {"flags/f": {"on"}}, expected, expected]
