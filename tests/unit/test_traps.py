"""The traps of validating a pending effect, each with its right answer; at least one test for each, by its number."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
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
    SlowShelf,
    Torn,
    changed,
    checked,
    looked,
    opaque,
    order,
    policy,
    shop_premises,
    shop_rows,
)

from lastlook import (
    STRICT,
    UNBOUND,
    Applied,
    AsyncGate,
    BindingPolicy,
    Capture,
    Change,
    DeclarationError,
    Declined,
    EffectBlocked,
    EffectContended,
    EffectNotBound,
    EffectUnknown,
    Gate,
    Grade,
    InFlight,
    KeyReused,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    ReplanRequired,
    State,
    arg,
    before,
    block_unless,
    each,
    every,
    exists,
    fresh,
    replan_unless,
    resource,
    rows,
    total,
    validator,
)
from lastlook.canonical import ABSENT, decode, fingerprint
from lastlook.commands import Apply, Close, Transit
from lastlook.errors import CanonicalError, IntegrityError
from lastlook.events import ApplyAnswered, AttemptClosed, AttemptOpened, ClosureComputed, LookTaken
from lastlook.records import Observation, Token
from lastlook.testing import FakeClock, events, failpoint, forget_edges, interpose, without_validator

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook.ports import Attempt

SEPARATE = pytest.mark.parametrize("separate", [False, True], ids=["same-engine", "separate"])
CRITICAL = BindingPolicy(critical=frozenset({"orders.defect", "weather"}))


def crash(*_: object) -> Any:
    """End the process at this point."""
    raise Crash


def journal(shop: Shop, intent_id: str) -> list[tuple[str, Any]]:
    """The kind and the body of each of an intent's records."""
    return [(entry.kind, decode(entry.body)) for entry in shop.store.journal(intent_id)]


# --- Hints ------------------------------------------------------------------------------------------------------------


def test_trap_01_hint_before_its_commit() -> None:
    """A hint that comes before its change is answered by what stands there, and remembered as nothing."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    (preview,) = shop.gate.affected(Change("policies", "refund", "limit"))
    assert preview.outcome is Outcome.KEEP
    shop.world.change("policies", "refund", limit=50)
    with events(shop.gate) as found:
        assert shop.gate(intent).outcome is Outcome.BLOCK
    assert checked(found) == [LIMIT]


@pytest.mark.parametrize(("limit", "outcome"), [(90, Outcome.KEEP), (50, Outcome.BLOCK)])
def test_trap_02_hint_lost(limit: int, outcome: Outcome) -> None:
    """An index that has lost an intent's reads changes neither what runs before its effect nor what comes of it."""
    ran: list[list[str]] = []
    for lost in (False, True):
        shop = Shop()
        intent = shop.refund.propose("o-1", amount=80)
        if lost:
            forget_edges(shop.gate, intent)
        shop.world.change("policies", "refund", limit=limit)
        assert len(shop.gate.affected(Change("policies", "refund", "limit"))) == (0 if lost else 1)
        with events(shop.gate) as found:
            assert shop.gate(intent).outcome is outcome
        ran.append(checked(found))
    assert ran == [[LIMIT], [LIMIT]]


def test_trap_03_hint_after_the_effect() -> None:
    """A hint that comes after the effect reaches no member, runs nothing, and is told."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    assert shop.gate(intent).committed
    shop.world.change("policies", "refund", limit=50)
    with events(shop.gate) as found:
        assert shop.gate.affected(Change("policies", "refund", "limit")) == []
    (closure,) = found
    assert isinstance(closure, ClosureComputed)
    assert closure.intents == ()


# --- One look ---------------------------------------------------------------------------------------------------------


def test_trap_04_value_and_token_read_apart() -> None:
    """What a torn read paired wrongly is found out by the next one: the same token, another value, and no effect."""
    world = Memory(**shop_rows())
    torn = Torn(world)
    gate = Gate(torn)

    @gate.effect(target=order, premises=shop_premises())
    def refund(permit: MemoryPermit, order_id: str, amount: int) -> None:
        permit.change("orders", order_id, refunded=True)

    torn.between = lambda: world.change("policies", "refund", limit=90)
    intent = refund.propose("o-1", amount=80)
    torn.between = None
    verdict = gate(intent)
    assert (verdict.outcome, verdict.applied) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED)
    assert verdict.changed == ("policies/refund.limit",)


def test_trap_04_a_pair_is_one_thing() -> None:
    """An observation has both halves, and neither can be put in later."""
    token = Token("counter", "t", 1)
    with pytest.raises(TypeError):
        Observation({"limit": 100})  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Observation(token=token)  # type: ignore[call-arg]


def test_trap_04_memory_never_tears() -> None:
    """However a writer interleaves, each version of a row is read with one value only."""
    world = Memory(counters={"c": {"n": 0}})
    address = world.address("counters", "c")
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count(1):
            world.change("counters", "c", n=number)
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    seen: dict[Any, set[Any]] = {}
    for _ in range(3000):
        (cell,) = world.read_many([address])
        assert isinstance(cell, Observation)
        seen.setdefault(cell.token.value, set()).add(cell.value["n"])  # type: ignore[index,call-overload]
    stop.set()
    writer.join()
    assert all(len(values) == 1 for values in seen.values())


def test_trap_05_one_observation_per_resource() -> None:
    """Premises over one resource are judged on one observation of it, whatever is written between."""
    region = resource("regions", order.region)
    shop = Shop(
        world=Memory(
            orders={"o-1": {"region": "uk", "refunded": False, "customer_name": ""}}, regions={"uk": {"open": True}}
        ),
        relay=True,
        premises=[block_unless(region.open), block_unless(~region.open), block_unless(~order.refunded)],
    )
    flips = itertools.cycle([False, True])
    shop.line.after_read = lambda: shop.world.change("regions", "uk", open=next(flips))
    intent = shop.gate.transaction().propose(shop.refund, "o-1", amount=80)
    for _ in range(4):
        shop.line.reads.clear()
        verdict = shop.gate(intent)
        assert [finding.holds for finding in verdict.findings] == [False], "exactly one of a condition and its opposite"
        flat = [address for read in shop.line.reads for address in read]
        assert len(flat) == len(set(flat)), "nothing is read twice in one validation"


@SEPARATE
@pytest.mark.parametrize("where", ["policy", "order"])
def test_trap_06_every_token_is_bound(separate: bool, where: str) -> None:
    """Resources may be read at different times, because each of their tokens is compared with the effect."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    race: Callable[[], None] = (
        (lambda: shop.world.change("policies", "refund", limit=50))
        if where == "policy"
        else (lambda: shop.world.change("orders", "o-1", refunded=True))
    )
    with interpose(shop.gate, race), events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert [event.applied for event in found if isinstance(event, ApplyAnswered)] == [Applied.REJECTED]
    assert (verdict.outcome, verdict.committed, shop.ran) == (Outcome.BLOCK, False, [])


def test_trap_06_unbound_evidence_cannot_carry_a_block() -> None:
    """A premise that blocks may not rest on what the target cannot compare."""
    with pytest.raises(DeclarationError, match=r"could never be released.*'weather'"):
        Shop(
            world=Memory(orders=shop_rows()["orders"]),
            others=(Shelf(weather={"uk": {"rain": True}}),),
            premises=[block_unless(resource("weather", "uk").rain)],
        )


# --- Outcomes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "outcome"),
    [({"defect": False}, Outcome.REPLAN), ({"refunded": True}, Outcome.BLOCK)],
    ids=["replan", "block"],
)
def test_trap_07_refresh_beside_a_false_premise(change: dict[str, bool], outcome: Outcome) -> None:
    """A refresh rule that fires beside a false premise changes nothing: the premise decides; nothing is refreshed."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", customer_name="reader 8", **change)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, shop.fresh) == (outcome, False, [])
    assert "orders/o-1.customer_name" in verdict.changed


def test_trap_08_max_of_outcomes_is_dominance() -> None:
    """`max` over outcomes is the paper's dominance, which is not the order of their names."""
    ranked = [Outcome.KEEP, Outcome.REFRESH, Outcome.REPLAN, Outcome.BLOCK]
    for some in itertools.product(ranked, repeat=3):
        assert max(some) is ranked[max(map(ranked.index, some))]
    assert [outcome for outcome in ranked if outcome.permits] == [Outcome.KEEP, Outcome.REFRESH]
    assert max(ranked, key=lambda outcome: outcome.name) is not Outcome.BLOCK


def test_trap_09_nothing_affected_is_keep() -> None:
    """No affected premise and no refresh rule: KEEP, with nothing run."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, verdict.checked, checked(found)) == (Outcome.KEEP, True, (), [])


@pytest.mark.parametrize("capture", Capture)
def test_trap_10_hint_without_fields(capture: Capture) -> None:
    """A hint that names no field touches every field of its resource, at every granularity."""
    shop = Shop(capture=capture)
    shop.refund.propose("o-1", amount=80)
    with events(shop.gate) as found:
        (preview,) = shop.gate.affected(Change("orders", "o-1"))
    assert {DELIVERED, DEFECT, NOT_REFUNDED} <= set(preview.checked)
    assert preview.outcome is Outcome.REFRESH
    assert {"orders/o-1.delivered", "orders/o-1.customer_name"} <= set(changed(found))


@pytest.mark.parametrize("change", [Change("weather", "uk", "rain"), Change("weather", "uk"), Change("orders", "o-2")])
def test_trap_11_hint_that_reaches_nothing(change: Change) -> None:
    """A change of what nothing rests on runs no premise, and its empty closure is told."""
    shop = Shop()
    shop.refund.propose("o-1", amount=80)
    with events(shop.gate) as found:
        assert shop.gate.affected(change) == []
    assert [type(event) for event in found] == [ClosureComputed]
    assert found[0].intents == ()  # type: ignore[union-attr]


def test_trap_12_no_premises_at_all() -> None:
    """An effect without premises is refused at import, unless it says so and the policy allows it."""
    gate, strict = Gate(Memory(**shop_rows())), Gate(policy=BindingPolicy(allows_no_preconditions=False))

    def note(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, noted=True)

    with pytest.raises(DeclarationError, match="no premises"):
        gate.effect(target=order, premises=[])(note)
    with pytest.raises(DeclarationError, match="does not allow"):
        strict.effect(target=order, no_preconditions=True)(note)
    allowed = gate.effect(target=order, no_preconditions=True)(note)
    assert gate(allowed.propose("o-1")).outcome is Outcome.KEEP


def test_trap_13_one_decision_three_intents() -> None:
    """A change reaches every intent of a decision, but the gate of one looks at that one and applies that one."""
    shop = Shop()
    tx = shop.gate.transaction()
    limit = tx.read(policy)
    tx.decide("these may be refunded", rests_on=[limit])
    shop.world.change("orders", "o-3", **shop_rows()["orders"]["o-1"])
    intents = [tx.propose(shop.refund, name, amount=80) for name in ("o-1", "o-2", "o-3")]
    shop.world.change("policies", "refund", limit=90)
    reached = shop.gate.affected(Change("policies", "refund", "limit"))
    assert {preview.intent for preview in reached} == set(intents)
    assert all(preview.outcome is Outcome.KEEP for preview in reached)
    with events(shop.gate) as found:
        assert shop.gate(intents[1]).committed
    assert looked(found) == [intents[1].id]
    assert [shop.world.row("orders", name)["refunded"] for name in ("o-1", "o-2", "o-3")] == [False, True, False]  # type: ignore[index]


def test_trap_13_another_intent_does_not_decide_mine() -> None:
    """A neighbour's false premise is the neighbour's: each intent's outcome is that of its own premises."""
    shop = Shop()
    small, large = shop.refund.propose("o-1", amount=40), shop.refund.propose("o-2", amount=80)
    shop.world.change("policies", "refund", limit=50)
    outcomes = {p.intent: p.outcome for p in shop.gate.affected(Change("policies", "refund", "limit"))}
    assert outcomes == {small: Outcome.KEEP, large: Outcome.BLOCK}
    assert shop.gate(small).committed
    assert not shop.gate(large).committed


def test_trap_14_shared_premise_runs_once() -> None:
    """A premise behind several decisions is validated once and counted once."""
    shop = Shop()
    tx = shop.gate.transaction()
    limit = tx.read(policy.limit)
    tx.decide("within the limit", rests_on=[limit])
    tx.decide("so it may be paid", rests_on=[limit])
    intent = tx.propose(shop.refund, "o-1", amount=80)
    shop.world.change("policies", "refund", limit=90)
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.checked, checked(found)) == (Outcome.KEEP, (LIMIT,), [LIMIT])


@pytest.mark.parametrize("broken", ["missing", "raises", "slow"])
@pytest.mark.parametrize(
    ("declare", "critical", "outcome"),
    [
        (replan_unless, False, Outcome.REPLAN),
        (block_unless, False, Outcome.BLOCK),
        (replan_unless, True, Outcome.BLOCK),
    ],
    ids=["replan", "block", "critical"],
)
def test_trap_15_validator_unavailable(
    broken: str, declare: Callable[..., Any], critical: bool, outcome: Outcome
) -> None:
    """A validator that is gone, raises or takes too long leaves its premise unverifiable, never true."""
    state = {"broken": False}
    never = threading.Event()

    @validator("trap-15", version="1", timeout=dt.timedelta(milliseconds=20))
    def looks_defective(defect: object) -> bool:
        if state["broken"] and broken == "raises":
            raise RuntimeError(defect)
        if state["broken"] and broken == "slow":
            never.wait()
        return True

    shop = Shop(
        premises=[declare(looks_defective(order.defect))],
        policy=BindingPolicy(critical=frozenset({"orders.defect"})) if critical else STRICT,
    )
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", defect="cracked")
    state["broken"] = True
    try:
        if broken == "missing":
            with without_validator("trap-15", "1"):
                verdict = shop.gate(intent)
        else:
            verdict = shop.gate(intent)
    finally:
        never.set()
    assert (verdict.outcome, verdict.committed) == (outcome, False)
    assert [finding.holds for finding in verdict.findings] == [None]
    with without_validator("trap-15", "1"):
        pass  # leaves the registry as it was found
    from lastlook.validators import REGISTRY

    REGISTRY.remove("trap-15", "1")


@pytest.mark.parametrize(("marks", "outcome"), [(STRICT, Outcome.REPLAN), (CRITICAL, Outcome.BLOCK)])
def test_trap_16_conservative_edge(marks: BindingPolicy, outcome: Outcome) -> None:
    """A changed read that a decision rests on, and that no premise judges, is never KEEP."""
    shop = Shop(policy=marks)
    tx = shop.gate.transaction()
    tx.decide("it rains, so they will want it back", rests_on=[tx.read(resource("weather", "uk"))])
    intent = tx.propose(shop.refund, "o-1", amount=80)
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    shop.world.change("weather", "uk", rain=False)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.applied) == (outcome, Applied.NOT_ATTEMPTED)
    assert [finding.holds for finding in verdict.findings] == [None]
    shop.world.change("weather", "uk", rain=True)
    assert shop.gate(intent).committed, "evidence returns, and so does the permission"


def test_trap_16_a_read_without_an_edge_is_provenance() -> None:
    """What was read and rests in no decision and no premise changes nothing."""
    shop = Shop()
    tx = shop.gate.transaction()
    tx.read(resource("weather", "uk"))
    intent = tx.propose(shop.refund, "o-1", amount=80)
    shop.world.change("weather", "uk", rain=False)
    with events(shop.gate) as found:
        assert shop.gate(intent).outcome is Outcome.KEEP
    assert checked(found) == []


# --- Tokens -----------------------------------------------------------------------------------------------------------


def desk_effect(desk: Desk, *premises: Any, key: str = "a-1", others: tuple[Any, ...] = ()) -> tuple[Gate, Any]:
    """An effect that pays an account out at a desk."""
    gate = Gate(desk, *others, clock=FakeClock())

    @gate.effect(target=resource("accounts", arg.account), premises=list(premises))
    def pay(permit: DeskPermit, account: str = key) -> str:
        permit.put("accounts", account, balance=0)
        return "paid"

    return gate, pay


account = resource("accounts", arg.account)


@pytest.mark.parametrize(("declare", "outcome"), [(block_unless, Outcome.BLOCK), (replan_unless, Outcome.KEEP)])
def test_trap_17_token_equal_and_value_not(declare: Callable[..., Any], outcome: Outcome) -> None:
    """A token that did not move with its value counts as moved, and a premise that blocks cannot be bound to it."""
    desk = Desk()
    desk.kinds = {"accounts"}
    desk.put("accounts", "a-1", {"balance": 10}, token=opaque("v1"))
    gate, pay = desk_effect(desk, declare(account.balance >= 5))
    intent = pay.propose()
    desk.put("accounts", "a-1", {"balance": 7}, token=opaque("v1"))
    with events(gate) as found:
        verdict = gate(intent)
    assert (verdict.outcome, verdict.committed) == (outcome, outcome is Outcome.KEEP)
    assert changed(found) == ["accounts/a-1.balance"]
    assert checked(found) == ["accounts[arg.account].balance >= 5"]


@SEPARATE
def test_trap_18_aba_binds_the_new_token(separate: bool) -> None:
    """A version that moved under the same value is no decision conflict: nothing runs, and the new token is bound."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "refund", limit=50)
    shop.world.change("policies", "refund", limit=100)
    (now,) = shop.world.read_many([shop.world.address("policies", "refund")])
    bound: list[Attempt] = []
    with events(shop.gate) as found, failpoint(shop.gate, Apply, before=lambda at: bound.append(at.attempt)):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, checked(found)) == (Outcome.KEEP, True, [])
    assert [event.applied for event in found if isinstance(event, ApplyAnswered)] == [Applied.COMMITTED]
    tokens = {str(address): then.token for address, then in bound[0].binding}
    assert tokens["policies/refund"] == now.token  # type: ignore[union-attr]


@pytest.mark.parametrize(("declare", "outcome"), [(block_unless, Outcome.BLOCK), (replan_unless, Outcome.REPLAN)])
def test_trap_19_ordered_version_goes_backwards(declare: Callable[..., Any], outcome: Outcome) -> None:
    """An ordered version that is smaller than recorded contradicts, even under an equal value; it is never ignored."""
    desk = Desk(accounts={"a-1": {"balance": 10}})
    desk.put("accounts", "a-1", {"balance": 10}, token=Token("counter", "desk", 9))
    gate, pay = desk_effect(desk, declare(account.balance >= 5))
    intent = pay.propose()
    desk.put("accounts", "a-1", {"balance": 10}, token=Token("counter", "desk", 4))
    verdict = gate(intent)
    assert (verdict.outcome, verdict.committed, desk.applied) == (outcome, False, [])
    assert "went backwards" in verdict.explain()


def test_trap_19_unordered_tokens_have_no_direction() -> None:
    """A token that is only equal or not has moved, and what stands there decides."""
    desk = Desk(accounts={"a-1": {"balance": 10}})
    desk.put("accounts", "a-1", {"balance": 10}, token=opaque("9"))
    gate, pay = desk_effect(desk, block_unless(account.balance >= 5))
    intent = pay.propose()
    desk.put("accounts", "a-1", {"balance": 4}, token=opaque("4"))
    assert gate(intent).outcome is Outcome.BLOCK
    desk.put("accounts", "a-1", {"balance": 6}, token=opaque("3"))
    assert gate(intent).committed


def test_trap_20_tokens_of_another_kind_are_unequal() -> None:
    """1, "1", b"1" and a weak "1" are four tokens, in each namespace others; True and 1.0 are none."""
    values: list[int | str | bytes] = [1, "1", b"1"]
    tokens = [
        Token(kind, space, value)
        for kind in ("counter", "digest", "opaque", "weak")
        for space in ("a", "b")
        for value in values
    ]
    assert len(set(tokens)) == len(tokens)
    assert all((a == b) is (a is b) for a, b in itertools.product(tokens, repeat=2))
    for wrong in (True, 1.0, None):
        with pytest.raises(TypeError, match="must be an int, str or bytes"):
            Token("opaque", "a", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("token", [Token("weak", "desk", "W/1"), Token("opaque", "elsewhere", "1")])
def test_trap_20_weak_or_foreign_token_never_binds(token: Token) -> None:
    """A weak token, or one of another namespace, cannot carry a premise that blocks, whatever its value."""
    desk = Desk(accounts={"a-1": {"balance": 10}})
    desk.put("accounts", "a-1", {"balance": 10}, token=token)
    gate, pay = desk_effect(desk, block_unless(account.balance >= 5))
    verdict = gate(pay.propose())
    assert (verdict.outcome, verdict.committed, desk.applied) == (Outcome.BLOCK, False, [])
    assert set(verdict.bindings.values()) == {Grade.UNBOUND}
    desk.put("accounts", "a-1", {"balance": 10})
    assert gate(pay.propose()).committed, "the same under a token that binds"


@pytest.mark.parametrize("when", ["recorded", "reached at the gate"])
def test_trap_20_weak_token_behind_a_derived_key(when: str) -> None:
    """A weak token does not bind either where evidence named the row that carries it."""
    desk = Desk(accounts={"a-1": {"tier": "gold" if when == "recorded" else "tin"}}, tiers={"tin": {"open": True}})
    desk.put("tiers", "gold", {"open": True}, token=Token("weak", "desk", "W/1"))
    gate, pay = desk_effect(desk, block_unless(resource("tiers", account.tier).open))
    intent = pay.propose()
    desk.put("accounts", "a-1", {"tier": "gold"})
    verdict = gate(intent)
    assert (verdict.outcome, verdict.committed, desk.applied) == (Outcome.BLOCK, False, [])


# --- Missing, absent, new ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declare", "outcome"), [(block_unless, Outcome.BLOCK), (replan_unless, Outcome.REPLAN)], ids=["block", "replan"]
)
def test_trap_21_deleted_is_not_null(declare: Callable[..., Any], outcome: Outcome) -> None:
    """A deleted resource leaves a premise unverifiable, where null can make it true."""
    shop = Shop(premises=[declare(order.note.is_null())])
    shop.world.change("orders", "o-1", note=None)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.delete("orders", "o-1")
    verdict = shop.gate(intent)
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (outcome, [None])
    shop.world.replace("orders", "o-1", {"note": None, "customer_name": "reader 7"})
    assert shop.gate(intent).committed


def test_trap_22_absent_null_and_empty() -> None:
    """Absent, null and the empty text are three values with three digests, and every step between them is a change."""
    assert len({fingerprint(value) for value in (ABSENT, None, "")}) == 3
    shop = Shop(premises=[replan_unless(order.note == "")])
    shop.world.change("orders", "o-1", note="")
    label = "orders[arg.order_id].note == ''"
    intent = shop.refund.propose("o-1", amount=80)
    for gone in (False, True):
        if gone:
            shop.world.drop("orders", "o-1", "note")
        else:
            shop.world.change("orders", "o-1", note=None)
        verdict = shop.gate(intent)
        assert (verdict.outcome, verdict.checked) == (Outcome.REPLAN, (label,))
        assert [finding.holds for finding in verdict.findings] == [None]
    shop.world.change("orders", "o-1", note="")
    assert shop.gate(intent).outcome is Outcome.KEEP


@SEPARATE
@pytest.mark.parametrize("late", [False, True], ids=["before the look", "after the look"])
def test_trap_23_a_row_appears(separate: bool, late: bool) -> None:
    """A row that was recorded as absent is bound as absent: once it is there, nothing is released."""
    shop = Shop(
        separate=separate,
        world=Memory(**shop_rows(), refunds={}),
        premises=[block_unless(~exists(resource("refunds", arg.order_id)), "refunded by another worker")],
    )
    intent = shop.refund.propose("o-1", amount=80)
    if late:
        with interpose(shop.gate, lambda: shop.world.change("refunds", "o-1", by="another worker")):
            verdict = shop.gate(intent)
    else:
        shop.world.change("refunds", "o-1", by="another worker")
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, shop.ran) == (Outcome.BLOCK, False, [])


@pytest.mark.parametrize(
    "condition",
    [
        ~exists(resource("refunds", arg.account)),
        rows("refunds").count() == 0,
        every(rows("refunds"), each.account != arg.account),
    ],
    ids=["absence", "count", "every"],
)
def test_trap_23_absence_needs_a_target_that_checks_it(condition: Any) -> None:
    """A target that compares only rows which are there binds neither an absence nor a whole collection."""
    desk = Desk(accounts={"a-1": {"balance": 10}}, refunds={})
    with pytest.raises(DeclarationError, match="could never be released"):
        desk_effect(desk, block_unless(condition))
    _, pay = desk_effect(desk, block_unless(condition, accept=UNBOUND("one clerk works here")))
    assert set(pay.contract.bindings().values()) == {Grade.UNBOUND}


# --- Attempts ---------------------------------------------------------------------------------------------------------


@SEPARATE
@pytest.mark.parametrize("field", ["shelf", "customer_name"])
def test_trap_24_harmless_field_moves_the_row(separate: bool, field: str) -> None:
    """A write to a field that decides nothing moves the row's version: rebound, and committed at the first attempt."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", **{field: "another"})
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert verdict.outcome is (Outcome.REFRESH if field == "customer_name" else Outcome.KEEP)
    assert [event.applied for event in found if isinstance(event, ApplyAnswered)] == [Applied.COMMITTED]
    assert checked(found) == []


@SEPARATE
def test_trap_25_rejected_then_a_new_attempt(separate: bool) -> None:
    """After a rejection the evidence is looked at anew, and the next attempt has a new number, key and tokens."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    made: list[Attempt] = []
    with (
        interpose(shop.gate, lambda: shop.world.change("policies", "refund", limit=90)),
        failpoint(shop.gate, Apply, before=lambda at: made.append(at.attempt)),
    ):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, shop.ran) == (Outcome.KEEP, True, [80])
    assert [attempt.number for attempt in made] == [1, 2]
    assert made[0].key != made[1].key
    first, second = ({str(address): then.token for address, then in attempt.binding} for attempt in made)
    assert first["policies/refund"] != second["policies/refund"]
    assert first["orders/o-1"] == second["orders/o-1"]


@SEPARATE
def test_trap_25_rejections_are_bounded(separate: bool) -> None:
    """A row that moves under every attempt ends the gate after three revalidations: REJECTED, and open."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    moves = itertools.count()
    tries: list[int] = []

    def move(at: Apply) -> None:
        tries.append(at.attempt.number)
        shop.world.change("orders", "o-1", visits=next(moves))

    with failpoint(shop.gate, Apply, before=move):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.applied, verdict.state) == (Outcome.KEEP, Applied.REJECTED, State.OPEN)
    assert tries == [1, 2, 3, 4]
    with pytest.raises(EffectContended):
        verdict.result()
    assert shop.ran == []
    assert shop.gate(intent).committed, "it is open still"


@pytest.mark.parametrize("how", ["answers UNKNOWN", "raises"])
@pytest.mark.parametrize("lost", ["before", "after"])
def test_trap_26_lost_reply_is_closed_at_the_target(lost: str, how: str) -> None:
    """No answer is never called a rejection: the target closes the attempt, and says what became of it."""
    desk = Desk(accounts={"a-1": {"balance": 10}})
    gate, pay = desk_effect(desk, block_unless(account.balance >= 5))
    intent = pay.propose()
    desk.loses = lost
    desk.raises = TimeoutError("the line is dead") if how == "raises" else None
    with events(gate) as found, failpoint(gate, Close, before=lambda _: setattr(desk, "loses", "")):
        verdict = gate(intent)
    assert (verdict.committed, verdict.result()) == (True, "paid")
    assert len([row for row in desk.effects.values() if row.committed_at]) == 1
    (closed,) = [event.applied for event in found if isinstance(event, AttemptClosed)]
    assert closed is (Applied.NOT_ATTEMPTED if lost == "before" else Applied.COMMITTED)
    answers = [event.applied for event in found if isinstance(event, ApplyAnswered)]
    assert Applied.REJECTED not in answers
    assert len(desk.applied) == (2 if lost == "before" else 1)


@pytest.mark.parametrize("how", ["answers UNKNOWN", "raises"])
def test_trap_26_a_target_that_cannot_say(how: str) -> None:
    """Where nobody can say, the intent stays unknown for a person, and nothing is sent again."""
    desk = Desk(accounts={"a-1": {"balance": 10}})
    gate, pay = desk_effect(desk, block_unless(account.balance >= 5))
    intent = pay.propose()
    desk.loses, desk.closes = "after", False
    desk.raises = TimeoutError("the line is dead") if how == "raises" else None
    verdict = gate(intent)
    assert (verdict.applied, verdict.state) == (Applied.UNKNOWN, State.ATTEMPT)
    with pytest.raises(EffectUnknown, match="may have happened"):
        verdict.result()
    desk.effects.clear()  # it keeps no record that a look could find
    assert gate(intent).applied is Applied.UNKNOWN
    assert len(desk.applied) == 1
    with pytest.raises(InFlight):
        gate.withdraw(intent)
    gate.assert_outcome(intent, committed=True, by="the clerk", note="seen on the statement")
    assert gate(intent).committed
    assert len(desk.applied) == 1


def function_effect(*, clock: FakeClock | None = None, store: MemoryStore | None = None) -> tuple[Gate, Any, list[Any]]:
    """An effect through a plain function, which does what it is told by the list."""
    gate = Gate(Memory(orders={"o-1": {"open": True}}), store=store or MemoryStore(), clock=clock or FakeClock())
    does: list[Any] = []

    @gate.effect(
        target="courier",
        lane=(arg.order_id,),
        premises=[block_unless(resource("orders", arg.order_id).open, accept=UNBOUND("the courier checks nothing"))],
    )
    def send(permit: Any, order_id: str, weight: int = 1) -> Any:
        step = does.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    return gate, send, does


def test_trap_26_plain_function() -> None:
    """A function that raises may have acted: unknown, journaled as an open attempt, and not called again."""
    gate, send, does = function_effect()
    intent = send.propose("o-1")
    does[:] = [TimeoutError("the line is dead"), "sent twice"]
    assert [gate(intent).applied for _ in range(3)] == [Applied.UNKNOWN] * 3
    assert does == ["sent twice"]
    gate.assert_outcome(intent, committed=False, by="the clerk", note="the parcel is still here")
    assert gate(intent).result() == "sent twice"


@SEPARATE
def test_trap_26_definite_error_is_failed(separate: bool) -> None:
    """An error before anything was committed is definite: the original comes through, and the intent is open."""
    shop = Shop(separate=separate)
    mistake = RuntimeError("a mistake of the body")

    @shop.gate.effect(target=order, premises=shop_premises())
    def fail(permit: MemoryPermit, order_id: str, amount: int) -> None:
        permit.change("orders", order_id, refunded=True)
        raise mistake

    intent = fail.propose("o-1", amount=80)
    with events(shop.gate) as found, pytest.raises(RuntimeError) as raised:
        shop.gate(intent)
    assert raised.value is mistake
    assert [event.applied for event in found if isinstance(event, ApplyAnswered)] == [Applied.FAILED]
    assert shop.world.row("orders", "o-1")["refunded"] is False  # type: ignore[index]
    assert shop.gate.pending() == [intent]


@pytest.mark.parametrize("how", ["same process", "another process", "a restarted one"])
def test_trap_27_crash_between_effect_and_record(how: str) -> None:
    """After a crash the target tells of the commit, and our own effect is not held against us."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, after=crash), pytest.raises(Crash):
        shop.gate(intent)
    assert shop.world.row("orders", "o-1")["refunded"] is True  # type: ignore[index]
    if how != "same process":
        shop = shop.again(shop.store.reopened() if how == "a restarted one" else None)
        assert shop.gate(intent).applied is Applied.IN_PROGRESS, "its owner may be alive"
        shop.clock.advance(dt.timedelta(seconds=31))
    with events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.applied, verdict.outcome, verdict.result()) == (Applied.COMMITTED, Outcome.KEEP, "refunded o-1")
    assert (checked(found), looked(found), shop.ran) == ([], [], [80])
    assert [event.applied for event in found if isinstance(event, AttemptClosed)] == [Applied.COMMITTED]


def test_trap_27_crash_before_the_effect() -> None:
    """After a crash before anything was sent the attempt is closed at the target first, and a new one commits once."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, before=crash), pytest.raises(Crash):
        shop.gate(intent)
    with events(shop.gate) as found:
        assert shop.gate(intent).committed
    assert [type(event) for event in found if isinstance(event, (AttemptClosed, AttemptOpened, LookTaken))] == [
        AttemptClosed,
        LookTaken,
        AttemptOpened,
    ]
    assert shop.ran == [80]


def test_trap_27_a_zombie_is_fenced() -> None:
    """An attempt that was closed, and wakes up afterwards, is refused at the target however often it tries."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    asleep: list[Attempt] = []

    def fall_asleep(at: Apply) -> None:
        asleep.append(at.attempt)
        raise Crash

    with failpoint(shop.gate, Apply, before=fall_asleep), pytest.raises(Crash):
        shop.gate(intent)
    shop.clock.advance(dt.timedelta(seconds=31))
    shop.world.change("policies", "refund", limit=50)
    other = shop.again()
    assert other.gate(intent).outcome is Outcome.BLOCK, "closed at the target first"
    shop.world.change("policies", "refund", limit=100)
    for _ in range(2):
        assert shop.world.apply(asleep[0], None).status is Applied.REJECTED
    assert shop.ran == []
    with failpoint(other.gate, Apply, before=lambda at: asleep.append(at.attempt)):
        assert other.gate(intent).committed
    assert [attempt.number for attempt in asleep] == [1, 2]
    assert shop.world.apply(asleep[0], None).status is Applied.COMMITTED, "of the other attempt, and not again"
    assert shop.ran == [80]


def test_trap_27_an_older_store_adopts_the_floor() -> None:
    """A store that has forgotten attempts counts on from the target's floor, and is not fenced first."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    older = shop.store.reopened()
    for _ in range(3):
        with failpoint(shop.gate, Apply, before=crash), pytest.raises(Crash):
            shop.gate(intent)
    shop.gate.reconcile()
    restored = shop.again(older)
    made: list[int] = []
    with failpoint(restored.gate, Apply, before=lambda at: made.append(at.attempt.number)):
        assert restored.gate(intent).committed
    assert made == [4]


@SEPARATE
def test_trap_28_gate_of_a_committed_intent(separate: bool) -> None:
    """A committed intent answers with its record, however the world stands now: no look, no premise, no apply."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    first = shop.gate(intent)
    shop.world.change("policies", "refund", limit=1)
    for gate in (shop.gate, shop.again().gate, shop.again(shop.store.reopened()).gate):
        with events(gate) as found:
            again = gate(intent)
        assert found == []
        assert (again.outcome, again.applied, again.result()) == (first.outcome, Applied.COMMITTED, first.result())
    assert shop.ran == [80]


@SEPARATE
def test_trap_29_two_gates_one_intent(separate: bool) -> None:
    """Of two gates on one intent at most one commits; the other is told of that commit, or that it is in progress."""
    shop = Shop(separate=separate)
    other = shop.again()
    intent = shop.refund.propose("o-1", amount=80)
    verdicts: list[Any] = []
    with interpose(shop.gate, lambda: verdicts.append(other.gate(intent))):
        verdicts.append(shop.gate(intent))
    rival, mine = verdicts
    assert mine.committed
    assert rival.applied is (Applied.IN_PROGRESS if separate else Applied.COMMITTED)
    assert shop.ran == [80]
    assert other.gate(intent).result() == mine.result() == "refunded o-1"


@SEPARATE
def test_trap_29_a_block_and_an_attempt_exclude_each_other(separate: bool) -> None:
    """Once a gate has journaled BLOCK, another that looked before it does not go on: it looks again."""
    shelf = Shelf(weather={"uk": {"rain": True}})
    shop = Shop(
        separate=separate,
        world=Memory(orders=shop_rows()["orders"]),
        others=(shelf,),
        premises=[block_unless(resource("weather", "uk").rain, accept=UNBOUND("the forecast has no version"))],
    )
    other, intent = shop.again(), shop.refund.propose("o-1", amount=80)

    def block() -> None:
        shelf.put("weather", "uk", {"rain": False})
        assert other.gate(intent).outcome is Outcome.BLOCK

    raced = iter([block])
    with failpoint(shop.gate, Transit if separate else Apply, before=lambda _: next(raced, lambda: None)()):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.BLOCK, False)
    assert [kind for kind, _ in journal(shop, intent.id)] == ["PROPOSED", "VERDICT", "VERDICT"]


@SEPARATE
@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_trap_30_approval_ends_after_the_look(separate: bool, end: str) -> None:
    """An approval that is revoked or runs out between the look and the effect stops it: bound and timed there."""
    clock = FakeClock()
    until = clock.now() + dt.timedelta(minutes=5)
    approval = resource("approvals", arg.order_id)
    shop = Shop(
        separate=separate,
        clock=clock,
        world=Memory(**shop_rows(), approvals={"o-1": {"granted": True, "until": until}}),
        premises=[block_unless(approval.granted & before(approval.until), "no approval")],
    )
    intent = shop.refund.propose("o-1", amount=80)
    race: dict[str, Callable[[], object]] = {
        "revoked": lambda: shop.world.change("approvals", "o-1", granted=False),
        "expired": lambda: clock.advance(dt.timedelta(minutes=5)),
    }
    with interpose(shop.gate, race[end]), events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert [event.applied for event in found if isinstance(event, ApplyAnswered)] == [Applied.REJECTED]
    assert (verdict.outcome, verdict.committed, shop.ran) == (Outcome.BLOCK, False, [])


@SEPARATE
def test_trap_30_the_body_takes_too_long(separate: bool) -> None:
    """A permission that ends while the body is at work has ended: checked again after it, and nothing is written."""
    clock = FakeClock()
    shop = Shop(separate=separate, clock=clock, premises=[block_unless(before(order.until))])
    shop.world.change("orders", "o-1", until=clock.now() + dt.timedelta(minutes=5))

    @shop.gate.effect(target=order, premises=[block_unless(before(order.until))])
    def slow(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)
        clock.advance(dt.timedelta(minutes=5))

    intent = slow.propose("o-1")
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.BLOCK, False)
    row = shop.world.row("orders", "o-1")
    assert row is not None
    assert row["refunded"] is False


def test_trap_31_validator_upgraded() -> None:
    """A premise pins its validator: a new version beside it changes nothing, in its place it leaves it unverifiable."""
    from lastlook.validators import REGISTRY

    @validator("trap-31", version="1")
    def first(defect: object) -> bool:
        return bool(defect)

    shop = Shop(premises=[replan_unless(first(order.defect))])
    intent = shop.refund.propose("o-1", amount=80)

    @validator("trap-31", version="2")
    def second(defect: object) -> bool:
        return defect == 2

    shop.world.change("orders", "o-1", defect="cracked")
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    with without_validator("trap-31", "1"):
        preview = shop.gate.preview(intent)
        assert (preview.outcome, [finding.holds for finding in preview.findings]) == (Outcome.REPLAN, [None])
        shop.world.change("orders", "o-1", defect=True)
        assert shop.gate.preview(intent).outcome is Outcome.REPLAN, "although nothing that it rests on changed"
    assert shop.gate(intent).committed
    REGISTRY.remove("trap-31", "1")
    REGISTRY.remove("trap-31", "2")


def test_trap_32_arguments_are_the_intents_identity() -> None:
    """Other arguments are another intent: under the same call key they are refused, else they get their own id."""
    shop = Shop()
    first = shop.refund.options(key="call-1").propose("o-1", amount=80)
    with pytest.raises(KeyReused, match="other arguments"):
        shop.refund.options(key="call-1").propose("o-1", amount=90)
    assert shop.refund.propose("o-1", amount=90) != shop.refund.propose("o-1", amount=80)
    assert shop.gate(first).committed
    assert shop.ran == [80]


def test_trap_32_a_target_row_of_other_arguments() -> None:
    """A target row that was written for other arguments is not taken for this intent's commit."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    with failpoint(shop.gate, Apply, after=crash), pytest.raises(Crash):
        shop.gate(intent)
    edited = Shop(world=shop.world, separate=True)
    with failpoint(edited.gate, Apply, before=lambda at: object.__setattr__(at.attempt, "intent_id", intent.id)):
        other = edited.refund.propose("o-2", amount=90)
        with pytest.raises(IntegrityError, match="other arguments"):
            edited.gate(other)
    assert edited.ran == []


@pytest.mark.parametrize("number", [Decimal("NaN"), Decimal("-Infinity"), [Decimal("sNaN")]])
def test_trap_33_nan_is_refused_where_it_enters(number: object) -> None:
    """What is no number never becomes evidence, so that no comparison with it can be true either way round."""
    shop = Shop()
    with pytest.raises(CanonicalError):
        shop.world.change("policies", "refund", limit=number)
    with pytest.raises(CanonicalError):
        Memory(policies={"refund": {"limit": number}})
    assert shop.world.row("policies", "refund") == {"limit": 100}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "condition",
    [
        arg.amount <= policy.limit,
        ~(arg.amount > policy.limit),
        arg.amount != policy.limit,
        ~(arg.amount > policy.limit.as_decimal(2)),
        arg.amount < policy.limit.as_decimal(2),
    ],
)
def test_trap_33_a_float_that_is_no_number(number: float, condition: Any) -> None:
    """A float NaN that a system holds takes part in no comparison: unverifiable either way round."""
    shop = Shop(premises=[block_unless(condition)])
    shop.world.change("policies", "refund", limit=number)
    verdict = shop.gate(shop.gate.transaction().propose(shop.refund, "o-1", amount=80))
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])


def test_trap_34_diamond() -> None:
    """What a change reaches by several ways is visited once."""
    shop = Shop()
    tx = shop.gate.transaction()
    limit = tx.read(policy.limit)
    for number in range(5):
        tx.decide(f"conclusion {number}", rests_on=[limit])
    intents = [tx.propose(shop.refund, name, amount=80) for name in ("o-1", "o-2")]
    with events(shop.gate) as found:
        shop.gate.affected(Change("policies", "refund", "limit"))
    closure = next(event for event in found if isinstance(event, ClosureComputed))
    assert len(closure.nodes) == len(set(closure.nodes)) == 1 + 5 + 2
    assert sorted(closure.intents) == sorted(intent.id for intent in intents)


@SEPARATE
def test_trap_35_refresh_permits(separate: bool) -> None:
    """REFRESH releases the same effect with the field as it reads now: given to the body, frozen in the record."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", customer_name="reader 8")
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, verdict.checked) == (Outcome.REFRESH, True, ())
    assert shop.fresh == [{"orders/o-1.customer_name": "reader 8"}]
    proposed, *_, last = journal(shop, intent.id)
    assert proposed[1]["arguments"] == {"order_id": "o-1", "amount": 80}
    if separate:
        assert last[1]["refresh"] == {"orders/o-1.customer_name": "reader 8"}


def test_trap_35_refresh_cannot_change_the_arguments() -> None:
    """A field that gives the target its key is not presentation, and cannot be refreshed."""
    gate = Gate(Memory(**shop_rows()))
    elsewhere = resource("orders", order.replacement)
    with pytest.raises(DeclarationError, match="gives the target its key"):

        @gate.effect(target=elsewhere, premises=[block_unless(~order.refunded)], refresh=[order.replacement])
        def refund(permit: MemoryPermit, order_id: str) -> None:
            permit.change("orders", order_id, refunded=True)


def test_trap_36_less_is_accepted_by_the_premise_alone() -> None:
    """Only a premise's own written reason lets it be unbound, the explanation repeats it, and no policy can relax."""
    shelf = Shelf(weather={"uk": {"rain": True}})
    rain = resource("weather", "uk").rain
    rest = {"orders": shop_rows()["orders"]}
    for laxest in (STRICT, BindingPolicy(), BindingPolicy(critical=frozenset(), allows_no_preconditions=True)):
        with pytest.raises(DeclarationError, match="could never be released"):
            Shop(world=Memory(**rest), others=(shelf,), policy=laxest, premises=[block_unless(rain)])
    with pytest.raises(DeclarationError, match="needs a reason"):
        UNBOUND("  ")
    shop = Shop(
        world=Memory(**rest),
        others=(shelf,),
        premises=[block_unless(rain, accept=UNBOUND("the forecast has no version")), block_unless(~order.refunded)],
    )
    intent = shop.refund.propose("o-1", amount=80)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.KEEP, True)
    assert verdict.bindings["weather['uk'].rain"] is Grade.UNBOUND
    assert verdict.bindings[NOT_REFUNDED] is Grade.BOUND
    assert "accepted because the forecast has no version" in verdict.explain()


def test_trap_36_accepted_is_not_unchecked() -> None:
    """A premise that may be unbound is still looked at, and still blocks."""
    shelf = Shelf(weather={"uk": {"rain": True}})
    shop = Shop(
        world=Memory(orders=shop_rows()["orders"]),
        others=(shelf,),
        premises=[block_unless(resource("weather", "uk").rain, accept=UNBOUND("no version"))],
    )
    intent = shop.refund.propose("o-1", amount=80)
    shelf.put("weather", "uk", {"rain": False})
    assert shop.gate(intent).outcome is Outcome.BLOCK


def test_trap_37_the_record_fails_after_the_commit() -> None:
    """COMMITTED stays the truth where its record cannot be written; the error is shown, and a later gate writes it."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)

    def fail(at: Transit) -> None:
        if at.append.state is State.COMMITTED:
            raise OSError("the disk is full")

    with failpoint(shop.gate, Transit, before=fail):
        verdict = shop.gate(intent)
    assert (verdict.applied, verdict.result()) == (Applied.COMMITTED, "refunded o-1")
    assert isinstance(verdict.error, OSError)
    assert [kind for kind, _ in journal(shop, intent.id)] == ["PROPOSED", "ATTEMPT"]
    again = shop.gate(intent)
    assert (again.applied, again.state, again.result()) == (Applied.COMMITTED, State.COMMITTED, "refunded o-1")
    assert [kind for kind, _ in journal(shop, intent.id)] == ["PROPOSED", "ATTEMPT", "COMMITTED"]
    assert shop.ran == [80]


def test_trap_37_the_attempt_is_recorded_first() -> None:
    """What is about to be done stands in the journal before the target is asked: evidence, tokens, key, outcome."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    stood: list[tuple[str, Any]] = []
    with failpoint(shop.gate, Apply, before=lambda at: stood.extend([*journal(shop, at.attempt.intent_id)[-1:]])):
        shop.gate(intent)
    ((kind, body),) = stood
    assert kind == "ATTEMPT"
    assert (body["outcome"], body["applied"], body["attempt"]) == ("KEEP", "IN_PROGRESS", 1)
    assert {(row[0], *row[1]) for row in body["evidence"]} == {("orders", "o-1"), ("policies", "refund")}
    assert body["key"].startswith("ll-")


@SEPARATE
def test_trap_38_a_row_held_by_another_session(separate: bool) -> None:
    """A row that another session holds is waited for, a bounded time: BUSY, open, and never called a rejection."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    start = shop.clock.now()
    with shop.world.lock("orders", "o-1"), events(shop.gate) as found:
        verdict = shop.gate(intent)
    assert (verdict.applied, verdict.state, shop.ran) == (Applied.BUSY, State.OPEN, [])
    assert [event.applied for event in found if isinstance(event, ApplyAnswered)] == [Applied.BUSY]
    assert dt.timedelta(seconds=4) < shop.clock.now() - start <= dt.timedelta(seconds=6)
    with pytest.raises(EffectContended, match="locked by another session"):
        verdict.result()
    assert shop.gate(intent).committed


@SEPARATE
def test_trap_38_a_held_row_that_is_only_written(separate: bool) -> None:
    """A row that the body writes and no premise names is waited for as well."""
    shop = Shop(separate=separate)

    @shop.gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def both(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)
        permit.change("weather", "uk", rain=False)

    intent = both.propose("o-1")
    with shop.world.lock("weather", "uk"):
        verdict = shop.gate(intent)
    assert (verdict.applied, verdict.state) == (Applied.BUSY, State.OPEN)
    assert shop.world.row("weather", "uk") == {"rain": True}
    assert shop.gate(intent).committed


@pytest.mark.parametrize("harmful", [True, False])
def test_trap_39_replica_read(harmful: bool) -> None:
    """A replica that lags may be read, for the primary compares: nothing commits on what is over."""
    shop = Shop(relay=True)
    shop.line.lag([("orders", "o-1"), ("policies", "refund")])
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "refund", limit=50 if harmful else 90)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.applied, shop.ran) == (Outcome.KEEP, Applied.REJECTED, [])
    shop.line.catch_up()
    assert shop.gate(intent).outcome is (Outcome.BLOCK if harmful else Outcome.KEEP)


@SEPARATE
def test_trap_40_cancelled_while_applying(separate: bool) -> None:
    """A cancelled caller leaves at once; the effect is applied to its end and journaled, for whoever asks next."""

    async def main() -> None:
        started, hold = asyncio.Event(), asyncio.Event()
        shop = AsyncShop(separate=separate, started=started, hold=hold)
        intent = await shop.refund.propose("o-1", amount=80)
        caller = asyncio.create_task(_await(shop.gate(intent)))
        await started.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        if separate:
            assert (await shop.gate(intent)).applied is Applied.IN_PROGRESS
        hold.set()
        await shop.gate.aclose()
        row = shop.world.row("orders", "o-1")
        assert row is not None
        assert row["refunded"] is True
        again = await shop.gate(intent)
        assert (again.applied, again.result(), shop.ran) == (Applied.COMMITTED, "refunded o-1", [80])

    asyncio.run(main())


async def _await(awaitable: Any) -> Any:
    return await awaitable


def test_trap_40_a_cancelled_body() -> None:
    """A cancellation inside of a plain function's body is no answer: unknown, and never sent again."""

    async def main() -> None:
        gate = AsyncGate(Memory(orders={"o-1": {"open": True}}), clock=FakeClock())
        calls: list[str] = []

        @gate.effect(
            target="courier",
            lane=(arg.order_id,),
            premises=[block_unless(resource("orders", arg.order_id).open, accept=UNBOUND("it checks nothing"))],
        )
        async def send(permit: Any, order_id: str) -> None:
            calls.append(order_id)
            raise asyncio.CancelledError

        intent = await send.propose("o-1")
        with pytest.raises(asyncio.CancelledError):
            await gate(intent)
        verdict = await gate(intent)
        assert (verdict.applied, verdict.state, calls) == (Applied.UNKNOWN, State.ATTEMPT, ["o-1"])

    asyncio.run(main())


def test_trap_40_cancelled_while_looking() -> None:
    """A caller that is cancelled during the look has done nothing, and the intent is as open as before."""

    async def main() -> None:
        shelf = SlowShelf(weather={"uk": {"rain": True}})
        shelf.asked, shelf.released = asyncio.Event(), asyncio.Event()
        shelf.released.set()
        rain = block_unless(resource("weather", "uk").rain, accept=UNBOUND("the forecast has no version"))
        shop = AsyncShop(world=Memory(orders=shop_rows()["orders"]), others=(shelf,), premises=[rain])
        intent = await shop.refund.propose("o-1", amount=80)
        shelf.asked.clear()
        shelf.released.clear()
        caller = asyncio.create_task(_await(shop.gate(intent)))
        await shelf.asked.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert shop.ran == []
        shelf.released.set()
        assert (await shop.gate(intent)).committed

    asyncio.run(main())


# --- Proposing --------------------------------------------------------------------------------------------------------


def test_trap_41_false_when_proposed() -> None:
    """What is false already when it is proposed makes no intent, so that no unchanged world can keep it."""
    shop = Shop()
    shop.world.change("policies", "refund", limit=50)
    with pytest.raises(EffectBlocked, match="over the refund limit") as stopped:
        shop.refund.propose("o-1", amount=80)
    assert "nothing was stored" in stopped.value.verdict.explain()
    assert shop.gate.pending() == []
    shop.world.change("policies", "refund", limit=100)
    shop.world.change("orders", "o-1", defect=False)
    with pytest.raises(ReplanRequired):
        shop.refund.propose("o-1", amount=80)
    assert shop.gate.pending() == []


@pytest.mark.parametrize("way", ["transaction", "one-shot"])
def test_trap_41_recorded_as_unproven_it_runs(way: str) -> None:
    """An intent that may be stored with a false premise has it run at the gate, although nothing changes after."""
    shop = Shop()
    shop.world.change("policies", "refund", limit=50)
    if way == "transaction":
        intent = shop.gate.transaction().propose(shop.refund, "o-1", amount=80)
        verdict = shop.gate(intent)
        assert (verdict.outcome, verdict.checked) == (Outcome.BLOCK, (LIMIT,))
    else:
        with pytest.raises(EffectBlocked) as stopped:
            shop.refund("o-1", amount=80)
        assert set(stopped.value.verdict.checked) == {DELIVERED, DEFECT, NOT_REFUNDED, LIMIT}
    assert shop.ran == []


def test_trap_42_awaited_approval() -> None:
    """An approval that is awaited is not judged when proposed, and always at the gate."""
    approval = resource("approvals", arg.order_id)
    shop = Shop(world=Memory(**shop_rows(), approvals={}), awaits=[block_unless(approval.granted, "not approved")])
    label = "approvals[arg.order_id].granted"
    with events(shop.gate) as found:
        intent = shop.refund.propose("o-1", amount=80)
    assert found[-1].unproven == (label,)  # type: ignore[union-attr]
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.checked) == (Outcome.BLOCK, (label,))
    shop.world.change("approvals", "o-1", granted=True)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.checked, verdict.committed) == (Outcome.KEEP, (label,), True)


def test_trap_42_awaited_is_never_skipped() -> None:
    """An awaited premise runs even where it was true all the time and nothing changed."""
    approval = resource("approvals", arg.order_id)
    shop = Shop(
        world=Memory(**shop_rows(), approvals={"o-1": {"granted": True}}), awaits=[block_unless(approval.granted)]
    )
    verdict = shop.gate(shop.refund.propose("o-1", amount=80))
    assert (verdict.outcome, verdict.checked) == (Outcome.KEEP, ("approvals[arg.order_id].granted",))


# --- Bodies -----------------------------------------------------------------------------------------------------------


def test_trap_43_what_a_body_raises() -> None:
    """A function's exception is no answer, unless it says that the other side declined: definite, raised, and open."""
    gate, send, does = function_effect()
    intent = send.propose("o-1")
    refusal = Declined("no such address")
    does[:] = [refusal, "sent"]
    with pytest.raises(Declined) as raised:
        gate(intent)
    assert raised.value is refusal
    assert gate.pending() == [intent]
    assert gate(intent).result() == "sent"


@pytest.mark.parametrize("error", [KeyError("k"), ZeroDivisionError(), TimeoutError(), Declined("no")])
def test_trap_43_memory_rolls_back(error: Exception) -> None:
    """Where the target rolls back, whatever a body raises is definite: its own exception, and nothing written."""
    gate = Gate(world := Memory(**shop_rows()))
    before_ = world.row("orders", "o-1")

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def fail(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)
        permit.delete("policies", "refund")
        raise error

    intent = fail.propose("o-1")
    for _ in range(2):
        with pytest.raises(type(error)) as raised:
            gate(intent)
        assert raised.value is error
    with pytest.raises(type(error)):
        fail("o-1")
    assert (world.row("orders", "o-1"), world.row("policies", "refund")) == (before_, {"limit": 100})
    assert gate.pending() == [intent], "the one-shot call left nothing behind"


@SEPARATE
@pytest.mark.parametrize("way", ["nothing", "past the permit", "an old permit", "another kind of write"])
def test_trap_44_body_past_its_permit(separate: bool, way: str) -> None:
    """A body that does not write through its permit is rolled back by name, and never COMMITTED."""
    world = Memory(**shop_rows()).options(separate=separate)
    gate = Gate(world)
    before_ = world.row("orders", "o-1")
    old: list[MemoryPermit] = []

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str, way: str) -> None:
        if way == "past the permit":
            world.change("orders", order_id, refunded=True)
        elif way == "another kind of write":
            permit.change("orders", order_id, refunded=True)
            world.delete("policies", "refund")
        elif way == "an old permit":
            old[0].change("orders", order_id, refunded=True)
        elif way == "keep it":
            old.append(permit)
            permit.change("orders", "o-2", refunded=True)

    assert gate(refund.propose("o-2", way="keep it")).committed
    intent = refund.propose("o-1", way=way)
    with events(gate) as found, pytest.raises(EffectNotBound):
        gate(intent)
    assert [event.applied for event in found if isinstance(event, ApplyAnswered)] == [Applied.FAILED]
    assert (world.row("orders", "o-1"), world.row("policies", "refund")) == (before_, {"limit": 100})
    assert intent.id not in world.effects


def test_trap_44_nothing_to_write_on_purpose() -> None:
    """A body that says it writes nothing commits."""
    gate = Gate(Memory(**shop_rows()))

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def look(permit: MemoryPermit, order_id: str) -> str:
        permit.no_write()
        return "looked"

    assert look("o-1") == "looked"


@SEPARATE
def test_trap_45_result_that_cannot_be_stored(separate: bool) -> None:
    """A result without a stored form is refused with the effect, not after it."""
    world = Memory(**shop_rows()).options(separate=separate)
    gate = Gate(world)

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str) -> Any:
        permit.change("orders", order_id, refunded=True)
        return {"receipt": 0.1}

    intent = refund.propose("o-1")
    with pytest.raises(CanonicalError):
        gate(intent)
    assert world.row("orders", "o-1")["refunded"] is False  # type: ignore[index]
    assert (dict(world.effects), gate.pending()) == ({}, [intent])
    with pytest.raises(DeclarationError, match="cannot be stored"):

        @gate.effect(target=order, premises=[block_unless(~order.refunded)])
        def hand_out(permit: MemoryPermit, order_id: str) -> threading.Event:
            return threading.Event()


def test_trap_45_what_has_happened_has_happened() -> None:
    """Where it cannot be refused any more, a result without a stored form is absent and the effect COMMITTED."""
    gate, send, does = function_effect()
    intent = send.propose("o-1")
    does[:] = [object()]
    assert gate(intent).committed
    again = gate(intent)
    assert (again.applied, again.result(), does) == (Applied.COMMITTED, None, [])


# --- Over time --------------------------------------------------------------------------------------------------------


def test_trap_46_contract_changed_under_a_pending_intent() -> None:
    """After a deployment both the recorded premises and today's run, whichever of them says no."""
    shop = Shop()
    intents = [shop.refund.propose("o-1", amount=80) for _ in range(3)]
    fewer = shop.again(premises=[block_unless(~order.refunded, "already refunded")])
    shop.world.change("policies", "refund", limit=50)
    verdict = fewer.gate(intents[0])
    assert (verdict.outcome, verdict.checked) == (Outcome.BLOCK, (LIMIT,)), "the recorded one is not gone"
    shop.world.change("policies", "refund", limit=100)
    more = shop.again(premises=[*shop_premises(), block_unless(order.signed, "not signed")])
    verdict = more.gate(intents[1])
    assert (verdict.outcome, verdict.checked) == (Outcome.BLOCK, ("orders[arg.order_id].signed",))
    shop.world.change("orders", "o-1", signed=True)
    assert more.gate(intents[1]).committed


@pytest.mark.parametrize("drift", ["gone", "new", "retyped"])
def test_trap_46_arguments_that_no_longer_fit(drift: str) -> None:
    """Stored arguments that today's signature does not take have to be planned anew: REPLAN, and no body."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    gate = Gate(shop.world, store=shop.store)
    ran: list[str] = []
    declare = gate.effect(target=order, premises=[block_unless(~order.refunded)], name="refund")
    if drift == "gone":

        @declare
        def gone(permit: MemoryPermit, order_id: str) -> None:
            ran.append(order_id)
    elif drift == "new":

        @declare
        def new(permit: MemoryPermit, order_id: str, amount: int, reason: str) -> None:
            ran.append(order_id)
    else:

        @declare
        def retyped(permit: MemoryPermit, order_id: str, amount: str) -> None:
            ran.append(order_id)

    verdict = gate(intent)
    assert (verdict.outcome, verdict.applied, verdict.state) == (Outcome.REPLAN, Applied.NOT_ATTEMPTED, State.OPEN)
    assert gate.preview(intent).outcome is Outcome.REPLAN
    with pytest.raises(ReplanRequired, match="amount" if drift != "new" else "reason"):
        verdict.result()
    assert ran == []


@pytest.mark.parametrize(
    ("then", "now", "value"),
    [(str, int, "80"), (int, bool, 1), (str, Decimal, "80"), (int, str, 80), (str, dt.date, "2026-01-01")],
    ids=["text to number", "number to bool", "text to decimal", "number to text", "text to day"],
)
def test_trap_46_stored_arguments_are_not_coerced(then: type, now: type, value: object) -> None:
    """A stored argument is taken for what it is: under a signature of another type it is none."""
    store, world, ran = MemoryStore(), Memory(**shop_rows()), list[object]()

    def declare(hint: type) -> tuple[Gate, Any]:
        gate = Gate(world, store=store)

        def refund(permit: MemoryPermit, order_id: str, x: Any) -> None:
            ran.append(x)
            permit.change("orders", order_id, refunded=True)

        refund.__annotations__["x"] = hint
        return gate, gate.effect(target=order, premises=[block_unless(~order.refunded)])(refund)

    _, refund = declare(then)
    intent = refund.propose("o-1", value)
    today, _ = declare(now)
    assert (today(intent).outcome, ran) == (Outcome.REPLAN, [])
    again, _ = declare(then)
    assert again(intent).committed
    assert ran == [value]


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        ("3", order.x != 3),
        ("3", ~(order.x == 3)),
        (3, order.x != "3"),
        (True, order.x == 1),
        (True, order.x != 0),
        (1, order.x),
        ("true", order.x),
        (1, ~order.x),
        (0.5, order.x < Decimal("0.75")),
        (0.5, order.x != Decimal("0.75")),
        (None, order.x != 3),
        (dt.datetime(2026, 1, 1), order.x != dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),  # noqa: DTZ001 - the very point
    ],
)
def test_trap_47_unlike_kinds_are_unverifiable(value: object, condition: Any) -> None:
    """Values of unlike kinds are neither equal nor unequal, neither in order nor out of it: nothing follows."""
    shop = Shop(premises=[block_unless(condition)])
    shop.world.change("orders", "o-1", x=value)
    intent = shop.gate.transaction().propose(shop.refund, "o-1", amount=80)
    verdict = shop.gate(intent)
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])


@SEPARATE
def test_trap_48_the_same_call_twice(separate: bool) -> None:
    """A call that is delivered twice under its key is one intent and one effect; other arguments are an error."""
    shop = Shop(separate=separate)
    call = shop.refund.options(key="call-1")
    assert call("o-1", amount=80) == call("o-1", amount=80) == "refunded o-1"
    assert shop.again().refund.options(key="call-1")("o-1", amount=80) == "refunded o-1"
    assert shop.ran == [80]
    with pytest.raises(KeyReused):
        call("o-1", amount=81)
    with pytest.raises(EffectBlocked):
        shop.refund("o-1", amount=80)


def test_trap_48_repeated_while_the_first_is_unknown() -> None:
    """A repeated call whose first delivery has no answer yet is not sent again."""
    _, send, does = function_effect()
    does[:] = [TimeoutError(), "sent twice"]
    for _ in range(2):
        with pytest.raises(EffectUnknown):
            send.options(key="call-1")("o-1")
    assert does == ["sent twice"]


def test_trap_49_lane_of_an_unknown_attempt() -> None:
    """While one attempt on a target is unknown, no other is made there, whoever proposes it."""
    gate, send, does = function_effect()
    first, second = send.propose("o-1"), send.propose("o-1", weight=2)
    does[:] = [TimeoutError(), "sent"]
    assert gate(first).applied is Applied.UNKNOWN
    verdict = gate(second)
    assert (verdict.applied, verdict.state) == (Applied.IN_PROGRESS, State.OPEN)
    assert first.id in verdict.explain()
    assert does == ["sent"]
    gate.assert_outcome(first, committed=False, by="the clerk", note="it never left")
    assert gate(second).result() == "sent"


def test_trap_49_lane_in_the_window() -> None:
    """A second intent on the target of an open attempt is told who holds it, and nothing of it is applied."""
    shop = Shop(separate=True)
    first, second = shop.refund.propose("o-1", amount=80), shop.refund.propose("o-1", amount=40)
    other, verdicts = shop.again(), list[Any]()
    with interpose(shop.gate, lambda: verdicts.append(other.gate(second))):
        assert shop.gate(first).committed
    assert verdicts[0].applied is Applied.IN_PROGRESS
    assert first.id in verdicts[0].explain()
    assert shop.ran == [80]
    assert other.gate(second).outcome is Outcome.BLOCK


@SEPARATE
def test_trap_50_truth_that_moves_with_time(separate: bool) -> None:
    """A deadline is judged at every gate although nothing changed, and travels into the target's own check."""
    clock = FakeClock()
    shop = Shop(
        separate=separate,
        clock=clock,
        premises=[block_unless(fresh(order.seen, dt.timedelta(minutes=10))), block_unless(~order.refunded)],
    )
    seen = clock.now()
    shop.world.change("orders", "o-1", seen=seen)
    label = "fresh(orders[arg.order_id].seen, 0:10:00)"
    intent = shop.refund.propose("o-1", amount=80)
    clock.advance(dt.timedelta(minutes=10))
    attempts: list[Attempt] = []
    with failpoint(shop.gate, Apply, before=lambda at: attempts.append(at.attempt)):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.checked, verdict.committed) == (Outcome.KEEP, (label,), True)
    assert attempts[0].not_after == seen + dt.timedelta(minutes=10)
    late = shop.refund.propose
    clock.advance(dt.timedelta(microseconds=1))
    with pytest.raises(EffectBlocked):
        late("o-2", amount=80)


def test_trap_50_over_before_the_gate() -> None:
    """What ran out since it was proposed blocks, with no version moved anywhere."""
    clock = FakeClock()
    shop = Shop(clock=clock, premises=[block_unless(before(order.until))])
    shop.world.change("orders", "o-1", until=clock.now() + dt.timedelta(hours=1))
    intent = shop.refund.propose("o-1", amount=80)
    clock.advance(dt.timedelta(hours=1))
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.changed) == (Outcome.BLOCK, ())


@pytest.mark.parametrize("end", ["deadline", "expiry"])
def test_trap_50_a_plain_function_is_not_sent_too_late(end: str) -> None:
    """Where no target checks the time, nothing is sent once the permission has ended."""
    clock = FakeClock()
    until = clock.now() + dt.timedelta(minutes=5)
    gate = Gate(Memory(orders={"o-1": {"until": until}}), clock=clock)
    sent: list[str] = []
    timely = before(order.until) if end == "deadline" else exists(order.until)

    @gate.effect(target="courier", lane=(arg.order_id,), premises=[block_unless(timely, accept=UNBOUND("no check"))])
    def send(permit: Any, order_id: str) -> None:
        sent.append(order_id)

    intent = send.options(expires=dt.timedelta(minutes=5) if end == "expiry" else None).propose("o-1")
    with interpose(gate, lambda: clock.advance(dt.timedelta(minutes=5))):
        verdict = gate(intent)
    assert (verdict.outcome, verdict.committed, sent) == (Outcome.BLOCK, False, [])


@SEPARATE
@pytest.mark.parametrize("late", [False, True], ids=["before the look", "after the look"])
def test_trap_51_named_query(separate: bool, late: bool) -> None:
    """A sum over rows that come and go is bound as a query: a child that is put in after the look is caught."""

    def spending(tables: Any, name: str) -> int:
        return sum(row["amount"] for row in tables["spent"].values() if row["order"] == name)

    world = Memory(**shop_rows(), spent={"s-1": {"order": "o-1", "amount": 30}})
    world.options(separate=separate, queries={"spending": spending})
    shop = Shop(
        separate=False,
        world=world,
        premises=[block_unless(resource("spending", arg.order_id).value + arg.amount <= 120, "too much")],
    )
    assert set(shop.refund.contract.bindings().values()) == {Grade.BOUND}
    intent = shop.refund.propose("o-1", amount=80)

    def spend() -> None:
        world.change("spent", "s-2", order="o-1", amount=30)

    if late:
        with interpose(shop.gate, spend):
            verdict = shop.gate(intent)
    else:
        spend()
        verdict = shop.gate(intent)
    assert (verdict.outcome, shop.ran) == (Outcome.BLOCK, [])


@pytest.mark.parametrize("late", [False, True], ids=["before the look", "after the look"])
def test_trap_51_whole_collection(late: bool) -> None:
    """What is said of all rows of a kind is said of those that come too."""
    shop = Shop(
        world=Memory(**shop_rows(), lines={"l-1": {"price": 30}}),
        premises=[block_unless(total(rows("lines"), "price") <= 50)],
    )
    intent = shop.refund.propose("o-1", amount=80)

    def add() -> None:
        shop.world.change("lines", "l-2", price=30)

    if late:
        with interpose(shop.gate, add):
            verdict = shop.gate(intent)
    else:
        add()
        verdict = shop.gate(intent)
    assert (verdict.outcome, shop.ran) == (Outcome.BLOCK, [])


@pytest.mark.parametrize("reduces", [False, True])
def test_trap_52_a_premise_reserves_nothing(reduces: bool) -> None:
    """Two payments under one bound both go out by comparison alone; a remainder that the body reduces stops one."""
    world = Memory(budgets={"b": {"left": 100}}, payments={})
    gate = Gate(world)
    budget = resource("budgets", "b")

    @gate.effect(target=resource("payments", arg.name), premises=[block_unless(arg.amount <= budget.left)])
    def pay(permit: MemoryPermit, name: str, amount: int) -> None:
        permit.change("payments", name, amount=amount)
        if reduces:
            permit.change("budgets", "b", left=permit.row("budgets", "b")["left"] - amount)  # type: ignore[index,operator]

    first, second = pay.propose("p-1", amount=80), pay.propose("p-2", amount=80)
    assert gate(first).committed
    verdict = gate(second)
    assert verdict.committed is not reduces
    assert verdict.outcome is (Outcome.BLOCK if reduces else Outcome.KEEP)
    assert sum(int(str(row["amount"])) for row in world.rows("payments").values()) == (80 if reduces else 160)


@pytest.mark.parametrize("call", ["gate", "effect", "propose", "preview", "read", "another gate"])
def test_trap_53_gate_inside_a_body(call: str) -> None:
    """A gate that is used inside of an effect's body is refused, and takes that effect down with it."""
    shop = Shop()
    other = Shop(world=shop.world)
    inner = other.refund.propose("o-2", amount=80)
    tx = shop.gate.transaction()

    @shop.gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def outer(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)
        calls: dict[str, Callable[[], object]] = {
            "gate": lambda: shop.gate(inner),
            "effect": lambda: shop.refund("o-2", amount=80),
            "propose": lambda: shop.refund.propose("o-2", amount=80),
            "preview": lambda: shop.gate.preview(inner),
            "read": lambda: tx.read(policy),
            "another gate": lambda: other.gate(inner),
        }
        calls[call]()

    intent = outer.propose("o-1")
    with pytest.raises(EffectNotBound, match="inside the body"):
        shop.gate(intent)
    assert [row["refunded"] for row in shop.world.rows("orders").values()] == [False, False]
    assert other.gate(inner).committed, "and afterwards all is as it was"


def test_trap_53_gate_inside_an_async_body() -> None:
    """The same for asyncio, where the body's context is the caller's."""

    async def main() -> None:
        shop = AsyncShop()

        @shop.gate.effect(target=order, premises=[block_unless(~order.refunded)])
        async def outer(permit: MemoryPermit, order_id: str) -> None:
            permit.change("orders", order_id, refunded=True)
            await shop.refund("o-2", amount=80)

        with pytest.raises(EffectNotBound, match="inside the body"):
            await outer("o-1")
        assert [row["refunded"] for row in shop.world.rows("orders").values()] == [False, False]

    asyncio.run(main())


def test_reading_fails() -> None:
    """A system that raises leaves its own evidence unverifiable, and whatever it raised does not reach the caller."""
    shop = Shop(relay=True)
    intent = shop.refund.propose("o-1", amount=80)
    shop.line.failure = ConnectionError("no route")
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.BLOCK, False)
    assert {finding.holds for finding in verdict.findings} == {None}
    with pytest.raises(EffectBlocked):
        shop.refund.propose("o-1", amount=80)
    shop.line.failure = None
    assert shop.gate(intent).committed


def test_reading_fails_later() -> None:
    """The same of a system that is awaited: what it raises makes its evidence unverifiable."""

    async def main() -> None:
        shelf = SlowShelf(weather={"uk": {"rain": True}})
        shelf.asked, shelf.released = asyncio.Event(), asyncio.Event()
        shelf.released.set()
        rain = block_unless(resource("weather", "uk").rain, accept=UNBOUND("the forecast has no version"))
        shop = AsyncShop(world=Memory(orders=shop_rows()["orders"]), others=(shelf,), premises=[rain])
        intent = await shop.refund.propose("o-1", amount=80)
        shelf.failure = ConnectionError("no route")
        verdict = await shop.gate(intent)
        assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])
        with pytest.raises(EffectBlocked):
            await shop.refund.propose("o-1", amount=80)
        shelf.failure = None
        assert (await shop.gate(intent)).committed

    asyncio.run(main())


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), SystemExit(1), Crash()])
def test_reading_is_interrupted(failure: BaseException) -> None:
    """An interrupt goes through at once, with nothing done."""
    shop = Shop(relay=True)
    intent = shop.refund.propose("o-1", amount=80)
    shop.line.failure = failure
    with pytest.raises(type(failure)):
        shop.gate(intent)
    assert shop.ran == []
    shop.line.failure = None
    assert shop.gate(intent).committed


def test_memory_that_cannot_be_read() -> None:
    """A kind that cannot be read leaves what rests on it unverifiable, and only that."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    with shop.world.unreadable("policies"):
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.checked) == (Outcome.BLOCK, (LIMIT,))
    assert shop.gate(intent).committed


def test_relay_is_a_system() -> None:
    """The systems of these tests answer to the port that they stand in for."""
    from lastlook.ports import System

    assert all(isinstance(one, System) for one in (Shelf(), Desk(), Relay(Memory()), Torn(Memory())))
