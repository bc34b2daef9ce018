"""Random values and expressions: every field has a type, which its value has nearly always."""

from __future__ import annotations

import operator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from lastlook import (
    actor,
    arg,
    count,
    each,
    every,
    exists,
    holds,
    largest,
    literal,
    lookup,
    none,
    resource,
    rows,
    total,
    unchanged,
)
from lastlook.canonical import freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from lastlook.expressions import Expr, Ref

__all__ = ["FIELDS", "KINDS", "NAMES", "Draw"]

KINDS = {"orders": 1, "users": 1, "rules": 1, "stock": 2}
"""How many parts a key has."""
LETTERS, NAMES = "abc", "xyz"
FIELDS = ("flag", "n", "price", "name", "ref", "tags", "lines", "table")
T = TypeVar("T")
IN_LINES = ("n", "flag", "name", "ref")
OPERATIONS: list[Callable[[Any, Any], Expr[Any]]] = [operator.add, operator.sub, operator.mul]
COMPARISONS: list[Callable[[Any, Any], Expr[bool]]] = [operator.eq, operator.ne, operator.lt, operator.le, operator.ge]


class Draw:
    """Draws from one source of randomness, for a world of these kinds."""

    def __init__(self, random: Random, kinds: Sequence[str] = ()) -> None:
        self.random = random
        self.kinds = kinds or ["orders", *random.sample(["rules", "stock", "users"], random.randint(1, 3))]

    def odds(self, chance: float) -> bool:
        """Whether something of that chance happens."""
        return self.random.random() < chance

    def number(self, least: int, most: int) -> int:
        """A whole number between the two, both included."""
        return self.random.randint(least, most)

    def one_of(self, items: Sequence[T]) -> T:
        """One of several."""
        return self.random.choice(items)

    # --- Values ---

    def key(self, kind: str) -> tuple[Any, ...]:
        """The key of a row that may be there."""
        return (self.one_of(LETTERS), self.number(1, 2))[: KINDS[kind]]

    def value(self, name: str) -> Any:
        """A value of a field, frozen; now and then of another type."""
        return freeze(self.one_of([None, None, "1", True, 1, [], {}]) if self.odds(0.06) else self._typed(name))

    def row(self) -> Mapping[str, Any]:
        """A row, in which a field may be missing."""
        return {name: self.value(name) for name in FIELDS if self.odds(0.88)}

    def arguments(self) -> dict[str, Any]:
        """The arguments of the effect."""
        return {
            "target": self.one_of(LETTERS),
            "key": self.one_of(LETTERS),
            "name": self.one_of(NAMES),
            "amount": self.number(0, 3),
            "wanted": tuple(self.random.sample(NAMES, self.number(0, 2))),
        }

    def _typed(self, name: str) -> Any:
        match name:
            case "flag":
                return self.odds(0.6)
            case "n":
                return self.number(0, 3)
            case "price":
                return self.one_of([Decimal("0.5"), Decimal("1.50"), 2, Decimal("2.00"), 3])
            case "name":
                return self.one_of(NAMES)
            case "ref":
                return self.one_of(LETTERS)
            case "tags":
                return [self.one_of(NAMES) for _ in range(self.number(0, 3))]
            case "lines":
                return [self._line() for _ in range(self.number(0, 3))]
            case _:
                return {name: self._entries() for name in NAMES if self.odds(0.8)}

    def _line(self) -> dict[str, Any]:
        return {name: self.value(name) for name in IN_LINES if self.odds(0.85)}

    def _entries(self) -> dict[str, int]:
        return {letter: self.number(0, 3) for letter in LETTERS if self.odds(0.8)}

    # --- Expressions: `deep` is how far they may still branch, `row` whether they stand in a quantifier over rows ---

    def ref(self, deep: int, *, row: bool = False) -> Ref:
        """A row; its key may come from an argument, from evidence or from the row of a quantifier."""
        kind = self.one_of(self.kinds)
        first: Any = self.one_of(LETTERS)
        if row and self.odds(0.4):
            first = each["ref"]
        elif self.odds(0.15):
            first = arg["key"]
        elif deep > 0 and self.odds(0.4):
            first = self.ref(deep - 1, row=row)["ref"]
        if KINDS[kind] == 1:
            return resource(kind, first)
        second: Any = self.ref(deep - 1)["n"] if deep > 1 and self.odds(0.2) else self.number(1, 2)
        return resource(kind, first, second)

    def place(self, name: str, deep: int, *, row: bool) -> Expr[Any]:
        """A field of a row."""
        if row and name in IN_LINES and self.odds(0.75):
            return each[name]
        return self.ref(deep, row=row)[name]

    def many(self, deep: int, *, row: bool) -> Expr[Any]:
        """Rows of which each has the fields of a line."""
        found = rows(self.one_of(self.kinds)) if self.odds(0.5) else self.place("lines", deep - 1, row=row)
        return found.where(self.condition(deep - 2, row=True)) if deep > 1 and self.odds(0.25) else found

    def texts(self, deep: int, *, row: bool) -> Any:
        """A list of texts."""
        match self.number(0, 3):
            case 0:
                return self.random.sample(NAMES, 2)
            case 1:
                return arg["wanted"]
            case 2:
                return self.many(deep, row=row).pluck("name")
            case _:
                return self.place("tags", deep, row=row)

    def amount(self, deep: int, *, row: bool) -> Expr[Any]:
        """A number."""
        match self.number(0, 11 if deep > 0 else 5):
            case 0:
                return literal(self.one_of([0, 1, 2, Decimal("1.5")]))
            case 1:
                return arg["amount"]
            case 2 | 3 | 4:
                return self.place("n", deep, row=row)
            case 5:
                return self.place("price", deep, row=row)
            case 6:
                return self.one_of(OPERATIONS)(self.amount(deep - 1, row=row), self.amount(deep - 1, row=row))
            case 7:
                return count(self.many(deep, row=row))
            case 8:
                return total(self.many(deep, row=row), "n")
            case 9:
                key = self.text(deep - 1, row=row)
                return lookup(self.place("table", deep - 1, row=row), key, self.one_of(LETTERS))
            case 10:
                return largest(self.amount(deep - 1, row=row), self.amount(deep - 1, row=row))
            case _:
                return self.amount(deep - 1, row=row).rounded(1)

    def text(self, deep: int, *, row: bool) -> Expr[Any]:
        """A text."""
        match self.number(0, 6):
            case 0:
                return literal(self.one_of(NAMES))
            case 1:
                return arg["name"]
            case 2:
                return actor["role"]
            case 3:
                return self.place("ref", deep, row=row)
            case _:
                return self.place("name", deep, row=row)

    def condition(self, deep: int, *, row: bool = False) -> Expr[bool]:
        """A condition."""
        match self.number(0, 18 if deep > 0 else 10):
            case 0 | 1 | 2:
                return self.one_of(COMPARISONS)(self.amount(deep - 1, row=row), self.amount(deep - 1, row=row))
            case 3 | 4:
                return self.one_of(COMPARISONS)(self.text(deep - 1, row=row), self.text(deep - 1, row=row))
            case 5:
                return self.place("n" if self.odds(0.1) else "flag", deep, row=row)
            case 6:
                return exists(self.ref(deep, row=row))
            case 7:
                return exists(self.place(self.one_of(FIELDS), deep, row=row))
            case 8:
                return self.place(self.one_of(FIELDS), deep, row=row).is_null()
            case 9:
                return self.text(deep, row=row).in_(self.texts(deep, row=row))
            case 10:
                tags = self.place("tags", deep, row=row)
                texts = self.texts(deep, row=row)
                return tags.all_in(texts) if self.odds(0.4) else tags.contains(self.text(deep, row=row))
            case 11 | 12:
                return self.condition(deep - 1, row=row) & self.condition(deep - 1, row=row)
            case 13:
                return self.condition(deep - 1, row=row) | self.condition(deep - 1, row=row)
            case 14:
                return ~self.condition(deep - 1, row=row)
            case 15:
                return every(self.many(deep, row=row), self.condition(deep - 1, row=True))
            case 16:
                return none(self.many(deep, row=row), self.condition(deep - 1, row=True))
            case 17:
                what = rows(self.one_of(self.kinds)) if self.odds(0.2) else self.ref(deep)[self.one_of(FIELDS)]
                return unchanged(what)
            case _:
                return holds(self.condition(deep - 1, row=row))
