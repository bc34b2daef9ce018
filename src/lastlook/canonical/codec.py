"""The canonical text of a value for storing, and the value back from it."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NoReturn, cast
from uuid import UUID

import orjson

from lastlook.canonical.freezing import freeze
from lastlook.canonical.values import (
    ABSENT,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIGITS,
    NUMBER_BOUNDS,
    Absent,
    At,
    Rule,
    Value,
    error,
)
from lastlook.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["STORED", "decode", "encode", "micros", "parse_int", "tree_of"]


def tree_of(value: Value, rules: Mapping[type, Rule], at: At) -> object:
    """The tree of a frozen value: text, bools and null as they are, a map an object, else an array after its tag."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is tuple:
        items = cast("tuple[Value, ...]", value)
        return ["l", [tree_of(item, rules, (at, index)) for index, item in enumerate(items)]]
    rule = rules.get(kind)
    if rule is not None:
        return rule(value, at)
    return {key: tree_of(item, rules, (at, key)) for key, item in cast("Mapping[str, Value]", value).items()}


def _refuse_float(_value: float, at: At) -> NoReturn:
    raise error("a float, which has no exact value,", at, "name its places with `.as_decimal(2)`")


def micros(value: datetime, at: At) -> list[str]:
    """A moment as microseconds since 1970, tagged."""
    if value.tzinfo is None:
        raise error("a datetime without a zone", at, "name its zone with `.as_utc(zone)`")
    return ["t", str((value - _EPOCH) // _MICROSECOND)]


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

STORED: Final[dict[type, Rule]] = {
    int: lambda value, _: ["i", str(value)],
    Decimal: lambda value, _: ["d", str(value).upper()],  # a context may ask for a lower-case exponent
    bytes: lambda value, _: ["b", base64.b64encode(value).decode()],
    date: lambda value, _: ["D", value.isoformat()],
    datetime: micros,
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
    data = orjson.dumps(tree_of(freeze(value), STORED, ""), option=orjson.OPT_SORT_KEYS)
    if len(data) > limit:
        raise error(f"more than {limit} bytes", "", "record only the fields that the decision needs")
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


def parse_int(text: str) -> int:
    """The integer of a decimal text."""
    # Bounded before it is read: reading takes time that is quadratic in the number of digits.
    if len(text.removeprefix("-")) > MAX_DIGITS:
        raise error("integer out of bounds", "", NUMBER_BOUNDS)
    return int(text)


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "i": parse_int,
    "d": Decimal,
    "b": lambda text: base64.b64decode(text, validate=True),
    "D": date.fromisoformat,
    "t": lambda text: _EPOCH + timedelta(microseconds=parse_int(text)),
    "u": UUID,
}
