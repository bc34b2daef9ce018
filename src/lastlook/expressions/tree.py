"""The trees behind expressions: plain nodes, which overload nothing and know nothing of their evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "COMPARISONS",
    "CONDITIONS",
    "LISTS",
    "NUMBERS",
    "QUANTIFIERS",
    "ROOTS",
    "Node",
    "Path",
    "RefNode",
    "children",
    "nested",
    "stage",
    "walk",
]

Path: TypeAlias = tuple[str | int, ...]
"""Names of map items and positions of list items, from the outside in."""

COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
QUANTIFIERS: Final = frozenset({"every", "none", "where"})
CONDITIONS: Final = COMPARISONS | {
    *("and", "or", "not", "in", "contains", "all_in", "is_null", "every", "none"),
    *("exists", "exists_row", "unchanged", "holds", "before", "fresh", "call"),
}
"""The operations whose value is true or false, and never anything else."""
NUMBERS: Final = frozenset({"add", "sub", "mul", "total", "count", "rounded", "as_decimal"})
LISTS: Final = frozenset({"rows", "pluck", "where"})
ROOTS: Final = frozenset({"arg", "actor", "each", "field"})


class Node:
    """One operation and its parts; compare trees by their JSON form.

    Attributes:
        op: the operation's tag, as in the JSON form.
        args: nodes, one RefNode, or plain parts such as a path, as the operation has them.
        height: levels of lists that the JSON form has.
        clock: whether its truth moves with the clock alone.
        free: whether it names `each` outside of a quantifier.
    """

    __slots__ = ("__weakref__", "args", "clock", "free", "height", "op")

    def __init__(self, op: str, args: tuple[Any, ...], height: int, *, clock: bool = False, free: bool = False) -> None:
        self.op: Final = op
        self.args: Final = args
        self.height: Final = height
        self.clock: Final = clock
        self.free: Final = free


class RefNode:
    """One row by kind and key, or all rows of a kind where the key is empty.

    Attributes:
        kind: the kind, as a system of record publishes it.
        key: one node for each part of the key.
        fields: the fields there are, or None where nobody said.
        public: the fields whose values an explanation may show.
    """

    __slots__ = ("fields", "key", "kind", "public")

    def __init__(
        self,
        kind: str,
        key: tuple[Node, ...],
        fields: frozenset[str] | None = None,
        public: frozenset[str] = frozenset(),
    ) -> None:
        self.kind: Final = kind
        self.key: Final = key
        self.fields: Final = fields
        self.public: Final = public

    @property
    def free(self) -> bool:
        """Whether its key names `each` outside of a quantifier."""
        return any(part.free for part in self.key)


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, those of a resource's key included, in the order they are written."""
    for part in node.args:
        if isinstance(part, Node):
            yield part
        elif isinstance(part, RefNode):
            yield from part.key


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes below it, each before those below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def stage(ref: RefNode, above: int = 0) -> int:
    """How many reads it takes to read a resource: 1 where its key needs no evidence."""
    return 1 + max((nested(part, above) for part in ref.key), default=0)


def nested(node: Node, above: int = 0) -> int:
    """How many reads must follow each other before a node's evidence is known: 1 where keys need no evidence.

    Args:
        node: where to look.
        above: the reads that the enclosing quantifier's rows take, for a key that names `each`.
    """
    match node.op, node.args:
        case "each", _:
            return above
        case (("field" | "exists_row" | "rows"), (RefNode(key=key), *_)):
            return 1 + max((nested(part, above) for part in key), default=0)
        case (("every" | "none" | "where"), (Node() as rows, Node() as condition)):
            outer = nested(rows, above)
            return max(outer, nested(condition, outer))
        case _:
            return max((nested(child, above) for child in children(node)), default=0)
