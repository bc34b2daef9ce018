"""Conditions over fields, arguments and constants alone: the short way, in one call.

The short way answers only where there is nothing to explain: both values are there, are of one plain kind, and nobody
traces what is used. Everything else goes the long way, which knows what is missing and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lastlook.expressions.tree import RefNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook.canonical import Value
    from lastlook.expressions.environment import Env
    from lastlook.expressions.evaluate import SlotTable
    from lastlook.expressions.operations import Compiled
    from lastlook.expressions.tree import Node

__all__ = ["comparison", "field_of", "truth"]

_GONE: Final = (AttributeError, LookupError, TypeError)
"""No observation yet, no such field, no row: each is for the long way."""


def field_of(node: Node, slots: SlotTable) -> tuple[int, str] | None:
    """Slot and name of a field that lies right in a row whose key does not name `each`; None for any other tree."""
    match node.op, node.args:
        case "field", (RefNode() as ref, (str() as name,)) if not ref.free:
            return slots.slot_of(ref), name
        case _:
            return None


def truth(field: tuple[int, str], long_way: Compiled, *, wanted: bool) -> Compiled:
    """Whether a field is `wanted`, where it is true or false."""
    slot, name = field
    unwanted = not wanted

    def is_wanted(env: Env) -> Value:
        if env.touched is None:
            found: Any = env.slots
            try:
                value: Any = found[slot].value[name]
            except _GONE:
                return long_way(env)
            if value is wanted:
                return True
            if value is unwanted:
                return False
        return long_way(env)

    return is_wanted


def comparison(
    test: Callable[[Any, Any], bool],
    plain: frozenset[type],
    nodes: tuple[Node, Node],
    slots: SlotTable,
    long_way: Compiled,
) -> Compiled:
    """A comparison of values of one plain kind; the long way itself where an operand is no field, argument, constant.

    Args:
        test: compares two values of one of the plain kinds.
        plain: those kinds.
        nodes: the operands.
        slots: the table that the operands' resources have their places in.
        long_way: the same comparison of anything.
    """
    left, right = (field_of(node, slots) for node in nodes)
    if left is not None and right is not None:
        return _of_fields(test, plain, left, right, long_way)
    if left is not None:
        return _of_field(test, plain, left, nodes[1], long_way)
    if right is not None:
        return _of_field(lambda a, b: test(b, a), plain, right, nodes[0], long_way)
    return long_way


def _of_fields(
    test: Callable[[Any, Any], bool],
    plain: frozenset[type],
    left: tuple[int, str],
    right: tuple[int, str],
    long_way: Compiled,
) -> Compiled:
    (slot, name), (other_slot, other_name) = left, right

    def compare(env: Env) -> Value:
        if env.touched is None:
            found: Any = env.slots
            try:
                a, b = found[slot].value[name], found[other_slot].value[other_name]
            except _GONE:
                return long_way(env)
            if type(a) is type(b) and type(a) in plain:
                return test(a, b)
        return long_way(env)

    return compare


def _of_field(
    test: Callable[[Any, Any], bool], plain: frozenset[type], field: tuple[int, str], other: Node, long_way: Compiled
) -> Compiled:
    slot, name = field
    match other.op, other.args:
        case "lit", (value,) if type(value) in plain:
            constant: object = value
            expected = constant.__class__

            def compare_constant(env: Env) -> Value:
                if env.touched is None:
                    found: Any = env.slots
                    try:
                        a: Any = found[slot].value[name]
                    except _GONE:
                        return long_way(env)
                    if type(a) is expected:
                        return test(a, constant)
                return long_way(env)

            return compare_constant
        case "arg", ((str() as argument,),):

            def compare_argument(env: Env) -> Value:
                if env.touched is None:
                    found: Any = env.slots
                    try:
                        a: Any = found[slot].value[name]
                        b = env.arguments[argument]
                    except _GONE:
                        return long_way(env)
                    if type(a) is type(b) and type(a) in plain:
                        return test(a, b)
                return long_way(env)

            return compare_argument
        case _:
            return long_way
