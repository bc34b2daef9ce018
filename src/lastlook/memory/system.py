"""`Memory`: its rows as evidence, what other actors do to them, and its conditional apply and close as a target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.errors import Applied, DeclarationError, EffectNotBound
from lastlook.memory.effects import NO_ROW, exposed, refused_by_row
from lastlook.memory.permits import MemoryPermit
from lastlook.memory.tables import Tables, frozen_row
from lastlook.ports import UTC, ApplyResult, Capabilities, CloseResult, Fields
from lastlook.store.memory import MemoryStore
from lastlook.wanted import mistaken, wanted, wanted_clock, wanted_map, wanted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.memory.effects import StoredRow
    from lastlook.memory.tables import Query
    from lastlook.ports import Attempt, Clock, Journal, Store, Unreadable
    from lastlook.records import Address, EffectRow, Observation, Token

__all__ = ["Memory"]

_Key = Any
"""A row's key: one text or number, or a tuple of them for a composite key."""

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_BUSY = Applied.BUSY
_COMMITTED = Applied.COMMITTED
_FAILED = Applied.FAILED
_REJECTED = Applied.REJECTED

_CAPABILITIES = Capabilities(durable=False, rolls_back=True, closes=True, checks_absence=True, checks_collections=True)


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
        self._tables = tables = Tables()
        self._cells, self._lock = tables.cells, tables.lock  # an attribute less on the way to an effect
        self._effects: dict[str, StoredRow] = {}
        self._extra_fields: dict[str, frozenset[str]] = {}
        self._public: frozenset[tuple[str, str]] = frozenset()
        self._separate = False
        self._clock: Clock = UTC
        self._own_clock = False
        self._held: dict[Address, int] = {}
        self._in_body = False
        for kind, rows in kinds.items():
            wanted_map(rows, f"Memory({kind}=...)", "give a map from key to row, such as {'o-1': {...}}")
            tables.add_kind(kind)
            for key, row in rows.items():
                address = tables.address(kind, key)
                tables.put(address, frozen_row(address, row))

    def options(
        self,
        *,
        queries: Mapping[str, Query] | None = None,
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
            if name in self._tables.kinds:
                message = f"{name!r} is both a kind and a query of this memory: give the query another name"
                raise DeclarationError(message)
        extra = wanted_map(fields or {}, "options(fields=...)", "give a map from kind to names of fields")
        names_of = {kind: _names(names, f"options(fields=...)[{kind!r}]") for kind, names in extra.items()}
        shown = frozenset(_public(name) for name in _names(public, "options(public=...)"))
        wanted(separate, bool, "options(separate=...)", "give True or False")
        if clock is not None:
            self._clock = wanted_clock(clock, "options(clock=...)")
            self._own_clock = True
        self._tables.queries.update(asked)
        self._separate = separate
        self._extra_fields = names_of
        self._public = shown
        return self

    # What other actors do to the world.

    def change(self, kind: str, key: _Key, /, **fields: object) -> None:
        """Another actor's write: set fields of a row, which is created if there is none."""
        frozen = {name: canonical.freeze(value, path=name) for name, value in fields.items()}
        address = self._tables.row_address(kind, key)
        with self._writing():
            self._tables.put(address, frozen_row(address, {**(self.row(kind, key) or {}), **frozen}))

    def replace(self, kind: str, key: _Key, row: Mapping[str, object], /) -> None:
        """Another actor's write: a whole row in place of whatever is there."""
        address = self._tables.row_address(kind, key)
        frozen = frozen_row(address, row)
        with self._writing():
            self._tables.put(address, frozen)

    def delete(self, kind: str, key: _Key, /) -> None:
        """Another actor removes a row; no error if there is none."""
        address = self._tables.row_address(kind, key)
        with self._writing():
            self._tables.put(address, None)

    def drop(self, kind: str, key: _Key, field: str, /) -> None:
        """Another actor removes one field of a row: absent is not null."""
        address = self._tables.row_address(kind, key)
        gone = wanted_text(field, "drop(field)", "name the field")
        with self._writing():
            row = {name: value for name, value in (self.row(kind, key) or {}).items() if name != gone}
            self._tables.put(address, frozen_row(address, row))

    @contextlib.contextmanager
    def lock(self, kind: str, key: _Key, /) -> Generator[None]:
        """Another session holds a row: an effect that is bound to it finds the target BUSY."""
        with _counted(self._held, self.address(kind, key)):
            yield

    @contextlib.contextmanager
    def unreadable(self, kind: str, /) -> Generator[None]:
        """Reading a kind fails for as long as this lasts."""
        with _counted(self._tables.unreadable, self._tables.known(kind)):
            yield

    # What anybody may look at.

    def row(self, kind: str, key: _Key, /) -> Mapping[str, Value] | None:
        """A row's fields, frozen, or None if there is none."""
        return self._tables.row(kind, key)

    def rows(self, kind: str, /) -> dict[Any, Mapping[str, Value]]:
        """All rows of a kind in key order; a key of one part stands for itself."""
        return self._tables.rows(kind)

    @property
    def effects(self) -> Mapping[str, Mapping[str, Value]]:
        """The target rows by intent id: intent_id, args_digest, floor, attempt, result, committed_at."""
        return {name: exposed(name, row)._asdict() for name, row in self._effects.items()}

    # The System port.

    @property
    def name(self) -> str:
        """How messages name this system."""
        return f"memory({', '.join(sorted((*self._tables.kinds, *self._tables.queries)))})"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of rows, and the named queries."""
        return frozenset((*self._tables.kinds, *self._tables.queries))

    def fields(self, kind: str, /) -> Fields:
        """The fields that the rows have today, and those named in `options(fields=)`; others may come."""
        if kind in self._tables.queries:
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
        return self._tables.address(kind, key)

    def cell(self, address: Address, /) -> Observation | Unreadable:
        """What is at an address now, for whoever is inside."""
        return self._tables.cell(address)

    def reader(self, addresses: Sequence[Address], /) -> Callable[[], tuple[Observation | Unreadable, ...]]:
        """A compiled `read_many` for a fixed list of addresses, which never raises."""
        return self._tables.reader(addresses)

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
        return kind in self._tables.kinds or kind in self._tables.queries

    def can_check_token(self, token: Token, /) -> bool:
        """Whether this memory made the token."""
        return token.namespace == self._tables.namespace

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
        return None if row is None else exposed(intent_id, row)

    def apply(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """Check, run the body and commit in one critical section."""
        lock = self._lock
        lock.acquire()  # half the price of `with`
        try:
            refused = self._refusal(attempt)
            if refused is not None:
                return refused
            permit = MemoryPermit(self._tables, attempt)
            self._in_body = True
            try:
                value = attempt.body(permit)
            except Exception as error:  # noqa: BLE001 - raised on to the caller of the gate
                return ApplyResult(_FAILED, error=error, reason="the body raised")
            finally:
                self._in_body = False
                permit._open = False  # noqa: SLF001 - the permit is this module's own
            return self._commit(attempt, permit, value, journal)
        finally:
            lock.release()

    async def apply_async(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """As `apply`, with an awaited body: checked before it and, atomically with the commit, again after it."""
        with self._lock:
            refused = self._refusal(attempt)
        if refused is not None:
            return refused
        permit = MemoryPermit(self._tables, attempt)
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
            digest, floor, _, stored, committed_at = self._effects.get(intent_id, NO_ROW)
            if committed_at is not None:
                return CloseResult(_COMMITTED, stored)
            self._effects[intent_id] = (digest, max(attempt + 1, floor), None, None, None)
            return CloseResult(Applied.NOT_ATTEMPTED)

    # Inside.

    def _refusal(self, attempt: Attempt) -> ApplyResult | None:
        """Why the attempt may not commit as things are: its own row, a held row, moved evidence, a passed deadline."""
        row = self._effects.get(attempt.intent_id)
        if row is not None:
            refused = refused_by_row(row, attempt)
            if refused is not None:
                return refused
        cells, held = self._cells, self._held
        for address, observation in attempt.binding:
            if held and address in held:
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
        held = self._held
        for address in writes if held else ():
            if address in held:
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
            self._tables.put(address, writes[address])
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


_LATE = ApplyResult(_REJECTED, reason="the permission ended before the effect was committed")


@contextlib.contextmanager
def _counted(held: dict[Any, int], key: object) -> Generator[None]:
    held[key] = held.get(key, 0) + 1
    try:
        yield
    finally:
        held[key] -= 1
        if not held[key]:
            del held[key]


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
