"""The closures of operations over parts that are compiled already: what they need, and how three values combine.

All parts are evaluated, whatever the first ones are, so that everything that can be read next is asked for in one go;
one that is pending makes the whole pending.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn, TypeAlias, cast

from lastlook import canonical
from lastlook.canonical import Value
from lastlook.errors import CanonicalError
from lastlook.expressions import values
from lastlook.expressions.environment import Env, Judgement, Pending, Unverifiable

__all__ = [
    "Compiled",
    "Place",
    "all_of",
    "before",
    "checked",
    "comparison",
    "every",
    "fresh",
    "get",
    "holds",
    "judgement",
    "kleene",
    "last_before",
    "last_fresh",
    "negation",
    "none",
    "pluck",
    "present",
    "rows_of",
    "strict",
    "there",
    "truth",
    "unchanged",
    "where",
]

Compiled: TypeAlias = Callable[[Env], Value]
Place: TypeAlias = Callable[[Env], str]


def _worse(one: Unverifiable | None, other: Unverifiable) -> Unverifiable:
    """The first, unless only the second is more than a row's missing item, for which alone a row may be passed over."""
    return other if one is None or (one.in_row and not other.in_row) else one


def _settle(stop: Pending | Unverifiable, right: Compiled, env: Env) -> NoReturn:
    """Evaluate the right side too, for what it asks for, and raise for both."""
    try:
        right(env)
    except Unverifiable as second:
        raise (stop if isinstance(stop, Pending) else _worse(stop, second)) from None
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
            failed = _worse(failed, stop)
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
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
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


def comparison(op: str, left: Compiled, right: Compiled, place: Place) -> Compiled:
    """`== != < <= > >=` of values of one kind."""
    test: Callable[[Any, Any], bool] = _COMPARISONS[op]
    if op in {"eq", "ne"}:
        quick = frozenset({int, str, bool})

        def judge(a: Value, b: Value) -> bool:
            return values.equal(a, b) is (op == "eq")
    else:
        quick = frozenset({int, str})

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
                failed = _worse(failed, stop)
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


# --- Lists ------------------------------------------------------------------------------------------------------------


def rows_of(part: Compiled, place: Place) -> Callable[[Env], tuple[Value, ...]]:
    """The part, which has to be a list."""

    def rows(env: Env) -> tuple[Value, ...]:
        try:
            return values.listed(part(env))
        except values.Flaw as flaw:
            raise Unverifiable(f"{place(env)}: {flaw}") from None

    return rows


def _matches(
    found: tuple[Value, ...], condition: Compiled, env: Env, *, lenient: bool
) -> tuple[list[bool], Unverifiable | None]:
    """Of which rows the condition holds, and what was unverifiable; if `lenient`, a row that lacks an item is none."""
    matches: list[bool] = []
    pending: Pending | None = None
    failed: Unverifiable | None = None
    outer = env.row
    try:
        for row in found:
            env.row = row
            try:
                matches.append(condition(env) is True)
            except Pending as stop:
                pending = stop
            except Unverifiable as stop:
                if lenient and stop.in_row:
                    matches.append(False)
                else:
                    failed = _worse(failed, stop)
    finally:
        env.row = outer
    if pending is not None:
        raise pending
    return matches, failed


def every(rows: Callable[[Env], tuple[Value, ...]], condition: Compiled) -> Compiled:
    """Whether the condition holds of all rows; one of which it does not decides."""

    def of_all(env: Env) -> Value:
        matches, failed = _matches(rows(env), condition, env, lenient=False)
        if failed is not None and all(matches):
            raise failed
        return all(matches)

    return of_all


def none(rows: Callable[[Env], tuple[Value, ...]], condition: Compiled) -> Compiled:
    """Whether the condition holds of no row."""

    def of_none(env: Env) -> Value:
        matches, failed = _matches(rows(env), condition, env, lenient=True)
        if failed is not None:
            raise failed
        return not any(matches)

    return of_none


def where(rows: Callable[[Env], tuple[Value, ...]], condition: Compiled) -> Compiled:
    """The rows of which the condition holds."""

    def some(env: Env) -> Value:
        found = rows(env)
        matches, failed = _matches(found, condition, env, lenient=True)
        if failed is not None:
            raise failed
        return tuple(row for row, match in zip(found, matches, strict=True) if match)

    return some


def pluck(
    rows: Callable[[Env], tuple[Value, ...]], path: tuple[str | int, ...], place: Place, *, in_row: bool
) -> Compiled:
    """One item of each row."""
    return lambda env: tuple(there(row, path, env, place, in_row=in_row) for row in rows(env))


# --- What is not of the evidence alone --------------------------------------------------------------------------------


def checked(part: Compiled, place: Place) -> Compiled:
    """The part, which may not hold a float or a naive datetime, because it is stored."""

    def storable(env: Env) -> Value:
        value = part(env)
        try:
            values.check(value)
        except values.Flaw as flaw:
            raise Unverifiable(f"{place(env)}: {flaw}") from None
        return value

    return storable


def unchanged(key: str, part: Compiled, place: Place) -> Compiled:
    """Whether the part still is what was captured under the key."""

    def still(env: Env) -> Value:
        value = part(env)
        if env.capturing:
            env.captured[key] = value
            return True
        if key not in env.captured:
            raise Unverifiable(f"{place(env)} was not captured when the effect was proposed")
        return canonical.same(env.captured[key], value)

    return still


def before(moment: Compiled, place: Place) -> Compiled:
    """Whether the moment is yet to come."""

    def in_time(env: Env) -> Value:
        return _now(env) <= last_before(moment(env), env, place)

    return in_time


def fresh(moment: Compiled, span: timedelta, place: Place) -> Compiled:
    """Whether the moment is past, and by no more than the span."""

    def in_time(env: Env) -> Value:
        began, now = moment(env), _now(env)
        last = last_fresh(began, span, env, place)
        if cast("datetime", began) > now:
            raise Unverifiable(f"{place(env)}: the moment lies in the future")
        return now <= last

    return in_time


def _now(env: Env) -> datetime:
    if env.now is None:
        raise Unverifiable("there is no clock to judge a deadline by")
    return env.now


_MICROSECOND: Final = timedelta(microseconds=1)


def last_before(moment: Value, env: Env, place: Place) -> datetime:
    """The last moment before one."""
    return last_fresh(moment, -_MICROSECOND, env, place)


def last_fresh(moment: Value, span: timedelta, env: Env, place: Place) -> datetime:
    """The last moment of a span after one."""
    try:
        if not isinstance(moment, datetime) or values.kind_of(moment) != "a moment":
            raise values.Flaw(f"{values.kind_of(moment)}, not a datetime")
        return moment + span
    except OverflowError:
        raise Unverifiable(f"{place(env)}: a time out of bounds") from None
    except values.Flaw as flaw:
        raise Unverifiable(f"{place(env)}: {flaw}") from None


def judgement(name: str, version: str, params: Mapping[str, Value], parts: list[Compiled], place: Place) -> Compiled:
    """The answer of a validator, which has to be asked for beforehand."""

    def judged(env: Env) -> Value:
        operands = tuple(all_of(parts, env))
        try:
            key = canonical.encode((name, version, params, operands)).decode()
        except CanonicalError:
            raise Unverifiable(f"{place(env)}: arguments out of bounds") from None
        answer = env.judged.get(key)
        if answer is None:
            env.unjudged[key] = Judgement(key, name, version, params, operands)
            raise Pending
        if answer is True or answer is False:
            return answer
        raise Unverifiable(f"{name}@{version}: {answer}")

    return judged
