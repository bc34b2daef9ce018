"""Expressions as trees of plain values, for storing and comparing: tagged lists, loaded by one closed match."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from lastlook import canonical
from lastlook.errors import CanonicalError, DeclarationError
from lastlook.expressions import build
from lastlook.expressions.expr import Expr, Term, field_from, node_of
from lastlook.expressions.tree import Node, RefNode

if TYPE_CHECKING:
    from lastlook.canonical import Value

__all__ = [
    "EXPRESSION_SEMANTICS",
    "from_json",
    "ref_text",
    "text_of",
    "to_json",
]

EXPRESSION_SEMANTICS: Final = 1
"""The version of what the operations mean; a stored expression of another version is not read."""

_MICROSECOND: Final = timedelta(microseconds=1)


def to_json(expr: Expr[Any]) -> Value:
    """The tree of an expression as a canonical value: its version, and lists that begin with a tag."""
    return (EXPRESSION_SEMANTICS, _tree(node_of(expr)))


def text_of(node: Node) -> str:
    """The one text of a tree: two trees are alike exactly when their texts are."""
    return canonical.encode(_tree(node)).decode()


def ref_text(ref: RefNode) -> str:
    """The one text of a resource, whatever is known of its fields."""
    return canonical.encode((ref.kind, *map(_tree, ref.key))).decode()


def _tree(node: Node) -> tuple[Value, ...]:
    match node.op, node.args:
        case (("arg" | "actor" | "each"), (path,)):
            return (node.op, *path)
        case (("field" | "exists_row"), (RefNode() as ref, *paths)):
            return (node.op, ref.kind, tuple(map(_tree, ref.key)), *(step for path in paths for step in path))
        case "rows", (RefNode() as ref,):
            return ("rows", ref.kind)
        case "pluck", (rows, path):
            return ("pluck", _tree(rows), *path)
        case "fresh", (moment, span):
            return ("fresh", _tree(moment), span // _MICROSECOND)
        case _:
            return (node.op, *(_tree(part) if isinstance(part, Node) else part for part in node.args))


def from_json(value: object) -> Expr[Any]:
    """The expression of which `value` is the tree.

    Raises:
        CanonicalError: another version, an unknown tag, a wrong number or type of parts, or what could not be declared.
    """
    pair = cast("tuple[object, ...]", value) if isinstance(value, (tuple, list)) else ()
    if len(pair) != 2 or type(pair[0]) is not int or pair[0] != EXPRESSION_SEMANTICS:
        raise CanonicalError(f"an expression of other semantics than {EXPRESSION_SEMANTICS} at the top level")
    node = _load(pair[1], build.MAX_HEIGHT)
    return field_from(node) if node.op == "field" else Term(node)


def _load(tree: object, levels: int) -> Node:
    if not levels or not isinstance(tree, (tuple, list)) or not tree:
        raise CanonicalError("an expression is a list that begins with a tag, and not too deep")
    tag, *parts = cast("list[object]", tree)
    try:
        return _build(tag, parts, levels - 1)
    except DeclarationError as error:
        raise CanonicalError(f"an expression that cannot be declared: {error}") from None


def _build(tag: object, parts: list[object], levels: int) -> Node:
    def load(part: object) -> Node:
        return _load(part, levels)

    match tag, parts:
        case "lit", [value]:
            return build.literal(value)
        case (("arg" | "actor" | "each"), path) if path or tag != "arg":
            return _reach(build.root(cast("str", tag), ()), path, named=tag == "arg")
        case "field", [str() as kind, keys, str() as name, *path]:
            return _reach(build.field(_reference(kind, keys, levels), name), path)
        case "rows", [str() as kind]:
            return build.make("rows", build.reference(kind, ()))
        case "item", [base, key] if not isinstance(key, (tuple, list)):
            return build.item(load(base), key)
        case "get", [base, key]:
            return build.item(load(base), load(key))
        case (("eq" | "ne" | "lt" | "le" | "gt" | "ge"), [left, right]):
            return build.compare(cast("str", tag), load(left), load(right))
        case (("add" | "and" | "or"), [first, second, *others]):
            nodes = map(load, (first, second, *others))
            return build.arithmetic("add", *nodes) if tag == "add" else build.logic(cast("str", tag), *nodes)
        case (("sub" | "mul"), [left, right]):
            return build.arithmetic(cast("str", tag), load(left), load(right))
        case (("in" | "contains" | "all_in"), [left, right]):
            return build.member(cast("str", tag), load(left), load(right))
        case "not", [operand]:
            return build.negation(load(operand))
        case (("every" | "none" | "where"), [rows, condition]):
            return build.quantifier(cast("str", tag), load(rows), load(condition))
        case (("count" | "total" | "largest_of"), [rows]):
            return build.listed(cast("str", tag), load(rows))
        case "largest", [first, second, *others]:
            return build.largest(tuple(map(load, (first, second, *others))))
        case "pluck", [rows, *path]:
            return build.pluck(load(rows), tuple(path))
        case (("rounded" | "as_decimal"), [base, places]):
            return build.rounded(cast("str", tag), load(base), places)
        case "as_utc", [base, zone]:
            return build.as_utc(load(base), zone)
        case "exists_row", [str() as kind, keys]:
            return build.exists(_reference(kind, keys, levels))
        case "exists", [base]:
            return build.exists(load(base))
        case (("is_null" | "unchanged"), [base]):
            return build.unary(cast("str", tag), load(base))
        case "holds", [base]:
            return build.holds(load(base))
        case "before", [moment]:
            return build.before(load(moment))
        case "fresh", [moment, int() as span] if not isinstance(span, bool) and abs(span) < 10**18:
            return build.fresh(load(moment), span * _MICROSECOND)
        case "call", [str() as name, str() as version, params, *arguments] if isinstance(params, Mapping):
            named = cast("Mapping[str, object]", params)
            return build.call(name, version, named, tuple(map(load, arguments)))
        case _:
            raise CanonicalError(f"no expression has the tag {tag!r} with {len(parts)} such parts")


def _reach(node: Node, path: list[object], *, named: bool = False) -> Node:
    for step in path:
        if named and not isinstance(step, str):
            raise CanonicalError("an argument is named by text")
        named = False
        node = build.item(node, step)
    return node


def _reference(kind: str, keys: object, levels: int) -> RefNode:
    if not isinstance(keys, (tuple, list)) or not keys:
        raise CanonicalError(f"a row of {kind!r} without a list of key parts")
    return build.reference(kind, tuple(_load(key, levels - 1) for key in cast("list[object]", keys)))
