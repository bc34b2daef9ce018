"""Expressions as text: the way they are declared, and the way they read once their resources are resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

from lastlook.expressions.tree import Node, Path, RefNode

__all__ = [
    "SYMBOLS",
    "Namer",
    "render_node",
    "render_path",
    "render_ref",
    "render_value",
]

Namer: TypeAlias = Callable[[RefNode], str]

SYMBOLS: Final = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
}
"""The operations that are written between their operands."""

# Python's own precedence; what is not listed here holds together by itself.
_BINDING: Final = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), 0),
    "or": 1,
    "and": 2,
    "add": 3,
    "sub": 3,
    "mul": 4,
    "not": 5,
}
_ATOM: Final = 6
_METHODS: Final = {"in": "in_"}
_FUNCTIONS: Final = {
    **{op: op for op in ("exists", "unchanged", "holds", "before", "fresh", "largest")},
    "exists_row": "exists",
    "largest_of": "largest",
}


def render_value(value: object) -> str:
    """A constant or a value as text of one line; a long one is cut."""
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        text = "[" + ", ".join(map(render_value, items)) + "]"
    elif isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value)
        text = "{" + ", ".join(f"{key!r}: {render_value(item)}" for key, item in pairs.items()) + "}"
    elif isinstance(value, (Decimal, date, UUID)):
        text = str(value)
    else:
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def render_path(path: Path) -> str:
    """A path as it is written behind a resource: `.meta['city']`."""
    first, *rest = path
    start = f".{first}" if isinstance(first, str) and first.isidentifier() else f"[{first!r}]"
    return start + "".join(f"[{step!r}]" for step in rest)


def render_ref(ref: RefNode) -> str:
    """A resource as it is declared: `orders[arg.order_id]`, or `rows('orders')` for all rows."""
    if not ref.key:
        return f"rows({ref.kind!r})"
    return f"{ref.kind}[{', '.join(render_node(part) for part in ref.key)}]"


def render_node(node: Node, name: Namer = render_ref) -> str:
    """An expression as text.

    Args:
        node: the expression.
        name: how a resource is named; as it is declared by default.
    """

    def inner(part: Node, least: int = _ATOM) -> str:
        text = render_node(part, name)
        return text if _BINDING.get(part.op, _ATOM) >= least else f"({text})"

    def plain(part: Any) -> str:
        if isinstance(part, Node):
            return render_node(part, name)
        return name(part) if isinstance(part, RefNode) else render_value(part)

    match node.op, node.args:
        case "lit", (value,):
            return render_value(value)
        case (("arg" | "each"), (path,)):
            return f"{node.op}{render_path(path) if path else ''}"
        case "actor", (path,):
            return "actor" + "".join(f"[{step!r}]" for step in path)
        case "field", (ref, path):
            return name(ref) + render_path(path)
        case "rows", (ref,):
            return name(ref)
        case (("item" | "get"), (base, key)):
            return f"{inner(base)}[{plain(key)}]"
        case "not", (operand,):
            return f"~{inner(operand, _BINDING['not'])}"
        case "call", (called, version, params, *arguments):
            shown = [f"{key}={render_value(item)}" for key, item in params.items()]
            return f"{called}@{version}({', '.join([*map(plain, arguments), *shown])})"
        case "fresh", (moment, span):
            return f"fresh({plain(moment)}, {span})"
        case "pluck", (base, path):
            return f"{inner(base)}.pluck({', '.join(map(repr, path))})"
        case _ if node.op in SYMBOLS:
            least = _BINDING[node.op]
            # `a - (b + c)` and `(a == b) == c` keep their parentheses.
            first, *others = node.args
            parts = [inner(first, least + (least == 0)), *(inner(part, least + 1) for part in others)]
            return f" {SYMBOLS[node.op]} ".join(parts)
        case _ if node.op in _FUNCTIONS:
            return f"{_FUNCTIONS[node.op]}({', '.join(map(plain, node.args))})"
        case _:
            base, *others = node.args
            return f"{inner(base)}.{_METHODS.get(node.op, node.op)}({', '.join(map(plain, others))})"
