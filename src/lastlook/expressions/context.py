"""The closures of what is not of the evidence alone: what was captured, the clock, and the judgements of validators."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from lastlook import canonical
from lastlook.errors import CanonicalError
from lastlook.expressions import operations, values
from lastlook.expressions.environment import Env, Judgement, Pending, Unverifiable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.canonical import Value
    from lastlook.expressions.operations import Compiled, Place

__all__ = [
    "before",
    "checked",
    "fresh",
    "judgement",
    "last_before",
    "last_fresh",
    "unchanged",
]


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
        operands = tuple(operations.all_of(parts, env))
        try:
            key = canonical.encode((name, version, params, operands)).decode()
        except CanonicalError:
            raise Unverifiable(f"{place(env)}: arguments out of bounds") from None
        answer = env.judged.get(key)
        if answer is None:
            env.ask(Judgement(key, name, version, params, operands))
            raise Pending
        if answer is True or answer is False:
            return answer
        raise Unverifiable(f"{name}@{version}: {answer}")

    return judged
