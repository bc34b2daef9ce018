"""What a premise is written with beside resources: arguments, the actor, rows, constants and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from lastlook.errors import DeclarationError
from lastlook.expressions import build
from lastlook.expressions.expr import BoolClause, Clause, Expr, Term, condition_of, operand_of, reference_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date, datetime, timedelta
    from decimal import Decimal

    from lastlook.canonical import Value
    from lastlook.expressions.resources import Ref

__all__ = [
    "Arguments",
    "Row",
    "actor",
    "arg",
    "before",
    "call_node",
    "count",
    "each",
    "every",
    "exists",
    "fresh",
    "holds",
    "largest",
    "literal",
    "lookup",
    "none",
    "rows",
    "total",
    "unchanged",
]


class Arguments:
    """The arguments of the effect: `arg.amount`, or `arg["class"]`; what is below them is reached by item."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Expr[Any]:
        if not isinstance(cast("object", name), str):
            raise DeclarationError(f"an argument has a name: arg.amount, not arg[{name!r}]")
        return Term(build.item(build.root("arg", ()), name))

    def __getattr__(self, name: str) -> Expr[Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __repr__(self) -> str:
        return "arg"


class Row(Expr[Any]):
    """The row that the enclosing `every`, `none` or `where` looks at, the innermost if there are several.

    `each.seat` is its item; one that has an operation's name is `each["count"]`. Of a list of plain values `each` is
    the value itself.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Expr[Any]: ...

    else:

        def __getattr__(self, name: str) -> Expr[Any]:
            if name.startswith("_"):
                raise AttributeError(name)
            return self[name]


arg: Final = Arguments()
"""The arguments of the effect."""
actor: Final[Expr[Any]] = Term(build.root("actor", ()))
"""Who acts, as `.options(actor=...)` says it and never a model: `actor["user_id"]`."""
each: Final = Row(build.root("each", ()))
"""The row of the enclosing quantifier."""


def literal(value: Any) -> Expr[Any]:
    """A constant as an expression, such as `literal(["open", "new"]).contains(order.state)`.

    Raises:
        DeclarationError: a float, a naive datetime, NaN, or what has no canonical form.
    """
    return Term(operand_of(value))


def rows(kind: str) -> Expr[Any]:
    """All rows of a kind in the order of their keys, which are not in the rows.

    What is said of them holds of rows that come and go too, so they are bound only where the system can guard all of a
    kind.
    """
    return Term(build.make("rows", build.reference(kind, ())))


def exists(where: Ref | Expr[Any] | Clause | type[Any]) -> Expr[bool]:
    """Whether a row, a field or an item is there; null is there.

    False only after a successful read: an unreadable system makes it unverifiable. It is false too where the way to it
    is missing, as when the row that gives the key is gone.
    """
    ref = reference_in(where)
    return Term(build.exists(operand_of(where) if ref is None else ref))


def every(values: Expr[Any] | Clause | Iterable[Any], condition: Expr[bool] | BoolClause) -> Expr[bool]:
    """As `values.every(condition)`."""
    return Term(build.quantifier("every", operand_of(values), condition_of(condition, "every()")))


def none(values: Expr[Any] | Clause | Iterable[Any], condition: Expr[bool] | BoolClause) -> Expr[bool]:
    """As `values.none(condition)`."""
    return Term(build.quantifier("none", operand_of(values), condition_of(condition, "none()")))


def count(values: Expr[Any] | Clause) -> Expr[int]:
    """As `values.count()`."""
    return Term(build.listed("count", operand_of(values)))


def total(values: Expr[Any] | Clause, *path: str | int) -> Expr[Decimal]:
    """As `values.total("price")`."""
    node = operand_of(values)
    return Term(build.listed("total", build.pluck(node, path) if path else node))


def largest(*values: Expr[Any] | Clause | int | Decimal | str | date) -> Expr[Any]:
    """The largest of several values, as `largest(0, order.total - 100)`, or of the elements of one list.

    Unverifiable for values of unlike kinds and for an empty list.
    """
    return Term(build.largest(tuple(operand_of(value) for value in values)))


def lookup(table: Expr[Any] | Clause, *keys: Expr[Any] | Clause | str | int) -> Expr[Any]:
    """The value of a table of tables: `lookup(fees.table, order.region, arg.speed)`."""
    node = operand_of(table)
    for key in keys:
        node = build.item(node, operand_of(key) if isinstance(key, Expr) else key)
    return Term(node)


def unchanged(value: Expr[Any] | Clause) -> Expr[bool]:
    """Whether the value still is what it was when the effect was proposed: what a person was shown and agreed to.

    Unverifiable where it is missing, then or now.
    """
    return Term(build.unary("unchanged", operand_of(value)))


def holds(condition: Expr[bool] | BoolClause) -> Expr[bool]:
    """The condition with unverifiable turned into false.

    Warning: `~holds(x)` is true of missing and of unreadable evidence. Use it only where that is what the rule says.
    """
    return Term(build.holds(condition_of(condition, "holds()")))


def before(moment: Expr[Any] | Clause | datetime) -> Expr[bool]:
    """Whether the moment is yet to come; a deadline, which the target's own clock decides in the end.

    It stands by itself or under `&` and `|`, so that there is a last moment at which the premise holds.
    """
    return Term(build.before(operand_of(moment)))


def fresh(moment: Expr[Any] | Clause, span: timedelta) -> Expr[bool]:
    """Whether the moment, such as that of an approval, is at most this span ago; a deadline, as `before`.

    A moment that lies in the future is unverifiable.
    """
    return Term(build.fresh(operand_of(moment), span))


def call_node(
    name: str, version: str, params: Mapping[str, Value], arguments: tuple[Expr[Any] | Clause, ...]
) -> Expr[bool]:
    """A registered validator's judgement of these values; the registry is not known here.

    Raises:
        DeclarationError: parameters that have no canonical form, or a deadline or a resource as an argument.
    """
    return Term(build.call(name, version, params, tuple(map(operand_of, arguments))))
