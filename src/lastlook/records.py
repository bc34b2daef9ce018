"""Evidence and the immutable records of one agent transaction: reads, decisions, premises, intents, verdicts."""

from __future__ import annotations

import datetime as dt
import enum
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.canonical import Absent, Value
    from lastlook.errors import Outcome

__all__ = [
    "EPOCH",
    "NAMES",
    "SCHEMA",
    "Address",
    "Capture",
    "Decision",
    "EffectRow",
    "Finding",
    "Grade",
    "IntentRecord",
    "Observation",
    "Path",
    "PremiseRecord",
    "Read",
    "State",
    "Token",
    "TokenKind",
    "at",
    "collection_of",
    "key_parts",
    "microseconds",
    "place",
]

SCHEMA: Final = 1
"""The schema number in every record's body: what this version writes, and the newest that it reads."""

_PLAIN = re.compile(r"[\w#@+:= -]+")
TokenKind = Literal["counter", "digest", "opaque", "weak"]


class Address:
    """One concrete resource: a kind and a key of one or more parts; an empty key stands for all rows of the kind.

    Two addresses are equal exactly when their canonical `identity` is; the identity is an interned text, so that it can
    be a dictionary key at the cost of a pointer comparison. The parts of the key are frozen, and equal addresses have
    equal ones: an enum member stands for its value, 9 for 9.0.

    Raises:
        CanonicalError: a part is not a text, number, date, UUID or bytes, is not NFC, or has control characters.
    """

    __slots__ = ("identity", "key", "kind")

    identity: Final[str]
    kind: Final[str]
    key: Final[tuple[Value, ...]]

    def __init__(self, kind: str, key: tuple[Value, ...]) -> None:
        self.identity, self.kind, self.key = canonical.named(kind, key)

    @property
    def is_collection(self) -> bool:
        """Whether this stands for all rows of its kind."""
        return not self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __str__(self) -> str:
        """`orders/o-1`; another key than one plain text stands in brackets, so that no two addresses read alike."""
        if not self.key:
            return f"{self.kind}/*"
        if len(self.key) == 1 and type(self.key[0]) is str and _PLAIN.fullmatch(self.key[0]):
            return f"{self.kind}/{self.key[0]}"
        return f"{self.kind}[{', '.join(map(repr, self.key))}]"

    def __repr__(self) -> str:
        return f"Address({self})"


class Token:
    """What a connector read beside a value, to be compared for equality only.

    `counter` is ordered (a smaller one than recorded contradicts), `digest` is a content digest, before which an
    ordered version may stand (`7@sha256:...`), `opaque` is neither, and `weak` never binds. Tokens of another kind,
    namespace or value type are unequal: 1, "1" and True are three tokens.
    """

    __slots__ = ("kind", "namespace", "value")

    kind: Final[TokenKind]
    namespace: Final[str]
    value: Final[int | str | bytes]

    def __init__(self, kind: TokenKind, namespace: str, value: int | str | bytes) -> None:
        if type(value) not in (int, str, bytes):
            raise TypeError(
                f"a token of {namespace!r} must be an int, str or bytes, not {type(value).__name__}: "
                "convert it in the connector"
            )
        self.kind = kind
        self.namespace = namespace
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Token)
            and self.kind == other.kind
            and self.namespace == other.namespace
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.namespace, self.value))

    def __repr__(self) -> str:
        return f"Token({self.kind}:{self.namespace}:{self.value!r})"

    def against(self, recorded: Token) -> int:
        """0: the recorded token; -1: one that contradicts it by going backwards; 1: another; 2: one of another kind."""
        if self.kind != recorded.kind or self.namespace != recorded.namespace:
            return 2
        value, was = self.value, recorded.value
        if type(value) is not type(was):
            return 2
        if value == was:
            return 0
        if self.kind == "digest":
            version, before = _version(value), _version(was)
            return -1 if version is not None and before is not None and version < before else 1
        return -1 if self.kind == "counter" and value < was else 1  # type: ignore[operator]  # of one type


def _version(digest: int | str | bytes) -> int | None:
    """The version that stands before a digest."""
    number, found, _ = digest.partition("@") if isinstance(digest, str) else ("", "", "")
    return int(number) if found and number.isdigit() else None


class Observation:
    """A value and the token it was read with: one inseparable, frozen pair, compared by identity only.

    Attributes:
        value: a row's fields, or the rows of a collection in key order, or ABSENT where there is no such row.
        token: the connector's token of exactly this value.
    """

    __slots__ = ("token", "value")

    value: Final[Mapping[str, Value] | tuple[Value, ...] | Absent]
    token: Final[Token]

    def __init__(self, value: Mapping[str, Value] | tuple[Value, ...] | Absent, token: Token) -> None:
        self.value = value
        self.token = token


Path = tuple[str | int, ...]
"""Where inside an observation's value: a field, then items; () is the row itself, or the whole collection."""


NAMES: Path = (-1,)
"""Which fields a row has: no item of a map has a position, so this can stand for nothing else."""


def at(value: Value, path: Path) -> Value:
    """The part of an observation's value at a path; ABSENT where there is none (null is a value)."""
    found: Any = value
    if path == NAMES:
        return tuple(sorted(cast("Mapping[str, Value]", found))) if type(found) is MappingProxyType else ABSENT
    for step in path:
        kind: type = type(found)  # pyright: ignore[reportUnknownVariableType]  # of whatever a field holds
        if isinstance(step, str):
            # Observations hold frozen values, and a frozen map is of this one type.
            found = found.get(step, ABSENT) if kind is MappingProxyType else ABSENT
        elif kind is tuple and -len(found) <= step < len(found):
            found = found[step]
        else:
            return ABSENT
    return found  # type: ignore[no-any-return]  # a part of a frozen value is one


EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def microseconds(moment: dt.datetime) -> int:
    """A moment as it is stored: whole microseconds since 1970, UTC."""
    span = moment - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def key_parts(key: object) -> tuple[Any, ...]:
    """The parts of a row's key that was given as one value, or as a tuple of them; an enum member is its value."""
    given: Any = key
    while isinstance(given, enum.Enum):
        given = given.value
    parts: tuple[Any, ...] = given if issubclass(type(given), tuple) else (given,)
    return parts


_COLLECTIONS: dict[str, Address] = {}


def collection_of(kind: str) -> Address:
    """The address of all rows of a kind."""
    found = _COLLECTIONS.get(kind)
    if found is None:
        found = _COLLECTIONS[kind] = Address(kind, ())
    return found


def place(address: Address, path: Path, named: str | None = None) -> str:
    """`orders/o-1.meta['city']`: how findings, events and explanations name a piece of evidence.

    Args:
        address: the resource.
        path: where in its value.
        named: what stands for the resource where its key must not be shown.
    """
    base = named or str(address)
    if not path:
        return base
    if path == NAMES:
        return f"{base} (which fields it has)"
    first, *items = path
    field = f".{first}" if isinstance(first, str) and first.isidentifier() else f"[{first!r}]"
    return f"{base}{field}" + "".join(f"[{item!r}]" for item in items)


class State(enum.Enum):
    """Where an intent stands in its store; the last four are terminal."""

    OPEN = "OPEN"
    ATTEMPT = "ATTEMPT"
    COMMITTED = "COMMITTED"
    WITHDRAWN = "WITHDRAWN"
    EXPIRED = "EXPIRED"
    SUPERSEDED = "SUPERSEDED"

    def __init__(self, name: str) -> None:
        self.terminal = name not in ("OPEN", "ATTEMPT")
        """Whether no transition leaves this state."""


class Capture(enum.Enum):
    """How finely a change is told from another (ATR, section 3.1); a coarser one runs more premises, never fewer."""

    PREDICATE = "predicate"
    """The premises that name the changed place."""
    FIELD = "field"
    """All premises, when a recorded place changed."""
    OBJECT = "object"
    """All premises, when any field of a recorded resource changed."""


class Grade(enum.IntEnum):
    """How firmly a premise's evidence is tied to the effect, in rising strength."""

    UNBOUND = 0
    """Only observed by the gate."""
    RECORDED = 1
    """Owned by the gate's store, and checked in the transaction that opens the attempt."""
    HELD = 2
    """Locked and checked by its owner for as long as the remote call lasts."""
    BOUND = 3
    """Checked by the target, atomically with the effect."""


class Read(Frozen):
    """One recorded observation of one field: where, a salted digest of the value, its token, and who read it.

    Attributes:
        origin: AGENT for what the agent read while reasoning (provenance), PROPOSE for what premises were proved on.
        named: what stands for the address in texts, where its key was itself read and is not public; else None.
    """

    address: Address
    path: Path
    digest: str
    token: Token
    origin: Literal["AGENT", "PROPOSE"]
    named: str | None = None

    @property
    def place(self) -> str:
        """How texts name what was read."""
        return place(self.address, self.path, self.named)

    def __repr__(self) -> str:
        """Without the key, where it was itself read."""
        return f"Read({self.place}, {self.token!r}, {self.origin})"


class Decision(Frozen):
    """A conclusion and the reads it rests on, as indexes into its intent's reads."""

    text: str
    rests_on: tuple[int, ...]


class PremiseRecord(Frozen):
    """A premise as it stood at propose: its condition as a tree, its severity, its evidence, and whether it was proved.

    Attributes:
        evidence: the reads that its proof rests on, as indexes into its intent's reads.
        validators: name, version, parameter digest and source digest of each validator that it calls.
        proven: True only if it was evaluated on the recorded observations and was True.
    """

    label: str
    condition: str
    severity: Outcome
    because: str
    accepts: str | None
    awaited: bool
    proven: bool
    evidence: tuple[int, ...]
    validators: tuple[tuple[str, str, str, str], ...]


class IntentRecord(Frozen, hidden=("arguments", "actor", "lane", "captured")):
    """What was proposed, on which evidence and decisions; written once, never changed.

    Attributes:
        arguments: the effect's arguments, frozen; stored in clear, since the body needs them days later.
        refresh: presentation-only evidence, as indexes into `reads`.
        transaction: the agent transaction that it belongs to; its own id where it was proposed alone.
        captured: values that `unchanged(...)` holds the world to, by expression.
        differences: places where the agent's own read and the proposal's disagree.
    """

    intent_id: str
    effect: str
    arguments: Mapping[str, Value]
    arguments_digest: str
    actor: Mapping[str, Value] | None
    target: str
    lane: str
    premises: tuple[PremiseRecord, ...]
    reads: tuple[Read, ...]
    refresh: tuple[int, ...]
    decisions: tuple[Decision, ...]
    captured: Mapping[str, Value]
    differences: tuple[str, ...]
    contract: str
    expires_us: int | None
    supersedes: str | None
    transaction: str
    one_shot: bool


class EffectRow(NamedTuple):
    """The target's own row for an intent: fence, idempotency key and tombstone in one."""

    intent_id: str
    args_digest: str
    floor: int
    attempt: int | None
    result: Value
    committed_at: int | None

    def __repr__(self) -> str:
        """Without the result."""
        return f"EffectRow({self.intent_id!r}, floor={self.floor}, attempt={self.attempt}, at={self.committed_at})"


class Finding(Frozen):
    """One premise that did not hold.

    Attributes:
        holds: False if it is false, None if it could not be verified.
        text: the premise with its resources resolved; values only where declared public, or boolean.
        because: what the developer said a model may read.
    """

    premise: str
    severity: Outcome
    holds: Literal[False] | None
    text: str
    because: str
