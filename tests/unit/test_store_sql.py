"""The durable store on a real SQLite file: installing, creating, loading, appending, verifying, and a gate over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine
from stores import altered, asked, proposal, transit

from lastlook import (
    EffectBlocked,
    Gate,
    IntegrityError,
    Memory,
    MemoryPermit,
    StoreError,
    UnknownIntent,
    arg,
    block_unless,
    resource,
)
from lastlook.records import State
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine

NOW = FakeClock().now()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the database will be."""
    return tmp_path / "store.db"


@pytest.fixture
def engine(file: Path) -> Iterator[Engine]:
    """An application's own engine."""
    made = create_engine(f"sqlite:///{file}")
    yield made
    made.dispose()


@pytest.fixture
def store(engine: Engine) -> SqlStore:
    """A store in the application's database."""
    made = SqlStore(engine)
    made.install()
    return made


# Proposals.


def test_a_proposal_is_found_by_another_store_object_as_it_was(store: SqlStore, engine: Engine) -> None:
    """What a fresh process loads is what was proposed, value for value."""
    record = proposal("i-1", expires_us=1)
    assert store.create(record, NOW, None).ok
    stored = SqlStore(engine).load("i-1")
    assert stored is not None
    assert (stored.record, tuple(stored.row), stored.last) == (record, (State.OPEN, 0, 0, None, None), None)


def test_an_id_is_taken_once(store: SqlStore) -> None:
    """A second proposal of one id gets the first one back, and changes nothing."""
    assert store.create(proposal("i-1"), NOW, None).ok
    again = store.create(proposal("i-1", effect="other"), NOW, None)
    assert not again.ok
    assert again.existing is not None
    assert again.existing.record.effect == "refund"
    assert len(store.journal("i-1")) == 1


def test_an_unknown_intent_is_none(store: SqlStore) -> None:
    """Ids that no store can hold are as unknown as any other."""
    for strange in ("", "no", "a\0b", "\ud800", "x" * 5000, "'; DROP TABLE lastlook_intent; --"):
        assert store.load(strange) is None
        assert not store.append(transit(strange, 0), NOW).ok
        with pytest.raises(UnknownIntent):
            store.journal(strange)


# Transitions.


def test_an_append_is_a_compare_and_swap(store: SqlStore) -> None:
    """Of two transitions from one record, the first is made and the second is not."""
    store.create(proposal("i-1"), NOW, None)
    assert store.append(transit("i-1", 0), NOW).ok
    assert not store.append(transit("i-1", 0), NOW).ok
    stored = store.load("i-1")
    assert stored is not None
    assert stored.row.seq == 1
    assert stored.last is not None
    assert stored.last()["outcome"] == "KEEP"
    assert [entry.kind for entry in store.journal("i-1")] == ["PROPOSED", "VERDICT"]
    store.verify("i-1")


def test_one_open_attempt_a_lane(store: SqlStore) -> None:
    """An attempt finds its lane held, and is told by whom; after it ends, the lane is free."""
    for name in ("i-1", "i-2"):
        store.create(proposal(name, lane="lane"), NOW, None)
    assert store.append(transit("i-1", 0, "ATTEMPT", State.ATTEMPT, attempt=1, owner="me", deadline_us=5), NOW).ok
    refused = store.append(transit("i-2", 0, "ATTEMPT", State.ATTEMPT, attempt=1), NOW)
    assert (refused.ok, refused.holder) == (False, "i-1")
    stored = store.load("i-1")
    assert stored is not None
    assert tuple(stored.row) == (State.ATTEMPT, 1, 1, "me", 5)
    assert store.append(transit("i-1", 1, "CLOSED", attempt=1), NOW).ok
    assert store.append(transit("i-2", 0, "ATTEMPT", State.ATTEMPT, attempt=1), NOW).ok


def test_pending_is_what_has_not_ended_oldest_first(store: SqlStore, engine: Engine) -> None:
    """Pending intents are listed in the order of their proposals; another store object learns of new ones."""
    other = SqlStore(engine)
    for name in ("i-3", "i-1", "i-2"):
        store.create(proposal(name), NOW, None)
    store.append(transit("i-1", 0, "WITHDRAWN", State.WITHDRAWN), NOW)
    assert list(store.pending()) == ["i-3", "i-2"]
    mark, pending = other.news(0)
    assert pending == (("i-3", "refund"), ("i-2", "refund"))
    store.create(proposal("i-0"), NOW, None)
    assert other.news(mark).intents == (("i-0", "refund"),)
    assert (list(other.intents()), list(other.intents("i-3"))) == (["i-0", "i-1", "i-2", "i-3"], ["i-3"])


def test_a_superseded_intent_ends_with_its_successors_proposal_or_neither_happens(store: SqlStore) -> None:
    """A proposal and the end of what it supersedes are one transaction."""
    store.create(proposal("i-1"), NOW, None)
    stale = transit("i-1", 7, "SUPERSEDED", State.SUPERSEDED)
    assert not store.create(proposal("i-2", supersedes="i-1"), NOW, stale).ok
    assert (store.load("i-2"), list(store.pending())) == (None, ["i-1"])
    assert store.create(proposal("i-2"), NOW, transit("i-1", 0, "SUPERSEDED", State.SUPERSEDED)).ok
    assert list(store.pending()) == ["i-2"]


# Installing.


def test_nothing_is_made_but_by_install(engine: Engine, file: Path) -> None:
    """A store without its tables says which call makes them; making them twice is making them once."""
    store = SqlStore(engine)
    for use in (lambda: store.load("i-1"), lambda: store.namespace, lambda: store.create(proposal("i"), NOW, None)):
        with pytest.raises(StoreError, match=r"call gate\.install\(\) once"):
            use()
    store.install()
    first = (store.namespace, store.salt)
    store.create(proposal("i-1"), NOW, None)
    store.install()
    again = SqlStore(engine)
    assert (again.namespace, again.salt, list(again.pending())) == (*first, ["i-1"])
    names = {name for (name,) in asked(file, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names == {"lastlook_intent", "lastlook_journal", "lastlook_meta"}


# Edited records.


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE lastlook_journal SET body = replace(body, 'orders', 'others') WHERE seq = 0",
        "UPDATE lastlook_journal SET body = replace(body, 'KEEP', 'OPEN') WHERE seq = 2",
        "UPDATE lastlook_journal SET at_us = at_us + 1 WHERE seq = 2",
        "UPDATE lastlook_journal SET seq = 3 WHERE seq = 2",
        "DELETE FROM lastlook_journal WHERE seq = 2",
        "DELETE FROM lastlook_journal WHERE seq = 0",
        "DELETE FROM lastlook_journal",
        "UPDATE lastlook_intent SET seq = 1",
        "UPDATE lastlook_intent SET seq = 3",
        "UPDATE lastlook_intent SET head = (SELECT digest FROM lastlook_journal WHERE seq = 1)",
        "UPDATE lastlook_intent SET seq = 'two'",
        "UPDATE lastlook_intent SET state = 'COMMITTED'",
        "UPDATE lastlook_intent SET state = 'NONE'",
        "UPDATE lastlook_intent SET lane = 'other'",
        "UPDATE lastlook_intent SET effect = 'other'",
        "UPDATE lastlook_intent SET expires_us = 1",
        "INSERT INTO lastlook_journal SELECT intent_id, 3, kind, 0, body, digest, 0, 0 FROM lastlook_journal LIMIT 1",
    ],
)
def test_an_edited_record_decides_nothing(store: SqlStore, file: Path, edit: str) -> None:
    """Whatever is edited, cut, moved or put in at what a gate would use, loading refuses it and verify finds it."""
    store.create(proposal("i-1"), NOW, None)
    for seq in (0, 1):
        assert store.append(transit("i-1", seq), NOW).ok
    store.verify("i-1")
    assert altered(file, edit) > 0
    with pytest.raises(IntegrityError, match="restore the store"):
        store.load("i-1")
    with pytest.raises(IntegrityError, match="restore the store"):
        store.verify("i-1")


# A gate over it.


def test_a_gate_keeps_its_intents_in_the_applications_database(engine: Engine) -> None:
    """Proposed at one gate, released by another over the same database: one effect, and a record that says so."""
    world = Memory(orders={"o-1": {"refunded": False}})
    order = resource("orders", arg.order_id)

    def gate_of() -> tuple[Gate, object]:
        gate = Gate(world, store=engine)

        @gate.effect(target=order, premises=[block_unless(~order.refunded)])
        def refund(permit: MemoryPermit, order_id: str) -> str:
            permit.change("orders", order_id, refunded=True)
            return "refunded"

        return gate, refund

    gate, refund = gate_of()
    gate.install()
    intent = refund.propose("o-1")  # type: ignore[attr-defined]  # an effect
    other, _ = gate_of()
    verdict = other(other.intent(intent.id))
    assert (verdict.committed, verdict.result()) == (True, "refunded")
    assert gate(intent).result() == "refunded"
    with pytest.raises(EffectBlocked):
        refund("o-1")  # type: ignore[operator]  # an effect
    assert (gate.pending(), other.pending()) == ([], [])


def test_a_record_put_in_after_the_load_stops_the_append(store: SqlStore, file: Path) -> None:
    """Where something stands in the next record's place, nothing is written over or beside it."""
    store.create(proposal("i-1"), NOW, None)
    altered(
        file,
        "INSERT INTO lastlook_journal SELECT intent_id, 1, kind, 0, body, digest, 0, 0 FROM lastlook_journal LIMIT 1",
    )
    with pytest.raises(IntegrityError, match="not written in its turn"):
        store.append(transit("i-1", 0), NOW)
    altered(file, "DELETE FROM lastlook_journal WHERE seq = 1")
    store.verify("i-1")
    altered(file, "UPDATE lastlook_intent SET head = 'sha256:0'")
    with pytest.raises(IntegrityError, match="record 0 of intent i-1"):
        store.append(transit("i-1", 0), NOW)
