"""The memory store: the same chains, compare-and-swap and lanes as a durable one, for as long as the process lives.

Records are encoded and chained when they are first read, exported or verified, never on the way to an effect; the
bodies of older ones are written while others propose, so that no record keeps alive the look that it tells of.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import functools
import itertools
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from lastlook import canonical
from lastlook.canonical import freeze
from lastlook.errors import CanonicalError, UnknownIntent
from lastlook.ports import Appended, Created, IntentRow, JournalEntry, News, Stored
from lastlook.records import EPOCH, State, microseconds
from lastlook.store.bodies import RECORD_BYTES, intent_body, intent_from_body
from lastlook.store.chains import GENESIS, chain_digest, check_chain
from lastlook.wanted import wanted_system

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.ports import Append, Bound, System
    from lastlook.records import IntentRecord

__all__ = ["MemoryStore"]

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_OPEN = State.OPEN
_IN_ATTEMPT = State.ATTEMPT
_COMMITTED = State.COMMITTED
_Entry = tuple[str, dt.datetime, "Callable[[], Mapping[str, Value]]"]

_WINDOW = 64
"""How many records may wait to be written before each new proposal writes two of them."""
_BOUND = 1024
"""How many may wait before each new record writes one: where many are refused and nothing is proposed."""


class _Written:
    """A record's body as bytes: until then it holds the look that it tells of, and the plan behind it."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __call__(self) -> Mapping[str, Value]:
        return canonical.decode(self.data, limit=RECORD_BYTES)  # type: ignore[return-value]  # every body is a map


class _Chain:
    """One intent: its record, what moves of it, and its journal.

    Attributes:
        encoded: the chained entries that were read so far.
        written: the last entry whose turn to be written has come.
    """

    __slots__ = ("attempt", "deadline_us", "encoded", "entries", "owner", "record", "seq", "state", "stored", "written")

    def __init__(self, record: IntentRecord, at: dt.datetime) -> None:
        self.record = record
        self.state = _OPEN
        self.seq = 0
        self.attempt = 0
        self.owner: str | None = None
        self.deadline_us: int | None = None
        self.entries: list[_Entry] = [("PROPOSED", at, functools.partial(intent_body, record))]
        self.encoded: list[JournalEntry] = []
        self.written = 0
        self.stored: Stored | None = Stored(record, IntentRow(_OPEN, 0, 0, None, None), None)

    def load(self) -> Stored:
        """The record and the row as they stand."""
        if self.stored is None:
            last = self.entries[-1][2] if len(self.entries) > 1 else None
            row = IntentRow(self.state, self.seq, self.attempt, self.owner, self.deadline_us)
            self.stored = Stored(self.record, row, last)
        return self.stored

    def write(self, seq: int) -> bytes:
        """The bytes of a record's body, which stand for it from now on; of the proposal the record itself is kept."""
        kind, at, body = self.entries[seq]
        if isinstance(body, _Written):
            return body.data
        # A copy, since what the encoder returns keeps the whole buffer that it was written in.
        data = memoryview(canonical.encode(freeze(body()), limit=RECORD_BYTES)).tobytes()
        if seq:
            self.entries[seq] = (kind, at, _Written(data))
            self.stored = None
        return data

    def journal(self) -> list[JournalEntry]:
        intent_id = self.record.intent_id
        for seq in range(len(self.encoded), len(self.entries)):
            kind, at, _ = self.entries[seq]
            encoded, at_us = self.write(seq), microseconds(at)
            previous = self.encoded[-1].digest if self.encoded else GENESIS
            digest = chain_digest(previous, intent_id, seq, kind, at_us, encoded)
            self.encoded.append(JournalEntry(intent_id, seq, kind, at_us, encoded, digest))
        return self.encoded


class MemoryStore:
    """Proposals and journals in this process.

    Args:
        evidence: a system whose evidence this store owns: it is compared in the critical section that opens an attempt.
    """

    durable = False

    def __init__(self, evidence: System | None = None) -> None:
        if evidence is not None:
            wanted_system(evidence, "MemoryStore(evidence)")
        self.evidence = evidence
        self.namespace = os.urandom(8).hex()
        self.salt = os.urandom(16)
        self._lock = threading.RLock()
        self.created = 0
        self.ended = 0
        self._waiting: deque[_Chain] = deque()
        self._chains: dict[str, _Chain] = {}
        self._lanes: dict[str, str] = {}

    def create(
        self,
        record: IntentRecord,
        at: dt.datetime,
        supersedes: Append | None,
        /,
        on: Any = None,  # noqa: ARG002 - its lock is the transaction
    ) -> Created:
        """Store a proposal unless its id is taken; a superseded intent ends in the same critical section."""
        with self._lock:
            if record.intent_id in self._chains:
                return Created(ok=False, existing=self.load(record.intent_id))
            if supersedes is not None and not self.append(supersedes, at).ok:
                return Created(ok=False)
            self._chains[record.intent_id] = _Chain(record, at)
            self.created += 1
            if len(self._waiting) > _WINDOW:
                self._write(2)
            return Created(ok=True)

    def load(self, intent_id: str, /) -> Stored | None:
        """The proposal and the current row."""
        chain = self._chains.get(intent_id)
        return None if chain is None else chain.stored or chain.load()

    def lock(self, intent_id: str, seq: int, on: Any, /) -> bool:  # noqa: ARG002 - its lock is the transaction
        """Whether the intent is as it was seen; who shares this engine holds its lock already."""
        chain = self._chains.get(intent_id)
        return chain is not None and chain.seq == seq

    def append(self, append: Append, at: dt.datetime, /, on: Any = None) -> Appended:  # noqa: ARG002 - as above
        """Make a transition: sequence number, lane and the store's own evidence must be as the caller saw them."""
        if append.proposal is not None:
            return self._first(append, *append.proposal, at)
        lock = self._lock
        lock.acquire()  # half the price of `with`
        try:
            chain = self._chains.get(append.intent_id)
            if chain is None or chain.seq != append.seq:
                return Appended(ok=False)
            record, lanes, state = chain.record, self._lanes, append.state
            holder = lanes.get(record.lane) if lanes else None
            if holder is not None and holder != append.intent_id and _takes_lane(chain, append):
                return Appended(ok=False, holder=holder)
            expires_us = record.expires_us
            if expires_us is not None and _takes_lane(chain, append) and microseconds(at) >= expires_us:
                return Appended(ok=False)  # whoever loads it again finds it expired
            if append.checks:
                stale = _stale(self.evidence, append.checks)
                if stale:
                    return Appended(ok=False, stale=stale)
            chain.entries.append((append.kind, at, append.record))
            chain.state = state
            chain.seq += 1
            chain.attempt = append.attempt
            chain.owner = append.owner
            chain.deadline_us = append.deadline_us
            chain.stored = None
            waiting = self._waiting
            waiting.append(chain)
            if len(waiting) > _BOUND:
                self._write(1)
            if state is _IN_ATTEMPT:
                lanes[record.lane] = append.intent_id
            else:
                if state is not _OPEN:
                    self.ended += 1
                if holder is not None and holder == append.intent_id:
                    del lanes[record.lane]
            return _DONE
        finally:
            lock.release()

    def _first(self, append: Append, record: IntentRecord, proposed_at: dt.datetime, at: dt.datetime) -> Appended:
        """A transition and the proposal that comes with it: both, or neither."""
        with self._lock:
            if not self.create(record, proposed_at, None).ok:
                return Appended(ok=False)
            appended = self.append(dataclasses.replace(append, proposal=None), at)
            if not appended.ok:
                del self._chains[record.intent_id]
                self.created -= 1
            return appended

    def gone(self, intent_ids: Collection[str], /) -> Collection[str]:
        """Those of these intents that have ended, or are not here."""
        chains = self._chains
        return [name for name in intent_ids if (chain := chains.get(name)) is None or chain.state.terminal]

    def pending(self) -> Iterable[str]:
        """The ids of intents that are OPEN or in ATTEMPT, oldest first."""
        with self._lock:
            return [name for name, chain in self._chains.items() if not chain.state.terminal]

    def news(self, after: int, /) -> News:
        """The pending intents that were stored since a mark, oldest first."""
        with self._lock:
            chains = itertools.islice(self._chains.items(), after, None)
            pending = [(name, chain.record.effect) for name, chain in chains if not chain.state.terminal]
            return News(self.created, tuple(pending))

    def intents(self, prefix: str = "", /) -> Iterable[str]:
        """The ids of all intents, ended ones too, that begin so, in their order."""
        with self._lock:
            return sorted(name for name in self._chains if name.startswith(prefix))

    def journal(self, intent_id: str, /) -> Sequence[JournalEntry]:
        """An intent's records, encoded and chained, oldest first."""
        with self._lock:
            return tuple(self._chain(intent_id).journal())

    def verify(self, intent_id: str, /) -> None:
        """Recompute an intent's chain from its first record.

        Raises:
            IntegrityError: a record was edited, cut, reordered or put in.
        """
        with self._lock:
            chain = self._chain(intent_id)
            check_chain(intent_id, chain.journal(), chain.seq)

    def reopened(self) -> MemoryStore:
        """A store with the same records, decoded from their bytes: what a fresh process would find.

        Raises:
            IntegrityError: a chain does not verify, or a record is of a newer schema.
        """
        fresh = MemoryStore(self.evidence)
        fresh.namespace, fresh.salt = self.namespace, self.salt
        with self._lock:
            for intent_id, chain in self._chains.items():
                self.verify(intent_id)
                fresh._chains[intent_id] = _reopened(chain)
            fresh.created, fresh.ended = self.created, self.ended
            fresh._lanes = dict(self._lanes)
        return fresh

    def _write(self, count: int) -> None:
        """Write the oldest of the records that wait: what they hold would stay alive for as long as this store."""
        for _ in range(count):
            chain = self._waiting.popleft()
            chain.written += 1
            # One that cannot be written stays as it is: whoever reads it is told, and not who happens to propose now.
            with contextlib.suppress(CanonicalError):
                chain.write(chain.written)

    def _chain(self, intent_id: str) -> _Chain:
        chain = self._chains.get(intent_id)
        if chain is None:
            raise UnknownIntent(f"no intent {intent_id} in this store")
        return chain


def _reopened(chain: _Chain) -> _Chain:
    journal = chain.journal()
    proposal = _Written(journal[0].body)()
    times = [EPOCH + dt.timedelta(microseconds=entry.at_us) for entry in journal]
    fresh = _Chain(intent_from_body(proposal), times[0])
    fresh.state, fresh.seq, fresh.attempt = chain.state, chain.seq, chain.attempt
    fresh.owner, fresh.deadline_us, fresh.stored = chain.owner, chain.deadline_us, None
    fresh.entries = [(entry.kind, at, _Written(entry.body)) for entry, at in zip(journal, times, strict=True)]
    fresh.encoded, fresh.written = list(journal), chain.seq
    return fresh


_DONE = Appended(ok=True)


def _takes_lane(chain: _Chain, append: Append) -> bool:
    """Whether the transition acts on the target: opens an attempt, or commits without having opened one."""
    return append.state is _IN_ATTEMPT or (append.state is _COMMITTED and chain.state is _OPEN)


def _stale(evidence: System | None, checks: tuple[Bound, ...]) -> str:
    if evidence is None:
        return str(checks[0][0])
    found = evidence.read_many([address for address, _ in checks])
    for (address, seen), now in zip(checks, found, strict=True):
        if getattr(now, "token", None) != seen.token:
            return str(address)
    return ""
