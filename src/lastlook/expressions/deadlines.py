"""Until when a premise that holds goes on to hold by the clock: the moment that the target's own clock decides by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from lastlook.expressions import context, operations
from lastlook.expressions.environment import Env, Unverifiable
from lastlook.expressions.evaluate import SlotTable, compile_condition, compile_node, place_of
from lastlook.expressions.expr import Expr, node_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lastlook.expressions.tree import Node

    _Deadline: TypeAlias = Callable[[Env], datetime | None]

__all__ = [
    "valid_until",
]


def valid_until(expr: Expr[Any], slots: SlotTable) -> Callable[[Env], datetime | None]:
    """A function to the last moment, to the microsecond, at which the premise holds; None where there is none.

    It is meaningful in an `Env` where the premise is true: under `&` the earliest moment counts, under `|` the latest
    of the branches that are true, and there is none if one of them has no deadline.
    """
    return _until(node_of(expr), slots)


def _until(node: Node, slots: SlotTable) -> _Deadline:
    if not node.clock:
        return lambda _: None
    place = place_of(node)
    match node.op, node.args:
        case "before", (moment,):
            value = compile_node(moment, slots)
            return lambda env: context.last_before(value(env), env, place)
        case "fresh", (moment, span):
            value = compile_node(moment, slots)
            return lambda env: context.last_fresh(value(env), span, env, place)
        case "and", parts:
            return _earliest([_until(part, slots) for part in parts])
        case _:
            return _latest([(compile_condition(part, slots), _until(part, slots)) for part in node.args])


def _earliest(parts: list[_Deadline]) -> _Deadline:
    return lambda env: min((moment for part in parts if (moment := part(env)) is not None), default=None)


def _latest(branches: list[tuple[operations.Compiled, _Deadline]]) -> _Deadline:
    def latest(env: Env) -> datetime | None:
        last: datetime | None = None
        for holds, until in branches:
            try:
                if holds(env) is not True:
                    continue
            except Unverifiable:
                continue
            moment = until(env)
            if moment is None:
                return None
            last = moment if last is None else max(last, moment)
        if last is None:
            raise Unverifiable("no branch of the premise holds")
        return last

    return latest
