"""A premise as a plain English sentence, with its resources resolved, for somebody who has not seen the declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lastlook.expressions.english import render_path, render_value
from lastlook.expressions.evaluate import name_of
from lastlook.expressions.expr import Expr, node_of
from lastlook.expressions.tree import CONDITIONS, Node, RefNode

if TYPE_CHECKING:
    from lastlook.expressions.environment import Env

__all__ = ["say"]

# Each in words, and the words for its opposite.
_BETWEEN: Final = {
    "eq": ("is", "is not"),
    "ne": ("is not", "is"),
    "lt": ("is less than", "is at least"),
    "le": ("is at most", "is more than"),
    "gt": ("is more than", "is at most"),
    "ge": ("is at least", "is less than"),
    "in": ("is one of", "is none of"),
    "contains": ("contains", "does not contain"),
}
_OF_ROWS: Final = {
    "every": ("for every row of", "not for every row of"),
    "none": ("for no row of", "for some row of"),
}
_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*"}
_NUMBERS: Final = {"total": "the total of", "count": "the number of", "largest_of": "the largest of"}


def say(expr: Expr[Any], env: Env) -> str:
    """What a condition demands: `orders/o-1.refunded is false`.

    Keys that come from evidence stand by where they lie; see `name_of`. No evidence is needed, and none is shown.

    Args:
        expr: a condition that was compiled for the environment's table of slots.
        env: with the arguments and the actor.
    """
    return _Speaker(env).condition(node_of(expr))


class _Speaker:
    def __init__(self, env: Env) -> None:
        self.env = env

    def condition(self, node: Node, *, so: bool = True) -> str:
        """A condition, or the opposite of it."""
        match node.op, node.args:
            case "not", (part,):
                return self.condition(part, so=not so)
            case _ if node.op in _BETWEEN:
                left, right = node.args
                return f"{self.term(left)} {_BETWEEN[node.op][not so]} {self.term(right)}"
            case "all_in", (left, right):
                return f"{'everything' if so else 'not everything'} in {self.term(left)} is in {self.term(right)}"
            case "is_null", (base,):
                return f"{self.term(base)} is {'null' if so else 'not null'}"
            case (("and" | "or"), parts):
                # De Morgan: the opposite of all is some opposite, and three-valued logic keeps to that.
                joined = " and " if (node.op == "and") is so else " or "
                return joined.join(self.inner(part, so=so) for part in parts)
            case (("exists" | "exists_row"), (base,)):
                return f"there is {'' if so else 'no '}{self.term(base)}"
            case (("every" | "none"), (rows, condition)):
                return f"{_OF_ROWS[node.op][not so]} {self.rows(rows)}: {self.inner(condition)}"
            case "unchanged", (base,):
                return f"{self.term(base)} is {'' if so else 'not '}as it was when this was proposed"
            case "holds", (part,):
                return f"it is {'' if so else 'not '}certain that {self.inner(part)}"
            case "before", (moment,):
                return f"it is not later than {self.term(moment)}"
            case "fresh", (moment, span):
                return f"{self.term(moment)} is not longer ago than {span}"
            case "call", (name, version, params, *parts):
                given = [*map(self.term, parts), *(f"{key} {render_value(item)}" for key, item in params.items())]
                verb = "accepts" if so else "does not accept"
                return f"the validator {name} (version {version}) {verb} {', '.join(given) or 'this'}"
            case _:
                return f"{self.term(node)} is {'true' if so else 'false'}"

    def inner(self, node: Node, *, so: bool = True) -> str:
        """A condition within another."""
        text = self.condition(node, so=so)
        below = node.args[0] if node.op == "not" else node
        return f"({text})" if below.op in {"and", "or", "every", "none"} else text

    def term(self, node: Node | RefNode) -> str:
        """A value, or a resource."""
        if isinstance(node, RefNode):
            return name_of(node, self.env) if node.key else node.kind
        match node.op, node.args:
            case "lit", (value,):
                return render_value(value)
            case "arg", (path,):
                return f"the argument {_path(path)}"
            case "actor", (path,):
                return f"the actor's {_path(path)}" if path else "the actor"
            case "each", (path,):
                return f"its {_path(path)}" if path else "the item"
            case "field", (ref, path):
                return name_of(ref, self.env) + render_path(path)
            case "rows", (ref,):
                return f"all {ref.kind}"
            case (("item" | "get"), (base, key)):
                return f"{self.term(base)}[{self.term(key) if isinstance(key, Node) else repr(key)}]"
            case (("add" | "sub" | "mul"), parts):
                return f"({f' {_SIGNS[node.op]} '.join(map(self.term, parts))})"
            case (("total" | "count" | "largest_of"), (rows,)):
                return f"{_NUMBERS[node.op]} {self.rows(rows)}"
            case "largest", parts:
                return f"the largest of {', '.join(map(self.term, parts))}"
            case "pluck", (rows, path):
                return f"the {_path(path)} of {self.rows(rows)}"
            case "where", (rows, condition):
                return f"those of {self.rows(rows)} where {self.inner(condition)}"
            case (("rounded" | "as_decimal"), (base, places)):
                return f"{self.term(base)} to {places} places"
            case _ if node.op in CONDITIONS:
                return f"({self.condition(node)})"
            case _:
                moment, zone = node.args
                return f"{self.term(moment)} in {zone}"

    def rows(self, node: Node) -> str:
        """What a quantifier ranges over."""
        return str(node.args[0].kind) if node.op == "rows" else self.term(node)


def _path(path: tuple[str | int, ...]) -> str:
    text = render_path(path)
    return text.removeprefix(".")
