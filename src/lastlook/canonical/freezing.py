"""The only way in: deep-frozen copies of what callers, systems and stores bring."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from operator import is_
from types import MappingProxyType, NoneType
from typing import Any, Final, cast
from uuid import UUID

from lastlook.canonical.values import (
    INT_BOUND,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_EXPONENT,
    NUMBER_BOUNDS,
    Absent,
    At,
    Atom,
    Value,
    error,
)

__all__ = ["freeze"]


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

    def enter(self, depth: int, nodes: int, at: At) -> None:
        self.deepest = max(self.deepest, depth)
        self.nodes += nodes
        if depth > MAX_DEPTH:
            raise error(f"more than {MAX_DEPTH} levels or a cycle", at, "flatten the value")
        if self.nodes > MAX_BYTES:
            raise error(f"more than {MAX_BYTES} parts", at, "record only the fields that the decision needs")


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


def _freeze(value: object, at: At, depth: int, walk: _Walk) -> Value:
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
    raise error(
        f"unsupported type '{kind.__name__}'", at, "make it a list, a map with text keys or a plain value beforehand"
    )


def _freeze_list(value: list[object] | tuple[object, ...], at: At, depth: int, walk: _Walk) -> tuple[Value, ...]:
    items = list(value)
    walk.enter(depth + 1, len(items), at)
    frozen = tuple([_freeze(item, (at, index), depth + 1, walk) for index, item in enumerate(items)])
    if type(value) is tuple and all(map(is_, frozen, items)):
        return cast("tuple[Value, ...]", value)
    return frozen


def _freeze_map(value: Mapping[object, object], at: At, depth: int, walk: _Walk) -> Mapping[str, Value]:
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
            raise error(f"a key of type '{type(given).__name__}' in the map", at, "map keys must be text")
        key = _text(str.__str__(cast("str", given)), at)
        if key in store:
            raise error("two keys of one text in the map", at, "give each key once")
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


def _as_is(value: Atom, _at: At) -> Value:
    return value


def _text(value: str, at: At) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise error("text with a lone surrogate", at, "decode it as utf-8 first") from None
    return value


def _integer(value: int, at: At) -> int:
    if -INT_BOUND < value < INT_BOUND:
        return value
    raise error("integer out of bounds", at, NUMBER_BOUNDS)


def _decimal(value: Decimal, at: At) -> Decimal:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise error("NaN or Infinity", at, "use null where there is no number")
    if len(digits) > MAX_DIGITS or abs(exponent) > MAX_EXPONENT:
        raise error("decimal number out of bounds", at, NUMBER_BOUNDS)
    return value


def _moment(value: datetime, at: At) -> datetime:
    if value.tzinfo is UTC or value.tzinfo is None:
        return value
    if value.utcoffset() is None:
        return value.replace(tzinfo=None)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise error("datetime that has no equal in UTC", at, "use one within the years 1 to 9999") from None


def _plain_datetime(value: datetime) -> datetime:
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)


_ATOMS: Final[dict[type, Callable[[Any, At], Value]]] = {
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
