"""What an expression names, read off its tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from lastlook.errors import DeclarationError
from lastlook.expressions.english import render_node
from lastlook.expressions.expr import Expr, Term, node_of
from lastlook.expressions.jsonform import ref_text, text_of
from lastlook.expressions.resources import Ref, ref_from
from lastlook.expressions.tree import Node, Path, RefNode, nested, stage, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.canonical import Value

__all__ = [
    "Analysis",
    "ValidatorCall",
    "analyse",
    "field_place",
]


class ValidatorCall:
    """A call of a registered validator that an expression makes.

    Attributes:
        name: the validator's registered name.
        version: its version.
        params: its parameters, as they were declared.
        arguments: the number of its arguments.
    """

    __slots__ = ("arguments", "name", "params", "version")

    def __init__(self, name: str, version: str, params: Mapping[str, Value], arguments: int) -> None:
        self.name: Final = name
        self.version: Final = version
        self.params: Final = params
        self.arguments: Final = arguments


class Analysis:
    """What an expression names.

    Attributes:
        arguments: the effect's arguments.
        uses_actor: whether the actor is named.
        static: all evidence whose key does not name `each`, that of keys included: a resource and the leading constant
            path, () for the row's existence or for all rows of a kind. Each pair once, in the order of the text.
        dynamic: whether a key depends on evidence or on `each`, so that what is used must be traced (`Env.touched`).
        depth: how many reads follow each other; 1 where keys need no evidence, 0 where there is no evidence.
        kinds: the kinds of all resources, those of keys and of `rows()` included.
        collections: the kinds of `rows()`.
        presence: the kinds of which it matters whether a row, or a field of it, is there at all.
        fields: the kind and name of each field.
        clock: whether there is a deadline.
        calls: the validators that are called.
        captures: what `unchanged` captures.
    """

    __slots__ = (
        "arguments",
        "calls",
        "captures",
        "clock",
        "collections",
        "depth",
        "dynamic",
        "fields",
        "kinds",
        "presence",
        "static",
        "uses_actor",
    )

    def __init__(
        self,
        *,
        arguments: frozenset[str],
        uses_actor: bool,
        static: tuple[tuple[Ref, Path], ...],
        dynamic: bool,
        depth: int,
        kinds: frozenset[str],
        collections: frozenset[str],
        presence: frozenset[str],
        fields: frozenset[tuple[str, str]],
        clock: bool,
        calls: tuple[ValidatorCall, ...],
        captures: tuple[Expr[Any], ...],
    ) -> None:
        self.arguments: Final = arguments
        self.uses_actor: Final = uses_actor
        self.static: Final = static
        self.dynamic: Final = dynamic
        self.depth: Final = depth
        self.kinds: Final = kinds
        self.collections: Final = collections
        self.presence: Final = presence
        self.fields: Final = fields
        self.clock: Final = clock
        self.calls: Final = calls
        self.captures: Final = captures


_KNOWN: Final[WeakKeyDictionary[Node, Analysis]] = WeakKeyDictionary()


def analyse(expr: Expr[Any]) -> Analysis:
    """What the expression names; worked out once."""
    node = node_of(expr)
    known = _KNOWN.get(node)
    if known is None:
        known = _KNOWN[node] = _analyse(node)
    return known


def field_place(field: Expr[Any]) -> tuple[Ref, Path]:
    """The resource and the constant path that a field names, as a refresh rule does.

    Raises:
        DeclarationError: it is no field of a resource, or one whose row `each` gives.
    """
    node = node_of(field)
    if node.op != "field" or node.free:
        raise DeclarationError(f"a field of a resource is needed here, such as order.note: got {render_node(node)}")
    ref, path = node.args
    return ref_from(ref), path


def _analyse(root: Node) -> Analysis:
    arguments: set[str] = set()
    static: dict[tuple[str, Path], tuple[Ref, Path]] = {}
    kinds: set[str] = set()
    collections: set[str] = set()
    presence: set[str] = set()
    fields: set[tuple[str, str]] = set()
    calls: list[ValidatorCall] = []
    captures: dict[str, Expr[Any]] = {}
    uses_actor = dynamic = False
    for node in walk(root):
        match node.op, node.args:
            case "arg", (path,):
                arguments.add(path[0])
            case "actor", _:
                uses_actor = True
            case (("field" | "exists_row" | "rows"), (RefNode() as ref, *paths)):
                place: Path = paths[0] if paths else ()
                kinds.add(ref.kind)
                if node.op == "rows":
                    collections.add(ref.kind)
                if node.op == "exists_row":
                    presence.add(ref.kind)
                if place:
                    fields.add((ref.kind, str(place[0])))
                if ref.free:
                    dynamic = True
                else:
                    dynamic = dynamic or stage(ref) > 1
                    static.setdefault((ref_text(ref), place), (ref_from(ref), place))
            case "call", (name, version, params, *rest):
                calls.append(ValidatorCall(name, version, params, len(rest)))
            case (("exists" | "holds"), parts):
                presence.update(
                    ref.kind for part in parts for inner in walk(part) for ref in inner.args if isinstance(ref, RefNode)
                )
            case "unchanged", (base,):
                captures.setdefault(text_of(base), Term(base))
            case _:
                pass
    return Analysis(
        arguments=frozenset(arguments),
        uses_actor=uses_actor,
        static=tuple(static.values()),
        dynamic=dynamic,
        depth=nested(root),
        kinds=frozenset(kinds),
        collections=frozenset(collections),
        presence=frozenset(presence),
        fields=frozenset(fields),
        clock=root.clock,
        calls=tuple(calls),
        captures=tuple(captures.values()),
    )
