"""The ports: what a system of record, a target, a store and a clock must offer, and the frozen things that cross them.

A port is implemented in either colour: under `AsyncGate` each method may return an awaitable of what is described here.
"""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from lastlook import canonical
from lastlook.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.errors import Applied
    from lastlook.records import Address, EffectRow, IntentRecord, Observation, State, Token

__all__ = [
    "UTC",
    "Append",
    "Appended",
    "ApplyResult",
    "Attempt",
    "Bound",
    "Capabilities",
    "Clock",
    "CloseResult",
    "Created",
    "Engine",
    "Fields",
    "IntentRow",
    "Journal",
    "JournalEntry",
    "News",
    "Permission",
    "Store",
    "Stored",
    "System",
    "Target",
    "Unreadable",
]


class Clock(Protocol):
    """Where the time comes from; tests inject their own. A clock that also has `sleep(seconds)` is slept on."""

    def now(self) -> dt.datetime:
        """The present moment, aware."""
        ...


class _SystemClock:
    def __init__(self) -> None:
        self.now = functools.partial(dt.datetime.now, dt.UTC)


UTC: Clock = _SystemClock()
"""The machine's clock."""


class Unreadable:
    """Takes an observation's place where a system could not be read; every premise over it is unverifiable."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Fields(NamedTuple):
    """The field names that a system knows of a kind; others may occur unless `complete`."""

    names: frozenset[str]
    complete: bool


class Capabilities(Frozen):
    """What a system can do, as published by it and proved by the conformance kit.

    Attributes:
        durable: an acknowledged effect survives a crash of the system.
        rolls_back: an error of the body leaves nothing behind, so that it is definite (FAILED, never UNKNOWN).
        closes: `close()` can end an attempt for good.
        checks_absence: "no such row" can be bound.
        checks_collections: a read over all rows of a kind can be bound.
    """

    durable: bool
    rolls_back: bool
    closes: bool
    checks_absence: bool
    checks_collections: bool


@runtime_checkable
class System(Protocol):
    """A system of record: evidence in."""

    @property
    def name(self) -> str:
        """How messages name the system."""
        ...

    @property
    def kinds(self) -> Collection[str]:
        """The kinds of resource that it answers for."""
        ...

    def fields(self, kind: str, /) -> Fields:
        """The known fields of a kind."""
        ...

    def is_public(self, kind: str, field: str, /) -> bool:
        """Whether a field's values may stand in explanations and in text for a model."""
        ...

    def read_many(self, addresses: Sequence[Address], /) -> Sequence[Observation | Unreadable]:
        """One observation per address, in order, each value with the token it was read with, from one snapshot.

        An exception makes all of the addresses unreadable; it never reaches the caller of the gate.
        """
        ...


class Target(System, Protocol):
    """A system that also applies effects, only while what was looked at still holds there."""

    @property
    def capabilities(self) -> Capabilities:
        """The published capability record."""
        ...

    def can_check(self, kind: str, /) -> bool:
        """Whether it can compare tokens of this kind of resource atomically with an effect."""
        ...

    def can_check_token(self, token: Token, /) -> bool:
        """Whether this very token is one that it can compare (a weak ETag is not)."""
        ...

    def shares_engine(self, store: Store, /) -> bool:
        """Whether an effect and a journal record can land in one transaction."""
        ...

    def effect_row(self, intent_id: str, /) -> EffectRow | None:
        """The intent's target row, if there is one."""
        ...

    def apply(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """Check every bound token and the intent's own row, run the body, and commit, all atomically.

        With `journal` (same engine only) the record is appended in the same transaction. A target that can await a
        body has `apply_async` beside this.
        """
        ...

    def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """End an attempt for good, or say that it has committed, or that it is still unknown; idempotent."""
        ...


Bound = tuple["Address", "Observation"]
"""A piece of evidence that the target must still find as it was looked at."""


class Permission(Protocol):
    """What a target may ask of the look that permitted an attempt."""

    def fresh(self) -> Mapping[str, Value]:
        """The refresh fields by place."""
        ...

    def projection(self, address: Address, /) -> frozenset[str] | None:
        """The fields of a bound resource that decide; None for all of it."""
        ...


class Attempt:
    """One attempt at an effect: everything the target needs, and nothing it may decide.

    Attributes:
        number: the attempt's number; the target refuses one below the intent's floor.
        binding: evidence with exactly the tokens that were paired with the validated values.
        not_after: when the permission ends, by the target's own clock; None for never.
        look: the look that permitted it.
        body: called with a permit; its result, or an awaitable of it under `AsyncGate`.
        encode: turns the result into what is stored; raises where it cannot be stored.
    """

    __slots__ = ("arguments_digest", "binding", "body", "encode", "intent_id", "look", "not_after", "number")

    def __init__(
        self,
        intent_id: str,
        number: int,
        arguments_digest: str,
        binding: tuple[Bound, ...],
        not_after: dt.datetime | None,
        look: Permission,
        body: Callable[[Any], Any],
        encode: Callable[[Any], Value],
    ) -> None:
        self.intent_id = intent_id
        self.number = number
        self.arguments_digest = arguments_digest
        self.binding = binding
        self.not_after = not_after
        self.look = look
        self.body = body
        self.encode = encode

    @property
    def fresh(self) -> Mapping[str, Value]:
        """The refresh fields as the look found them, by place."""
        return self.look.fresh()

    def projection(self, address: Address, /) -> frozenset[str] | None:
        """The fields of a bound resource that decide; None for all of it, or whether it is there.

        A target whose token is a digest of content compares these and no others.
        """
        return self.look.projection(address)

    @property
    def key(self) -> str:
        """The idempotency key, a function of the intent and the number."""
        return canonical.idempotency_key(self.intent_id, self.number)


class ApplyResult:
    """What the target said of an attempt.

    Attributes:
        status: COMMITTED, REJECTED, BUSY, FAILED or UNKNOWN; IN_PROGRESS where the journal's lane was taken.
        value: what the body returned (or, for an earlier commit of the same intent, what was stored).
        stored: what was stored of it.
        error: the body's own exception, for FAILED and UNKNOWN.
        reason: which comparison failed, or who holds the lock, for people.
        floor: where somebody closed the attempt: the least number that the target still takes; else 0.
        lost: the journal's compare-and-swap was lost (same engine): reload.
        repeated: the commit is an earlier one.
    """

    __slots__ = ("error", "floor", "lost", "reason", "repeated", "status", "stored", "value")

    def __init__(
        self,
        status: Applied,
        value: Any = None,
        stored: Value = None,
        error: BaseException | None = None,
        reason: str = "",
        floor: int = 0,
        lost: bool = False,  # noqa: FBT001, FBT002 - a field
        repeated: bool = False,  # noqa: FBT001, FBT002 - a field
    ) -> None:
        self.status = status
        self.value = value
        self.stored = stored
        self.error = error
        self.reason = reason
        self.floor = floor
        self.lost = lost
        self.repeated = repeated

    def __repr__(self) -> str:
        return f"ApplyResult({self.status.name}, reason={self.reason!r}, floor={self.floor})"


class CloseResult(Frozen, hidden=("stored",)):
    """COMMITTED with what was stored, or closed for ever (`NOT_ATTEMPTED`), or still UNKNOWN."""

    status: Applied
    stored: Value = None
    reason: str = ""


class IntentRow(NamedTuple):
    """What moves of an intent in the store; `seq` moves with every record, and a change must name the one it saw."""

    state: State
    seq: int
    attempt: int
    owner: str | None
    deadline_us: int | None


class JournalEntry(Frozen, hidden=("body",)):
    """One record of an intent's chain, encoded; `digest` covers the one before it."""

    intent_id: str
    seq: int
    kind: str
    at_us: int
    body: bytes
    digest: str


@dataclass(slots=True, eq=False)
class Stored:
    """What the store knows of an intent: the proposal, the row, and the last word's body if it was not the proposal.

    Attributes:
        unsaved: when it was proposed, if it is not in the store yet, but goes there with its first transition.
    """

    record: IntentRecord
    row: IntentRow
    last: Callable[[], Mapping[str, Value]] | None
    unsaved: dt.datetime | None = None


@dataclass(slots=True, eq=False, repr=False)
class Append:
    """A state transition: compare-and-swap on `seq` and one journal record, in one transaction.

    Attributes:
        body: builds the record's body; see `record`.
        checks: evidence that the store owns and that must be unchanged (grade RECORDED).
        proposal: what is stored in the same transaction, unless its id is taken, and when it was proposed.
    """

    intent_id: str
    seq: int
    kind: str
    state: State
    attempt: int
    body: Callable[[], Mapping[str, Value]]
    owner: str | None = None
    deadline_us: int | None = None
    checks: tuple[Bound, ...] = ()
    proposal: tuple[IntentRecord, dt.datetime] | None = None

    def record(self) -> Mapping[str, Value]:
        """The record's body; asked for when the record is written, or later, when it is first read."""
        return self.body()


class Journal(Protocol):
    """The transition to COMMITTED that a same-engine target makes in its own transaction."""

    def begin(self, on: Any, /) -> bool:
        """Lock the intent in the target's open transaction, before its evidence; False if it has moved (`lost`)."""
        ...

    def commit(self, stored: Value, at: dt.datetime, /, on: Any = None) -> Appended:
        """Make it, with the stored result of the effect, in the target's open transaction if there is such a thing."""
        ...


class Appended(Frozen):
    """What became of a transition: written; or lost to another writer; or not made.

    Attributes:
        holder: the intent that holds the lane.
        stale: the place of store evidence that moved.
    """

    ok: bool
    holder: str | None = None
    stale: str = ""


class Created(Frozen):
    """A proposal was stored, or one with the same id was there before."""

    ok: bool
    existing: Stored | None = None


class News(NamedTuple):
    """The pending intents that were stored since a mark, oldest first, each id and effect; the next mark."""

    mark: int
    intents: tuple[tuple[str, str], ...]


class Engine(Protocol):
    """A SQLAlchemy `Engine` or `AsyncEngine`, as far as the core knows of one."""

    @property
    def dialect(self) -> Any:
        """What it speaks."""
        ...

    @property
    def url(self) -> Any:
        """Where it connects to."""
        ...


class Store(Protocol):
    """Where proposals and their journals live. One intent's records form one chain; the append is the state change."""

    @property
    def durable(self) -> bool:
        """Whether records survive the process."""
        ...

    @property
    def evidence(self) -> System | None:
        """The evidence that the store itself owns, if any (grade RECORDED)."""
        ...

    @property
    def namespace(self) -> str:
        """What makes call keys of this store its own."""
        ...

    @property
    def salt(self) -> bytes:
        """The salt of value digests."""
        ...

    @property
    def created(self) -> int:
        """The mark of the newest proposal that this object knows of; other processes' are learnt of by `news`."""
        ...

    @property
    def ended(self) -> int:
        """A number that moves whenever an intent ends, so that others can tell that some have."""
        ...

    def gone(self, intent_ids: Collection[str], /) -> Collection[str]:
        """Those of these intents that have ended, or that are not in this store."""
        ...

    def create(self, record: IntentRecord, at: dt.datetime, supersedes: Append | None, /, on: Any = None) -> Created:
        """Store a proposal unless its id is taken; with `supersedes`, in one transaction with that transition.

        `on` is the open transaction of a target with the same engine.
        """
        ...

    def load(self, intent_id: str, /) -> Stored | None:
        """The proposal and the current row."""
        ...

    def append(self, append: Append, at: dt.datetime, /, on: Any = None) -> Appended:
        """Make a transition, or say why not; `on` is the open transaction of a target with the same engine."""
        ...

    def lock(self, intent_id: str, seq: int, on: Any, /) -> bool:
        """Keep others from moving the intent until that transaction ends; False if its last record is another."""
        ...

    def pending(self) -> Iterable[str]:
        """The ids of intents that are OPEN or in ATTEMPT."""
        ...

    def intents(self, prefix: str = "", /) -> Iterable[str]:
        """The ids of all intents, ended ones too, that begin so, in their order."""
        ...

    def news(self, after: int, /) -> News:
        """The pending intents that were stored since a mark, by whatever process; 0 is the mark of the beginning."""
        ...

    def journal(self, intent_id: str, /) -> Sequence[JournalEntry]:
        """An intent's records, oldest first."""
        ...

    def verify(self, intent_id: str, /) -> None:
        """Recompute an intent's chain.

        Raises:
            IntegrityError: a record was edited, cut, reordered or forged.
        """
        ...
