"""`Memory`: the system of record in the core, for tests, for the evaluation and for learning the library.

It is authoritative about its own rows: frozen cells, one version per row that no write can forget, an atomic
conditional apply, and a close. Nothing in it outlives the process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Mapping
from decimal import Decimal
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import Applied, CanonicalError, DeclarationError, EffectNotBound, IntegrityError
from lastlook.ports import UTC, ApplyResult, Capabilities, CloseResult, Fields, Unreadable
from lastlook.records import Address, EffectRow, Observation, Token, collection_of, key_parts, microseconds
from lastlook.store.memory import MemoryStore
from lastlook.wanted import mistaken, wanted, wanted_clock, wanted_map, wanted_text

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Generator, Sequence

    from lastlook.canonical import Value
    from lastlook.ports import Attempt, Clock, Journal, Store

__all__ = ["Memory", "MemoryPermit"]

_Key = Any
"""A row's key: one text or number, or a tuple of them for a composite key."""

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_BUSY = Applied.BUSY
_COMMITTED = Applied.COMMITTED
_FAILED = Applied.FAILED
_REJECTED = Applied.REJECTED

_Query: TypeAlias = "Callable[..., object]"

_CAPABILITIES = Capabilities(durable=False, rolls_back=True, closes=True, checks_absence=True, checks_collections=True)


class MemoryPermit:
    """What an effect's body may do on a `Memory` while it runs; its writes land with the check, or not at all."""

    __slots__ = ("_attempt", "_memory", "_open", "_read", "_silent", "_writes")

    def __init__(self, memory: Memory, attempt: Attempt) -> None:
        self._memory = memory
        self._attempt = attempt
        self._writes: dict[Address, Mapping[str, Value] | None] = {}
        self._read: dict[Address, Observation] = {}
        self._open = True
        self._silent = False

    @property
    def key(self) -> str:
        """The attempt's idempotency key."""
        return self._attempt.key

    @property
    def fresh(self) -> Mapping[str, Value]:
        """The refresh fields as the gate last read them, by their place such as `orders/o-1.customer_name`."""
        return self._attempt.fresh

    def row(self, kind: str, key: _Key, /) -> Mapping[str, Value] | None:
        """A row as the effect would leave it, or None if there is none."""
        self._check()
        address = self._memory.address(kind, key)
        if address in self._writes:
            return self._writes[address]
        cell = self._memory.cell(address)
        if isinstance(cell, Unreadable):
            message = f"{address} could not be read: {cell.reason}"
            raise LookupError(message)  # noqa: TRY004 - no wrong type: there is no answer
        self._read.setdefault(address, cell)
        return None if cell.value is ABSENT else cast("Mapping[str, Value]", cell.value)

    def change(self, kind: str, key: _Key, /, **fields: object) -> None:
        """Set fields of a row, which is created if there is none."""
        self._check()
        address = self._memory.row_address(kind, key)
        row = dict(self.row(kind, key) or {})
        row.update({name: canonical.freeze(value, path=name) for name, value in fields.items()})
        self._writes[address] = _row(address, row)

    def replace(self, kind: str, key: _Key, row: Mapping[str, object], /) -> None:
        """Put a whole row in place of whatever is there."""
        self._check()
        address = self._memory.row_address(kind, key)
        self._writes[address] = _row(address, row)

    def delete(self, kind: str, key: _Key, /) -> None:
        """Remove a row; no error if there is none."""
        self._check()
        self._writes[self._memory.row_address(kind, key)] = None

    def no_write(self) -> None:
        """Say that this effect writes nothing here on purpose; without it a body that writes nothing is refused."""
        if not self._open:
            self._check()
        self._silent = True

    def _check(self) -> None:
        if not self._open:
            message = (
                f"the permit of intent {self._attempt.intent_id} is over: it lives only inside the effect's body, "
                "so do all of the effect's work there"
            )
            raise EffectNotBound(message)


class Memory:
    """Rows by kind and key: `Memory(orders={"o-1": {"refunded": False}}, policies={"refund": {"limit": 100}})`.

    Evidence, and an authoritative target: an effect lands only while every bound row still has the version that was
    looked at. With the memory store it is one engine: check, effect and journal record are one critical section.
    Thread-safe; readers take no lock.

    Raises:
        CanonicalError: a row holds something that is no evidence type, or a key that has no canonical form.
        DeclarationError: no map of rows, or a row that is no map of its fields.
    """

    def __init__(self, /, **kinds: Mapping[Any, Mapping[str, Any]]) -> None:
        self._lock = threading.RLock()
        self._namespace = f"memory:{os.urandom(4).hex()}"
        self._nothing = Observation(ABSENT, Token("counter", self._namespace, 0))
        self._cells = _Cells(self._derive)
        self._rows: dict[str, dict[str, Address]] = {}
        self._counters: dict[str, int] = {}
        self._collections: dict[str, str] = {}
        self._queries: dict[str, _Query] = {}
        self._asked: dict[str, Address] = {}
        self._answers: dict[str, Observation] = {}
        self._salt = os.urandom(16)
        self._effects: dict[str, _EffectRow] = {}
        self._extra_fields: dict[str, frozenset[str]] = {}
        self._public: frozenset[tuple[str, str]] = frozenset()
        self._separate = False
        self._clock: Clock = UTC
        self._own_clock = False
        self._unreadable: dict[str, int] = {}
        self._held: dict[Address, int] = {}
        self._in_body = False
        for kind, rows in kinds.items():
            wanted_map(rows, f"Memory({kind}=...)", "give a map from key to row, such as {'o-1': {...}}")
            self._add_kind(kind)
            for key, row in rows.items():
                address = self.address(kind, key)
                self._put(address, _row(address, row))

    def options(
        self,
        *,
        queries: Mapping[str, _Query] | None = None,
        separate: bool = False,
        clock: Clock | None = None,
        fields: Mapping[str, Collection[str]] | None = None,
        public: Iterable[str] = (),
    ) -> Memory:
        """Set what is not a kind; returns this system.

        Args:
            queries: named queries as evidence: each is called with the tables (kind -> key -> row) and the key's parts,
                and gives a scalar, read as field `value`, or a list of rows, read as field `rows`.
            separate: be another engine than the memory store, so that attempts, takeover and close really run.
            clock: the clock by which deadlines are checked; the gate's own if not given.
            fields: fields that exist although no row has them yet.
            public: `kind.field` whose values may stand in explanations.

        Raises:
            DeclarationError: one of these is of another type, or a query has the name of a kind; nothing is set.
        """
        asked = dict(wanted_map(queries or {}, "options(queries=...)", "give a map from name to function"))
        for name, query in asked.items():
            wanted_text(name, "options(queries=...)", "give a map from name to function")
            if not callable(query):
                raise mistaken(f"options(queries=...)[{name!r}]", query, "give a function of the tables")
            if name in self._rows:
                message = f"{name!r} is both a kind and a query of this memory: give the query another name"
                raise DeclarationError(message)
        extra = wanted_map(fields or {}, "options(fields=...)", "give a map from kind to names of fields")
        names_of = {kind: _names(names, f"options(fields=...)[{kind!r}]") for kind, names in extra.items()}
        shown = frozenset(_public(name) for name in _names(public, "options(public=...)"))
        wanted(separate, bool, "options(separate=...)", "give True or False")
        if clock is not None:
            self._clock = wanted_clock(clock, "options(clock=...)")
            self._own_clock = True
        self._queries.update(asked)
        self._separate = separate
        self._extra_fields = names_of
        self._public = shown
        return self

    # What other actors do to the world.

    def change(self, kind: str, key: _Key, /, **fields: object) -> None:
        """Another actor's write: set fields of a row, which is created if there is none."""
        frozen = {name: canonical.freeze(value, path=name) for name, value in fields.items()}
        address = self.row_address(kind, key)
        with self._writing():
            self._put(address, _row(address, {**(self.row(kind, key) or {}), **frozen}))

    def replace(self, kind: str, key: _Key, row: Mapping[str, object], /) -> None:
        """Another actor's write: a whole row in place of whatever is there."""
        address = self.row_address(kind, key)
        frozen = _row(address, row)
        with self._writing():
            self._put(address, frozen)

    def delete(self, kind: str, key: _Key, /) -> None:
        """Another actor removes a row; no error if there is none."""
        address = self.row_address(kind, key)
        with self._writing():
            self._put(address, None)

    def drop(self, kind: str, key: _Key, field: str, /) -> None:
        """Another actor removes one field of a row: absent is not null."""
        address = self.row_address(kind, key)
        gone = wanted_text(field, "drop(field)", "name the field")
        with self._writing():
            row = {name: value for name, value in (self.row(kind, key) or {}).items() if name != gone}
            self._put(address, _row(address, row))

    @contextlib.contextmanager
    def lock(self, kind: str, key: _Key, /) -> Generator[None]:
        """Another session holds a row: an effect that is bound to it finds the target BUSY."""
        with _counted(self._held, self.address(kind, key)):
            yield

    @contextlib.contextmanager
    def unreadable(self, kind: str, /) -> Generator[None]:
        """Reading a kind fails for as long as this lasts."""
        with _counted(self._unreadable, self._known(kind)):
            yield

    # What anybody may look at.

    def row(self, kind: str, key: _Key, /) -> Mapping[str, Value] | None:
        """A row's fields, frozen, or None if there is none."""
        value = self._cells[self.address(kind, key).identity].value
        return None if value is ABSENT else cast("Mapping[str, Value]", value)

    def rows(self, kind: str, /) -> dict[Any, Mapping[str, Value]]:
        """All rows of a kind in key order; a key of one part stands for itself."""
        with self._lock:
            cells, addresses = self._cells, self._rows[self._known(kind)].values()
            present = [(address.key, cells[address.identity].value) for address in addresses]
        rows = sorted(((key, value) for key, value in present if value is not ABSENT), key=lambda item: _order(item[0]))
        return {(key[0] if len(key) == 1 else key): cast("Mapping[str, Value]", value) for key, value in rows}

    @property
    def effects(self) -> Mapping[str, Mapping[str, Value]]:
        """The target rows by intent id: intent_id, args_digest, floor, attempt, result, committed_at."""
        return {name: _exposed(name, row)._asdict() for name, row in self._effects.items()}

    # The System port.

    @property
    def name(self) -> str:
        """How messages name this system."""
        return f"memory({', '.join(sorted((*self._rows, *self._queries)))})"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of rows, and the named queries."""
        return frozenset((*self._rows, *self._queries))

    def fields(self, kind: str, /) -> Fields:
        """The fields that the rows have today, and those named in `options(fields=)`; others may come."""
        if kind in self._queries:
            return Fields(frozenset({"value", "rows"}), complete=True)
        names = {name for row in self.rows(kind).values() for name in row}
        return Fields(frozenset(names) | self._extra_fields.get(kind, frozenset()), complete=False)

    def is_public(self, kind: str, field: str, /) -> bool:
        """Whether the field was named in `options(public=)`."""
        return (kind, field) in self._public

    def address(self, kind: str, key: _Key, /) -> Address:
        """The canonical address of a row.

        Raises:
            LookupError: this memory has no such kind.
            CanonicalError: a part of the key has no canonical form, or is true or false, which Python takes for 1 or 0.
        """
        address = Address(self._known(kind), key_parts(key))
        if not address.key or any(isinstance(part, bool) for part in address.key):
            raise CanonicalError(f"{kind}: {key!r} is no row's key: give it a text, a number, or a tuple of them")
        return address

    def row_address(self, kind: str, key: _Key, /) -> Address:
        """As `address`, of a row that can be written.

        Raises:
            LookupError: this memory has no such kind.
            DeclarationError: it is a query, which only answers.
        """
        if self._known(kind) in self._queries:
            raise DeclarationError(f"{kind!r} is a query, which cannot be written: write the rows that it is asked of")
        return self.address(kind, key)

    def cell(self, address: Address, /) -> Observation | Unreadable:
        """What is at an address now, for whoever is inside."""
        self._note(address)
        return self._cells[address.identity]

    def reader(self, addresses: Sequence[Address], /) -> Callable[[], tuple[Observation | Unreadable, ...]]:
        """A compiled `read_many` for a fixed list of addresses, which never raises."""
        for address in addresses:
            self._note(address)
        cells, unreadable = self._cells, self._unreadable
        names = [address.identity for address in addresses]
        if not names:
            return tuple
        fetch: Callable[[Any], Any] = itemgetter(*names)
        if len(names) == 1:
            return lambda: (self._read(addresses[0]),) if unreadable else (fetch(cells),)
        return lambda: tuple(self._read(address) for address in addresses) if unreadable else fetch(cells)

    def read_many(self, addresses: Sequence[Address], /) -> tuple[Observation | Unreadable, ...]:
        """One observation per address, in order."""
        return self.reader(addresses)()

    # The Target port.

    @property
    def capabilities(self) -> Capabilities:
        """Authoritative while the process lives."""
        return _CAPABILITIES

    def can_check(self, kind: str, /) -> bool:
        """Everything that lives here, absence and whole collections included."""
        return kind in self._rows or kind in self._queries

    def can_check_token(self, token: Token, /) -> bool:
        """Whether this memory made the token."""
        return token.namespace == self._namespace

    def shares_engine(self, store: Store, /) -> bool:
        """With a memory store it is one engine, unless `options(separate=True)`."""
        return isinstance(store, MemoryStore) and not self._separate

    def use_clock(self, clock: Clock, /) -> None:
        """Take the gate's clock, unless one was set by `options(clock=)`."""
        if not self._own_clock:
            self._clock = clock

    def effect_row(self, intent_id: str, /) -> EffectRow | None:
        """The intent's target row."""
        row = self._effects.get(intent_id)
        return None if row is None else _exposed(intent_id, row)

    def apply(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """Check, run the body and commit in one critical section."""
        with self._lock:
            refused = self._refusal(attempt)
            if refused is not None:
                return refused
            permit = MemoryPermit(self, attempt)
            self._in_body = True
            try:
                value = attempt.body(permit)
            except Exception as error:  # noqa: BLE001 - raised on to the caller of the gate
                return ApplyResult(_FAILED, error=error, reason="the body raised")
            finally:
                self._in_body = False
                permit._open = False  # noqa: SLF001 - the permit is this module's own
            return self._commit(attempt, permit, value, journal)

    async def apply_async(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """As `apply`, with an awaited body: checked before it and, atomically with the commit, again after it."""
        with self._lock:
            refused = self._refusal(attempt)
        if refused is not None:
            return refused
        permit = MemoryPermit(self, attempt)
        try:
            value = await attempt.body(permit)
        except Exception as error:  # noqa: BLE001 - raised on to the caller of the gate
            return ApplyResult(_FAILED, error=error, reason="the body raised")
        finally:
            permit._open = False  # noqa: SLF001 - the permit is this module's own
        with self._lock:
            refused = self._refusal(attempt)
            return refused if refused is not None else self._commit(attempt, permit, value, journal)

    def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """End an attempt: its floor rises above it, unless the effect has committed."""
        with self._lock:
            digest, floor, _, stored, committed_at = self._effects.get(intent_id, _NO_ROW)
            if committed_at is not None:
                return CloseResult(_COMMITTED, stored)
            self._effects[intent_id] = (digest, max(attempt + 1, floor), None, None, None)
            return CloseResult(Applied.NOT_ATTEMPTED)

    # Inside.

    def _refusal(self, attempt: Attempt) -> ApplyResult | None:
        """Why the attempt may not commit as things are: its own row, a held row, moved evidence, a passed deadline."""
        row = self._effects.get(attempt.intent_id)
        if row is not None:
            refused = _refused_by_row(row, attempt)
            if refused is not None:
                return refused
        cells = self._cells
        for address, observation in attempt.binding:
            if self._held and address in self._held:
                return ApplyResult(_BUSY, reason=f"{address} is locked by another session")
            now = cells[address.identity]
            if now is not observation and now.token != observation.token:
                return ApplyResult(_REJECTED, reason=f"{address} moved after it was looked at")
        if attempt.not_after is not None and self._clock.now() > attempt.not_after:
            return _LATE
        return None

    def _commit(self, attempt: Attempt, permit: MemoryPermit, value: Any, journal: Journal | None) -> ApplyResult:
        writes, silent = permit._writes, permit._silent  # noqa: SLF001 - the permit is this module's own
        if not writes and not silent:
            message = (
                f"the body of intent {attempt.intent_id} wrote nothing through its permit, so nothing ties it to the "
                "check: write through the permit, or call permit.no_write()"
            )
            return ApplyResult(_FAILED, error=EffectNotBound(message), reason=message)
        try:
            stored = attempt.encode(value)
        except Exception as error:  # noqa: BLE001 - whatever the conversion raises, nothing is committed
            return ApplyResult(_FAILED, error=error, reason="the result cannot be stored")
        read = permit._read  # noqa: SLF001 - the permit is this module's own
        for address in read:
            cell, now_there = read[address], self._cells[address.identity]
            if now_there is not cell and now_there.token != cell.token:
                return ApplyResult(_REJECTED, reason=f"a row of {address.kind!r} that the body read moved while it ran")
        for address in writes if self._held else ():
            if address in self._held:
                return ApplyResult(_BUSY, reason=f"a row of {address.kind!r} is locked by another session")
        now = self._clock.now()
        if attempt.not_after is not None and now > attempt.not_after:
            return _LATE
        if journal is not None:
            appended = journal.commit(stored, now)
            if appended.holder is not None:
                return ApplyResult(Applied.IN_PROGRESS, reason=appended.holder)
            if not appended.ok:
                lost = not appended.stale
                return ApplyResult(_REJECTED, lost=lost, reason=f"{appended.stale} moved after it was looked at")
        for address in writes:
            self._put(address, writes[address])
        number = attempt.number
        self._effects[attempt.intent_id] = (attempt.arguments_digest, number, number, stored, now)
        return ApplyResult(_COMMITTED, value, stored)

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        with self._lock:
            if self._in_body:  # and we hold the lock: this is the body's own thread
                raise EffectNotBound(
                    "this write goes round the permit, so nothing ties it to the check: "
                    "inside an effect's body write through its permit"
                )
            yield

    def _add_kind(self, kind: str) -> None:
        self._rows[kind] = {}
        self._counters[kind] = 0
        self._collections[collection_of(kind).identity] = kind

    def _put(self, address: Address, row: Mapping[str, Value] | None) -> None:
        cell = self._cells[address.identity]
        version = cast("int", cell.token.value) + 1
        value = ABSENT if row is None else row
        self._cells[address.identity] = Observation(value, Token("counter", self._namespace, version))
        self._rows[address.kind].setdefault(address.identity, address)
        self._counters[address.kind] += 1
        self._cells.pop(collection_of(address.kind).identity, None)
        # A new map, always: a query that is being asked right now keeps its answer in the old one, which nobody reads.
        self._answers = {}

    def _derive(self, identity: str) -> Any:
        """What is no stored row: an absent row, a whole collection, a query; the last two are kept until a write."""
        answered = self._answers.get(identity)
        if answered is not None:
            return answered
        with self._lock:
            if identity in self._collections:
                kind = self._collections[identity]
                rows = tuple(self.rows(kind).values())
                cell = Observation(rows, Token("counter", self._namespace, self._counters[kind]))
            elif identity in self._asked:
                answers = self._answers
                answer = self._ask(self._asked[identity])
                if isinstance(answer, Observation):
                    answers[identity] = answer
                return answer
            else:
                return self._nothing
            self._cells[identity] = cell
            return cell

    def _ask(self, address: Address) -> Observation | Unreadable:
        tables = MappingProxyType({kind: MappingProxyType(self.rows(kind)) for kind in self._rows})
        try:
            answer = canonical.freeze(self._queries[address.kind](tables, *address.key), path=address.kind)
        except Exception as error:  # noqa: BLE001 - whatever a query raises, it has no answer
            return Unreadable(f"query {address.kind!r} raised {type(error).__name__}")
        value = MappingProxyType({"rows" if isinstance(answer, tuple) else "value": answer})
        return Observation(value, Token("digest", self._namespace, canonical.fingerprint(value, salt=self._salt)))

    def _note(self, address: Address) -> None:
        if address.kind in self._queries:
            self._asked[address.identity] = address

    def _read(self, address: Address) -> Observation | Unreadable:
        if address.kind in self._unreadable:
            return Unreadable(f"{address.kind} could not be read")
        return self._cells[address.identity]

    def _known(self, kind: str) -> str:
        if not isinstance(cast("object", kind), str):
            raise mistaken("a kind of this memory", kind, "name it by a text")
        if kind in self._rows or kind in self._queries:
            return kind
        from difflib import get_close_matches  # only for a message

        near = get_close_matches(kind, [*self._rows, *self._queries], 1)
        hint = f": did you mean {near[0]!r}?" if near else f": it has {', '.join(sorted(self._rows)) or 'no kinds'}"
        message = f"this memory has no kind {kind!r}{hint}"
        raise LookupError(message)


class _Cells(dict[str, Observation]):
    """Observations by identity; what is no stored row is derived on demand."""

    __slots__ = ("_derive",)

    def __init__(self, derive: Callable[[str], Observation]) -> None:
        super().__init__()
        self._derive = derive

    def __missing__(self, identity: str) -> Observation:
        return self._derive(identity)


_LATE = ApplyResult(_REJECTED, reason="the permission ended before the effect was committed")


_EffectRow: TypeAlias = "tuple[str, int, int | None, Value, dt.datetime | None]"
"""The intent's own row: digest of the arguments, floor, attempt, stored result, when committed."""
_NO_ROW: _EffectRow = ("", 0, None, None, None)


def _exposed(intent_id: str, row: _EffectRow) -> EffectRow:
    digest, floor, attempt, stored, committed_at = row
    return EffectRow(
        intent_id, digest, floor, attempt, stored, None if committed_at is None else microseconds(committed_at)
    )


def _refused_by_row(row: _EffectRow, attempt: Attempt) -> ApplyResult | None:
    """What the intent's own row says: committed before, of other arguments, or closed."""
    digest, floor, _, stored, committed_at = row
    if committed_at is not None and digest == attempt.arguments_digest:
        return ApplyResult(_COMMITTED, stored, stored, repeated=True)
    if digest not in ("", attempt.arguments_digest):
        message = f"the target row of intent {attempt.intent_id} is of other arguments: do not release it"
        return ApplyResult(_FAILED, error=IntegrityError(message), reason=message)
    if attempt.number < floor:
        return ApplyResult(_REJECTED, floor=floor, reason="the attempt was closed")
    return None


@contextlib.contextmanager
def _counted(held: dict[Any, int], key: object) -> Generator[None]:
    held[key] = held.get(key, 0) + 1
    try:
        yield
    finally:
        held[key] -= 1
        if not held[key]:
            del held[key]


def _row(address: Address, row: Mapping[str, object]) -> Mapping[str, Value]:
    wanted_map(row, f"the row {address}", "give a map of its fields")
    return cast("Mapping[str, Value]", canonical.freeze(row))


def _names(names: object, where: str) -> frozenset[str]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise mistaken(where, names, "give a list of names")
    return frozenset([wanted_text(name, where, "give a list of names") for name in cast("Iterable[object]", names)])


def _public(name: str) -> tuple[str, str]:
    kind, dot, field = name.partition(".")
    if not dot:
        message = f"public={name!r} names no field: write 'kind.field'"
        raise DeclarationError(message)
    return kind, field


def _order(key: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple(("number" if isinstance(part, (int, Decimal)) else type(part).__name__, part) for part in key)
