"""A judged premise in words, for a colleague or a model: what was expected and, of what was found, what is public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lastlook.expressions.english import render_node, render_value
from lastlook.expressions.environment import Env, Pending, Unverifiable
from lastlook.expressions.evaluate import compile_key, compile_node, from_evidence, name_of, place_of
from lastlook.expressions.expr import Expr, node_of, reference_in
from lastlook.expressions.tree import QUANTIFIERS, Node, children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastlook.canonical import Value
    from lastlook.expressions.resources import Ref
    from lastlook.expressions.tree import Path, RefNode
    from lastlook.records import Address

    _Public: TypeAlias = Callable[[Address, Path], bool]

__all__ = [
    "explain",
    "hidden_name",
    "render",
]


def render(expr: Expr[Any]) -> str:
    """The expression as it is declared, such as `arg.amount <= policies['refund'].limit`; no evidence is in it."""
    return render_node(node_of(expr))


def explain(expr: Expr[Any], env: Env, *, public: _Public, reveal: bool = False) -> str:
    """How the premise stands, with its resources resolved: `orders/o-1.refunded is True; must be false`.

    What the declaration says is always shown. What was found is shown where it is public, true or false; else only
    its place.

    Args:
        expr: a premise that was compiled for the environment's table of slots.
        env: as it was when the premise was judged.
        public: whether the value at this path of this row may be shown.
        reveal: show everything, arguments too.
    """
    return _Reader(env, public, reveal=reveal).tell(node_of(expr))


def hidden_name(ref: Ref, env: Env, public: _Public) -> str | None:
    """What stands for a resource whose key was read and is not public; None where its address may be shown."""
    node = cast("RefNode", reference_in(ref))
    reader = _Reader(env, public, reveal=False)
    if all(not from_evidence(part, node, env.table) or reader.shown(part) for part in node.key):
        return None
    return name_of(node, env, reader.shown)


class _Reader:
    def __init__(self, env: Env, public: _Public, *, reveal: bool) -> None:
        self.env = env
        self.public = public
        self.reveal = reveal

    def value(self, node: Node) -> Value:
        return compile_node(node, self.env.table)(self.env)

    def place(self, node: Node) -> str:
        return place_of(node, self.shown)(self.env)

    def tell(self, node: Node) -> str:
        try:
            value = self.value(node)
        except Pending:
            return f"{self.place(node)} cannot be verified: not everything that it names was read"
        except Unverifiable as stop:
            place = self.place(node)
            return f"{'' if place in stop.reason else f'{place} '}cannot be verified: {stop.reason}"
        return f"{self.place(node)} holds" if value is True else self.why(node)

    def why(self, node: Node) -> str:
        """Why a condition is false."""
        match node.op, node.args:
            case "not", (part,):
                return self.why_not(part)
            case "and", parts:
                return "; and ".join(self.tell(part) for part in parts if not self.holds(part))
            case "or", parts:
                return f"none of these holds: {'; or '.join(map(self.tell, parts))}"
            case "holds", (part,):
                return self.tell(part)
            case (("every" | "none"), (rows, condition)):
                return self.why_row(node.op, rows, condition)
            case (("exists" | "exists_row"), _):
                return f"{self.place(node)} is False; must be true"
            case "unchanged", (part,):
                return f"{self.place(part)} has changed since the effect was proposed{self.found(part)}"
            case (("before" | "fresh"), _):
                return f"{self.place(node)} is over{self.found(node)}"
            case (("arg" | "actor" | "each" | "field" | "item" | "get" | "lit"), _):
                return f"{self.place(node)} is False; must be true"
            case _:
                return f"{self.place(node)} does not hold{self.found(node)}"

    def why_not(self, node: Node) -> str:
        """Why the opposite of a condition that holds is false."""
        match node.op, node.args:
            case (("not" | "holds"), (part,)):
                return self.why(part) if node.op == "not" else self.why_not(part)
            case (("exists" | "exists_row" | "arg" | "actor" | "each" | "field" | "item" | "get" | "lit"), _):
                return f"{self.place(node)} is True; must be false"
            case _:
                return f"{self.place(node)} holds; must not{self.found(node)}"

    def why_row(self, op: str, rows: Node, condition: Node) -> str:
        """Why the first row that decides does so."""
        outer = self.env.row
        found = self.value(rows)
        decisive = op == "none"
        try:
            index = next(
                index
                for index, row in enumerate(found if isinstance(found, tuple) else ())
                if self.decides(condition, row, decisive=decisive)
            )
            why = self.why_not(condition) if decisive else self.why(condition)
            return f"row {index} of {self.place(rows)}: {why}"
        finally:
            self.env.row = outer

    def decides(self, condition: Node, row: Value, *, decisive: bool) -> bool:
        self.env.row = row
        try:
            return self.value(condition) is decisive
        except Unverifiable:
            return False

    def holds(self, node: Node) -> bool:
        try:
            return self.value(node) is True
        except Unverifiable:
            return False

    def found(self, node: Node) -> str:
        """The values that may be shown, after the text of what they make false."""
        shown: dict[str, None] = {}
        for part in _leaves(node):
            try:
                value = self.value(part)
            except Unverifiable:
                continue
            if value is True or value is False or self.reveal or self.is_public(part):
                shown[f"{self.place(part)} is {render_value(value)}"] = None
        return f": {', '.join(shown)}" if shown else ""

    def shown(self, part: Node) -> bool:
        """Whether a part of a key that was read may be shown: whatever it was read from is public."""
        return self.reveal or all(self.is_public(source) for source in _sources(part))

    def is_public(self, node: Node) -> bool:
        match node.op, node.args:
            case "field", (ref, path):
                try:
                    return self.public(compile_key(ref, self.env.table)(self.env), path)
                except (Pending, Unverifiable):
                    return False
            case _:
                return False


def _sources(node: Node) -> Iterator[Node]:
    """What a value comes from, but not what the keys of that come from."""
    if node.op in {"field", "rows", "exists_row", "each"}:
        yield node
        return
    for part in node.args:
        if isinstance(part, Node):
            yield from _sources(part)


def _leaves(node: Node) -> Iterator[Node]:
    """The places that a condition compares, but not those that a quantifier looks at row by row."""
    if node.op in {"arg", "actor", "each", "field", "item", "get"}:
        yield node
        return
    below = list(children(node))
    for child in below[:1] if node.op in QUANTIFIERS else below:
        yield from _leaves(child)
