"""Whether two values are one, and whether they can be compared at all."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from lastlook.canonical.freezing import freeze
from lastlook.canonical.values import Absent, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["like", "same"]

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
