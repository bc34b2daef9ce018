"""Expressions as they are written: operators that build a tree, and Python's other operators, which refuse to."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, TypeAlias, TypeVar, cast, overload

from lastlook.errors import DeclarationError
from lastlook.expressions import build
from lastlook.expressions.english import render_node, render_ref
from lastlook.expressions.tree import Node, RefNode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import date, datetime
    from decimal import Decimal

__all__ = [
    "BoolClause",
    "Clause",
    "Daily",
    "Expr",
    "Field",
    "Momentary",
    "Numeric",
    "T",
    "Term",
    "Textual",
    "condition_of",
    "field_from",
    "node_of",
    "operand_of",
    "reference_in",
]

T = TypeVar("T")

Numeric: TypeAlias = "Expr[int] | Expr[Decimal] | Expr[int | None] | Expr[Decimal | None]"
Textual: TypeAlias = "Expr[str] | Expr[str | None]"
Daily: TypeAlias = "Expr[date] | Expr[date | None]"
Momentary: TypeAlias = "Expr[datetime] | Expr[datetime | None]"

node_of: Final = cast("Callable[[Expr[Any]], Node]", attrgetter("_node"))
"""The tree behind an expression."""


def reference_in(value: object) -> RefNode | None:
    """The tree behind a resource, or None of anything else."""
    ref = getattr(type(value), "_ref", None) and getattr(value, "_ref", None)
    return ref if isinstance(ref, RefNode) else None


class Clause(Protocol):
    """What SQLAlchemy's mapped attributes meet, whose types `row()` borrows; at run time they are Fields."""

    def is_distinct_from(self, other: Any, /) -> Any:
        """As SQLAlchemy's `ColumnOperators.is_distinct_from`; never called here."""


class _BoolType(Protocol):
    def result_processor(self, dialect: Any, coltype: Any, /) -> Callable[[Any], bool | None] | None: ...


class _BoolLabel(Protocol):
    @property
    def type(self) -> _BoolType: ...


class BoolClause(Clause, Protocol):
    """A Clause that is a condition: the first member of SQLAlchemy's in which the type of the value can be seen."""

    def label(self, name: str, /) -> _BoolLabel:
        """As SQLAlchemy's `SQLCoreOperations.label`; never called here."""
        ...


def operand_of(value: object) -> Node:
    """The tree of an expression, or of a constant.

    Raises:
        DeclarationError: a resource, or no constant.
    """
    if isinstance(value, Expr):
        return node_of(cast("Expr[object]", value))
    ref = reference_in(value)
    if ref is not None:
        raise DeclarationError(f"{render_ref(ref)} is a resource and no value: name one of its fields, or exists(...)")
    return build.literal(value)


def condition_of(value: object, where: str) -> Node:
    """The tree of a condition, for `where` as the message names it: `block_unless()`, `&`, `every()`.

    Raises:
        DeclarationError: a plain value, a resource, or an expression that is never true or false.
    """
    if isinstance(value, Expr):
        return build.condition(node_of(cast("Expr[object]", value)), where)
    if isinstance(value, bool):
        raise DeclarationError(
            f"{where} got a plain {value}, already computed at import: `is`, `not` and constants cannot be recorded; "
            "write ~x for x is False"
        )
    ref = reference_in(value)
    if ref is not None:
        raise DeclarationError(f"{where} got the resource {render_ref(ref)}: name one of its fields, or exists(...)")
    raise DeclarationError(
        f"{where} got a plain {type(value).__name__} instead of a condition over evidence{build.binding_hint(where)}"
    )


class Expr(Generic[T]):
    """A value that is worked out from arguments and evidence when it is needed; `T` is what type it then has.

    `== != < <= > >= + - * & | ~ []` and the methods build larger expressions. Evaluation is three-valued: what is
    missing, unreadable or of an unlike kind makes the result unverifiable, under `!=` and `~` too, and `&` and `|`
    follow Kleene (unverifiable & False is False, unverifiable | True is True). Numbers are exact, a bool is none.

    Everything else that Python can do with an object raises DeclarationError: truth (so `and`, `or`, `not`, `in`,
    chained comparisons and `max` too), iteration, text and formats, and unknown attributes.
    """

    __slots__ = ("__weakref__", "_node")

    _node: Node

    def __init__(self, node: Node, /) -> None:
        self._node = node

    # --- What builds ---

    def __eq__(self, other: object) -> Expr[bool]:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] - an expression
        return Term(build.compare("eq", self._node, operand_of(other)))

    def __ne__(self, other: object) -> Expr[bool]:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] - an expression
        return Term(build.compare("ne", self._node, operand_of(other)))

    __hash__ = object.__hash__

    @overload
    def __lt__(self: Numeric, other: Numeric | int | Decimal, /) -> Expr[bool]: ...
    @overload
    def __lt__(self: Textual, other: Textual | str, /) -> Expr[bool]: ...
    @overload
    def __lt__(self: Momentary, other: Momentary | datetime, /) -> Expr[bool]: ...
    @overload
    def __lt__(self: Daily, other: Daily | date, /) -> Expr[bool]: ...
    def __lt__(self, other: object) -> Expr[bool]:
        return Term(build.compare("lt", self._node, operand_of(other)))

    @overload
    def __le__(self: Numeric, other: Numeric | int | Decimal, /) -> Expr[bool]: ...
    @overload
    def __le__(self: Textual, other: Textual | str, /) -> Expr[bool]: ...
    @overload
    def __le__(self: Momentary, other: Momentary | datetime, /) -> Expr[bool]: ...
    @overload
    def __le__(self: Daily, other: Daily | date, /) -> Expr[bool]: ...
    def __le__(self, other: object) -> Expr[bool]:
        return Term(build.compare("le", self._node, operand_of(other)))

    @overload
    def __gt__(self: Numeric, other: Numeric | int | Decimal, /) -> Expr[bool]: ...
    @overload
    def __gt__(self: Textual, other: Textual | str, /) -> Expr[bool]: ...
    @overload
    def __gt__(self: Momentary, other: Momentary | datetime, /) -> Expr[bool]: ...
    @overload
    def __gt__(self: Daily, other: Daily | date, /) -> Expr[bool]: ...
    def __gt__(self, other: object) -> Expr[bool]:
        return Term(build.compare("gt", self._node, operand_of(other)))

    @overload
    def __ge__(self: Numeric, other: Numeric | int | Decimal, /) -> Expr[bool]: ...
    @overload
    def __ge__(self: Textual, other: Textual | str, /) -> Expr[bool]: ...
    @overload
    def __ge__(self: Momentary, other: Momentary | datetime, /) -> Expr[bool]: ...
    @overload
    def __ge__(self: Daily, other: Daily | date, /) -> Expr[bool]: ...
    def __ge__(self, other: object) -> Expr[bool]:
        return Term(build.compare("ge", self._node, operand_of(other)))

    def __add__(self: Numeric, other: Numeric | int | Decimal) -> Expr[Decimal]:
        return Term(build.arithmetic("add", node_of(self), operand_of(other)))

    def __radd__(self: Numeric, other: int | Decimal) -> Expr[Decimal]:
        return Term(build.arithmetic("add", operand_of(other), node_of(self)))

    def __sub__(self: Numeric, other: Numeric | int | Decimal) -> Expr[Decimal]:
        return Term(build.arithmetic("sub", node_of(self), operand_of(other)))

    def __rsub__(self: Numeric, other: int | Decimal) -> Expr[Decimal]:
        return Term(build.arithmetic("sub", operand_of(other), node_of(self)))

    def __mul__(self: Numeric, other: Numeric | int | Decimal) -> Expr[Decimal]:
        return Term(build.arithmetic("mul", node_of(self), operand_of(other)))

    def __rmul__(self: Numeric, other: int | Decimal) -> Expr[Decimal]:
        return Term(build.arithmetic("mul", operand_of(other), node_of(self)))

    def __and__(self: Expr[bool], other: Expr[bool]) -> Expr[bool]:
        return Term(build.logic("and", condition_of(self, "&"), condition_of(other, "&")))

    def __or__(self: Expr[bool], other: Expr[bool]) -> Expr[bool]:
        return Term(build.logic("or", condition_of(self, "|"), condition_of(other, "|")))

    def __invert__(self: Expr[bool]) -> Expr[bool]:
        return Term(build.negation(node_of(self)))

    def __getitem__(self, item: str | int | Expr[Any] | Clause) -> Expr[Any]:
        """A place within the value: by name, by position from 0, or by an expression that gives one."""
        return Term(build.item(self._node, _key(item)))

    def in_(self, values: Expr[Any] | Clause | Collection[Any]) -> Expr[bool]:
        """Whether the value is an element of a list; unverifiable if elements are there and all are of another kind."""
        return Term(build.member("in", self._node, operand_of(_listed(values))))

    def contains(self, value: object) -> Expr[bool]:
        """Whether this list has the value as an element, as `value.in_(this)`; parts of a text are none."""
        return Term(build.member("contains", self._node, operand_of(value)))

    def all_in(self, values: Expr[Any] | Clause | Collection[Any]) -> Expr[bool]:
        """Whether each element of this list is in the other, as often as it is here (multiset inclusion)."""
        return Term(build.member("all_in", self._node, operand_of(_listed(values))))

    def is_null(self) -> Expr[bool]:
        """Whether the value is null, which is not missing: where there is none this is unverifiable."""
        return Term(build.unary("is_null", self._node))

    def total(self, *path: str | int) -> Expr[Decimal]:
        """The sum of a list of numbers, or of one item of each row; 0 of an empty list."""
        rows = build.pluck(self._node, path) if path else self._node
        return Term(build.listed("total", rows))

    def pluck(self, *path: str | int) -> Expr[Any]:
        """The list of one item of each row of this list, such as `lines.pluck("price")`."""
        return Term(build.pluck(self._node, path))

    def where(self, condition: Expr[bool] | BoolClause) -> Expr[Any]:
        """The rows of this list for which the condition over `each` is true; a row that lacks the field is not."""
        return Term(build.quantifier("where", self._node, condition_of(condition, "where()")))

    def every(self, condition: Expr[bool] | BoolClause) -> Expr[bool]:
        """Whether the condition over `each` is true of all rows of this list, so of an empty one."""
        return Term(build.quantifier("every", self._node, condition_of(condition, "every()")))

    def none(self, condition: Expr[bool] | BoolClause) -> Expr[bool]:
        """Whether the condition over `each` is true of no row of this list; it is not of one that lacks the field."""
        return Term(build.quantifier("none", self._node, condition_of(condition, "none()")))

    def count(self) -> Expr[int]:
        """The number of elements of this list."""
        return Term(build.listed("count", self._node))

    def rounded(self, places: int) -> Expr[Decimal]:
        """The number at so many decimal places, halves to the even neighbour."""
        return Term(build.rounded("rounded", self._node, places))

    def as_decimal(self, places: int) -> Expr[Decimal]:
        """A float, which no premise compares, as the decimal number of its shortest text, rounded to these places."""
        return Term(build.rounded("as_decimal", self._node, places))

    def as_utc(self, zone: str) -> Expr[datetime]:
        """A datetime without a zone as the moment at which a clock of that IANA zone showed it.

        What such a clock shows twice or never, at a change of its offset, is unverifiable.
        """
        return Term(build.as_utc(self._node, zone))

    # --- What refuses ---

    def __bool__(self) -> NoReturn:
        raise DeclarationError(
            "a premise expression has no truth value while it is being declared: "
            f"{render_node(self._node)}: write ~a for not a, a & b for a and b, (lo <= x) & (x <= hi) for "
            "lo <= x <= hi, x.in_(y) for x in y, largest(a, b) for max(a, b)"
        )

    def __iter__(self) -> NoReturn:
        text = render_node(self._node)
        raise DeclarationError(f"{text} has no rows yet to go through: write every(), none(), count() or total() of it")

    def __contains__(self, item: object) -> NoReturn:
        raise DeclarationError(f"{render_node(self._node)} has no elements yet: write .contains(x) for x in it")

    def __format__(self, spec: str) -> NoReturn:
        self._no_text("an f-string")

    def __str__(self) -> NoReturn:  # noqa: PLE0307 - a text of it would become a constant key
        self._no_text("a text")

    def _no_text(self, where: str) -> NoReturn:
        text = render_node(self._node)
        raise DeclarationError(
            f"{text} has no text yet, so {where} cannot hold it: give a key its parts, "
            f'resource("orders", arg.region, {text}); repr() shows the expression'
        )

    def __repr__(self) -> str:
        return render_node(self._node)

    if not TYPE_CHECKING:  # pragma: no branch - checkers report unknown attributes and operands by themselves

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            text = render_node(self._node)
            raise DeclarationError(f"{text} has no operation {name!r}: an item of that name is {text}[{name!r}]")

        def __len__(self) -> NoReturn:
            raise DeclarationError(f"{render_node(self._node)} has no length yet: write count(x) for len(x)")

        def __rand__(self, other: object) -> NoReturn:
            condition_of(other, "&")

        def __ror__(self, other: object) -> NoReturn:
            condition_of(other, "|")

        def __truediv__(self, other: object) -> NoReturn:
            raise DeclarationError("there is no division, which is not exact: multiply the other side instead")

        __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __truediv__


class Term(Expr[T]):
    """Any expression but a field.

    Expr itself has no instances: Python would ask a Field first, as one of a subclass, and `arg.amount <= policy.limit`
    would read the other way round.
    """

    __slots__ = ()


class Field(Expr[T]):
    """One field of a resource, or a constant place within it: what a refresh rule may name.

    In the body of a Resource, `title: Field[str] = Field(public=True)` declares a field whose value explanations show.
    """

    __slots__ = ()

    def __init__(self, *, public: bool = False) -> None:
        super().__init__(Node("declared", (public,), 1))

    @overload
    def __getitem__(self, item: str | int) -> Field[Any]: ...
    @overload
    def __getitem__(self, item: str | int | Expr[Any] | Clause) -> Expr[Any]: ...
    def __getitem__(self, item: str | int | Expr[Any] | Clause) -> Expr[Any]:
        """As of any expression; a constant item is a Field again."""
        node = build.item(self._node, _key(item))
        return field_from(node) if node.op == "field" else Term(node)


def field_from(node: Node) -> Field[Any]:
    """The field that a tree of that operation names."""
    made: Field[Any] = Field()
    object.__setattr__(made, "_node", node)
    return made


def _key(item: object) -> object:
    return operand_of(cast("object", item)) if isinstance(item, Expr) else item


def _listed(values: object) -> object:
    """Sets are not ordered, so that their constant would differ from run to run."""
    return sorted(cast("set[object]", values), key=repr) if isinstance(values, (set, frozenset)) else values
