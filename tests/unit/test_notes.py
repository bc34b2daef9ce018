"""An intent's whole note, word for word, and the same story as JSON: derived from the journal alone."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from systems import Crash, Shop, order, policy, shop_premises

from lastlook import (
    UNBOUND,
    Applied,
    Gate,
    IntegrityError,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    State,
    arg,
    block_unless,
    canonical,
    replan_unless,
    resource,
)
from lastlook.cli.note import note
from lastlook.cli.story import Story, read_story
from lastlook.commands import Apply
from lastlook.ports import JournalEntry
from lastlook.testing import FakeClock, failpoint, interpose

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook import Intent

NOTES = Path(__file__).parents[1] / "data" / "notes"
Told = tuple[MemoryStore, "Intent[Any]"]


def a_shop(**options: Any) -> Shop:
    """A shop whose ids are the same in every run."""
    store = MemoryStore()
    store.namespace = "the tests"
    return Shop(store=store, **options)


def later(shop: Shop, **span: float) -> None:
    """Time passes."""
    shop.clock.advance(dt.timedelta(**span))


def committed() -> Told:
    """What most of them are: looked at once, and done."""
    shop = a_shop()
    refund = shop.refund.options(key="committed", actor={"role": "clerk", "user_id": "u-7"})
    intent = refund.propose("o-1", amount=80)
    later(shop, minutes=5)
    shop.world.change("orders", "o-1", customer_name="reader 8")
    assert shop.gate(intent).committed
    return shop.store, intent


def replanned() -> Told:
    """Refused, since a fact had changed, and released when it was as before."""
    shop = a_shop(separate=True)
    intent = shop.refund.options(key="replanned", expires=dt.timedelta(days=1)).propose("o-1", amount=80)
    later(shop, minutes=5)
    shop.world.change("orders", "o-1", delivered=False)
    assert shop.gate(intent).outcome is Outcome.REPLAN
    later(shop, hours=1)
    shop.world.change("orders", "o-1", delivered=True)
    assert shop.gate(intent).committed
    return shop.store, intent


def unverifiable() -> Told:
    """Blocked, since a system could not be read."""
    shop = a_shop()
    intent = shop.refund.options(key="unverifiable").propose("o-1", amount=80)
    later(shop, minutes=5)
    with shop.world.unreadable("policies"):
        assert shop.gate(intent).outcome is Outcome.BLOCK
    return shop.store, intent


def closed() -> Told:
    """An attempt whose gate died, closed by another; then open again."""
    shop = a_shop(separate=True)
    intent = shop.refund.options(key="closed").propose("o-1", amount=80)
    later(shop, minutes=5)
    die(shop, intent, before=True)
    later(shop, minutes=1)
    (verdict,) = shop.again().gate.reconcile()
    assert (verdict.applied, verdict.state) == (Applied.NOT_ATTEMPTED, State.OPEN)
    return shop.store, intent


def in_attempt() -> Told:
    """An attempt whose gate died."""
    shop = a_shop(separate=True)
    intent = shop.refund.options(key="attempt").propose("o-1", amount=80)
    later(shop, minutes=5)
    die(shop, intent, before=True)
    return shop.store, intent


def recovered() -> Told:
    """The effect was made, and the gate died before it could say so."""
    shop = a_shop(separate=True)
    intent = shop.refund.options(key="recovered").propose("o-1", amount=80)
    later(shop, minutes=5)
    die(shop, intent, before=False)
    later(shop, minutes=1)
    (verdict,) = shop.again().gate.reconcile()
    assert verdict.committed
    return shop.store, intent


def die(shop: Shop, intent: Intent[Any], *, before: bool) -> None:
    """Lose the process just before or just after the apply."""

    def crash(*_: object) -> None:
        raise Crash

    hooks: Any = {"before": crash} if before else {"after": crash}
    with failpoint(shop.gate, Apply, **hooks), pytest.raises(Crash):
        shop.gate(intent)


def expired() -> Told:
    """Nobody released it in time."""
    shop = a_shop()
    intent = shop.refund.options(key="expired", expires=dt.timedelta(hours=1)).propose("o-1", amount=80)
    later(shop, hours=2)
    assert shop.gate(intent).state is State.EXPIRED
    return shop.store, intent


def withdrawn() -> Told:
    """Its proposer took it back, having proposed it from what an agent read and concluded."""
    shop = a_shop()
    transaction = shop.gate.transaction("a-transaction")
    limit, weather = transaction.read(policy), transaction.read(resource("weather", "uk").rain)
    transaction.decide("the order was late because of rain", rests_on=[weather])
    transaction.decide("a refund is in order", rests_on=[limit])
    shop.world.change("policies", "refund", limit=60)
    intent = transaction.propose(shop.refund.options(key="withdrawn"), "o-1", amount=80)
    later(shop, minutes=5)
    shop.world.change("weather", "uk", rain=False)
    assert shop.gate(intent).outcome is Outcome.BLOCK
    later(shop, minutes=5)
    shop.gate.withdraw(intent)
    return shop.store, intent


def superseded() -> Told:
    """Another took its place."""
    shop = a_shop()
    intent = shop.refund.options(key="superseded").propose("o-1", amount=80)
    later(shop, minutes=5)
    shop.refund.options(key="successor", supersedes=intent).propose("o-1", amount=60)
    return shop.store, intent


def successor() -> Told:
    """It took another's place, and is open."""
    store, intent = superseded()
    body: Any = canonical.decode(store.journal(intent.id)[-1].body)
    return store, type(intent)(body["by"], "refund")


def asserted() -> Told:
    """A function whose outcome nobody can ask for; a person said what became of it."""
    clock, store = FakeClock(), MemoryStore()
    store.namespace = "the tests"
    gate = Gate(Memory(policies={"refund": {"limit": 100}}), store=store, clock=clock)

    @gate.effect(
        target="mailbox",
        lane=(arg.to,),
        premises=[block_unless(policy.limit > 1, accept=UNBOUND("a letter can be called back"))],
        awaits=[replan_unless(policy.limit < 1_000, accept=UNBOUND("so can a large one"))],
    )
    def mail(permit: Any, to: str) -> None:
        raise ConnectionError

    intent = mail.options(key="asserted").propose(to="a colleague")
    clock.advance(dt.timedelta(minutes=5))
    assert gate(intent).applied is Applied.UNKNOWN
    clock.advance(dt.timedelta(days=1))
    gate.assert_outcome(intent, committed=True, by="the shift lead", note="the colleague has it")
    return store, intent


def denied() -> Told:
    """The same, and the person said that nothing had happened."""
    store, intent = asserted()
    clock = FakeClock()
    gate = Gate(Memory(policies={"refund": {"limit": 100}}), store=store, clock=clock)

    @gate.effect(target="mailbox", lane=(arg.to,), no_preconditions=False, premises=[block_unless(arg.to != "")])
    def note_to(permit: Any, to: str) -> None:
        raise ConnectionError

    intent = note_to.options(key="denied").propose(to="a colleague")
    assert gate(intent).applied is Applied.UNKNOWN
    gate.assert_outcome(intent, committed=False, by="the shift lead", note="the mailbox is empty")
    return store, intent


def one_shot() -> Told:
    """A single call whose target refused it once, since what it had looked at moved, and then took it."""
    shop = a_shop(premises=[*shop_premises()[:3], block_unless(arg.amount <= policy.limit)], irreversible=True)
    left = [1, 2]

    def shake() -> None:
        if left:
            shop.world.change("policies", "refund", seen=left.pop())

    with interpose(shop.gate, shake):
        shop.refund.options(key="one-shot")("o-1", amount=80)
    (intent_id,) = shop.store.intents()
    return shop.store, shop.gate.intent(intent_id)


def failed() -> Told:
    """The effect's own error, and then a busy target."""
    store = MemoryStore()
    store.namespace = "the tests"
    clock = FakeClock()
    world = Memory(orders={"o-1": {"refunded": False}})
    gate = Gate(world, store=store, clock=clock)
    errors: list[Exception] = [ValueError("secret")]

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str) -> None:
        if errors:
            raise errors.pop()
        permit.change("orders", order_id, refunded=True)

    intent = refund.options(key="failed").propose("o-1")
    with pytest.raises(ValueError, match="secret"):
        gate(intent)
    with world.lock("orders", "o-1"):
        assert gate(intent).applied is Applied.BUSY
    assert gate(intent).committed
    return store, intent


STORIES: list[Callable[[], Told]] = [
    committed,
    replanned,
    unverifiable,
    closed,
    in_attempt,
    recovered,
    expired,
    withdrawn,
    superseded,
    successor,
    asserted,
    denied,
    one_shot,
    failed,
]


def told(make: Callable[[], Told]) -> Story:
    """The story, read back from the bytes of the journal."""
    store, intent = make()
    return read_story([JournalEntry(*part) for part in map(parts, store.reopened().journal(intent.id))])


def parts(entry: JournalEntry) -> tuple[Any, ...]:
    """All that is known of a record."""
    return (entry.intent_id, entry.seq, entry.kind, entry.at_us, bytes(entry.body), entry.digest)


@pytest.mark.parametrize("make", STORIES, ids=lambda make: make.__name__)
def test_a_note_reads_so_word_for_word(make: Callable[[], Told]) -> None:
    """Each kind of story has its whole note, which changes only on purpose: the files are what people read."""
    assert note(told(make)) + "\n" == (NOTES / f"{make.__name__}.txt").read_text("utf-8")


def test_every_file_is_some_story() -> None:
    """No note is left over that nothing is compared with."""
    assert {path.stem for path in NOTES.iterdir()} == {make.__name__ for make in STORIES}


@pytest.mark.parametrize("make", STORIES, ids=lambda make: make.__name__)
def test_the_json_form_tells_the_same(make: Callable[[], Told]) -> None:
    """The tree is plain JSON; its state is that of the store; it has a step for every record; it reveals if asked."""
    store, intent = make()
    stored = store.load(intent.id)
    assert stored is not None
    story = read_story(store.journal(intent.id))
    plain, revealed = story.as_json(reveal=False), story.as_json(reveal=True)
    assert json.loads(json.dumps(plain)) == plain
    assert State[plain["state"]] is stored.row.state is story.state
    assert [step["kind"] for step in plain["steps"]] == [entry.kind for entry in store.journal(intent.id)[1:]]
    assert "revealed" not in json.dumps(plain)
    assert sorted(revealed["revealed"]["arguments"]) == plain["arguments"] == sorted(stored.record.arguments)
    for step in (*plain["steps"], *revealed["steps"]):
        step.pop("revealed", None)
    revealed.pop("revealed")
    assert revealed == plain


def test_the_json_form_of_an_assertion() -> None:
    """One whole tree, with everything that a look, an attempt and a person's word leave behind."""
    premises = [
        {
            "premise": f"policies['refund'].limit {sign} {number}",
            "demands": f"policies/refund.limit is {words} {number}",
            "severity": severity,
            "because": "",
            "accepts": accepts,
            "awaited": severity == "REPLAN",
            "proven": severity == "BLOCK",
            "rests_on": ["policies/refund.limit"],
            "validators": [],
        }
        for sign, words, number, severity, accepts in (
            (">", "more than", 1, "BLOCK", "a letter can be called back"),
            ("<", "less than", 1000, "REPLAN", "so can a large one"),
        )
    ]
    first, second = (premise["premise"] for premise in premises)
    look = {
        "outcome": "KEEP",
        "attempt": 1,
        "key": "ll-kqiqouh3rm3vz43nzorqjhreau",
        "accepted": {first: "a letter can be called back", second: "so can a large one"},
        "deadline": "2026-01-01T00:05:30Z",
        "changed": [],
        "checked": [{"premise": second, "holds": True}],
        "findings": [],
        "bindings": {first: "UNBOUND", second: "UNBOUND"},
        "refreshed": [],
    }
    said = {"by": "the shift lead", "note": "the colleague has it", "committed": True}
    assert told(asserted).as_json(reveal=True) == {
        "intent": "sveclujtersv2sfpulugvhtapq",
        "effect": "mail",
        "target": "mailbox",
        "state": "COMMITTED",
        "proposed": "2026-01-01T00:00:00Z",
        "expires": None,
        "transaction": "sveclujtersv2sfpulugvhtapq",
        "supersedes": None,
        "one_shot": False,
        "arguments": ["to"],
        "actor": None,
        "premises": premises,
        "refresh": [],
        "reads": [{"place": "policies/refund.limit", "by": "proposal"}],
        "decisions": [],
        "differences": [],
        "steps": [
            look
            | {
                "kind": "ATTEMPT",
                "at": "2026-01-01T00:05:00Z",
                "applied": "IN_PROGRESS",
                "revealed": {"refreshed": {}},
            },
            look
            | said
            | {
                "kind": "ASSERTED",
                "at": "2026-01-02T00:05:00Z",
                "applied": "COMMITTED",
                "revealed": {"refreshed": {}, "result": None},
            },
        ],
        "revealed": {"arguments": {"to": "a colleague"}, "actor": None},
    }


def test_revealing_tells_what_the_journal_has() -> None:
    """With --reveal the note shows arguments, the actor, what was read anew and what was returned."""
    text = " ".join(note(told(committed), reveal=True).split())
    assert "Its arguments: amount 80 and order_id 'o-1'." in text
    assert "an actor (role 'clerk' and user_id 'u-7')" in text
    assert "orders/o-1.customer_name 'reader 8'" in text
    assert "It returned 'refunded o-1'." in text
    assert "--reveal" not in text


def test_a_commit_that_only_the_target_knew_is_told_as_such() -> None:
    """A store that was restored from an older state tells that it took the commit over."""
    shop = a_shop(separate=True)
    intent = shop.refund.options(key="adopted").propose("o-1", amount=80)
    old = shop.store.reopened()
    assert shop.gate(intent).committed
    again = shop.again(store=old)
    (verdict,) = again.gate.reconcile()
    assert verdict.committed
    text = " ".join(note(read_story(old.journal(intent.id))).split())
    assert "nobody had said what became of the effect; the target, when asked, knew it to have been committed" in text
    assert "took a look" not in text


def test_a_signature_that_moved_on_is_told() -> None:
    """Stored arguments that no longer fit are a finding without a look."""
    shop = a_shop()
    intent = shop.refund.options(key="drifted").propose("o-1", amount=80)
    gate = Gate(shop.world, store=shop.store, clock=shop.clock)

    renamed: Any = resource("orders", arg.order)

    @gate.effect(target=renamed, premises=[block_unless(~renamed.refunded)])
    def refund(permit: MemoryPermit, order: str) -> None:
        permit.change("orders", order, refunded=True)

    assert gate(gate.intent(intent.id)).outcome is Outcome.REPLAN
    text = note(read_story(shop.store.journal(intent.id)))
    assert "So REPLAN: " in text
    assert "Nothing that it rests on had changed" not in text


def test_a_premise_that_cannot_be_read_keeps_its_label() -> None:
    """A condition of later semantics is told as it was labelled, and the rest of the note stands."""
    store, intent = committed()
    first, *rest = store.journal(intent.id)
    body: Any = canonical.decode(first.body)
    premises = [dict(premise) for premise in body["premises"]]
    premises[0]["condition"] = canonical.encode((2, ("later", 1))).decode()
    edited = JournalEntry(
        first.intent_id, 0, first.kind, first.at_us, canonical.encode({**body, "premises": premises}), ""
    )
    story = read_story([edited, *rest])
    assert story.demands["orders[arg.order_id].delivered"] == "orders[arg.order_id].delivered"
    assert "- orders[arg.order_id].delivered, else REPLAN" in note(story)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "cannot be read"),
        (canonical.encode([1]), "cannot be read"),
        (canonical.encode({"outcome": "KEEP"}), "cannot be read"),
        (canonical.encode({"schema": 2}), "is of schema 2, and this version knows 1: upgrade lastlook"),
    ],
)
def test_a_record_that_cannot_be_read_is_damage(body: bytes, message: str) -> None:
    """A foreign body, or one from a newer version, is an integrity error that names the record."""
    store, intent = committed()
    first, second = store.journal(intent.id)
    with pytest.raises(IntegrityError, match=message):
        read_story([first, JournalEntry(intent.id, 1, second.kind, second.at_us, body, second.digest)])
    with pytest.raises(IntegrityError, match="no records at all"):
        read_story([])


def test_long_lists_are_counted() -> None:
    """A sentence names a dozen places and counts the others; the JSON form has them all."""
    notes = {f"n-{number}": {"text": "on record"} for number in range(30)}
    world = Memory(notes=notes, orders={"o-1": {"refunded": False}})
    gate = Gate(world, store=(store := MemoryStore()))

    @gate.effect(target=order, premises=[block_unless(~order.refunded)])
    def refund(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, refunded=True)

    transaction = gate.transaction()
    reads = [transaction.read(resource("notes", key)) for key in notes]
    transaction.decide("all of it is well", rests_on=reads)
    intent = transaction.propose(refund, "o-1")
    story = read_story(store.journal(intent.id))
    assert "n-11 (text) and 18 more." in note(story)
    assert len(story.as_json(reveal=False)["reads"]) == 61


def test_nothing_in_a_note_moves_the_cursor() -> None:
    """What an agent or a person wrote is told with its control characters written out."""
    shop = a_shop()
    transaction = shop.gate.transaction("a\x1b[2Jb")
    transaction.decide("all is well\r\n\x1b]0;owned\x07 \u202e done")
    intent = transaction.propose(shop.refund, "o-1", amount=80)
    text = note(read_story(shop.store.journal(intent.id)))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "a\\x1b[2Jb" in text
    assert "\\u202e" in text
