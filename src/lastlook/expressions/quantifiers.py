"""The closures of lists: what they need, and how the rows of which nothing can be said count."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from lastlook.canonical import Value
from lastlook.expressions import operations, values
from lastlook.expressions.environment import Env, Pending, Unverifiable
from lastlook.expressions.operations import Compiled, Place, worse

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Rows",
    "every",
    "none",
    "pluck",
    "rows_of",
    "where",
]

Rows: TypeAlias = Callable[[Env], tuple[Value, ...]]


def rows_of(part: Compiled, place: Place, ahead: Sequence[Compiled] = ()) -> Rows:
    """The part, which has to be a list.

    Args:
        part: the list.
        place: what names it.
        ahead: what will be needed of each row alike, and can be asked for while the list is not there yet.
    """

    def rows(env: Env) -> tuple[Value, ...]:
        try:
            return values.listed(part(env))
        except values.Flaw as flaw:
            raise Unverifiable(f"{place(env)}: {flaw}") from None
        except Pending:
            for need in ahead:
                with suppress(Pending, Unverifiable):
                    need(env)
            raise

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
                    failed = worse(failed, stop)
    finally:
        env.row = outer
    if pending is not None:
        raise pending
    return matches, failed


def every(rows: Rows, condition: Compiled) -> Compiled:
    """Whether the condition holds of all rows; one of which it does not decides."""

    def of_all(env: Env) -> Value:
        matches, failed = _matches(rows(env), condition, env, lenient=False)
        if failed is not None and all(matches):
            raise failed
        return all(matches)

    return of_all


def none(rows: Rows, condition: Compiled) -> Compiled:
    """Whether the condition holds of no row."""

    def of_none(env: Env) -> Value:
        matches, failed = _matches(rows(env), condition, env, lenient=True)
        if failed is not None:
            raise failed
        return not any(matches)

    return of_none


def where(rows: Rows, condition: Compiled) -> Compiled:
    """The rows of which the condition holds."""

    def some(env: Env) -> Value:
        found = rows(env)
        matches, failed = _matches(found, condition, env, lenient=True)
        if failed is not None:
            raise failed
        return tuple(row for row, match in zip(found, matches, strict=True) if match)

    return some


def pluck(rows: Rows, path: tuple[str | int, ...], place: Place, *, in_row: bool) -> Compiled:
    """One item of each row."""
    return lambda env: tuple(operations.there(row, path, env, place, in_row=in_row) for row in rows(env))
