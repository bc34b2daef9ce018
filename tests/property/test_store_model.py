"""The memory store is the model of the durable one: the same operations, the same answers, the same bytes."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pytest
from stores import proposal, transit

from lastlook import MemoryStore
from lastlook.records import State, microseconds
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("a", "b", "c", "d", "e")
LANES = ("left", "right")
KINDS = (
    ("VERDICT", State.OPEN),
    ("ATTEMPT", State.ATTEMPT),
    ("ATTEMPT", State.ATTEMPT),
    ("COMMITTED", State.COMMITTED),
    ("CLOSED", State.OPEN),
    ("BUSY", State.OPEN),
    ("FENCED", State.OPEN),
    ("WITHDRAWN", State.WITHDRAWN),
    ("EXPIRED", State.EXPIRED),
    ("SUPERSEDED", State.SUPERSEDED),
    ("ASSERTED", State.OPEN),
    ("ASSERTED", State.COMMITTED),
)


class Pair:
    """One store of each kind, and what both are asked."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.url = f"sqlite:///{folder / f'{seed}.db'}"
        self.memory = MemoryStore()
        self.sql = SqlStore(self.url)
        self.sql.install()
        self.clock = FakeClock()
        self.steps: list[str] = []
        self.seen: set[str] = set()

    def step(self) -> None:
        """One random operation on both, and one answer."""
        rng = self.rng
        self.clock.advance(dt.timedelta(microseconds=rng.randrange(3)))
        verb = rng.choice(("create", "append", "append", "append", "append", "supersede", "first", "reopen", "look"))
        if verb == "create":
            self._create(None)
        elif verb == "supersede":
            old = rng.choice(NAMES)
            self._create(transit(old, self._seq(old), "SUPERSEDED", State.SUPERSEDED))
        elif verb == "append":
            self._append(None)
        elif verb == "first":
            name = rng.choice(NAMES)
            self._append((self._proposal(name), self.clock.now()))
        elif verb == "reopen":
            self.sql.close()
            self.sql = SqlStore(self.url)
            self.steps.append("reopen")
        else:
            self.look()

    def _proposal(self, name: str) -> Any:
        rng = self.rng
        expires = microseconds(self.clock.now()) + rng.randrange(20) if rng.random() < 0.4 else None
        return proposal(name, lane=rng.choice(LANES), expires_us=expires, effect=rng.choice(("refund", "cancel")))

    def _create(self, supersedes: Any) -> None:
        name = self.rng.choice(NAMES)
        record = self._proposal(name)
        answers = [store.create(record, self.clock.now(), supersedes) for store in (self.memory, self.sql)]
        self.steps.append(f"create {name} supersedes={supersedes and supersedes.intent_id} -> {answers[0].ok}")
        assert answers[0].ok == answers[1].ok
        assert told(answers[0].existing) == told(answers[1].existing)
        self.seen.add(f"create {answers[0].ok} {supersedes is not None}")

    def _append(self, first: Any) -> None:
        rng = self.rng
        name = first[0].intent_id if first is not None else rng.choice(NAMES)
        kind, state = rng.choice(KINDS)
        stored = self.memory.load(name)
        if stored is not None and stored.row.state.terminal and rng.random() < 0.9:
            return  # the protocol never leaves a terminal state
        body = {"n": rng.randrange(100), "committed": state is State.COMMITTED, "result": rng.choice((None, "x", 1))}
        append = transit(
            name,
            self._seq(name) if rng.random() < 0.9 else rng.randrange(4),
            kind,
            state,
            attempt=rng.randrange(3),
            owner=rng.choice((None, "me")),
            deadline_us=rng.choice((None, 5)),
            body=body,
            proposal=first,
        )
        answers = [store.append(append, self.clock.now()) for store in (self.memory, self.sql)]
        self.steps.append(f"append {name} {kind} at {append.seq} first={first is not None} -> {answers[0]}")
        assert answers[0] == answers[1]
        self.seen.add(f"append {answers[0].ok} {answers[0].holder is not None} {first is not None}")

    def _seq(self, name: str) -> int:
        stored = self.memory.load(name)
        return 0 if stored is None else stored.row.seq

    def look(self) -> None:
        """Everything that can be asked is answered alike, bytes and digests included."""
        memory, sql = self.memory, self.sql
        assert list(memory.pending()) == list(sql.pending())
        assert memory.news(0) == sql.news(0)
        assert list(memory.intents()) == list(sql.intents())
        assert list(memory.gone(NAMES)) == list(sql.gone(NAMES))
        after = self.rng.randrange(memory.created + 1)
        assert memory.news(after) == sql.news(after)
        for name in NAMES:
            assert told(memory.load(name)) == told(sql.load(name))
            if memory.load(name) is not None:
                assert tuple(memory.journal(name)) == tuple(sql.journal(name))
                memory.verify(name)
                sql.verify(name)
                seq = self.rng.randrange(4)
                with sql._writing() as cursor:
                    assert memory.lock(name, seq, None) == sql._operations.lock(cursor, name, seq)


def told(stored: Any) -> Any:
    """What can be compared of a stored intent."""
    return None if stored is None else (stored.record, tuple(stored.row), stored.last and stored.last())


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 300))])
def test_the_durable_store_does_what_the_memory_store_does(tmp_path: Path, seed: int) -> None:
    """Random operations give the same answers and, record for record, the same bytes, whoever reopens the file."""
    pair = Pair(tmp_path, seed)
    try:
        for _ in range(40):
            pair.step()
        pair.look()
    except Exception:
        print(f"seed {seed}:", *pair.steps, sep="\n  ")  # noqa: T201 - to find it again
        raise
    finally:
        pair.sql.close()
    assert len(pair.seen) > 2, f"seed {seed} tries nothing"
