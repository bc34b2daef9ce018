"""A plain reading of expressions: their JSON form, evaluated straight from what the operations mean."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Protocol

from lastlook.canonical import ABSENT

__all__ = [
    "UNREADABLE",
    "Address",
    "Bad",
    "Path",
    "Place",
    "Reading",
    "address",
    "below",
    "named",
    "resources",
    "same",
    "word",
]

Address = tuple[str, tuple[Any, ...]]
"""Kind and key of a row; no key for all rows of the kind."""
Path = tuple[Any, ...]
Place = tuple[Address, Path]
UNREADABLE = object()


class Rows(Protocol):
    """The world that is read: what lies at a place, ABSENT, or UNREADABLE."""

    def at(self, place: Place) -> Any: ...


class Bad(Exception):
    """No value: something is `missing`, perhaps in the row of a quantifier (`in_row`), or unlike, or unreadable."""

    def __init__(self, *, missing: bool = False, in_row: bool = False) -> None:
        self.missing, self.in_row = missing, in_row


def address(kind: str, key: Sequence[Any]) -> Address:
    """An address in which no bool passes for a number."""
    return kind, tuple(("bool", part) if isinstance(part, bool) else part for part in key)


def below(value: Any, step: Any) -> Any:
    """The item of a map or a list, or ABSENT."""
    kind = word(value)
    if isinstance(step, str):
        return value.get(step, ABSENT) if kind == "map" else ABSENT
    return value[step] if kind == "list" and 0 <= step < len(value) else ABSENT


def word(value: Any) -> str:
    """What kind of values a value is compared with."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | Decimal():
            return "number"
        case str():
            return "text"
        case tuple():
            return "list"
        case Mapping():
            return "map"
        case _:
            return "nothing"


def same(one: Any, other: Any) -> bool:
    """Equality within one kind of values, numbers by value."""
    kind = word(one)
    if kind != word(other):
        return False
    if kind == "list":
        return len(one) == len(other) and all(map(same, one, other))
    if kind == "map":
        return set(one) == set(other) and all(same(one[name], other[name]) for name in one)
    return bool(one == other)


def need(value: Any, *words: str) -> Any:
    if word(value) not in words:
        raise Bad
    return value


def member(value: Any, values: Any) -> bool:
    if need(values, "list") and word(value) not in map(word, values):
        raise Bad
    return any(same(value, each) for each in values)


def included(values: Any, others: Any) -> bool:
    """Each value as often among the others; one of a kind that they have none of decides nothing."""
    need(others, "list")
    alike = [value for value in need(values, "list") if not others or word(value) in map(word, others)]
    for value in alike:
        if sum(same(value, other) for other in others) < sum(same(value, each) for each in values):
            return False
    if len(alike) < len(values):
        raise Bad
    return True


def resources(tree: Any) -> Iterator[tuple[str, Any, Path]]:
    """Every resource in a tree: its kind, the trees of its key, and the path that is used of it."""
    if word(tree) == "list" and tree and tree[0] != "lit":
        if tree[0] in ("field", "exists_row", "rows"):
            yield tree[1], tree[2] if len(tree) > 2 else (), tree[3:]
        for part in tree:
            yield from resources(part)


def names_row(tree: Any) -> bool:
    """Whether `each` stands in a tree, outside of the conditions of the quantifiers in it."""
    if word(tree) != "list" or not tree or tree[0] == "lit":
        return False
    return tree[0] == "each" or any(map(names_row, tree[1:2] if tree[0] in ("every", "none", "where") else tree))


def named(tree: Any) -> Iterator[tuple[str, Any, Path]]:
    """The resources in a tree whose key needs no evidence, whether or not the evaluation of the tree gets to them."""
    return ((kind, keys, path) for kind, keys, path in resources(tree) if not any(resources(keys)) | names_row(keys))


@dataclass
class Reading:
    """One evaluation of trees in the world as it is.

    Attributes:
        roots: what `arg` and `actor` stand for.
        captured: what `unchanged` compares with, which it stores there while `capturing`.
        touched: the evidence that was used.
    """

    world: Rows
    roots: Mapping[str, Mapping[str, Any]]
    captured: dict[str, Any]
    capturing: bool = False
    touched: set[Place] = field(default_factory=set[Place])

    def each(
        self, trees: Sequence[Any], row: Any, read: Callable[[Any, Any], Any] | None = None
    ) -> tuple[list[Any], list[Bad]]:
        """The values of all trees that have one, and why the others have none, the weightiest first."""
        values: list[Any] = []
        failed: list[Bad] = []
        for tree in trees:
            try:
                values.append((read or self.value)(tree, row))
            except Bad as bad:
                failed.append(bad)
        return values, sorted(failed, key=lambda bad: bad.in_row)

    def all(self, trees: Sequence[Any], row: Any) -> list[Any]:
        """The values of all trees."""
        values, failed = self.each(trees, row)
        if failed:
            raise failed[0]
        return values

    def truth(self, tree: Any, row: Any = None) -> bool:
        """The value of a condition."""
        return bool(need(self.value(tree, row), "bool"))

    def listed(self, tree: Any, row: Any) -> tuple[Any, ...]:
        """The value of a list."""
        found: tuple[Any, ...] = need(self.value(tree, row), "list")
        return found

    def place(self, kind: str, keys: Sequence[Any], path: Path, row: Any = None) -> Place:
        """Where a resource and a path in it are; it counts as used."""
        key = self.all(keys, row)
        if None in key:
            raise Bad(missing=True)
        at = address(kind, [need(part, "text", "number", "bool") for part in key])
        self.touched.add((at, path))
        return at, path

    def look(self, kind: str, keys: Sequence[Any], path: Path, row: Any) -> Any:
        """What lies at a place of a resource."""
        return self.there(self.world.at(self.place(kind, keys, path, row)))

    def there(self, value: Any, path: Sequence[Any] = (), *, in_row: bool = False) -> Any:
        """What lies at a path in a value."""
        for step in path:
            value = below(value, step)
        if value is ABSENT or value is UNREADABLE:
            raise Bad(missing=value is ABSENT, in_row=in_row)
        return value

    def quantifier(self, op: str, base: Any, condition: Any, row: Any) -> Any:
        """`every`, `none` and `where`; a row that lacks an item is passed over by the last two."""

        def match(each: Any, _: Any) -> bool:
            try:
                return self.truth(condition, each)
            except Bad as bad:
                if bad.in_row and op != "every":
                    return False
                raise

        rows = self.listed(base, row)
        matches, failed = self.each(rows, None, match)
        if failed and (op != "every" or all(matches)):
            raise failed[0]
        if op == "where":
            return tuple(each for each, matching in zip(rows, matches, strict=True) if matching)
        return all(matches) if op == "every" else not any(matches)

    def value(self, tree: Any, row: Any = None) -> Any:
        """What a tree stands for; raises Bad where it stands for nothing."""
        op, *parts = tree
        in_row = op in ("item", "get", "pluck") and names_row(parts[0])
        match op:
            case "lit":
                return parts[0]
            case "arg" | "actor":
                return self.there(self.roots[op], parts)
            case "each":
                return self.there(row, parts, in_row=True)
            case "field":
                return self.look(parts[0], parts[1], tuple(parts[2:]), row)
            case "rows":
                return self.look(parts[0], (), (), row)
            case "item":
                return self.there(self.value(parts[0], row), parts[1:], in_row=in_row)
            case "get":
                base, step = self.all(parts, row)
                if isinstance(need(step, "text", "number"), Decimal):
                    raise Bad
                return self.there(base, [step], in_row=in_row)
            case "pluck":
                return tuple(self.there(each, parts[1:], in_row=in_row) for each in self.listed(parts[0], row))
            case "exists" | "exists_row":
                try:
                    self.value(parts[0], row) if op == "exists" else self.look(parts[0], parts[1], (), row)
                except Bad as bad:
                    if not bad.missing:
                        raise
                    return False
                return True
            case "and" | "or":
                truths, failed = self.each(parts, row, self.truth)
                if failed and (op == "or") not in truths:
                    raise failed[0]
                return all(truths) if op == "and" else any(truths)
            case "not":
                return not self.truth(parts[0], row)
            case "holds":
                return self.each(parts, row, self.truth)[0] == [True]
            case "every" | "none" | "where":
                return self.quantifier(op, parts[0], parts[1], row)
            case "unchanged":
                value, key = self.value(parts[0], row), repr(parts[0])
                if self.capturing:
                    self.captured[key] = value
                if key not in self.captured:
                    raise Bad
                return same(self.captured[key], value)
            case "rounded":
                number = need(self.value(parts[0], row), "number")
                return Decimal(number).quantize(Decimal(1).scaleb(-parts[1]), ROUND_HALF_EVEN)
            case _:
                return operation(op, self.all(parts, row))


def operation(op: str, values: list[Any]) -> Any:
    """The operations that need the values of all of their parts."""
    first, second = (*values, None)[:2]
    match op:
        case "eq" | "ne":
            return same(first, need(second, word(first))) is (op == "eq")
        case "lt" | "le" | "gt" | "ge":
            return getattr(operator, op)(first, need(second, word(need(first, "number", "text"))))
        case "in":
            return member(first, second)
        case "contains":
            return member(second, first)
        case "all_in":
            return included(first, second)
        case "is_null":
            return first is None
        case "count":
            return len(need(first, "list"))
        case "total":
            return sum(need(value, "number") for value in need(first, "list"))
        case "largest" | "largest_of":
            found = list(need(first, "list")) if op == "largest_of" else values
            if not found:
                raise Bad
            return max(need(value, word(need(found[0], "number", "text"))) for value in found)
        case "add":
            return sum(need(value, "number") for value in values)
        case "sub":
            return need(first, "number") - need(second, "number")
        case "mul":
            return need(first, "number") * need(second, "number")
        case _:
            raise AssertionError(f"this reading knows no operation {op!r}")
