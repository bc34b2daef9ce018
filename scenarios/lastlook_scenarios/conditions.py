"""The conditions of the case format as expressions of lastlook: true, false and unverifiable alike.

Where a row's fields are is a matter of the system that holds them: see `Layout`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from lastlook import actor, arg, each, exists, holds, largest, literal, resource, rows
from lastlook_scenarios.cases import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastlook import Field
    from lastlook.expressions import Expr
    from lastlook_scenarios.cases import Node

__all__ = ["FIELDS", "Conditions", "Layout"]


class Layout:
    """Where a system keeps the fields of a row.

    Args:
        column: the one field that holds the whole row as a document; empty where each field stands by itself.
    """

    def __init__(self, column: str = "") -> None:
        self._column = column

    def field(self, system: str, key: Any, name: str) -> Field[Any]:
        """A field of one row."""
        found = resource(system, key)
        return found[self._column][name] if self._column else found[name]

    def rows(self, system: str) -> Expr[Any]:
        """All rows of a system in the order of their keys, the key not among a row's fields."""
        return rows(system).pluck(self._column) if self._column else rows(system)


FIELDS: Final = Layout()
"""Each field by itself."""

_GIVES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("and", "or", "not", "present", "absent", "every", "none", "in", "not_in", "within"), "truth"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "truth"),
    **dict.fromkeys(("add", "sub", "mul", "sum", "max", "len"), "number"),
    **dict.fromkeys(("pluck", "where", "rows"), "list"),
}
"""The type of a word's value; of the others the evidence decides."""
_PLACES: Final = frozenset({"field", "arg", "actor", "it", "get"})
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_NOWHERE: Final[Expr[Any]] = literal({})["nothing"]
"""Unverifiable whatever the evidence, for what can never be of the right type: lastlook refuses to declare such."""
_NULL: Final[Expr[Any]] = literal([None])[0]
"""Null as an operand, which lastlook would have written `is_null()`; in the format another type is unverifiable."""


class Conditions:
    """The words of the format over rows in one layout."""

    def __init__(self, layout: Layout = FIELDS) -> None:
        self._layout = layout

    def condition(self, node: Node) -> Expr[bool]:
        """A condition of the format as one of lastlook's: true, false and unverifiable alike."""
        return self._expression(node) if _may_be(node, "truth") else _NOWHERE

    def _counted(self, node: Node) -> Expr[bool]:
        """A condition under a word for which unverifiable counts as not true."""
        return holds(self.condition(node))

    def _expression(self, node: Node) -> Expr[Any]:
        """The expression whose value is the format's; an int operand stays whole, a sum is rounded to two places."""
        word, operands = node.word, node.operands
        match word:
            case "lit":
                return literal(node.given)
            case "field":
                key, name, *path = operands
                base = self._layout.field(str(node.given), self._key(key), str(name.given))
                return self._at(base, path)
            case "arg":
                return self._at(arg.document, operands)
            case "actor":
                return self._at(actor, operands)
            case "it":
                return self._at(each, operands)
            case "rows":
                return self._layout.rows(str(node.given))
            case "get":
                if not _may_be(operands[0], "list", "map"):
                    return _NOWHERE
                return self._at(self._expression(operands[0]), operands[1:])
            case "pluck":
                names = [step.given for step in operands[1:] if isinstance(step.given, (str, int))]
                return self._list(operands[0]).pluck(*names)
            case "where":
                return self._list(operands[0]).where(self._counted(operands[1]))
            case "every":
                return self._list(operands[0]).every(self._counted(operands[1]))
            case "none":
                return self._list(operands[0]).none(self._counted(operands[1]))
            case "and" | "or":
                return reduce(_OPERATORS[word], map(self._counted, operands))
            case "not":
                return ~self.condition(operands[0])
            case "present":
                return self._present(operands[0])
            case "absent":
                return ~self._present(operands[0])
            case "eq" | "ne" | "lt" | "le" | "gt" | "ge":
                return self._comparison(word, operands[0], operands[1])
            case "in":
                return self._expression(operands[0]).in_(self._list(operands[1]))
            case "not_in":
                return ~self._expression(operands[0]).in_(self._list(operands[1]))
            case "within":
                return self._list(operands[0]).all_in(self._list(operands[1]))
            case "len":
                return self._list(operands[0]).count()
            case "sum":
                return self._list(operands[0]).total().rounded(2)
            case "max":
                several = map(self._number, operands) if operands[1:] else [self._list(operands[0])]
                return largest(*several).rounded(2)
            case _:
                result: Expr[Any] = reduce(_OPERATORS[word], map(self._number, operands))
                return result.rounded(2)

    def _at(self, base: Expr[Any], path: Sequence[Node]) -> Expr[Any]:
        """What stands at the path below a value."""
        for step in path:
            if isinstance(step.given, (str, int)) and step.word == "lit":
                base = base[step.given]
            elif _may_be(step, "text", "number"):
                base = base[self._expression(step)]
            else:
                return _NOWHERE
        return base

    def _key(self, node: Node) -> Expr[Any]:
        return self._expression(node) if _may_be(node, "text") else _NOWHERE

    def _list(self, node: Node) -> Expr[Any]:
        return self._expression(node) if _may_be(node, "list") else _NOWHERE

    def _number(self, node: Node) -> Expr[Any]:
        return self._expression(node) if _may_be(node, "number") else _NOWHERE

    def _present(self, node: Node) -> Expr[bool]:
        """Whether there is such a value; of what is no place, whether it equals itself, which only a value does."""
        match node.word:
            case "lit":
                return literal(True)
            case "field" if len(node.operands) == 1:
                return holds(exists(resource(str(node.given), self._key(node.operands[0]))))
            case word if word in _PLACES:
                return holds(exists(self._expression(node)))
            case _:
                value = self._operand(node)
                return holds(value == value)  # noqa: PLR0124 - an expression, not true of what cannot be worked out

    def _comparison(self, word: str, left: Node, right: Node) -> Expr[bool]:
        if word not in {"eq", "ne"} and not (_may_be(left, "number", "text") and _may_be(right, "number", "text")):
            return _NOWHERE
        comparison: Expr[bool] = _OPERATORS[word](self._operand(left), self._operand(right))
        return comparison

    def _operand(self, node: Node) -> Expr[Any]:
        """An operand of a comparison, where lastlook takes `a & b == c` for a slip of the pen."""
        if node.word in {"and", "or"}:
            return holds(self._expression(node))
        return _NULL if node.word == "lit" and node.given is None else self._expression(node)


def _type(node: Node) -> str | None:
    return type_of(node.given) if node.word == "lit" else _GIVES.get(node.word)


def _may_be(node: Node, *types: str) -> bool:
    return _type(node) in (None, *types)
