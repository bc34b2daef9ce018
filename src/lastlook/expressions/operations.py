"""The closures of operations over parts that are compiled already: what they need, and how three values combine.

All parts are evaluated, whatever the first ones are, so that everything that can be read next is asked for in one go;
one that is pending makes the whole pending.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeAlias, cast

from lastlook import canonical
from lastlook.canonical import Value
from lastlook.expressions import values
from lastlook.expressions.environment import Env, Pending, Unverifiable

__all__ = [
    "COMPARISONS",
    "Compiled",
    "Place",
    "all_of",
    "comparison",
    "get",
    "holds",
    "kleene",
    "negation",
    "plain_kinds",
    "present",
    "strict",
    "there",
    "truth",
    "worse",
]

Compiled: TypeAlias = Callable[[Env], Value]
Place: TypeAlias = Callable[[Env], str]


def worse(one: Unverifiable | None, other: Unverifiable) -> Unverifiable:
    """The first, unless only the second is more than a row's missing item, for which alone a row may be passed over."""
    return other if one is None or (one.in_row and not other.in_row) else one


def _settle(stop: Pending | Unverifiable, right: Compiled, env: Env) -> NoReturn:
    """Evaluate the right side too, for what it asks for, and raise for both."""
    try:
        right(env)
    except Unverifiable as second:
        raise (stop if isinstance(stop, Pending) else worse(stop, second)) from None
    raise stop


def all_of(parts: Iterable[Compiled], env: Env) -> list[Value]:
    """The values of all parts; raises for all of them."""
    found: list[Value] = []
    pending: Pending | None = None
    failed: Unverifiable | None = None
    for part in parts:
        try:
            found.append(part(env))
        except Pending as stop:
            pending = stop
        except Unverifiable as stop:
            failed = worse(failed, stop)
    if pending is not None:
        raise pending
    if failed is not None:
        raise failed
    return found


# --- Operations that need all their operands --------------------------------------------------------------------------


def _of_all(function: Callable[[tuple[Value, ...]], Value]) -> Callable[..., Value]:
    return lambda *parts: function(parts)


def _of_list(function: Callable[[tuple[Value, ...]], Value]) -> Callable[..., Value]:
    def operation(elements: Value) -> Value:
        return function(values.listed(elements))

    return operation


def _contains(elements: Value, value: Value) -> bool:
    return values.member(value, elements)


def _is_null(value: Value) -> bool:
    return value is None


_OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": _of_all(values.total),
    "sub": values.ARITHMETIC["sub"],
    "mul": values.ARITHMETIC["mul"],
    "in": values.member,
    "contains": _contains,
    "all_in": values.included,
    "is_null": _is_null,
    "count": _of_list(len),
    "total": _of_list(values.total),
    "largest": _of_all(values.largest),
    "largest_of": _of_list(values.largest),
    "rounded": values.rounded,
    "as_decimal": values.as_decimal,
    "as_utc": values.as_utc,
}


def strict(op: str, parts: list[Compiled], constants: tuple[Any, ...], place: Place) -> Compiled:
    """An operation on the values of its parts and on constants."""
    apply: Callable[..., Any] = _OPERATIONS[op]

    def operation(env: Env) -> Value:
        operands = all_of(parts, env)
        try:
            return cast("Value", apply(*operands, *constants))
        except values.Flaw as flaw:
            raise Unverifiable(f"{place(env)}: {flaw}") from None

    return operation


COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def plain_kinds(op: str) -> frozenset[type]:
    """The types of which two values are compared as Python does."""
    return frozenset({int, str, bool} if op in {"eq", "ne"} else {int, str})


def comparison(op: str, left: Compiled, right: Compiled, place: Place) -> Compiled:
    """`== != < <= > >=` of values of one kind."""
    test: Callable[[Any, Any], bool] = COMPARISONS[op]
    quick = plain_kinds(op)
    if op in {"eq", "ne"}:

        def judge(a: Value, b: Value) -> bool:
            return values.equal(a, b) is (op == "eq")
    else:

        def judge(a: Value, b: Value) -> bool:
            values.ordered(a, b)
            return test(a, b)

    def compare(env: Env) -> Value:
        try:
            a = left(env)
        except (Pending, Unverifiable) as stop:
            _settle(stop, right, env)
        b = right(env)
        kind = type(a)
        if kind is type(b) and kind in quick:
            return test(a, b)
        if values.is_number(a) and values.is_number(b):
            return test(a, b)
        try:
            return judge(a, b)
        except values.Flaw as flaw:
            raise Unverifiable(f"{place(env)}: {flaw}") from None

    return compare


def get(base: Compiled, key: Compiled, place: Place, *, in_row: bool) -> Compiled:
    """An item whose name or position is worked out."""

    def item(env: Env) -> Value:
        table, step = all_of((base, key), env)
        if type(step) is not str and type(step) is not int:
            raise Unverifiable(f"{place(env)}: the key is neither text nor a position")
        return there(table, (step,), env, place, in_row=in_row)

    return item


def there(value: Value, path: Iterable[Value], env: Env, place: Place, *, in_row: bool) -> Value:
    """What lies at a path below a value, which is the row of a quantifier or is within it where `in_row`.

    Raises:
        Unverifiable: nothing does.
    """
    try:
        for step in path:
            value = values.reach(value, step)
    except LookupError:
        value = canonical.ABSENT
    if value is canonical.ABSENT:
        raise Unverifiable(f"there is no {place(env)}", missing=True, in_row=in_row)
    return value


# --- Logic ------------------------------------------------------------------------------------------------------------


def truth(part: Compiled, place: Place) -> Compiled:
    """The part, where it may be something else than true or false."""

    def true_or_false(env: Env) -> Value:
        value = part(env)
        if value is True or value is False:
            return value
        raise Unverifiable(f"{place(env)} is neither true nor false")

    return true_or_false


def kleene(parts: list[Compiled], *, decisive: bool) -> Compiled:
    """`&`, where False decides, and `|`, where True does (Kleene's strong logic)."""

    def combine(env: Env) -> Value:
        pending: Pending | None = None
        failed: Unverifiable | None = None
        decided = False
        for part in parts:
            try:
                if part(env) is decisive:
                    decided = True
            except Pending as stop:
                pending = stop
            except Unverifiable as stop:
                failed = worse(failed, stop)
        if pending is not None:
            raise pending
        if decided:
            return decisive
        if failed is not None:
            raise failed
        return not decisive

    return combine


def negation(part: Compiled) -> Compiled:
    """`~`."""
    return lambda env: part(env) is False


def holds(part: Compiled) -> Compiled:
    """Unverifiable is false."""

    def certain(env: Env) -> Value:
        try:
            return part(env)
        except Unverifiable:
            return False

    return certain


def present(part: Compiled) -> Compiled:
    """Whether the part has a value; false where something on the way to it is missing."""

    def exists(env: Env) -> Value:
        try:
            part(env)
        except Unverifiable as stop:
            if stop.missing:
                return False
            raise
        return True

    return exists
