"""What operations do with values: exact numbers, kinds that compare only with their like, lists as multisets.

Each raises Flaw where a value takes no part in it; the evaluation adds the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, tzinfo
from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact, InvalidOperation, Overflow
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from lastlook import canonical

if TYPE_CHECKING:
    from lastlook.canonical import Value

__all__ = [
    "ARITHMETIC",
    "Flaw",
    "as_decimal",
    "as_utc",
    "check",
    "equal",
    "included",
    "is_number",
    "kind_of",
    "largest",
    "listed",
    "member",
    "number",
    "ordered",
    "reach",
    "rounded",
    "total",
]

_EXACT: Final = Context(
    prec=canonical.MAX_DIGITS, rounding=ROUND_HALF_EVEN, traps=[Inexact, InvalidOperation, Overflow]
)
_BOUND: Final = 10**canonical.MAX_DIGITS
_KINDS: Final[dict[type, str]] = {
    NoneType: "null",
    bool: "a bool",
    int: "a number",
    Decimal: "a number",
    str: "a text",
    bytes: "bytes",
    date: "a day",
    UUID: "a uuid",
    tuple: "a list",
    canonical.Absent: "absent",
}
_ORDERED: Final = frozenset({"a number", "a text", "a day", "a moment"})
_FLOAT: Final = "a float, which has no exact value; declare .as_decimal(places) on it"
_NAIVE: Final = "a datetime without a zone; declare .as_utc(zone) on it"


class Flaw(Exception):
    """A value that an operation cannot take; the text names its kind and never the value."""


def kind_of(value: Value) -> str:
    """The kind of a value, in words.

    Raises:
        Flaw: a float or a datetime without a zone, which are compared with nothing.
    """
    kind = _KINDS.get(type(value))
    if kind is not None:
        if type(value) is Decimal and not value.is_finite():
            raise Flaw("NaN or Infinity, not a number")
        return kind
    if isinstance(value, float):
        raise Flaw(_FLOAT)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Flaw(_NAIVE)
        return "a moment"
    if isinstance(value, Mapping):
        return "a map"
    raise Flaw("a value that was not frozen when it was read")


def check(value: Value) -> str:
    """The kind of a value all of whose parts can be compared.

    Raises:
        Flaw: there is a float or a datetime without a zone in it.
    """
    kind = kind_of(value)
    if kind == "a list":
        for part in cast("tuple[Value, ...]", value):
            check(part)
    elif kind == "a map":
        for part in cast("Mapping[str, Value]", value).values():
            check(part)
    return kind


def equal(left: Value, right: Value) -> bool:
    """Whether two values of one kind are the same.

    Raises:
        Flaw: they are of different kinds.
    """
    kind, other = check(left), check(right)
    if kind != other:
        raise Flaw(f"{kind} against {other}")
    return canonical.same(left, right)


def ordered(left: Value, right: Value) -> None:
    """Nothing, if one of the two comes before the other or they are equal.

    Raises:
        Flaw: they are of different kinds, or of one that has no order.
    """
    kind, other = kind_of(left), kind_of(right)
    if kind != other or kind not in _ORDERED:
        raise Flaw(f"{kind} against {other}" if kind != other else f"{kind}, which has no order")


def is_number(value: Value) -> bool:
    """Whether the value is a whole or decimal number, NaN and Infinity being none."""
    return type(value) is int or (type(value) is Decimal and value.is_finite())


def number(value: Value) -> int | Decimal:
    """The value, if it is a number.

    Raises:
        Flaw: it is none; a bool is none.
    """
    kind = kind_of(value)
    if kind == "a number":
        return cast("int | Decimal", value)
    raise Flaw(f"{kind}, not a number")


def _bounded(result: int | Decimal) -> int | Decimal:
    if isinstance(result, int):
        if not -_BOUND < result < _BOUND:
            raise Flaw("a number of too many digits")
    elif abs(cast("int", result.as_tuple().exponent)) > canonical.MAX_EXPONENT:
        raise Flaw("a number out of bounds")
    return result


def _exact(
    whole: Callable[[int, int], int], decimal: Callable[[Any, Any], Decimal]
) -> Callable[[Value, Value], int | Decimal]:
    def operation(left: Value, right: Value) -> int | Decimal:
        a, b = number(left), number(right)
        if isinstance(a, int) and isinstance(b, int):
            return _bounded(whole(a, b))
        try:
            return _bounded(decimal(a, b))
        except ArithmeticError:
            raise Flaw("a number of too many digits") from None

    return operation


ARITHMETIC: Final = {
    "add": _exact(int.__add__, _EXACT.add),
    "sub": _exact(int.__sub__, _EXACT.subtract),
    "mul": _exact(int.__mul__, _EXACT.multiply),
}
"""Exact sums, differences and products; what has no exact value within the bounds of a number is a Flaw."""


def total(values: tuple[Value, ...]) -> int | Decimal:
    """The exact sum; 0 of nothing."""
    result: int | Decimal = 0
    for value in values:
        result = ARITHMETIC["add"](result, value)
    return result


def rounded(value: Value, places: int) -> int | Decimal:
    """The number at so many places, halves to even."""
    exact = number(value)
    if isinstance(exact, int) or cast("int", exact.as_tuple().exponent) >= -places:
        return exact
    return exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, Context(prec=canonical.MAX_DIGITS + 1))


def as_decimal(value: Value, places: int) -> int | Decimal:
    """A float as the decimal of its shortest text, rounded; a number is rounded only."""
    if isinstance(value, float):
        exact = Decimal(repr(value))
        if not exact.is_finite() or exact.adjusted() >= canonical.MAX_DIGITS:
            raise Flaw("a float that is no number within bounds")
        return rounded(exact, places)
    return rounded(value, places)


def as_utc(value: Value, zone: tzinfo) -> datetime:
    """The moment that a clock of this zone showed; a moment that has a zone is taken as it is."""
    if not isinstance(value, datetime):
        raise Flaw(f"{kind_of(value)}, not a datetime")
    if value.tzinfo is not None:
        return value
    first, second = value.replace(tzinfo=zone, fold=0), value.replace(tzinfo=zone, fold=1)
    if first.utcoffset() != second.utcoffset():
        raise Flaw("a time that clocks of the zone show twice or never")
    try:
        return first.astimezone(UTC)
    except OverflowError:
        raise Flaw("a time out of bounds") from None


def listed(value: Value) -> tuple[Value, ...]:
    """The value, if it is a list."""
    if type(value) is tuple:
        return value
    raise Flaw(f"{kind_of(value)}, not a list")


def member(value: Value, values: Value) -> bool:
    """Whether the value is an element of the list.

    Raises:
        Flaw: it is no list, or one of elements none of which is of the value's kind.
    """
    kind = check(value)
    elements = listed(values)
    kinds = {check(element) for element in elements}
    if elements and kind not in kinds:
        raise Flaw(f"{kind} in a list that has none")
    return any(canonical.same(value, element) for element in elements)


def included(values: Value, others: Value) -> bool:
    """Whether each element of one list is in the other as often as in the first.

    Raises:
        Flaw: no lists, or nothing in the other is of the kind of an element, and all the rest is included.
    """
    unlike: Flaw | None = None
    left = list(listed(others))
    for value in listed(values):
        try:
            if not member(value, others):
                return False
        except Flaw as flaw:
            unlike = unlike or flaw
            continue
        for index, other in enumerate(left):
            if canonical.same(value, other):
                del left[index]
                break
        else:
            return False
    if unlike is not None:
        raise unlike
    return True


def largest(values: tuple[Value, ...]) -> Value:
    """The largest of values of one kind, the first of equal ones."""
    if not values:
        raise Flaw("an empty list, which has no largest element")
    result: Any = values[0]
    ordered(result, result)
    for value in cast("tuple[Any, ...]", values[1:]):
        ordered(result, value)
        result = max(result, value)
    return cast("Value", result)


def reach(value: Value, step: Value) -> Value:
    """The item of a map by name, or of a list by position.

    Raises:
        LookupError: there is none, or this is neither map nor list.
    """
    kind = type(value)
    if type(step) is str:
        if kind is MappingProxyType or isinstance(value, Mapping):  # the first is quick, and nearly always so
            return cast("Mapping[str, Value]", value)[step]
    elif kind is tuple and type(step) is int and step >= 0:
        return cast("tuple[Value, ...]", value)[step]
    raise LookupError
