"""The one codec: what a value may be, and its one text for storing, comparing, digesting and naming it.

A decoded value, the value that was digested and the value that a premise judges are the same value, or the input is
refused. `freeze` is the only way in: everything else works on what it returns. Texts are JSON in the manner of RFC 8785
(one spelling a value, no white space), with two differences: whatever JSON cannot say exactly is a tagged array, and
keys are in code point order, which is that of their UTF-8 bytes, where RFC 8785 takes UTF-16 units.
"""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from enum import Enum
from operator import is_
from types import MappingProxyType, NoneType
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, cast, final
from uuid import UUID

import orjson

from lastlook.errors import CanonicalError

__all__ = [
    "ABSENT",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_EXPONENT",
    "SCHEMA",
    "Absent",
    "Named",
    "Value",
    "decode",
    "digest",
    "dumps",
    "encode",
    "fingerprint",
    "freeze",
    "idempotency_key",
    "identity",
    "intent_id",
    "like",
    "loads_json",
    "named",
    "random_id",
    "same",
    "to_json",
]

MAX_DEPTH: Final = 32
"""How many lists and maps may stand inside one another."""
MAX_BYTES: Final = 1 << 20
"""The longest text that is read or written, and the most nodes a value may have."""
MAX_DIGITS: Final = 38
"""The most digits of a number: what every database's exact type can hold."""
MAX_EXPONENT: Final = 64
"""The largest exponent of a Decimal, either way."""
SCHEMA: Final = 1
"""The version of the digest form; it is part of every digest."""

_KEY_BYTES: Final = 1024
_ID_BYTES: Final = 16
_INT_BOUND: Final = 10**MAX_DIGITS
_EXACT: Final = Context(prec=MAX_DIGITS)
_NUMBER_BOUNDS: Final = f"a number has at most {MAX_DIGITS} digits and an exponent within {MAX_EXPONENT}"


@final
class Absent:
    """The type of `ABSENT`; it has one instance, whatever is called, copied or loaded."""

    __slots__ = ()

    def __new__(cls) -> Absent:
        """The one instance."""
        return ABSENT

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> NoReturn:
        raise TypeError("ABSENT has no truth value; compare it with 'is ABSENT'")


ABSENT: Final[Absent] = object.__new__(Absent)
"""No such field or no such row; distinct from None, which is a value."""

_Atom: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | UUID | Absent | None
Value: TypeAlias = "_Atom | tuple[Value, ...] | Mapping[str, Value]"
"""A deep-frozen value. A float or a naive datetime may be held, but neither stored nor digested as evidence."""

_At: TypeAlias = "str | tuple[_At, str | int]"  # a path, spelt out only for an error
_Rule: TypeAlias = "Callable[[Any, _At], list[str]]"  # how a value of one exact type is tagged


def _error(what: str, at: _At, way: str) -> CanonicalError:
    """What was wrong, where, what to do; the value itself may be a secret and is never shown."""
    steps: list[str | int] = []
    while isinstance(at, tuple):
        at, step = at
        steps.append(step)
    for step in reversed(steps):
        if isinstance(step, int):
            at += f"[{step}]"
        elif step.isidentifier() and len(step) <= 64:
            at += f".{step}" if at else step
        else:
            at += f"[{step[:64]!r}]"
    return CanonicalError(f"{what} at {at or 'the top level'}; {way}")


# --- Freezing ---------------------------------------------------------------------------------------------------------


class _Store(dict[str, "Value"]):
    """The private dict behind a frozen map: nothing else holds it, so that finding one proves that a map is frozen."""

    __slots__ = ("height", "nodes")
    height: int
    nodes: int


class _Walk:
    """What one freezing has met; the bounds end cycles and values that share their parts to grow without end."""

    __slots__ = ("deepest", "nodes")

    def __init__(self) -> None:
        self.deepest = 0
        self.nodes = 0

    def enter(self, depth: int, nodes: int, at: _At) -> None:
        self.deepest = max(self.deepest, depth)
        self.nodes += nodes
        if depth > MAX_DEPTH:
            raise _error(f"more than {MAX_DEPTH} levels or a cycle", at, "flatten the value")
        if self.nodes > MAX_BYTES:
            raise _error(f"more than {MAX_BYTES} parts", at, "record only the fields that the decision needs")


def freeze(value: object, *, path: str = "") -> Value:
    """A deep-frozen copy of `value`; a value that is frozen already is returned as it is.

    Lists become tuples, maps read-only maps in their own order, aware datetimes UTC, enum members their values, and
    instances of a subclass plain ones. Floats and naive datetimes stay: they are refused where they are named.

    Raises:
        CanonicalError: an unsupported type, a key that is no text, a lone surrogate, a number, a depth or a size out
            of bounds, or a cycle; the message names the place, beginning with `path`.
    """
    kind = type(value)
    rule = _ATOMS.get(kind)
    if rule is not None:
        return rule(value, path)
    if kind is MappingProxyType and _store_of(value) is not None:
        return cast("Value", value)
    return _freeze(value, path, 0, _Walk())


def _freeze(value: object, at: _At, depth: int, walk: _Walk) -> Value:
    kind = type(value)
    rule = _ATOMS.get(kind)
    if rule is not None:
        return rule(value, at)
    # By issubclass of the type itself: isinstance would believe a false `__class__`.
    for base, plain in _PLAIN:
        if issubclass(kind, base):
            return _freeze(plain(value), at, depth, walk)
    if issubclass(kind, (list, tuple)):
        return _freeze_list(cast("list[object] | tuple[object, ...]", value), at, depth, walk)
    if issubclass(kind, Mapping):
        return _freeze_map(cast("Mapping[object, object]", value), at, depth, walk)
    raise _error(
        f"unsupported type '{kind.__name__}'", at, "make it a list, a map with text keys or a plain value beforehand"
    )


def _freeze_list(value: list[object] | tuple[object, ...], at: _At, depth: int, walk: _Walk) -> tuple[Value, ...]:
    items = list(value)
    walk.enter(depth + 1, len(items), at)
    frozen = tuple([_freeze(item, (at, index), depth + 1, walk) for index, item in enumerate(items)])
    if type(value) is tuple and all(map(is_, frozen, items)):
        return cast("tuple[Value, ...]", value)
    return frozen


def _freeze_map(value: Mapping[object, object], at: _At, depth: int, walk: _Walk) -> Mapping[str, Value]:
    known = _store_of(value)
    if known is not None:
        walk.enter(depth + known.height, known.nodes, at)
        return cast("Mapping[str, Value]", value)
    pairs = list(value.items())
    outer, before = walk.deepest, walk.nodes
    walk.deepest = 0
    walk.enter(depth + 1, len(pairs), at)
    store = _Store()
    for given, item in pairs:
        if not issubclass(type(given), str):
            raise _error(f"a key of type '{type(given).__name__}' in the map", at, "map keys must be text")
        key = _text(str.__str__(cast("str", given)), at)
        if key in store:
            raise _error("two keys of one text in the map", at, "give each key once")
        store[key] = _freeze(item, (at, key), depth + 1, walk)
    store.height = walk.deepest - depth
    store.nodes = walk.nodes - before
    walk.deepest = max(outer, walk.deepest)
    return MappingProxyType(store)


def _store_of(value: object) -> _Store | None:
    """The dict behind a map that `freeze` made; anyone can wrap a dict that they go on to change, hence the look."""
    if type(value) is not MappingProxyType:
        return None
    # The one way to see it without running foreign code; another interpreter may show nothing, and then it is copied.
    behind: list[object] = gc.get_referents(value)
    return behind[0] if behind and type(behind[0]) is _Store else None


def _as_is(value: _Atom, _at: _At) -> Value:
    return value


def _text(value: str, at: _At) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _error("text with a lone surrogate", at, "decode it as utf-8 first") from None
    return value


def _integer(value: int, at: _At) -> int:
    if -_INT_BOUND < value < _INT_BOUND:
        return value
    raise _error("integer out of bounds", at, _NUMBER_BOUNDS)


def _decimal(value: Decimal, at: _At) -> Decimal:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise _error("NaN or Infinity", at, "use null where there is no number")
    if len(digits) > MAX_DIGITS or abs(exponent) > MAX_EXPONENT:
        raise _error("decimal number out of bounds", at, _NUMBER_BOUNDS)
    return value


def _moment(value: datetime, at: _At) -> datetime:
    if value.tzinfo is UTC or value.tzinfo is None:
        return value
    if value.utcoffset() is None:
        return value.replace(tzinfo=None)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise _error("datetime that has no equal in UTC", at, "use one within the years 1 to 9999") from None


def _plain_datetime(value: datetime) -> datetime:
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)


_ATOMS: Final[dict[type, Callable[[Any, _At], Value]]] = {
    **dict.fromkeys((NoneType, bool, float, bytes, date, UUID, Absent), _as_is),
    str: _text,
    int: _integer,
    Decimal: _decimal,
    datetime: _moment,
}
_PLAIN: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...]] = (
    (Enum, lambda member: member.value),  # before the types that a member may be an instance of too
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (Decimal, Decimal),
    ((bytes, bytearray), lambda data: b"".join((data,))),
    (datetime, _plain_datetime),  # before date, of which it is a subclass
    (date, lambda day: date(day.year, day.month, day.day)),
    (UUID, lambda value: UUID(int=value.int)),
)


# --- Storing ----------------------------------------------------------------------------------------------------------


def _tree(value: Value, rules: Mapping[type, _Rule], at: _At) -> object:
    """The tree of a frozen value: text, bools and null as they are, a map an object, else an array after its tag."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is tuple:
        items = cast("tuple[Value, ...]", value)
        return ["l", [_tree(item, rules, (at, index)) for index, item in enumerate(items)]]
    rule = rules.get(kind)
    if rule is not None:
        return rule(value, at)
    return {key: _tree(item, rules, (at, key)) for key, item in cast("Mapping[str, Value]", value).items()}


def _refuse_float(_value: float, at: _At) -> NoReturn:
    raise _error("a float, which has no exact value,", at, "name its places with `.as_decimal(2)`")


def _micros(value: datetime, at: _At) -> list[str]:
    if value.tzinfo is None:
        raise _error("a datetime without a zone", at, "name its zone with `.as_utc(zone)`")
    return ["t", str((value - _EPOCH) // _MICROSECOND)]


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_STORED: Final[dict[type, _Rule]] = {
    int: lambda value, _: ["i", str(value)],
    Decimal: lambda value, _: ["d", str(value).upper()],  # a context may ask for a lower-case exponent
    bytes: lambda value, _: ["b", base64.b64encode(value).decode()],
    date: lambda value, _: ["D", value.isoformat()],
    datetime: _micros,
    UUID: lambda value, _: ["u", str(value)],
    Absent: lambda _value, _: ["a"],
    float: _refuse_float,
}


def encode(value: object, *, limit: int = MAX_BYTES) -> bytes:
    """The canonical bytes of `value` for storage: equal values of equal types, and only they, have equal bytes.

    int and Decimal stay apart and a Decimal keeps its own text (80.00); maps lose their order. `decode` is the inverse.

    Raises:
        CanonicalError: as `freeze`, and for a float, a naive datetime or a text of more than `limit` bytes.
    """
    data = orjson.dumps(_tree(freeze(value), _STORED, ""), option=orjson.OPT_SORT_KEYS)
    if len(data) > limit:
        raise _error(f"more than {limit} bytes", "", "record only the fields that the decision needs")
    return data


def decode(data: bytes, *, limit: int = MAX_BYTES) -> Value:
    """The frozen value that `encode` wrote as `data`; the strict inverse.

    Raises:
        CanonicalError: `data` is anything that `encode` does not write: another spelling, key order or duplicate key,
            an unknown tag, a bare number, trailing bytes, invalid UTF-8 or a value out of bounds.
    """
    if len(data) > limit:
        raise _not_canonical(f"more than {limit} bytes")
    try:
        tree: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise _not_canonical("no well-formed text") from None
    value = freeze(_untag(tree, 0))
    # One comparison settles every other spelling of the same value: the parsing above may be as lax as it likes.
    if encode(value, limit=limit) != data:
        raise _not_canonical("another spelling than the canonical one")
    return value


def _not_canonical(what: str) -> CanonicalError:
    return CanonicalError(f"{what} in stored bytes; read only what was written here, unchanged")


def _untag(tree: object, depth: int) -> object:
    if tree is None or isinstance(tree, (str, bool)):
        return tree
    if isinstance(tree, dict) and depth < MAX_DEPTH:
        return {key: _untag(item, depth + 1) for key, item in cast("dict[str, object]", tree).items()}
    pair = cast("list[object]", tree) if isinstance(tree, list) else []
    if pair == ["a"]:
        return ABSENT
    tag, body = pair if len(pair) == 2 else (None, None)
    if tag == "l" and isinstance(body, list) and depth < MAX_DEPTH:
        return tuple([_untag(item, depth + 1) for item in cast("list[object]", body)])
    if not isinstance(tag, str) or not isinstance(body, str) or tag not in _PARSERS:
        raise _not_canonical("an unknown tag, a bare number or too many levels")
    try:
        return _PARSERS[tag](body)
    except (ValueError, ArithmeticError):
        raise _not_canonical(f"malformed text under the tag '{tag}'") from None


def _parse_int(text: str) -> int:
    # Bounded before it is read: reading takes time that is quadratic in the number of digits.
    if len(text.removeprefix("-")) > MAX_DIGITS:
        raise _error("integer out of bounds", "", _NUMBER_BOUNDS)
    return int(text)


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "i": _parse_int,
    "d": Decimal,
    "b": lambda text: base64.b64decode(text, validate=True),
    "D": date.fromisoformat,
    "t": lambda text: _EPOCH + timedelta(microseconds=_parse_int(text)),
    "u": UUID,
}


# --- Plain JSON -------------------------------------------------------------------------------------------------------

# A whole string, so that brackets inside one do not count, or a bracket. The closing quote is optional: without it a
# broken string would be tried again from each of its quotes, in quadratic time.
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


def loads_json(data: bytes | str) -> Value:
    """The frozen value of one plain JSON document (RFC 8259), the doubtful ones refused as I-JSON does (RFC 7493).

    A number with a fraction or an exponent is a Decimal of the same text (9.0 stays 9.0), any other an int; there is no
    negative zero.

    Raises:
        CanonicalError: malformed or larger than `MAX_BYTES`, a duplicate key, NaN or Infinity, or a value that `freeze`
            refuses.
    """
    if len(data) > MAX_BYTES:  # of text too: its bytes are no fewer
        raise _json_error(f"more than {MAX_BYTES} bytes")
    try:
        raw = data.encode() if isinstance(data, str) else data
        text = raw.decode()
    except UnicodeError:
        raise _json_error("invalid utf-8") from None
    if len(raw) > MAX_BYTES:
        raise _json_error(f"more than {MAX_BYTES} bytes")
    _refuse_deep(text)
    try:
        tree = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_parse_fraction,
            parse_int=_parse_int,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise _json_error(f"malformed text at line {error.lineno}, column {error.colno}") from None
    return freeze(tree)


def _json_error(what: str) -> CanonicalError:
    return CanonicalError(f"{what} in a json document; correct it where it is written")


def _refuse_deep(text: str) -> None:
    """Count levels before parsing: the parser recurses."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        depth += (token in "[{") - (token in "]}")
        if depth > MAX_DEPTH:
            raise _json_error(f"more than {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _json_error("a duplicate key")
    return members


def _parse_fraction(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise _error("decimal number out of bounds", "", _NUMBER_BOUNDS) from None
    return number or number.copy_abs()


def _refuse_constant(name: str) -> NoReturn:
    raise _json_error(f"'{name}', which is no number,")


def to_json(value: object) -> object:
    """A plain tree of `value` for people and tools, lossy in type: what JSON cannot say exactly becomes a text.

    Integers stay numbers within I-JSON's safe range (RFC 7493, section 2.2), a Decimal where its text is such an
    integer; datetimes are ISO 8601 with Z, bytes base64 and `ABSENT` is {"$absent": true}.

    Raises:
        CanonicalError: as `freeze`.
    """
    return _plain(freeze(value))


def _plain(value: Value) -> object:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) < 2**53 else str(value)
        case float():
            return value if value - value == 0 else str(value)  # only a finite one takes itself away
        case Decimal():
            text = str(value).upper()
            return int(text) if abs(value) < 2**53 and text == str(int(value)) else text
        case bytes():
            return base64.b64encode(value).decode()
        case date():  # a datetime too
            return value.isoformat().replace("+00:00", "Z")
        case UUID():
            return str(value)
        case Absent():
            return {"$absent": True}
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return {key: _plain(item) for key, item in value.items()}


def dumps(obj: object, *, indent: bool = False) -> bytes:
    """JSON bytes of a tree from `to_json`, or of one like it, keys sorted; for reading, not for digests.

    Raises:
        CanonicalError: the tree holds what JSON cannot say.
    """
    option = orjson.OPT_SORT_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(obj, option=option)
    except orjson.JSONEncodeError:
        raise CanonicalError("a tree that json cannot say at the top level; pass it through `to_json` first") from None


# --- Comparing --------------------------------------------------------------------------------------------------------

_KINDS: Final[dict[type, str]] = {
    NoneType: "null",
    bool: "bool",
    int: "number",
    Decimal: "number",
    str: "text",
    bytes: "bytes",
    datetime: "moment",
    date: "day",
    UUID: "uuid",
    tuple: "list",
    MappingProxyType: "map",
    float: "float",
    Absent: "absent",
}


def same(a: object, b: object) -> bool:
    """Whether two values are one: of one kind and equal, numbers by value, a bool never a number, nor NaN unequal.

    A value that is not frozen is frozen first, so that no foreign `__eq__` is ever asked.

    Raises:
        CanonicalError: as `freeze`.
    """
    if a is b:
        return True
    kind, other = _KINDS.get(type(a)), _KINDS.get(type(b))
    if kind is None or other is None:
        return same(freeze(a), freeze(b))
    if kind != other:
        return False
    compare = _COMPARE.get(kind)
    return a == b if compare is None else compare(a, b)


def _same_lists(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def _same_maps(a: object, b: object) -> bool:
    left, right = (cast("Mapping[str, Value]", freeze(x)) for x in (a, b))
    return len(left) == len(right) and all(key in right and same(item, right[key]) for key, item in left.items())


_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "list": _same_lists,
    "map": _same_maps,
    "float": lambda a, b: a.hex() == b.hex(),
    "moment": lambda a, b: freeze(a) == freeze(b),
}


def like(a: object, b: object) -> bool:
    """Whether two values are of one kind that can be compared; false for floats, naive datetimes and `ABSENT`.

    Raises:
        CanonicalError: as `freeze`.
    """
    kind = _comparable(a)
    return kind is not None and kind == _comparable(b)


def _comparable(value: object) -> str | None:
    frozen = freeze(value)
    if isinstance(frozen, (float, Absent)) or (isinstance(frozen, datetime) and frozen.tzinfo is None):
        return None
    return _KINDS[type(frozen)]


# --- Digests ----------------------------------------------------------------------------------------------------------


def _by_value(value: Decimal, _at: _At) -> list[str]:
    """A number's one text: no exponent, no zeros that change nothing, no sign on zero; 9, 9.0 and 0.9E1 alike."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return ["n", text if value else "0"]


_DIGESTED: Final[dict[type, _Rule]] = {**_STORED, int: lambda value, _: ["n", str(value)], Decimal: _by_value}
_RECORDED: Final[dict[type, _Rule]] = {
    **_DIGESTED,
    float: lambda value, _: ["f", value.hex()],  # exact, and NaN and the infinities by name
    datetime: lambda value, at: ["N", value.isoformat()] if value.tzinfo is None else _micros(value, at),
}


def _header(kind: str, salt: bytes) -> bytes:
    """Each part after its length, so that no two lists of parts run together into the same bytes."""
    name = kind.encode()
    return b"".join((len(name).to_bytes(8), name, SCHEMA.to_bytes(8), len(salt).to_bytes(8), salt))


_VALUE_HEADER: Final = _header("value", b"")


def _hash(header: bytes, value: object, rules: Mapping[type, _Rule]) -> str:
    body = orjson.dumps(_tree(freeze(value), rules, ""), option=orjson.OPT_SORT_KEYS)
    return "sha256:" + hashlib.sha256(header + body).hexdigest()


def digest(value: object, *, kind: str, salt: bytes = b"") -> str:
    """A digest that two values share when they are `same`, under one kind and one salt, and else never.

    Absent, null and empty text have three digests. With a secret salt a digest does not give away a guessable value.

    Raises:
        CanonicalError: as `freeze`, and for a float or a naive datetime.
    """
    return _hash(_header(kind, salt), value, _DIGESTED)


def fingerprint(value: object, *, salt: bytes = b"") -> str:
    """The digest of kind "value", for telling whether a recorded read moved: it takes floats and naive datetimes too.

    Raises:
        CanonicalError: as `freeze`.
    """
    return _hash(_header("value", salt) if salt else _VALUE_HEADER, value, _RECORDED)


# --- Names ------------------------------------------------------------------------------------------------------------


class Named(NamedTuple):
    """A resource's name.

    Attributes:
        identity: its one text: two names share it only when their kinds and all parts of their keys are `same`.
        kind: its kind, a plain text.
        key: its key, each part in the one form of all that are `same`: 9 for 9.0 and for an enum member of value 9.
    """

    identity: str
    kind: str
    key: tuple[Value, ...]


def identity(kind: str, key: tuple[object, ...]) -> str:
    """The one text of the resource of this kind and key; raises as `named`."""
    return named(kind, key).identity


def named(kind: str, key: tuple[object, ...]) -> Named:
    """The name of the resource of this kind and key.

    Text is compared byte for byte and by case. It is refused, never mended, when another text could pass for it.

    Raises:
        CanonicalError: a part that is no plain value, or is text that is not in NFC (Unicode Annex 15), holds a
            control or format character (bidi and zero-width ones too) or has more than 1,024 bytes; or an empty kind.
    """
    plain = freeze(kind, path="kind")
    if not isinstance(plain, str):
        raise _error(f"a kind of type '{type(kind).__name__}'", "kind", "name the kind of resource by a text")
    if not plain:
        raise _error("an empty kind of resource", "kind", "name it")
    _legible(plain, "kind")
    parts = freeze(key, path="key")
    if not isinstance(parts, tuple):
        raise _error("a key that is no tuple", "key", "write one part as '(part,)'")
    for index, part in enumerate(parts):
        at: _At = ("key", index)
        if part is None or isinstance(part, (float, Absent, tuple, Mapping)):
            raise _error("a part that names nothing exactly", at, "use text, numbers, dates, bytes or a uuid")
        if isinstance(part, str):
            _legible(part, at)
        elif isinstance(part, bytes) and len(part) > _KEY_BYTES:
            raise _error(f"a key part of more than {_KEY_BYTES} bytes", at, "use a shorter one")
    tree = [plain, [_tree(part, _DIGESTED, ("key", index)) for index, part in enumerate(parts)]]
    if any(type(part) is Decimal for part in parts):
        parts = tuple([_plain_number(part) if isinstance(part, Decimal) else part for part in parts])
    return Named(sys.intern(orjson.dumps(tree).decode()), plain, parts)


def _plain_number(part: Decimal) -> int | Decimal:
    """The form of a number that stands in keys for all that equal it: an int where it is one."""
    if part == part.to_integral_value() and -_INT_BOUND < part < _INT_BOUND:
        return int(part)
    shortest = part.normalize(_EXACT)
    # Beyond the bound it could be written and not be read again.
    return shortest if abs(cast("int", shortest.as_tuple().exponent)) <= MAX_EXPONENT else part


def _legible(text: str, at: _At) -> None:
    if len(text.encode()) > _KEY_BYTES:
        raise _error(f"a name of more than {_KEY_BYTES} bytes", at, "use a shorter one")
    if text.isascii() and text.isprintable():
        return
    if not unicodedata.is_normalized("NFC", text):
        raise _error("a name that is not in the normal form nfc", at, "normalise it where it comes from")
    if any(unicodedata.category(character) in {"Cc", "Cf"} for character in text):
        raise _error("a name with a control, bidi or zero-width character", at, "remove it where it comes from")


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()


def intent_id(data: bytes) -> str:
    """The id that follows from `data`: 128 bits of its SHA-256 as 26 characters of base32 (RFC 4648), lower case."""
    return _base32(hashlib.sha256(data).digest()[:_ID_BYTES])


def random_id(entropy: bytes) -> str:
    """The id that says `entropy`, in the form of `intent_id`.

    Raises:
        CanonicalError: `entropy` does not have 16 bytes.
    """
    if len(entropy) != _ID_BYTES:
        raise _error(f"{len(entropy)} bytes", "entropy", f"give {_ID_BYTES}")
    return _base32(entropy)


def idempotency_key(intent_id: str, attempt: int) -> str:
    """The key under which a target knows this attempt of this intent, whoever sends it and however often."""
    return "ll-" + _base32(hashlib.sha256(encode((intent_id, attempt))).digest()[:_ID_BYTES])
