"""What a durable store does, on one DBAPI cursor: the same for either colour, and inside a target's own transaction."""

from __future__ import annotations

import inspect
import json
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import text

from lastlook import canonical
from lastlook.canonical import freeze
from lastlook.errors import IntegrityError, StoreError, UnknownIntent
from lastlook.ports import Appended, Created, IntentRow, JournalEntry, News, Stored
from lastlook.records import SCHEMA, State, microseconds
from lastlook.store import tables
from lastlook.store.bodies import RECORD_BYTES, intent_body, intent_from_body
from lastlook.store.chains import GENESIS, chain_digest, chained, check_chain, fits, foreign

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sqlalchemy import Dialect

    from lastlook.canonical import Value
    from lastlook.ports import Append, Bound, System
    from lastlook.records import IntentRecord
    from lastlook.store.tables import Meta

__all__ = ["Operations", "statement"]

_KEPT = 1024
"""How many decoded proposals are kept at hand."""
_MANY = 50
"""How many intents are asked for at a time."""
_PAGE = 1000
"""How many ids are listed at a time."""
_STATES = {state.name: state for state in State}
_OPEN, _IN_ATTEMPT, _COMMITTED = State.OPEN, State.ATTEMPT, State.COMMITTED
_DONE = Appended(ok=True)
_PENDING = ("OPEN", "ATTEMPT")
_MOMENT = (int, type(None))
_KNOWN = json.loads(canonical.encode(SCHEMA))


class _Statement(NamedTuple):
    """SQL as one dialect takes it, and its parameters in order, or None where they go by name."""

    sql: str
    names: tuple[str, ...] | None

    def __call__(self, cursor: Any, /, **values: Any) -> Any:
        cursor.execute(self.sql, values if self.names is None else tuple([values[name] for name in self.names]))
        return cursor


def statement(sql: str, dialect: Dialect) -> _Statement:
    """Compile SQL with `:named` parameters for a dialect's driver."""
    compiled = text(sql).compile(dialect=dialect)
    return _Statement(str(compiled), None if compiled.positiontup is None else tuple(compiled.positiontup))


class Operations:
    """The statements of a store, compiled for its dialect, and what they mean.

    Args:
        where: how messages name the database.
        evidence: a system whose evidence the store owns; it is read while the transaction that opens an attempt keeps
            every other writer out.
    """

    def __init__(self, dialect: Dialect, where: str, evidence: System | None) -> None:
        self.where = where
        self.evidence = evidence
        self.meta: Meta | None = None
        self.created = 0
        self.ended = 0
        self._ddl = tables.ddl(dialect)
        self._proposals: dict[str, IntentRecord] = {}
        self._lock = threading.Lock()

        def compiled(sql: str) -> _Statement:
            return statement(sql, dialect)

        self._read_meta = compiled("SELECT name, value FROM lastlook_meta")
        self._put_meta = compiled(
            "INSERT INTO lastlook_meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING"
        )
        self._columns = [
            compiled(f"SELECT {', '.join(table.columns.keys())} FROM {table.name} WHERE 1 = 0")  # noqa: S608 - our names
            for table in tables.metadata.sorted_tables
        ]
        # The proposal, the last record, the digest that the last one is chained to, and whatever was put in behind it.
        self._load = compiled(
            "SELECT i.effect, i.lane, i.state, i.seq, i.head, i.attempt, i.owner, i.deadline_us, i.expires_us,"
            " j.seq, j.kind, j.at_us, CASE WHEN j.seq = i.seq - 1 AND j.seq > 0 THEN NULL ELSE j.body END, j.digest"
            " FROM lastlook_intent AS i LEFT JOIN lastlook_journal AS j"
            " ON j.intent_id = i.intent_id AND j.seq IN (0, i.seq - 1, i.seq, i.seq + 1)"
            " WHERE i.intent_id = :intent_id ORDER BY j.seq"
        )
        self._insert = compiled(
            "INSERT INTO lastlook_intent (intent_id, effect, lane, state, seq, head, attempt, expires_us)"
            " VALUES (:intent_id, :effect, :lane, 'OPEN', 0, :head, 0, :expires_us)"
        )
        self._journal = compiled(
            "INSERT INTO lastlook_journal (intent_id, seq, kind, at_us, body, digest)"
            " VALUES (:intent_id, :seq, :kind, :at_us, :body, :digest)"
        )
        self._stand = compiled(
            "SELECT i.state, i.seq, i.head, i.expires_us, j.digest,"
            " (SELECT h.intent_id FROM lastlook_intent AS h"
            " WHERE h.lane = i.lane AND h.state = 'ATTEMPT' AND h.intent_id <> i.intent_id)"
            " FROM lastlook_intent AS i LEFT JOIN lastlook_journal AS j"
            " ON j.intent_id = i.intent_id AND j.seq = i.seq WHERE i.intent_id = :intent_id"
        )
        self._move = compiled(
            "UPDATE lastlook_intent SET state = :state, seq = seq + 1, head = :head, attempt = :attempt,"
            " owner = :owner, deadline_us = :deadline_us WHERE intent_id = :intent_id AND seq = :seq AND head = :was"
        )
        self._find = compiled("SELECT seq FROM lastlook_intent WHERE intent_id = :intent_id")
        self._pending = compiled(
            "SELECT intent_id FROM lastlook_intent WHERE state IN ('OPEN', 'ATTEMPT') ORDER BY rowid"
        )
        self._page = compiled(
            "SELECT intent_id FROM lastlook_intent WHERE intent_id >= :first AND intent_id < :end"
            " ORDER BY intent_id LIMIT :most"
        )
        self._alive = compiled(
            "SELECT intent_id, state FROM lastlook_intent WHERE intent_id IN"  # noqa: S608 - our own names
            f" ({', '.join(f':id{n}' for n in range(_MANY))})"
        )
        self._newest = compiled("SELECT max(rowid) FROM lastlook_intent")
        self._since = compiled(
            "SELECT intent_id, effect FROM lastlook_intent"
            " WHERE state IN ('OPEN', 'ATTEMPT') AND rowid > :after AND rowid <= :newest ORDER BY rowid"
        )
        self._records = compiled(
            "SELECT i.effect, i.lane, i.state, i.seq, i.head, i.expires_us,"
            " j.intent_id, j.seq, j.kind, j.at_us, j.body, j.digest"
            " FROM lastlook_intent AS i LEFT JOIN lastlook_journal AS j ON j.intent_id = i.intent_id"
            " WHERE i.intent_id = :intent_id ORDER BY j.seq"
        )

    # The store itself.

    def install(self, cursor: Any) -> None:
        """Make whatever is not there, in the open transaction, and see that what is there is this store's."""
        for sql in self._ddl:
            cursor.execute(sql)
        for probe in self._columns:
            probe(cursor)
        if not dict(self._read_meta(cursor).fetchall()):
            for name, value in tables.first_meta().items():
                self._put_meta(cursor, name=name, value=value)
        self.open(cursor)

    def open(self, cursor: Any) -> Meta:
        """Read what the store says of itself.

        Raises:
            StoreError: it is of a newer version, or not lastlook's.
        """
        self.meta = tables.meta_of(dict(self._read_meta(cursor).fetchall()), self.where)
        return self.meta

    # Intents.

    def create(self, cursor: Any, record: IntentRecord, at: dt.datetime, supersedes: Append | None) -> Created:
        """Store a proposal unless its id is taken; what it supersedes ends in the same transaction."""
        existing = self.load(cursor, record.intent_id)
        if existing is not None:
            return Created(ok=False, existing=existing)
        if supersedes is not None and not self.append(cursor, supersedes, at).ok:
            return Created(ok=False)
        intent_id, body, at_us = record.intent_id, _encoded(intent_body(record)), microseconds(at)
        head = chain_digest(GENESIS, intent_id, 0, "PROPOSED", at_us, body)
        self._insert(
            cursor,
            intent_id=intent_id,
            effect=record.effect,
            lane=record.lane,
            head=head,
            expires_us=record.expires_us,
        )
        self.created = cursor.lastrowid
        self._journal(cursor, intent_id=intent_id, seq=0, kind="PROPOSED", at_us=at_us, body=body, digest=head)
        self._keep(head, record)
        return Created(ok=True)

    def load(self, cursor: Any, intent_id: str) -> Stored | None:
        """The proposal, the row and the last record, each checked against the digests.

        Raises:
            IntegrityError: one of them is not what was written, or is from a newer version.
        """
        if not _possible(intent_id):
            return None
        rows = self._load(cursor, intent_id=intent_id).fetchall()
        if not rows:
            return None
        effect, lane, state, seq, head, attempt, owner, deadline_us, expires_us = rows[0][:9]
        if type(seq) is not int or type(attempt) is not int or type(deadline_us) not in _MOMENT:
            raise foreign(intent_id, "the row")
        records: dict[int, tuple[str, int, bytes, str]] = {row[9]: row[10:] for row in rows}
        if 0 not in records or seq not in records or seq + 1 in records or (seq > 1 and seq - 1 not in records):
            raise foreign(intent_id, "the last record")
        first, last = records[0], records[seq]
        if not chained(GENESIS, intent_id, 0, *first):
            raise foreign(intent_id, "the proposal")
        if last[3] != head or (seq > 0 and not chained(records[seq - 1][3], intent_id, seq, *last)):
            raise foreign(intent_id, f"record {seq}")
        record = self._proposal(intent_id, first)
        found = _STATES.get(state)
        body = None if seq == 0 else _body(intent_id, seq, last)
        if (
            found is None
            or (record.intent_id, record.effect, record.lane, record.expires_us)
            != (intent_id, effect, lane, expires_us)
            or not fits(found, last[0], body)
        ):
            raise foreign(intent_id, "the row")
        return Stored(record, IntentRow(found, seq, attempt, owner, deadline_us), body)

    def append(self, cursor: Any, append: Append, at: dt.datetime) -> Appended:
        """Make a transition: sequence number, lane and the store's own evidence must be as the caller saw them."""
        if append.proposal is not None:
            return self._first(cursor, append, *append.proposal, at)
        return self._append(cursor, append, at)

    def _first(
        self, cursor: Any, append: Append, record: IntentRecord, proposed_at: dt.datetime, at: dt.datetime
    ) -> Appended:
        """A transition and the proposal that comes with it: both, or neither."""
        cursor.execute("SAVEPOINT lastlook_first")
        created = self.create(cursor, record, proposed_at, None).ok
        appended = self._append(cursor, append, at) if created else Appended(ok=False)
        if not appended.ok:
            cursor.execute("ROLLBACK TO SAVEPOINT lastlook_first")
        cursor.execute("RELEASE SAVEPOINT lastlook_first")
        return appended

    def _append(self, cursor: Any, append: Append, at: dt.datetime) -> Appended:
        intent_id, seq = append.intent_id, append.seq
        found = self._stand(cursor, intent_id=intent_id).fetchone() if _possible(intent_id) else None
        if found is None or found[1] != seq:
            return Appended(ok=False)
        state, _, was, expires_us, last, holder = found
        if last != was:
            raise foreign(intent_id, f"record {seq}")
        takes_lane = append.state is _IN_ATTEMPT or (append.state is _COMMITTED and state == "OPEN")
        at_us = microseconds(at)
        if takes_lane:
            if holder is not None:
                return Appended(ok=False, holder=holder)
            if expires_us is not None and at_us >= expires_us:
                return Appended(ok=False)  # whoever loads it again finds it expired
        if append.checks:
            stale = _stale(self.evidence, append.checks)
            if stale:
                return Appended(ok=False, stale=stale)
        body = _encoded(append.record())
        digest = chain_digest(was, intent_id, seq + 1, append.kind, at_us, body)
        self._move(
            cursor,
            intent_id=intent_id,
            seq=seq,
            was=was,
            state=append.state.name,
            head=digest,
            attempt=append.attempt,
            owner=append.owner,
            deadline_us=append.deadline_us,
        )
        if cursor.rowcount != 1:
            return Appended(ok=False)
        self._journal(cursor, intent_id=intent_id, seq=seq + 1, kind=append.kind, at_us=at_us, body=body, digest=digest)
        return _DONE

    def lock(self, cursor: Any, intent_id: str, seq: int) -> bool:
        """Whether the intent is as it was seen; the open transaction keeps it so."""
        found = self._find(cursor, intent_id=intent_id).fetchone()
        return found is not None and found[0] == seq

    # Looking.

    def pending(self, cursor: Any) -> list[str]:
        """The ids of intents that are OPEN or in ATTEMPT, oldest first."""
        return [row[0] for row in self._pending(cursor).fetchall()]

    def page(self, cursor: Any, prefix: str, after: str) -> list[str]:
        """The ids of the next intents that begin so, after one of them; none when there are no more."""
        if not _possible(prefix):
            return []
        first, end = f"{after}\0" if after else prefix, f"{prefix}\U0010ffff"
        return [row[0] for row in self._page(cursor, first=first, end=end, most=_PAGE).fetchall()]

    def news(self, cursor: Any, after: int) -> News:
        """The pending intents that were stored since a mark; all of them where the mark is not of this store."""
        newest = self._newest(cursor).fetchone()[0] or 0
        since = after if after <= newest else 0
        found: list[Any] = self._since(cursor, after=since, newest=newest).fetchall() if newest != since else []
        self.created = newest
        return News(newest, tuple((row[0], row[1]) for row in found))

    def gone(self, cursor: Any, intent_ids: Collection[str]) -> list[str]:
        """Those of these intents that have ended, or are not here."""
        asked, left = list(intent_ids), set(intent_ids)
        for first in range(0, len(asked), _MANY):
            some = asked[first : first + _MANY]
            padded = some + some[:1] * (_MANY - len(some))
            rows = self._alive(cursor, **{f"id{n}": name for n, name in enumerate(padded)}).fetchall()
            left.difference_update(name for name, state in rows if state in _PENDING)
        return [name for name in asked if name in left]

    def journal(self, cursor: Any, intent_id: str) -> tuple[JournalEntry, ...]:
        """An intent's records, oldest first."""
        return tuple(JournalEntry(*row[6:12]) for row in self._rows(cursor, intent_id) if row[6] is not None)

    def verify(self, cursor: Any, intent_id: str) -> None:
        """Recompute an intent's chain from its first record, read every record, and compare its row with them."""
        rows = self._rows(cursor, intent_id)
        effect, lane, state, seq, head, expires_us = rows[0][:6]
        if type(seq) is not int:
            raise foreign(intent_id, "the row")
        entries = [JournalEntry(*row[6:12]) for row in rows if row[6] is not None]
        check_chain(intent_id, entries, seq)
        if entries[-1].digest != head:
            raise foreign(intent_id, "the row")
        record = intent_from_body(_decoded(intent_id, 0, entries[0].body))
        body: Mapping[str, Value] = {}
        for entry in entries[1:]:
            body = _decoded(intent_id, entry.seq, entry.body)
        if (
            entries[0].kind != "PROPOSED"
            or (record.intent_id, record.effect, record.lane, record.expires_us)
            != (intent_id, effect, lane, expires_us)
            or state not in _STATES
            or not fits(_STATES[state], entries[-1].kind, lambda: body)
        ):
            raise foreign(intent_id, "the row")

    def _rows(self, cursor: Any, intent_id: str) -> list[Any]:
        rows: list[Any] = self._records(cursor, intent_id=intent_id).fetchall() if _possible(intent_id) else []
        if not rows:
            raise UnknownIntent(f"no intent {intent_id} in this store")
        return rows

    # Proposals at hand.

    def _proposal(self, intent_id: str, first: tuple[str, int, bytes, str]) -> IntentRecord:
        """The proposal of a record whose digest was checked, decoded once."""
        kept = self._proposals.get(first[3])
        if kept is None:
            kept = intent_from_body(_decoded(intent_id, 0, first[2]))
            self._keep(first[3], kept)
        return kept

    def _keep(self, digest: str, record: IntentRecord) -> None:
        with self._lock:
            self._proposals[digest] = record
            if len(self._proposals) > _KEPT:
                del self._proposals[next(iter(self._proposals))]


def _possible(intent_id: object) -> bool:
    """Whether a text can be an id at all; what the driver cannot even send is in no store."""
    try:
        return isinstance(intent_id, str) and len(intent_id.encode()) <= 1024
    except UnicodeEncodeError:
        return False


def _encoded(body: Mapping[str, Value]) -> bytes:
    return canonical.encode(freeze(body), limit=RECORD_BYTES)


def _decoded(intent_id: str, seq: int, body: bytes) -> Mapping[str, Value]:
    """A record's body.

    Raises:
        IntegrityError: it is of a newer schema, or no record of this library.
    """
    try:
        found: Any = canonical.decode(body, limit=RECORD_BYTES)
        schema = found["schema"]
    except (ValueError, TypeError, KeyError) as error:
        raise foreign(intent_id, f"record {seq}") from error
    if type(schema) is not int or schema > SCHEMA:
        raise IntegrityError(
            f"record {seq} of intent {intent_id} is of schema {schema!r}, and this version knows {SCHEMA}: upgrade "
            "lastlook"
        )
    return cast("Mapping[str, Value]", found)


def _body(intent_id: str, seq: int, record: tuple[str, int, bytes, str]) -> Callable[[], Mapping[str, Value]]:
    """What decodes a record that was checked, when somebody asks; its schema number is looked at now."""
    body = record[2]
    try:
        known = json.loads(body)["schema"] == _KNOWN
    except (ValueError, TypeError, KeyError, RecursionError):
        known = False  # and what it is then is told below
    if not known:
        decoded = _decoded(intent_id, seq, body)
        return lambda: decoded
    return lambda: _decoded(intent_id, seq, body)


def _stale(evidence: System | None, checks: Sequence[Bound]) -> str:
    """The place of store evidence that moved; "" for none."""
    if evidence is None:
        return str(checks[0][0])
    found: Any = evidence.read_many([address for address, _ in checks])
    if inspect.isawaitable(found):
        getattr(found, "close", bool)()
        raise StoreError(f"{evidence.name} is the store's own evidence and must be read at once: give one not awaited")
    for (address, seen), now in zip(checks, found, strict=True):
        if getattr(now, "token", None) != seen.token:
            return str(address)
    return ""
