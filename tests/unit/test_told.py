"""What verdicts, stops and representations tell: enough to act upon, and nothing that was not declared public."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from shop import Order as DatabaseOrder
from shop import Policy as DatabasePolicy
from shop import change, declare, open_shop
from sqlalchemy.orm import Session
from systems import Crash, Shop, order, policy

import lastlook
from lastlook import (
    UNBOUND,
    Applied,
    EffectStopped,
    Field,
    Gate,
    Intent,
    LastlookError,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    Preview,
    Resource,
    State,
    Verdict,
    arg,
    block_unless,
    each,
    every,
    replan_unless,
    resource,
    rows,
)
from lastlook.canonical import decode
from lastlook.cli.note import note
from lastlook.cli.story import read_story
from lastlook.commands import Apply
from lastlook.ports import ApplyResult, CloseResult
from lastlook.proposals import Draft, Mode, Proposed
from lastlook.records import SCHEMA, EffectRow
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock, events, failpoint, interpose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MARK = "mark@example.org"
customer = resource("customers", order.email)
NAME = "customers[orders/o-1.email]"


def last(store: MemoryStore, intent: Intent[Any]) -> tuple[str, Mapping[str, Any]]:
    """The kind and the body of an intent's last record, as they are stored."""
    entry = store.journal(intent.id)[-1]
    body: Any = decode(entry.body)
    return entry.kind, body


# --- What the agent read otherwise ------------------------------------------------------------------------------------


def differing(shop: Shop) -> Intent[Any]:
    """An intent whose agent read a limit that had moved before it proposed."""
    transaction = shop.gate.transaction()
    transaction.read(policy)
    shop.world.change("policies", "refund", limit=90)
    return transaction.propose(shop.refund, "o-1", amount=80)


def test_explanations_name_what_the_agent_read_otherwise() -> None:
    """Preview, verdict, and the verdict read back from the journal, all name the places where the two reads differ."""
    shop = Shop()
    intent = differing(shop)
    line = "read otherwise by the agent than it was when proposed: policies/refund.limit"
    told = [shop.gate.preview(intent).explain(), shop.gate(intent).explain(), shop.gate(intent).explain()]
    again = shop.again()
    told.append(again.gate(again.gate.intent(intent.id)).explain())
    assert [text.split("\n").count(line) for text in told] == [1, 1, 1, 1]


def test_explanations_name_no_differences_where_there_are_none() -> None:
    """An intent whose agent read what the proposal read is explained without such a line, refused ones too."""
    shop = Shop()
    transaction = shop.gate.transaction()
    transaction.read(policy)
    intent = transaction.propose(shop.refund, "o-1", amount=80)
    assert "read otherwise" not in shop.gate(intent).explain()
    with pytest.raises(EffectStopped) as stop:
        shop.refund.propose("o-2", amount=800)
    assert "read otherwise" not in stop.value.verdict.explain()


# --- Last words -------------------------------------------------------------------------------------------------------


def test_a_closed_attempt_keeps_what_its_look_decided() -> None:
    """The record that closes a dead attempt has the attempt's outcome, so that whoever comes later can tell it."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", customer_name="reader 8")

    def die(_: Apply) -> None:
        raise Crash

    with failpoint(shop.gate, Apply, before=die), pytest.raises(Crash):
        shop.gate(intent)
    (verdict,) = shop.gate.reconcile()
    kind, body = last(shop.store, intent)
    assert (kind, body["outcome"], body["applied"], body["attempt"]) == ("CLOSED", "REFRESH", "NOT_ATTEMPTED", 1)
    assert (verdict.outcome, verdict.changed) == (Outcome.REFRESH, ("orders/o-1.customer_name",))


def test_an_attempt_that_got_no_answer_and_was_closed_keeps_what_its_look_decided() -> None:
    """Where no answer came and the target closed the attempt, the record explains the look as the verdict does."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", customer_name="reader 8")
    lost = iter([True])

    def lose(_: Apply) -> None:
        if next(lost, False):
            raise ConnectionError
        shop.world.change("policies", "refund", limit=10)

    with failpoint(shop.gate, Apply, before=lose):
        shop.gate(intent)
    bodies: list[Any] = [decode(entry.body) for entry in shop.store.journal(intent.id) if entry.kind == "CLOSED"]
    assert [(body["outcome"], body["applied"], body["attempt"]) for body in bodies] == [("REFRESH", "REJECTED", 1)]
    assert bodies[0]["reason"] == "no answer came, and the target closed the attempt"


def test_an_attempt_names_its_deadline() -> None:
    """The record that opens an attempt says until when nobody else closes it."""
    shop = Shop(separate=True)
    intent = shop.refund.propose("o-1", amount=80)
    shop.gate(intent)
    opened: Any = decode(shop.store.journal(intent.id)[1].body)
    now = shop.clock.now() - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert opened["deadline_us"] == (now + dt.timedelta(seconds=30)) // dt.timedelta(microseconds=1)


def test_a_superseded_intent_names_its_successor() -> None:
    """Whoever holds the replaced intent reads which one took its place."""
    shop = Shop()
    old = shop.refund.propose("o-1", amount=80)
    new = shop.refund.options(supersedes=old).propose("o-1", amount=60)
    verdict = shop.gate(old)
    assert (verdict.state, verdict.outcome, verdict.applied) == (
        State.SUPERSEDED,
        Outcome.BLOCK,
        Applied.NOT_ATTEMPTED,
    )
    assert f"the intent was superseded by intent {new.id}" in verdict.explain()
    assert new.id in verdict.model_text()


def test_a_held_lane_says_what_to_do() -> None:
    """The second intent on a lane is told who holds it, and the two calls that resolve the holder."""
    shop = Shop(separate=True)
    first, second = (shop.refund.propose("o-1", amount=amount) for amount in (80, 70))

    def overtaken(_: Apply) -> None:
        raise Crash

    with failpoint(shop.gate, Apply, before=overtaken), pytest.raises(Crash):
        shop.gate(first)
    verdict = shop.gate(second)
    assert verdict.applied is Applied.IN_PROGRESS
    advice = f"call gate(gate.intent({first.id!r})) or gate.reconcile()"
    assert (verdict.explain().count(advice), verdict.model_text().count(advice)) == (1, 1)
    shop.gate.reconcile()
    assert shop.gate(second).committed


def test_an_asserted_no_keeps_what_the_look_decided() -> None:
    """A person's word that nothing happened leaves the attempt's outcome readable."""
    clock = FakeClock()
    store, gate = MemoryStore(), Gate(Memory(policies={"refund": {"limit": 100}}), clock=clock)

    @gate.effect(target="mailbox", lane=(arg.to,), premises=[block_unless(policy.limit > 1, accept=UNBOUND("a note"))])
    def mail(permit: Any, to: str) -> None:
        raise ConnectionError

    intent = mail.propose(to="a colleague")
    assert gate(intent).applied is Applied.UNKNOWN
    gate.assert_outcome(intent, committed=False, by="the shift lead", note="the mailbox is empty")
    store = gate._runtime().store  # type: ignore[assignment]
    kind, body = last(store, intent)
    assert (kind, body["outcome"], body["applied"], body["by"]) == (
        "ASSERTED",
        "KEEP",
        "NOT_ATTEMPTED",
        "the shift lead",
    )


# --- Representations --------------------------------------------------------------------------------------------------


def test_representations_show_no_values() -> None:
    """The text of whatever may land in a log shows no argument, actor, captured value, result or stored bytes."""
    shop = Shop(premises=[block_unless(lastlook.unchanged(order.customer_name)), block_unless(~order.refunded)])
    shop.world.change("orders", "o-1", customer_name=MARK)
    effect = shop.refund.options(actor={"role": MARK})
    intent = effect.propose("o-1", amount=77_777)
    stored = shop.store.load(intent.id)
    assert stored is not None
    assert stored.record.captured
    actor: Any = {"role": MARK}
    draft = Draft("i", effect.contract, {"amount": 77_777}, actor, Mode.PROVE)
    told = [
        intent,
        stored,
        stored.record,
        draft,
        Proposed(stored.record, {MARK: Any}, existed=False),  # type: ignore[dict-item]
        getattr(effect, "declared", None),
        shop.store.journal(intent.id)[0],
        shop.gate(intent),
        shop.gate.preview(intent),
        EffectRow("i", "digest", 1, 1, MARK, 1),
        ApplyResult(Applied.COMMITTED, MARK, MARK, ValueError(MARK)),
        CloseResult(Applied.COMMITTED, MARK),
        shop.store,
        shop.gate,
    ]
    text = "\n".join(map(repr, told))
    assert not re.search(rf"{MARK}|77.?777", text)
    assert "IntentRecord(intent_id=" in text
    assert "arguments=..., arguments_digest='sha256:" in text


def test_hidden_fields_are_fields_all_the_same() -> None:
    """What a text leaves out is compared, copied and listed as any other field."""
    row = CloseResult(Applied.COMMITTED, MARK)
    assert row != CloseResult(Applied.COMMITTED, "else")
    assert row.but(reason="why").stored == MARK
    assert dataclasses.asdict(row)["stored"] == MARK
    assert repr(row) == "CloseResult(status=<Applied.COMMITTED: 'COMMITTED'>, stored=..., reason='')"


# --- Keys that were read ----------------------------------------------------------------------------------------------


class Desk:
    """A gate whose effect follows an order to its customer, who is known by a mail address that nobody made public."""

    def __init__(self, *, separate: bool = False, premises: Any = None, more: Mapping[str, Any] | None = None) -> None:
        self.world = Memory(
            orders={"o-1": {"email": MARK, "refunded": False, "lines": [{"sku": MARK}]}},
            customers={MARK: {"tier": "gold", "blocked": False}},
            stock={MARK: {"left": 3}},
            **(more or {}),
        )
        self.world.options(separate=separate)
        self.store = MemoryStore()
        self.clock = FakeClock()
        self.gate = Gate(self.world, store=self.store, clock=self.clock)
        given = [replan_unless(customer.tier == "gold"), block_unless(~customer.blocked)]

        @self.gate.effect(target=order, premises=premises or given)
        def refund(permit: MemoryPermit, order_id: str) -> str:
            permit.change("orders", order_id, refunded=True)
            return order_id

        self.refund = refund

    def told(self, seen: Verdict[Any] | Preview) -> str:
        """Everything that people and models read of it, now and from the journal, with the mark in none of it."""
        texts = [seen.explain(), repr(seen), *seen.changed, *seen.bindings]
        if isinstance(seen, Verdict):
            texts.append(seen.model_text())
            try:
                seen.result()
            except EffectStopped as stop:
                texts += [str(stop), stop.model_text]
        assert seen.intent is not None
        stored = self.store.load(seen.intent.id)
        assert stored is not None
        texts += [stored.record.target, *stored.record.differences, *(read.place for read in stored.record.reads)]
        for entry in self.store.journal(seen.intent.id)[1:]:
            body: Any = decode(entry.body)
            texts += [repr({name: part for name, part in body.items() if name != "evidence"})]
        story = read_story(self.store.journal(seen.intent.id))
        texts += [note(story), json.dumps(story.as_json(reveal=False)), repr(stored.record.differences)]
        text = "\n".join(texts)
        assert MARK not in text, text
        return text


def blocked(desk: Desk) -> None:
    """The customer is blocked."""
    desk.world.change("customers", MARK, blocked=True)


def moved(desk: Desk) -> None:
    """The customer has another tier."""
    desk.world.change("customers", MARK, tier="silver")


def gone(desk: Desk) -> None:
    """There is no such customer."""
    desk.world.delete("customers", MARK)


def unlike(desk: Desk) -> None:
    """A field has become something else."""
    desk.world.change("customers", MARK, tier=1)


def renamed(desk: Desk) -> None:
    """The order is another customer's."""
    desk.world.change("customers", f"other {MARK}", tier="silver", blocked=True)
    desk.world.change("orders", "o-1", email=f"other {MARK}")


@pytest.mark.parametrize("change", [blocked, moved, gone, unlike, renamed])
@pytest.mark.parametrize("how", ["propose", "transaction", "one-shot"])
@pytest.mark.parametrize("separate", [False, True])
def test_a_key_that_was_read_stands_in_no_text(change: Callable[[Desk], None], how: str, *, separate: bool) -> None:
    """A row found through undeclared evidence is named by the place of its key, in findings, changes and bindings."""
    desk = Desk(separate=separate)
    if how == "one-shot":
        change(desk)
        with pytest.raises(EffectStopped) as stop:
            desk.refund("o-1")
        text = desk.told(stop.value.verdict)
    else:
        if how == "transaction":
            transaction = desk.gate.transaction()
            transaction.decide("a good customer", rests_on=[transaction.read(customer, order_id="o-1")])
            intent = transaction.propose(desk.refund, "o-1")
        else:
            intent = desk.refund.propose("o-1")
        change(desk)
        desk.told(desk.gate.preview(intent))
        text = desk.told(desk.gate(intent))
        again = Gate(desk.world, store=desk.store.reopened(), clock=desk.clock)
        again.effect(target=order, premises=[block_unless(~customer.blocked)], name="refund")(body)
        desk.told(again.preview(again.intent(intent.id)))
    assert NAME in text


def body(permit: MemoryPermit, order_id: str) -> str:
    """The same, some versions later."""
    permit.change("orders", order_id, refunded=True)
    return order_id


def test_a_key_that_was_read_and_is_public_is_shown() -> None:
    """Where the field that a key comes from is declared public, its row is named as any other."""

    class Order(Resource, kind="orders"):
        email: Field[str] = Field(public=True)

    row = Order(arg.order_id)
    desk = Desk(premises=[block_unless(~resource("customers", row.email).blocked)])
    intent = desk.refund.propose("o-1")
    blocked(desk)
    verdict = desk.gate(intent)
    assert verdict.changed == (f"customers[{MARK!r}].blocked",)
    assert f"customers[{MARK!r}].blocked is True" in verdict.explain()


def test_a_key_that_was_given_is_shown_although_it_was_read_too() -> None:
    """A row that an argument names keeps its name, whatever else leads to it."""
    gate_world = Memory(orders={"o-1": {"email": MARK}}, customers={MARK: {"blocked": False}})
    gate = Gate(gate_world)

    @gate.effect(
        target=order,
        premises=[block_unless(~customer.blocked), block_unless(~resource("customers", arg.email).blocked)],
    )
    def refund(permit: MemoryPermit, order_id: str, email: str) -> None:
        permit.change("orders", order_id, refunded=True)

    intent = refund.propose("o-1", email=MARK)
    gate_world.change("customers", MARK, blocked=True)
    assert gate(intent).changed == (f"customers[{MARK!r}].blocked",)


@pytest.mark.parametrize("separate", [False, True])
def test_a_target_that_names_what_moved_is_told_without_its_key(*, separate: bool) -> None:
    """A refusal between look and effect names the row by the place of its key, in the verdict and in the journal."""
    desk = Desk(separate=separate)
    intent = desk.refund.propose("o-1")
    tiers = iter(range(9))

    def shake() -> None:
        desk.world.change("customers", MARK, seen=next(tiers))

    with interpose(desk.gate, shake):
        verdict = desk.gate(intent)
    assert verdict.committed
    desk.told(verdict)
    rejected = [entry for entry in desk.store.journal(intent.id) if b"REJECTED" in entry.body]
    assert rejected
    assert f"{NAME} moved after it was looked at" in str(decode(rejected[0].body))


def test_a_newly_reached_row_that_moved_is_told_without_its_key() -> None:
    """The same of a row that only this look has reached, through a key that itself has changed."""
    desk = Desk()
    other = f"other {MARK}"
    desk.world.change("customers", other, tier="gold", blocked=False)
    intent = desk.refund.propose("o-1")
    desk.world.change("orders", "o-1", email=other)
    with interpose(desk.gate, lambda: desk.world.change("customers", other, seen=1)):
        verdict = desk.gate(intent)
    desk.told(verdict)
    assert "moved after it was looked at" in "".join(str(decode(entry.body)) for entry in desk.store.journal(intent.id))


def test_rows_that_items_lead_to_are_told_without_their_keys() -> None:
    """Rows found through items of what was read are named by the item, and one name stands once."""
    stock: Any = resource("stock", each.sku)
    desk = Desk(premises=[replan_unless(every(order.lines, stock.left > 0), "sold out")])
    desk.world.change("orders", "o-1", lines=[{"sku": MARK}, {"sku": f"b {MARK}"}])
    desk.world.change("stock", f"b {MARK}", left=1)
    intent = desk.refund.propose("o-1")
    desk.world.change("stock", MARK, left=0)
    desk.world.change("stock", f"b {MARK}", left=0)
    verdict = desk.gate(intent)
    assert verdict.changed == ("stock[each.sku].left",)
    assert "row 0 of orders/o-1.lines: stock[each.sku].left > 0 does not hold" in desk.told(verdict)


def test_a_target_named_through_evidence_is_recorded_without_its_key() -> None:
    """An intent that acts on a row which evidence names records where that row's key lies."""
    gate = Gate(Memory(orders={"o-1": {"email": MARK}}, customers={MARK: {"blocked": False}}), store=MemoryStore())

    @gate.effect(target=customer, premises=[block_unless(~customer.blocked)])
    def block(permit: MemoryPermit, order_id: str) -> None:
        permit.change("customers", MARK, blocked=True)

    intent = block.propose("o-1")
    stored = gate._runtime().store.load(intent.id)
    assert stored is not None
    assert stored.record.target == NAME
    assert gate(intent).committed


@pytest.mark.parametrize("how", ["propose", "transaction", "one-shot"])
def test_a_target_whose_key_is_no_name_is_refused(how: str) -> None:
    """Where evidence gives a list for a key, nothing is stored, and the stop says that the target has no name."""
    store = MemoryStore()
    gate = Gate(Memory(orders={"o-1": {"email": [MARK], "ok": True}}, customers={MARK: {}}), store=store)

    @gate.effect(target=customer, premises=[block_unless(order.ok)])
    def block(permit: MemoryPermit, order_id: str) -> None:
        permit.change("customers", MARK, blocked=True)

    ways: dict[str, Callable[[str], object]] = {
        "propose": block.propose,
        "transaction": lambda key: gate.transaction().propose(block, key),
        "one-shot": block,
    }
    with pytest.raises(
        EffectStopped, match="what it acts on cannot be named: a part of its key is nothing that"
    ) as stop:
        ways[how]("o-1")
    assert stop.value.verdict.outcome is Outcome.BLOCK
    assert MARK not in stop.value.verdict.explain()
    assert list(store.intents()) == []


def test_what_an_agent_read_through_evidence_is_told_without_its_key() -> None:
    """Differences, edges and failed reads of rows that an agent reached through evidence show no key."""
    desk = Desk(premises=[block_unless(~order.refunded)])
    transaction = desk.gate.transaction()
    read = transaction.read(customer, order_id="o-1")
    transaction.decide("a good customer", rests_on=[read])
    desk.world.change("customers", MARK, tier="silver")
    transaction.read(customer.tier, order_id="o-1")
    intent = transaction.propose(desk.refund, "o-1")
    desk.world.change("customers", MARK, tier="tin")
    text = desk.told(desk.gate(intent))
    assert f"changed: {NAME}.tier" in text
    assert f"rests on {NAME}.tier" in text
    with desk.world.unreadable("customers"), pytest.raises(LastlookError) as failed:
        transaction.read(customer, order_id="o-1")
    assert MARK not in str(failed.value)
    assert str(failed.value).startswith(f"{NAME} could not be read: ")


def test_a_database_that_names_what_moved_is_told_without_its_key(tmp_path: Path) -> None:
    """The same of a row in a database, in both forms: with the store in its engine, and apart."""
    for number, own in enumerate((True, False)):
        engine = open_shop(tmp_path / f"shop-{number}.db")
        with Session(engine) as session:
            session.add(DatabasePolicy(region=MARK, limit=100))
            session.commit()
        change(engine, DatabaseOrder, "o-1", region=MARK)
        store = SqlStore(engine if own else f"sqlite:///{tmp_path / 'intents.db'}")
        gate, refund = declare(engine, store)
        gate.install()
        intent, second = (refund.propose("o-1", amount=Decimal(80)) for _ in range(2))
        limits = iter(range(90, 99))
        with interpose(gate, lambda: change(engine, DatabasePolicy, MARK, limit=next(limits))):  # noqa: B023 - at once
            told = gate(intent).explain()
        change(engine, DatabasePolicy, MARK, limit=1)
        told += gate(second).explain() + note(read_story(store.journal(intent.id)))
        assert "policies[orders/o-1.region]" in told
        assert "moved" in told
        assert MARK not in told
        engine.dispose()


def test_events_tell_the_whole_address() -> None:
    """A test that listens sees the rows that were really looked at."""
    desk = Desk()
    intent = desk.refund.propose("o-1")
    with events(desk.gate) as seen:
        desk.gate(intent)
    assert f"customers[{MARK!r}]" in str(seen)


def test_all_rows_are_named_by_their_kind() -> None:
    """What ranges over all rows of a kind has no key to hide."""
    desk = Desk(premises=[block_unless(every(rows("customers"), ~each.blocked))])
    intent = desk.refund.propose("o-1")
    blocked(desk)
    assert desk.gate(intent).changed == ("customers/*",)


# --- One schema number ------------------------------------------------------------------------------------------------


def test_every_record_carries_the_one_schema_number() -> None:
    """Each kind of record that a release writes has it, and the sources say it in one place only."""
    shop = Shop(separate=True)
    first, third, fourth = (shop.refund.propose("o-1", amount=amount) for amount in (80, 70, 60))
    fifth = shop.refund.options(supersedes=third).propose("o-1", amount=50)
    shop.gate.withdraw(fourth)
    shop.world.change("policies", "refund", limit=55)
    shop.gate(first)
    shop.gate(fifth)
    kinds: set[str] = set()
    for intent in (first, third, fourth, fifth):
        for entry in shop.store.journal(intent.id):
            stored: Any = decode(entry.body)
            assert stored["schema"] == SCHEMA == 1
            kinds.add(entry.kind)
    assert kinds == {"PROPOSED", "ATTEMPT", "COMMITTED", "VERDICT", "SUPERSEDED", "WITHDRAWN"}
    sources = list(Path(lastlook.__file__).parent.rglob("*.py"))
    said = [
        path.name for path in sources for line in path.read_text("utf-8").splitlines() if re.match(r"SCHEMA\b.*=", line)
    ]
    assert sorted(said) == ["digests.py", "records.py"]  # the first is that of digests
    assert not [path.name for path in sources if re.search(r'"schema": \d', path.read_text("utf-8"))]
