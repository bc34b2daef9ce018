"""What an attacker, a model or an accident may try, and the property that each attempt runs into."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
import pickle
import sys
import traceback
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems import (
    DEFECT,
    DELIVERED,
    LIMIT,
    NOT_REFUNDED,
    Crash,
    Desk,
    DeskPermit,
    Relay,
    Shelf,
    Shop,
    checked,
    numbered,
    order,
    policy,
    shop_premises,
    shop_rows,
)

from lastlook import (
    UNBOUND,
    Applied,
    AsyncGate,
    Capture,
    Change,
    EffectBlocked,
    EffectNotBound,
    EffectStopped,
    Gate,
    IntegrityError,
    Intent,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    State,
    actor,
    arg,
    before,
    block_unless,
    fresh,
    replan_unless,
    resource,
    rows,
    unchanged,
    validator,
)
from lastlook.canonical import ABSENT, MAX_BYTES, decode, encode
from lastlook.commands import Apply, Close, Load, Now, Observe, Transit
from lastlook.errors import CanonicalError, DeclarationError, LastlookError, UnknownIntent
from lastlook.events import LookTaken
from lastlook.expressions import from_json, to_json
from lastlook.index import Index
from lastlook.records import IntentRecord, Observation, Token
from lastlook.store.bodies import intent_body, intent_from_body
from lastlook.testing import FakeClock, events, failpoint, interpose
from lastlook.validators import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from lastlook.ports import JournalEntry, Unreadable
    from lastlook.records import Address

SEPARATE = pytest.mark.parametrize("separate", [False, True], ids=["same-engine", "separate"])
HOUR = dt.timedelta(hours=1)


@pytest.fixture(autouse=True)
def registry() -> Generator[None]:
    """Forget the validators of each test."""
    known = dict(REGISTRY._known)
    yield
    REGISTRY._known.clear()
    REGISTRY._known.update(known)
    REGISTRY.generation += 1


def committed(world: Memory) -> int:
    """How many effects a memory has committed."""
    return len([row for row in world.effects.values() if row["committed_at"] is not None])


# --- Forged records ---------------------------------------------------------------------------------------------------


class Impostor(Intent[Any]):
    """A handle that says what it likes."""

    @property
    def committed(self) -> bool:
        """A claim."""
        return True


def test_forged_handles_release_nothing() -> None:
    """A gate takes a handle, asks its own store by the id, and believes nothing else that the handle says."""
    shop = Shop()
    shop.world.change("policies", "refund", limit=50)
    blocked = shop.gate.transaction().propose(shop.refund, "o-1", amount=80)
    forged: list[Intent[Any]] = [Intent("no such id", "refund"), Impostor("no such id", "refund"), Intent("", "")]
    for handle in forged:
        with pytest.raises(UnknownIntent):
            shop.gate(handle)
    claimed: list[Intent[Any]] = [Impostor(blocked.id, "refund"), Intent(blocked.id, "another effect")]
    for handle in claimed:
        assert shop.gate(handle).outcome is Outcome.BLOCK
    assert (committed(shop.world), shop.ran) == (0, [])


@pytest.mark.parametrize(
    "what", ["id", "record", "body", "verdict", "preview", "mapping", "json", "effect", "exception"]
)
def test_what_is_no_handle_releases_nothing(what: str) -> None:
    """A record, a verdict or anything else that an agent could send back is no handle."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    done = shop.gate(shop.refund.propose("o-2", amount=10))
    stored = shop.store.load(intent.id)
    assert stored is not None
    things: dict[str, Any] = {
        "id": intent.id,
        "record": stored.record,
        "body": intent_body(stored.record),
        "verdict": done,
        "preview": shop.gate.preview(intent),
        "mapping": {"id": intent.id, "effect": "refund"},
        "json": json.dumps({"id": intent.id}),
        "effect": shop.refund,
        "exception": EffectStopped(done, "stopped"),
    }
    for call in (shop.gate, shop.gate.preview, shop.gate.withdraw):
        with pytest.raises(TypeError, match="a gate takes an intent"):
            call(things[what])
    assert shop.ran == [10]


def test_a_handle_of_another_store_releases_nothing() -> None:
    """The same id in another store is another intent, or none."""
    shop = Shop()
    other = Shop(world=shop.world)
    intent = other.refund.options(key="call-1").propose("o-1", amount=80)
    assert shop.refund.options(key="call-1").propose("o-1", amount=80) != intent
    with pytest.raises(UnknownIntent):
        shop.gate(intent)


FIELDS = [field.name for field in dataclasses.fields(IntentRecord)]


@pytest.mark.parametrize("field", FIELDS)
def test_forged_fields_of_a_stored_record(field: str) -> None:
    """A record whose bytes were edited, in whatever field, is not opened again."""
    shop = Shop()
    intent = shop.refund.options(expires=HOUR, actor={"user_id": "u"}).propose("o-1", amount=80)
    chain = shop.store._chains[intent.id]
    (entry,) = shop.store.journal(intent.id)
    body: dict[str, Any] = dict(cast("Any", decode(entry.body)))
    others: dict[str, Any] = {
        "arguments": {"order_id": "o-2", "amount": 80},
        "actor": {"user_id": "root"},
        "captured": {"x": 1},
        "expires_us": None,
        "one_shot": True,
        "premises": (),
        "reads": (),
        "refresh": (),
        "decisions": (("so", ()),),
        "differences": ("orders/o-1.x",),
    }
    forged = body | {field: others.get(field, "forged")}
    assert forged != body
    chain.encoded[0] = dataclasses.replace(entry, body=encode(forged))
    with pytest.raises(IntegrityError, match="is not what was written"):
        shop.store.verify(intent.id)
    with pytest.raises(IntegrityError):
        shop.store.reopened()


WRONG: list[Any] = [None, 7, "x", b"x", True, (), (1,), {"a": 1}, ((("orders",),),), ABSENT]


@pytest.mark.parametrize("field", FIELDS)
def test_stored_fields_of_a_wrong_type(field: str) -> None:
    """A body that is none of a proposal is an integrity error, or a record; never a crash of another kind."""
    shop = Shop()
    stored = shop.store.load(shop.refund.propose("o-1", amount=80).id)
    assert stored is not None
    body = dict(intent_body(stored.record))
    del body[field]
    with pytest.raises(IntegrityError, match="lacks a part"):
        intent_from_body(body)
    for wrong in WRONG:
        try:
            record = intent_from_body(body | {field: wrong})
        except IntegrityError:
            continue
        assert isinstance(record, IntentRecord)


# --- Premises left out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("honest", [True, False], ids=["another contract", "the same digest"])
@pytest.mark.parametrize("left_out", [DELIVERED, DEFECT, NOT_REFUNDED, LIMIT])
def test_a_premise_left_out_of_a_record(left_out: str, honest: bool) -> None:
    """What a stored record does not require is required by the contract: it runs, and is not known to have held."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    stored = shop.store.load(intent.id)
    assert stored is not None
    fewer = tuple(premise for premise in stored.record.premises if premise.label != left_out)
    digest = "sha256:other" if honest else stored.record.contract
    store = MemoryStore()
    store.salt = shop.store.salt
    store.create(dataclasses.replace(stored.record, premises=fewer, contract=digest), shop.clock.now(), None)
    shop = shop.again(store)
    with events(shop.gate) as found:
        assert shop.gate.preview(intent).outcome is Outcome.KEEP
    assert checked(found) == [left_out]
    shop.world.change("orders", "o-1", delivered=False, defect=False, refunded=True)
    shop.world.change("policies", "refund", limit=50)
    verdict = shop.gate(intent)
    assert left_out in [finding.premise for finding in verdict.findings]
    assert (verdict.outcome, committed(shop.world)) == (Outcome.BLOCK, 0)


@pytest.mark.parametrize("left_out", [DELIVERED, DEFECT, NOT_REFUNDED, LIMIT])
def test_a_premise_left_out_of_a_record_is_enough(left_out: str) -> None:
    """Where only the premise that a record leaves out is false, the effect still does not go out."""
    shop = Shop()
    changes: dict[str, Callable[[], None]] = {
        DELIVERED: lambda: shop.world.change("orders", "o-1", delivered=False),
        DEFECT: lambda: shop.world.change("orders", "o-1", defect=False),
        NOT_REFUNDED: lambda: shop.world.change("orders", "o-1", refunded=True),
        LIMIT: lambda: shop.world.change("policies", "refund", limit=50),
    }
    intent = shop.refund.propose("o-1", amount=80)
    stored = shop.store.load(intent.id)
    assert stored is not None
    fewer = tuple(premise for premise in stored.record.premises if premise.label != left_out)
    store = MemoryStore()
    store.salt = shop.store.salt
    store.create(dataclasses.replace(stored.record, premises=fewer), shop.clock.now(), None)
    later = shop.again(store)
    changes[left_out]()
    verdict = later.gate(intent)
    assert verdict.outcome is (Outcome.REPLAN if left_out in (DELIVERED, DEFECT) else Outcome.BLOCK)
    assert committed(shop.world) == 0


CONDITIONS = {
    "true": encode((1, ("lit", True))).decode(),
    "another version": encode((99, ("lit", True))).decode(),
    "an unknown tag": encode((1, ("eval", "1"))).decode(),
    "no tree": encode(()).decode(),
    "no text of ours": "nonsense",
}


@pytest.mark.parametrize("text", CONDITIONS.values(), ids=CONDITIONS)
def test_a_premise_replaced_in_a_record(text: str) -> None:
    """A stored condition that was replaced by a weaker one, or by none, leaves the contract's own in force."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    stored = shop.store.load(intent.id)
    assert stored is not None
    weaker = tuple(dataclasses.replace(premise, condition=text) for premise in stored.record.premises)
    store = MemoryStore()
    store.salt = shop.store.salt
    store.create(dataclasses.replace(stored.record, premises=weaker, contract="other"), shop.clock.now(), None)
    shop.world.change("policies", "refund", limit=50)
    verdict = shop.again(store).gate(intent)
    assert (verdict.outcome, verdict.committed, committed(shop.world)) == (Outcome.BLOCK, False, 0)


# --- Permits ----------------------------------------------------------------------------------------------------------


def test_permit_of_another_intent() -> None:
    """While two bodies run, the one's permit carries nothing of the other's: what is written by it is the one's."""

    async def main() -> None:
        world = Memory(**shop_rows())
        gate = AsyncGate(world)
        permits: dict[str, MemoryPermit] = {}
        first_in, second_done = asyncio.Event(), asyncio.Event()

        @gate.effect(target=order, premises=[block_unless(~order.refunded)])
        async def refund(permit: MemoryPermit, order_id: str) -> None:
            permits[order_id] = permit
            if order_id == "o-1":
                first_in.set()
                await second_done.wait()
                return
            permits["o-1"].change("orders", "o-2", refunded=True)

        first, second = await refund.propose("o-1"), await refund.propose("o-2")
        task = asyncio.create_task(_await(gate(first)))
        await first_in.wait()
        with pytest.raises(EffectNotBound, match="wrote nothing through its permit"):
            await gate(second)
        world.change("orders", "o-1", refunded=True)
        second_done.set()
        verdict = await task
        assert (verdict.committed, committed(world)) == (False, 0)
        row = world.row("orders", "o-2")
        assert row is not None
        assert row["refunded"] is False

    asyncio.run(main())


async def _await(awaitable: Any) -> Any:
    return await awaitable


def test_a_verdict_is_no_permission() -> None:
    """What was decided once is decided anew: neither a preview nor an earlier verdict lets anything through."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    with interpose(shop.gate, lambda: shop.world.change("policies", "refund", limit=50)):
        assert shop.gate(intent).outcome is Outcome.BLOCK
    assert shop.ran == []


# --- The journal ------------------------------------------------------------------------------------------------------


def busy_store() -> tuple[Shop, str]:
    """A store with one intent of several records."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    for limit in (50, 60, 100):
        shop.world.change("policies", "refund", limit=limit)
        shop.gate(intent)
    assert len(shop.store.journal(intent.id)) == 5
    return shop, intent.id


def edit(entry: JournalEntry, part: str) -> JournalEntry:
    """The entry with one part changed."""
    changes: dict[str, Any] = {
        "body": entry.body + b" ",
        "kind": "COMMITTED" if entry.kind != "COMMITTED" else "VERDICT",
        "at_us": entry.at_us + 1,
        "seq": entry.seq + 1,
        "intent_id": "another",
        "digest": "sha256:" + "0" * 64,
    }
    return dataclasses.replace(entry, **{part: changes[part]})


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_journal_is_tamper_evident(data: st.DataObject) -> None:
    """Any edit, reorder, insertion or cut of an intent's records is found, before it is opened and when asked."""
    shop, intent_id = busy_store()
    chain = shop.store._chains[intent_id]
    encoded, entries = chain.encoded, chain.entries
    was = list(encoded)
    at = data.draw(st.integers(0, len(was) - 1))
    how = data.draw(st.sampled_from(["edit", "swap", "insert", "drop", "cut"]))
    if how == "edit":
        encoded[at] = edit(was[at], data.draw(st.sampled_from(["body", "kind", "at_us", "seq", "intent_id", "digest"])))
    elif how == "swap":
        other = data.draw(st.integers(0, len(was) - 1).filter(lambda other: other != at))
        encoded[at], encoded[other] = encoded[other], encoded[at]
    elif how == "insert":
        encoded.insert(at, was[data.draw(st.integers(0, len(was) - 1))])
        entries.insert(at, entries[0])
    elif how == "drop":
        del encoded[at], entries[at]
    else:
        del encoded[at:], entries[at:]
    if not encoded:
        encoded.extend(was[:0])
    with pytest.raises(IntegrityError):
        shop.store.verify(intent_id)
    with pytest.raises(IntegrityError):
        shop.store.reopened()


def test_journal_as_written_verifies() -> None:
    """What nobody touched verifies, and opens again as it was."""
    shop, intent_id = busy_store()
    shop.store.verify(intent_id)
    again = shop.store.reopened()
    again.verify(intent_id)
    assert list(again.journal(intent_id)) == list(shop.store.journal(intent_id))
    assert [entry.kind for entry in again.journal(intent_id)] == [
        "PROPOSED",
        "VERDICT",
        "VERDICT",
        "ATTEMPT",
        "COMMITTED",
    ]


@SEPARATE
def test_journal_cannot_fork(separate: bool) -> None:
    """Two writers on one state of an intent: one wins, the other writes nothing and looks again."""
    shop = Shop(separate=separate)
    intent = shop.refund.propose("o-1", amount=80)
    other = shop.again()
    shop.world.change("policies", "refund", limit=50)
    raced = iter([True])

    def race(_: object) -> None:
        if next(raced, False):
            assert other.gate(intent).outcome is Outcome.BLOCK

    with failpoint(shop.gate, Transit, before=race), events(shop.gate) as found:
        assert shop.gate(intent).outcome is Outcome.BLOCK
    assert len([event for event in found if isinstance(event, LookTaken)]) == 2
    entries = shop.store.journal(intent.id)
    assert [(entry.seq, entry.kind) for entry in entries] == [(0, "PROPOSED"), (1, "VERDICT"), (2, "VERDICT")]
    assert len({entry.digest for entry in entries}) == 3
    shop.store.verify(intent.id)


# --- Keys -------------------------------------------------------------------------------------------------------------

BAD_KEYS = {
    "angstrom": "\u212b",
    "decomposed": "A\u030a",
    "nul": "o\x00-1",
    "newline": "o-1\n",
    "bidi": "o-1\u202e",
    "zero width": "o\u200b-1",
    "byte order mark": "\ufeffo-1",
    "surrogate": "\ud800",
    "huge": "x" * 65536,
    "tag": "o-1\U000e0041",
    "delete": "o-1\x7f",
}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_keys_that_look_like_others(key: str) -> None:
    """A key that is not one canonical, legible text names no row: not in a system, an argument, or a hint."""
    shop = Shop()
    with pytest.raises(CanonicalError):
        Memory(orders={key: {"refunded": False}})
    with pytest.raises(CanonicalError):
        shop.world.change("orders", key, refunded=False)
    with pytest.raises(CanonicalError):
        Change("orders", key)
    with pytest.raises((EffectBlocked, CanonicalError)):
        shop.refund.propose(key, amount=80)
    with pytest.raises((EffectBlocked, CanonicalError)):
        shop.refund(key, amount=80)
    with pytest.raises(DeclarationError):
        resource("orders", key)
    with pytest.raises(DeclarationError):
        resource(key, "o-1")
    assert (shop.gate.pending(), committed(shop.world)) == ([], 0)


def test_keys_are_never_folded() -> None:
    """Keys differ in case, in type and in their parts, and are byte-exact otherwise."""
    keys: list[Any] = [
        "o-1",
        "O-1",
        "o-1 ",
        1,
        "1",
        ("1", "1"),
        ("1", 1),
        ("o", "1"),
        "o/1",
        ("o/1", ""),
        "\u00c5",
        b"1",
    ]
    world = Memory(orders={key: {"is": n, "open": True} for n, key in enumerate(keys)})
    assert [row["is"] for row in (world.row("orders", key) for key in keys) if row is not None] == list(
        range(len(keys))
    )
    assert len({world.address("orders", key).identity for key in keys}) == len(keys)
    for wrong in (True, None, 1.0, (), ("a", None), ["o-1"]):
        with pytest.raises(CanonicalError):
            world.address("orders", wrong)


def test_refreshed_places_are_never_joined_text() -> None:
    """Two rows whose joined keys read alike are refreshed apart."""
    world = Memory(parts={("a", "b"): {"name": "one", "open": True}, "a/b": {"name": "two", "open": True}})
    gate = Gate(world)
    pair, single = resource("parts", arg.x, arg.y), resource("parts", arg.z)
    got: list[Any] = []

    @gate.effect(target=pair, premises=[block_unless(pair.open)], refresh=[pair.name, single.name])
    def take(permit: MemoryPermit, x: str, y: str, z: str) -> None:
        got.append(sorted(permit.fresh.values(), key=repr))
        permit.change("parts", (x, y), open=False)

    take("a", "b", "a/b")
    assert got == [["one", "two"]]


# --- Numbers and JSON -------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20),
    st.integers(-(2**65), 2**65),
)


@settings(max_examples=150, deadline=None)
@given(amount=NUMBERS, limit=NUMBERS)
def test_the_validated_number_is_the_stored_and_the_used_one(amount: int | Decimal, limit: int | Decimal) -> None:
    """A number is judged by its exact value, and the same one is stored, digested and handed to the body."""
    gate = Gate(Memory(policies={"refund": {"limit": limit}}, orders={}))
    used: list[Any] = []

    @gate.effect(target=resource("orders", arg.name), premises=[block_unless(arg.amount <= policy.limit)])
    def pay(permit: MemoryPermit, name: str, amount: int | Decimal) -> None:
        used.append(amount)
        permit.change("orders", name, amount=amount)

    intent = gate.transaction().propose(pay, "p", amount)
    verdict = gate(intent)
    assert verdict.committed is (Decimal(amount) <= Decimal(limit))
    assert verdict.outcome is (Outcome.KEEP if verdict.committed else Outcome.BLOCK)
    record: Any = decode(gate._runtime().store.journal(intent.id)[0].body)
    assert record["arguments"]["amount"] == amount
    assert used == ([amount] if verdict.committed else [])


@pytest.mark.parametrize("value", [2**64, 2**64 + 1, 10**38 - 1, -(10**38) + 1, Decimal("0.1"), Decimal("-0")], ids=str)
def test_numbers_that_other_codecs_confuse(value: int | Decimal) -> None:
    """Numbers that JSON libraries turn into one another stay what they are."""
    shop = Shop(premises=[block_unless(order.x == arg.amount)])
    shop.world.change("orders", "o-1", x=value)
    gate = shop.gate

    @gate.effect(target=order, name="exact", premises=[block_unless(order.x == arg.x)])
    def exact(permit: MemoryPermit, order_id: str, x: int | Decimal) -> None:
        permit.change("orders", order_id, refunded=True)

    with pytest.raises(EffectBlocked):
        exact.propose("o-1", value - 1 if value > 0 else value + 1)
    assert gate(exact.propose("o-1", value)).committed


DEEP = [0]
for _ in range(33):
    DEEP = [DEEP]  # type: ignore[list-item]
BAD_VALUES: dict[str, Any] = {
    "too many digits": 10**38,
    "too many digits below zero": -(10**38),
    "too large an exponent": Decimal("1E+65"),
    "a decimal of too many digits": Decimal("1" * 39),
    "nan": Decimal("NaN"),
    "signalling nan": Decimal("sNaN"),
    "infinity": Decimal("Infinity"),
    "a float": 0.1,
    "a float nan": float("nan"),
    "a surrogate": "\ud800",
    "a surrogate within": {"a": "\udfff"},
    "a number as a name": {1: 2},
    "null as a name": {None: 1},
    "an object": object(),
    "a set": {1, 2},
    "complex": 1j,
    "no zone": dt.datetime(2026, 1, 1),  # noqa: DTZ001 - the point
    "a span": dt.timedelta(1),
    "numpy float": np.float64(1),
    "numpy int": np.int64(1),
    "numpy bool": np.bool_(True),
    "too deep": DEEP,
}


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES)
def test_arguments_without_a_canonical_form(value: object) -> None:
    """An argument that could be read two ways is refused before anything is stored."""
    gate = Gate(Memory(**shop_rows()))

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str, note: Any) -> None:
        permit.change("orders", order_id, refunded=True)

    for call in (refund.propose, refund, refund.options(key="k")):
        with pytest.raises(CanonicalError):
            call("o-1", value)
    with pytest.raises(CanonicalError):
        refund.options(actor={"x": value}).propose("o-1", "fine")
    assert gate.pending() == []


def test_arguments_are_bounded() -> None:
    """An argument larger than a record may be is refused."""
    gate = Gate(Memory(**shop_rows()))

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str, note: Any) -> None:
        permit.change("orders", order_id, refunded=True)

    for note in ("x" * MAX_BYTES, ["x" * 1024] * 1025, list(range(MAX_BYTES))):
        with pytest.raises(CanonicalError):
            refund.propose("o-1", note)
    assert gate.pending() == []


@SEPARATE
@pytest.mark.parametrize("size", [MAX_BYTES // 2 - 50, MAX_BYTES - 1000, MAX_BYTES - 10, MAX_BYTES], ids=str)
@pytest.mark.parametrize("what", ["argument", "arguments", "result", "captured", "actor"])
def test_what_commits_can_be_recorded(what: str, size: int, separate: bool) -> None:
    """However much an intent carries: it is refused before the effect, or its journal can be written and read."""
    store, world = MemoryStore(), Memory(**shop_rows()).options(separate=separate)
    gate, text = Gate(world, store=store), "x" * size
    world.change("orders", "o-1", text=text if what == "captured" else "")

    @gate.effect(target=order, premises=[block_unless(~order.refunded), block_unless(unchanged(order.text))])
    def refund(permit: MemoryPermit, order_id: str, one: str = "", other: str = "") -> str:
        permit.change("orders", order_id, refunded=True)
        return text if what == "result" else ""

    given = {"argument": {"one": text}, "arguments": {"one": text, "other": text}}.get(what, {})
    try:
        intent = refund.options(actor={"name": text} if what == "actor" else None).propose("o-1", **given)
        gate(intent)
    except LastlookError:
        assert committed(world) == 0
    for name in store._chains:
        assert len(store.journal(name)) > 0
    assert list(store.reopened().pending()) == list(store.pending())


# --- Code -------------------------------------------------------------------------------------------------------------


class Bomb:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        """Run."""
        return (pytest.fail, ("it was unpickled",))


MALICIOUS: list[Any] = [
    (1, ("eval", "__import__('os').system('true')")),
    (1, ("call", "os.system", "1", {}, ("lit", "true"), "x")),
    (1, ("call", "os.system", "1", ("lit", "true"))),
    (1, ("call", ("lit", "os.system"), "1", {})),
    (1, ("call", "os.system", 1, {})),
    (1, ("python/object/apply:os.system", ("true",))),
    (1, ("getattr", ("lit", 1), "__class__")),
    (1, ("arg",)),
    (1, ("arg", 0)),
    (1, ("lit", object())),
    (1, ("lit", Bomb())),
    (1, ("lit",)),
    (1, ("field", "orders", (("lit", "o-1"),))),
    (1, ("field", "orders", (), "x")),
    (1, ("field", "orders", (("lit", True),), "x")),
    (1, ("not", ("not",))),
    (1, ("and", ("lit", True))),
    (1, ("item", ("arg", "x"), True)),
    (1, ("fresh", ("arg", "x"), 10**30)),
    (1, ("fresh", ("arg", "x"), True)),
    (1, ("not", ("before", ("arg", "x")))),
    (1, ("as_utc", ("arg", "x"), "../../etc/passwd")),
    (1, ("as_utc", ("arg", "x"), "Europe/London\x00")),
    (1, {"py/object": "os.system"}),
    (1, "lit"),
    (2, ("lit", True)),
    (True, ("lit", True)),
    (1.0, ("lit", True)),
    ("1", ("lit", True)),
    (1, ("lit", True), ("lit", True)),
    (),
    None,
    Bomb(),
    b"\x80\x04",
]


@pytest.mark.parametrize("tree", numbered(*[(tree,) for tree in MALICIOUS]))
def test_malicious_trees_are_not_loaded(tree: object) -> None:
    """An expression is loaded from a closed set of tags: nothing in it is imported, called, unpickled or looked up."""
    modules = set(sys.modules)
    with pytest.raises(CanonicalError):
        from_json(tree)
    assert {name.partition(".")[0] for name in set(sys.modules) - modules} <= {"tzdata", "importlib"}


@pytest.mark.parametrize("depth", [30, 1000, 100_000])
def test_deep_trees_are_not_loaded(depth: int) -> None:
    """A tree of any depth is refused as such, and exhausts no stack."""
    tree: Any = ("lit", True)
    for _ in range(depth):
        tree = ("not", tree)
    with pytest.raises(CanonicalError):
        from_json((1, tree))
    with pytest.raises(CanonicalError):
        decode(b"[" * depth * 10 + b"]" * depth * 10)


@pytest.mark.parametrize(
    "data", [pickle.dumps(Bomb()), b"!!python/object/apply:os.system [true]", b"{}{}", b"\xff", b""]
)
def test_bytes_of_another_format_are_not_decoded(data: bytes) -> None:
    """Stored bytes are canonical JSON, or refused."""
    with pytest.raises(CanonicalError):
        decode(data)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.one_of(
            st.sampled_from(["lit", "arg", "field", "call", "not", "and", "eq", "rows", "every", "x"]),
            st.integers(),
            st.booleans(),
        ),
        lambda inner: st.lists(inner, max_size=5).map(tuple),
        max_leaves=20,
    )
)
def test_any_tree_is_an_expression_or_refused(tree: object) -> None:
    """Whatever tree a store may hold loads as an expression that has this form, or is refused; nothing else happens."""
    try:
        expr = from_json((1, tree))
    except CanonicalError:
        return
    assert from_json(to_json(expr)) is not expr
    assert to_json(from_json(to_json(expr))) == to_json(expr)


def test_a_validator_named_by_data_is_not_found() -> None:
    """A tree may name any validator, and only the registry says which there are."""
    call = from_json((1, ("call", "os.system", "1", {}, ("lit", "true"))))
    with pytest.raises(DeclarationError, match=r"validator 'os\.system' version '1' is not registered"):
        Shop(premises=[block_unless(call)])


# --- Exceptions and wrong types ---------------------------------------------------------------------------------------

RAISED: list[type[BaseException]] = [
    Exception,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
    MemoryError,
    TimeoutError,
    OSError,
    StopIteration,
    StopAsyncIteration,
    AssertionError,
    LastlookError,
    CanonicalError,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    asyncio.CancelledError,
    Crash,
]


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("command", [Load, Observe, Now, Transit, Apply, Close])
@SEPARATE
def test_exceptions_never_release(command: type[Any], when: str, error: type[BaseException], separate: bool) -> None:
    """Whatever is raised at whatever step: nothing goes out that a premise stops, and what is true goes out once."""
    shop = Shop(separate=separate, premises=[*shop_premises(), block_unless(before(order.until))])
    shop.world.change("orders", "o-1", until=shop.clock.now() + HOUR)
    intent = shop.refund.propose("o-1", amount=80)

    def fail(*_: object) -> Any:
        raise error

    def step() -> bool:
        with failpoint(shop.gate, command, **cast("Any", {when: fail})):
            try:
                return shop.gate(intent).committed
            except BaseException:  # noqa: BLE001 - any of them
                return False

    shop.world.change("policies", "refund", limit=50)
    assert not step()
    assert (committed(shop.world), shop.ran) == (0, [])
    shop.world.change("policies", "refund", limit=100)
    said = step()
    assert committed(shop.world) <= 1
    assert not said or committed(shop.world) == 1, "a commit is what the target says, and nothing else"
    assert shop.gate(intent).committed
    assert committed(shop.world) == 1
    shop.store.verify(intent.id)


TRUTHY: list[Any] = [1, "true", "false", "True", [True], {"ok": True}, b"1", Decimal(1), None, ABSENT, (), 0, ""]


class Yes:
    """An object with an opinion."""

    def __bool__(self) -> bool:
        """Yes."""
        return True

    def __eq__(self, other: object) -> bool:
        """Whatever it is."""
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("value", numbered(*[(value,) for value in TRUTHY if value is not ABSENT]))
def test_only_true_holds(value: object) -> None:
    """A premise over what is not True itself does not hold, however true it looks."""
    for condition in (order.x, ~order.x, order.x & order.x, order.x | order.x):
        shop = Shop(premises=[block_unless(condition)])
        shop.world.change("orders", "o-1", x=value)
        verdict = shop.gate(shop.gate.transaction().propose(shop.refund, "o-1", amount=80))
        assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])


@pytest.mark.parametrize(
    "answer",
    numbered(*[(value,) for value in (*TRUTHY, np.bool_(True), np.bool_(False), Yes(), object(), 1.0, Outcome.KEEP)]),
)
def test_validators_answer_true_or_false(answer: object) -> None:
    """A validator that answers with anything but True or False has not answered."""

    @validator("says", version="1")
    def says(_: object) -> Any:
        return answer

    shop = Shop(premises=[block_unless(says(order.defect))])
    with pytest.raises(EffectBlocked):
        shop.refund.propose("o-1", amount=80)
    verdict = shop.gate(shop.gate.transaction().propose(shop.refund, "o-1", amount=80))
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])


class Raw(Relay):
    """A careless relay: it answers with rows as they come, of any type."""

    row: Any = None
    answer: Any = None

    def read_many(self, addresses: Sequence[Address], /) -> Sequence[Observation | Unreadable]:
        """The row for each address, with the memory's token; or the answer, whatever that is."""
        if self.answer is not None:
            return self.answer(addresses) if callable(self.answer) else self.answer  # type: ignore[no-any-return]
        found = self.memory.read_many(addresses)
        if self.row is None:
            return found
        return [Observation(self.row, cell.token) for cell in found if isinstance(cell, Observation)]


@pytest.mark.parametrize(
    "value",
    numbered(
        *[(value,) for value in (np.bool_(True), 1, "true", Yes(), [True], {"x": True}, float("nan"), np.int64(1))]
    ),
)
def test_evidence_as_it_comes(value: object) -> None:
    """A system that hands out what was never frozen makes its evidence unverifiable, and not true."""
    relay = Raw(Memory(**shop_rows()))
    gate = Gate(relay)

    @gate.effect(target=order, premises=[block_unless(order.defect)])
    def refund(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)

    intent = refund.propose("o-1")
    relay.row = MappingProxyType({"defect": value})
    verdict = gate(intent)
    assert (verdict.outcome, verdict.committed, committed(relay.memory)) == (Outcome.BLOCK, False, 0)


ANSWERS: dict[str, Any] = {
    "nothing": [],
    "too few": lambda addresses: [Observation(ABSENT, Token("opaque", "x", 1))] * (len(addresses) - 1),
    "too many": lambda addresses: [True] * (len(addresses) + 1),
    "truths": lambda addresses: [True for _ in addresses],
    "rows": lambda addresses: [{"defect": True, "limit": 100} for _ in addresses],
    "nulls": lambda addresses: [None for _ in addresses],
    "a text": "orders",
    "a number": 7,
    "a mapping": {"orders": {"defect": True}},
    "a coroutine": _await,
}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_system_that_answers_nonsense(answer: Any) -> None:
    """A system whose answer is no list of observations has not been read: everything over it is unverifiable."""
    relay = Raw(Memory(**shop_rows()))
    gate = Gate(relay)

    @gate.effect(target=order, premises=[block_unless(order.defect), block_unless(policy.limit >= 1)])
    def refund(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)

    intent = refund.propose("o-1")
    relay.answer = answer
    verdict = gate(intent)
    assert (verdict.outcome, verdict.committed, committed(relay.memory)) == (Outcome.BLOCK, False, 0)
    relay.answer = None
    assert gate(intent).committed


class Liar(Desk):
    """A desk that answers what it likes."""

    answer: Any = None

    def apply(self, attempt: Any, journal: Any, /) -> Any:
        """The answer."""
        return self.answer


@pytest.mark.parametrize(
    "answer",
    numbered(
        *[
            (value,)
            for value in (
                None,
                True,
                1,
                "COMMITTED",
                Applied.COMMITTED,
                {"status": Applied.COMMITTED},
                Yes(),
                np.bool_(True),
            )
        ]
    ),
)
def test_a_target_that_answers_nonsense(answer: Any) -> None:
    """A target whose answer is none has given none: unknown, closed, and never called a commit."""
    liar = Liar(accounts={"a": {"open": True}})
    gate, account = Gate(liar, clock=FakeClock()), resource("accounts", arg.name)

    @gate.effect(target=account, premises=[block_unless(account.open)])
    def close(permit: DeskPermit, name: str) -> None:
        permit.put("accounts", name, open=False)

    intent = close.propose("a")
    liar.answer = answer
    verdict = gate(intent)
    assert not verdict.committed
    assert verdict.state in (State.OPEN, State.ATTEMPT)


# --- Clocks -----------------------------------------------------------------------------------------------------------

LONDON, NEW_YORK = ZoneInfo("Europe/London"), ZoneInfo("America/New_York")


@pytest.mark.parametrize("skew", [-HOUR, -dt.timedelta(microseconds=1), dt.timedelta(0), HOUR], ids=str)
@SEPARATE
def test_the_targets_clock_decides(skew: dt.timedelta, separate: bool) -> None:
    """Where the gate's clock and the target's differ, nothing commits after the deadline by the target's."""
    here = FakeClock()
    there = FakeClock(here.now() - skew)
    world = Memory(orders={"o-1": {"until": here.now() + dt.timedelta(minutes=1), "customer_name": ""}})
    world.options(clock=there, separate=separate)
    shop = Shop(clock=here, world=world, premises=[block_unless(before(order.until))])
    intent = shop.refund.propose("o-1", amount=80)
    verdict = shop.gate(intent)
    assert verdict.committed is (there.now() < here.now() + dt.timedelta(minutes=1))
    assert verdict.applied in (Applied.COMMITTED, Applied.REJECTED)


def test_a_clock_that_steps_back() -> None:
    """A clock that steps back makes nothing fresh that lies in its future, and revives nothing that is over."""
    clock = FakeClock()
    shop = Shop(clock=clock, premises=[block_unless(fresh(order.seen, HOUR))])
    shop.world.change("orders", "o-1", seen=clock.now())
    intent = shop.refund.options(expires=2 * HOUR).propose("o-1", amount=80)
    clock.advance(-HOUR)
    verdict = shop.gate(intent)
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])
    clock.advance(3 * HOUR)
    assert shop.gate(intent).state is State.EXPIRED
    clock.advance(-3 * HOUR)
    assert shop.gate(intent).state is State.EXPIRED
    assert committed(shop.world) == 0


def test_a_clock_that_steps_back_under_an_attempt() -> None:
    """A step back only makes a rival wait longer for an attempt that may be alive."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)

    def crash(_: object) -> None:
        raise Crash

    with failpoint(shop.gate, Apply, before=crash), pytest.raises(Crash):
        shop.gate(intent)
    shop.clock.advance(-HOUR)
    assert shop.again().gate(intent).applied is Applied.IN_PROGRESS
    shop.clock.advance(HOUR + dt.timedelta(seconds=31))
    assert shop.again().gate(intent).committed


@pytest.mark.parametrize("zone", [dt.UTC, LONDON, NEW_YORK], ids=str)
@pytest.mark.parametrize("fold", [0, 1])
def test_moments_across_a_change_of_clocks(zone: dt.tzinfo, fold: int) -> None:
    """A moment is one moment in whatever zone it was written: the hour that a clock shows twice is two."""
    until = dt.datetime(2026, 10, 25, 1, 30, tzinfo=LONDON, fold=fold)  # shown twice, at 00:30 and at 01:30 UTC
    end = dt.datetime(2026, 10, 25, fold, 30, tzinfo=dt.UTC)
    for early, held in ((dt.timedelta(microseconds=1), True), (dt.timedelta(0), False)):
        clock = FakeClock((end - early).astimezone(zone))
        shop = Shop(clock=clock, premises=[block_unless(before(order.until))])
        shop.world.change("orders", "o-1", until=until)
        verdict = shop.gate(shop.gate.transaction().propose(shop.refund, "o-1", amount=80))
        assert verdict.committed is held


@pytest.mark.parametrize("shown", ["2026-10-25T01:30:00", "2026-03-29T01:30:00"], ids=["twice", "never"])
def test_a_wall_clock_that_shows_it_twice_or_never(shown: str) -> None:
    """A time without a zone that the named zone's clocks show twice or never is no deadline."""
    clock = FakeClock(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    shop = Shop(clock=clock, premises=[block_unless(before(order.until.as_utc("Europe/London")))])
    shop.world.change("orders", "o-1", until=dt.datetime.fromisoformat(shown))
    verdict = shop.gate(shop.gate.transaction().propose(shop.refund, "o-1", amount=80))
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])


class Naive:
    """A clock without a zone."""

    def now(self) -> dt.datetime:
        """Some time."""
        return dt.datetime(2026, 1, 1)  # noqa: DTZ001 - the point


def test_a_naive_clock() -> None:
    """A clock whose moments have no zone is refused where it is given."""
    with pytest.raises(DeclarationError, match="name no zone"):
        Gate(Memory(**shop_rows()), clock=Naive())


# --- Exhaustion -------------------------------------------------------------------------------------------------------


def wide_record() -> IntentRecord:
    """A record whose transaction read one limit."""
    shop = Shop()
    tx = shop.gate.transaction()
    tx.decide("within the limit", rests_on=[tx.read(policy.limit)])
    stored = shop.store.load(tx.propose(shop.refund, "o-1", amount=80).id)
    assert stored is not None
    return stored.record


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["one transaction", "each its own"])
def test_a_hundred_thousand_intents_behind_one_read(shared: bool) -> None:
    """What fans out widely is followed without recursion, each node once, and taken out again."""
    record, size = wide_record(), 100_000
    index = Index(Capture.PREDICATE)
    records = [
        dataclasses.replace(record, intent_id=f"i-{n}", transaction="t" if shared else f"t-{n}") for n in range(size)
    ]
    for each in records:
        index.add(each)
    closure = index.closure(Change("policies", "refund", "limit"))
    assert len(closure.intents) == size
    assert len(closure.nodes) == len(set(closure.nodes))
    assert index.closure(Change("policies", "refund", "other")).intents == ()
    for each in records[1:]:
        index.remove(each)
    assert index.closure(Change("policies", "refund", "limit")).intents == ("i-0",)


@pytest.mark.slow
def test_a_hundred_thousand_decisions() -> None:
    """One read behind very many decisions of one intent is followed without recursion, each node once."""
    record, size = wide_record(), 100_000
    index = Index(Capture.PREDICATE)
    index.add(dataclasses.replace(record, decisions=record.decisions * size))
    closure = index.closure(Change("policies", "refund", "limit"))
    assert (len(closure.nodes), len(closure.intents)) == (1 + size + 1, 1)


def test_expressions_are_bounded() -> None:
    """An expression nested too deeply is refused where it is declared, and so is a key through too many reads."""

    def nested() -> None:
        condition: Any = order.a
        for _ in range(100):
            condition = ~condition & order.b

    def followed() -> None:
        key: Any = arg.order_id
        for _ in range(5):
            key = resource("orders", key).next

    with pytest.raises(DeclarationError, match="nested more than"):
        nested()
    with pytest.raises(DeclarationError, match="more than 3 reads"):
        followed()


def test_a_wide_expression() -> None:
    """A condition of very many parts is one flat node, and evaluated as such."""
    condition: Any = order.delivered
    for n in range(2000):
        condition = condition & (arg.amount != -n - 1)
    shop = Shop(premises=[block_unless(condition)])
    assert shop.refund("o-1", amount=80) == "refunded o-1"


def test_many_rows() -> None:
    """A quantifier over very many rows with a join is read in one more wave, and bound."""
    size = 3000
    lines = {f"l-{n}": {"part": f"p-{n}"} for n in range(size)}
    parts = {f"p-{n}": {"ok": True} for n in range(size)}
    from lastlook import each, every

    shop = Shop(
        relay=True,
        world=Memory(**shop_rows(), lines=lines, parts=parts),
        premises=[block_unless(every(rows("lines"), resource("parts", each.part).ok))],
    )
    intent = shop.refund.propose("o-1", amount=80)
    assert len(shop.line.reads) == 2
    shop.world.change("parts", "p-7", ok=False)
    assert shop.gate(intent).outcome is Outcome.BLOCK
    shop.world.change("parts", "p-7", ok=True)
    assert shop.gate(intent).committed


# --- Secrets ----------------------------------------------------------------------------------------------------------

CANARY = "canary-6c1f"


class Secretive(Exception):
    """Says too much."""


def test_secrets_stay_where_they_are() -> None:
    """What is not declared public stands in no text, record or event, but where it is stored on purpose."""
    told: list[str] = []

    @validator("secret", version="1")
    def secret(value: object) -> bool:
        if value == "raise":
            return True
        raise Secretive(CANARY)

    owner = resource("owners", arg.order_id)
    shelf = Shelf(vault={"v": {"code": CANARY}})
    world = Memory(
        orders={"o-1": {"note": CANARY, "code": "raise", "customer_name": "x", "amount": 80, "meta": {"k": CANARY}}},
        owners={"o-1": {"name": CANARY}},
    )
    premises = [
        block_unless(order.note == arg.note, "notes differ"),
        block_unless(owner.name == actor["name"]),
        block_unless(order.meta["k"] == owner.name),
        block_unless(secret(order.code)),
        replan_unless(resource("vault", "v").code == arg.note, accept=UNBOUND("it is elsewhere")),
        block_unless(order.amount <= 80),
        block_unless(order.note >= owner.name),
    ]
    gate = Gate(relay := Relay(world), shelf)
    ran: list[str] = []

    @gate.effect(target=order, premises=premises, refresh=[order.customer_name])
    def refund(permit: MemoryPermit, order_id: str, note: str) -> str:
        ran.append(note)
        permit.change("orders", order_id, amount=0)
        return "done"

    def tell(call: Callable[[], object]) -> None:
        try:
            made = call()
        except Exception as error:  # noqa: BLE001 - whatever it is, what it says is looked at
            told.extend([str(error), repr(error), *traceback.format_exception(error)])
            made = getattr(error, "verdict", None)
        told.extend([repr(made), str(made)])
        told.extend(getattr(made, name)() for name in ("explain", "model_text") if hasattr(made, name))
        told.extend(repr(finding) for finding in getattr(made, "findings", ()))
        told.extend(repr(getattr(made, name, None)) for name in ("changed", "checked", "bindings", "error"))

    with events(gate) as found:
        call = refund.options(actor={"name": CANARY})
        intent = call.propose("o-1", CANARY)
        told.append(repr(intent))
        tell(lambda: gate.preview(intent))
        for write in (
            {"note": f"{CANARY}!"},
            {"note": CANARY, "meta": {"k": [CANARY]}},
            {"meta": CANARY},
            {"meta": {"k": CANARY}, "code": CANARY},
            {"code": "raise", "note": 7},
            {"note": CANARY, "amount": 81},
        ):
            world.change("orders", "o-1", **write)
            tell(lambda: gate.preview(intent))
            tell(lambda: gate(intent))
            tell(lambda: call("o-1", CANARY))
            tell(lambda: call.propose("o-1", CANARY))
            tell(lambda: gate.affected(Change("orders", "o-1")))
        world.change("orders", "o-1", amount=80)
        relay.failure = ConnectionError(f"password={CANARY}")
        tell(lambda: gate(intent))
        relay.failure = None
        tell(lambda: refund.propose("o-1", cast("Any", [CANARY])))
        tell(lambda: cast("Any", refund).propose("o-1"))
        tell(lambda: refund.options(key="k").propose("o-1", f"{CANARY}?"))
        tell(lambda: gate(intent))
    assert ran == [CANARY], "and the body had it all the time"
    told.extend(map(repr, found))
    store: Any = gate._runtime().store
    for name in store._chains:
        for entry in store.journal(name):
            body: dict[str, Any] = dict(cast("Any", decode(entry.body)))
            told.append(repr({key: value for key, value in body.items() if key not in ("arguments", "actor")}))
    assert [text for text in told if CANARY in text] == []
    assert any("notes differ" in text for text in told)


def test_secrets_stored_on_purpose() -> None:
    """What the body or a later comparison needs is stored as it is, and shown by no explanation."""
    shop = Shop(separate=True, premises=[block_unless(unchanged(order.secret))])
    shop.world.change("orders", "o-1", secret=CANARY, customer_name=CANARY)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", secret="another")
    verdict = shop.gate(intent)
    assert "orders/o-1.secret has changed" in verdict.explain()
    assert CANARY not in verdict.explain()
    proposed: Any = decode(shop.store.journal(intent.id)[0].body)
    where = {key for key, value in proposed.items() if CANARY in repr(value)}
    assert where == {"captured"}
    verdict_: Any = decode(shop.store.journal(intent.id)[1].body)
    assert CANARY not in repr(verdict_)


def test_guessable_values_have_salted_digests() -> None:
    """The digest of a limit of 80 or 100 cannot be looked up: each store has its own salt."""
    digests = []
    for _ in range(2):
        shop = Shop()
        stored = shop.store.load(shop.refund.propose("o-1", amount=80).id)
        assert stored is not None
        digests.append({read.digest for read in stored.record.reads})
    assert digests[0].isdisjoint(digests[1])


# --- Hints ------------------------------------------------------------------------------------------------------------

HINTS = st.lists(
    st.sampled_from(
        [
            Change("policies", "refund", "limit"),
            Change("policies", "refund"),
            Change("policies", "other", "limit"),
            Change("orders", "o-1", "defect"),
            Change("orders", "o-1", "refunded", "defect"),
            Change("orders", "o-1"),
            Change("orders", "o-2", "refunded"),
            Change("weather", "uk"),
            Change("nowhere", "x", "y"),
        ]
    ),
    max_size=6,
)
WRITES = st.sampled_from(
    [
        ("policies", "refund", {"limit": 50}),
        ("policies", "refund", {"limit": 90}),
        ("policies", "refund", {"limit": "100"}),
        ("orders", "o-1", {"defect": False}),
        ("orders", "o-1", {"defect": True}),
        ("orders", "o-1", {"refunded": True}),
        ("orders", "o-1", {"refunded": False}),
        ("orders", "o-1", {"customer_name": "reader 8"}),
        ("weather", "uk", {"rain": False}),
    ]
)


@settings(max_examples=120, deadline=None)
@given(steps=st.lists(st.tuples(HINTS, WRITES, HINTS), min_size=1, max_size=5), capture=st.sampled_from(list(Capture)))
def test_hints_decide_nothing(steps: list[tuple[list[Change], Any, list[Change]]], capture: Capture) -> None:
    """With hints early, late, repeated, reordered, false or none, a gate says and does exactly the same."""
    said: list[Any] = []
    for hinted in (True, False):
        shop = Shop(capture=capture)
        intent = shop.refund.propose("o-1", amount=80)
        run: list[Any] = []
        for early, (kind, key, fields), late in steps:
            for change in early if hinted else ():
                shop.gate.affected(change)
            shop.world.change(kind, key, **fields)
            for change in late if hinted else ():
                shop.gate.affected(change)
            verdict = shop.gate(intent)
            run.append((verdict.outcome, verdict.applied, verdict.checked, verdict.changed, tuple(shop.ran)))
        said.append(run)
    assert said[0] == said[1]


def test_hints_write_nothing() -> None:
    """A flood of hints leaves no record, ends no intent, and runs no body."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    for _ in range(200):
        shop.gate.affected(Change("orders", "o-1"))
    assert [entry.kind for entry in shop.store.journal(intent.id)] == ["PROPOSED"]
    assert (shop.gate.pending(), shop.ran) == ([intent], [])


# --- Approvals --------------------------------------------------------------------------------------------------------

approval = resource("approvals", arg.order_id)
APPROVED = block_unless(
    approval.granted & (approval.amount == arg.amount) & before(approval.until), "no approval of this amount"
)


def approvals(**given: object) -> Shop:
    """A shop that awaits an approval."""
    clock = FakeClock()
    row = {"granted": True, "amount": 80, "until": clock.now() + HOUR} | given
    return Shop(clock=clock, world=Memory(**shop_rows(), approvals={"o-1": row}), awaits=[APPROVED])


@pytest.mark.parametrize(
    "given",
    [
        {"granted": False},
        {"granted": None},
        {"granted": "yes"},
        {"granted": 1},
        {"amount": 79},
        {"amount": "80"},
        {"until": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
        {"until": None},
        {"until": "2027-01-01"},
        {"until": dt.datetime(2027, 1, 1)},  # noqa: DTZ001 - a moment of no zone
    ],
    ids=str,
)
def test_an_approval_that_is_none(given: dict[str, object]) -> None:
    """An approval that is refused, of another amount, over, or not quite an approval lets nothing out."""
    shop = approvals(**given)
    intent = shop.refund.propose("o-1", amount=80)
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed) == (Outcome.BLOCK, False)
    shop.world.change("approvals", "o-1", granted=True, amount=80, until=shop.clock.now() + HOUR)
    assert shop.gate(intent).committed


@SEPARATE
@pytest.mark.parametrize("end", ["revoked", "gone", "over", "of another amount"])
@pytest.mark.parametrize("late", [False, True], ids=["before the look", "after the look"])
def test_an_approval_that_ends(separate: bool, end: str, late: bool) -> None:
    """An approval is evidence, read at the gate and bound: however it ends, and however late, nothing goes out."""
    shop = approvals()
    if separate:
        shop.world.options(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    ends: dict[str, Callable[[], object]] = {
        "revoked": lambda: shop.world.change("approvals", "o-1", granted=False),
        "gone": lambda: shop.world.delete("approvals", "o-1"),
        "over": lambda: shop.clock.advance(HOUR),
        "of another amount": lambda: shop.world.change("approvals", "o-1", amount=70),
    }
    if late:
        with interpose(shop.gate, ends[end]):
            verdict = shop.gate(intent)
    else:
        ends[end]()
        verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.committed, shop.ran) == (Outcome.BLOCK, False, [])


def test_an_approval_of_edited_arguments() -> None:
    """An approval of one amount covers no other: edited arguments are another intent, and not approved."""
    shop = approvals()
    approved, edited = shop.refund.propose("o-1", amount=80), shop.refund.propose("o-1", amount=90)
    assert shop.gate(edited).outcome is Outcome.BLOCK
    replacing = shop.refund.options(supersedes=edited).propose("o-1", amount=85)
    assert shop.gate(replacing).outcome is Outcome.BLOCK
    assert shop.gate(approved).committed
    assert shop.ran == [80]
