"""The only way to make a node: everything that a premise may not say is refused here, at declaration and on load."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

from lastlook import canonical
from lastlook.errors import CanonicalError, DeclarationError
from lastlook.expressions.english import SYMBOLS, render_node, render_ref
from lastlook.expressions.tree import CONDITIONS, LISTS, NUMBERS, QUANTIFIERS, ROOTS, Node, Path, RefNode, nested, stage
from lastlook.records import Address

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "MAX_DEPTH",
    "MAX_HEIGHT",
    "arithmetic",
    "as_utc",
    "before",
    "binding_hint",
    "call",
    "compare",
    "condition",
    "exists",
    "field",
    "fresh",
    "holds",
    "item",
    "largest",
    "listed",
    "literal",
    "logic",
    "make",
    "member",
    "negation",
    "pluck",
    "quantifier",
    "reference",
    "root",
    "rounded",
    "suggestion",
    "unary",
]

MAX_DEPTH: Final = 3
"""How many reads may follow each other until a key is known."""
MAX_HEIGHT: Final = 24
"""How deep an expression may be; the codec's bound less what a record puts around it."""

_DEADLINES_STAND: Final = frozenset({"and", "or", "before", "fresh"})


def make(op: str, *args: Any) -> Node:
    """A node of parts that are checked already; here only what concerns all operations.

    Raises:
        DeclarationError: too high a tree, or a deadline where its truth could begin with time instead of ending.
    """
    below: list[Node] = []
    levels = 0
    for part in args:
        if isinstance(part, Node):
            below.append(part)
        elif isinstance(part, RefNode):
            below.extend(part.key)
            levels = 1  # the list of the key's parts
    height = _bounded_height(1 + levels + max((part.height for part in below), default=0))
    clock = op in {"before", "fresh"} or any(part.clock for part in below)
    if clock and op not in _DEADLINES_STAND:
        raise DeclarationError(
            f"a deadline stands by itself or under & and |, not inside of {op!r}: only so is there a last moment at "
            "which the premise holds"
        )
    # The condition of a quantifier speaks of that quantifier's own rows.
    outer = below[:1] if op in QUANTIFIERS else below
    return Node(op, args, height, clock=clock, free=any(part.free for part in outer))


def _bounded_height(height: int) -> int:
    if height > MAX_HEIGHT:
        raise DeclarationError(f"an expression nested more than {MAX_HEIGHT} deep: split it into several premises")
    return height


# --- Roots ------------------------------------------------------------------------------------------------------------


def literal(value: object) -> Node:
    """A constant.

    Raises:
        DeclarationError: a float, a naive datetime, NaN, or what is no value at all.
    """
    if isinstance(value, float):
        way = f"write Decimal('{value!r}')" if value - value == 0 else "use null where there is no number"
        raise DeclarationError(f"{value!r} is a float, which has no exact value: {way}")
    if isinstance(value, datetime) and value.utcoffset() is None:
        raise DeclarationError(f"datetime {value} names no moment: give it a zone, such as tzinfo=UTC")
    if isinstance(value, timedelta):
        raise DeclarationError("a span of time is no value to compare with: write fresh(field, span) or before(moment)")
    if callable(value) and hasattr(value, "__self__"):
        name = getattr(value, "__name__", "it")
        raise DeclarationError(f"{name!r} is an operation: call it, or write [{name!r}] for a field of that name")
    try:
        frozen = canonical.freeze(value, path="constant")
        canonical.encode(frozen)  # refuses floats within, and whatever could not be stored
    except CanonicalError as error:
        raise DeclarationError(f"not a constant: {error}") from None
    if frozen is canonical.ABSENT:
        raise DeclarationError("ABSENT is no constant to compare with: write exists(x) or ~exists(x)")
    return Node("lit", (frozen,), _bounded_height(1 + _levels(frozen)))


def _levels(value: object) -> int:
    if isinstance(value, tuple):
        return 1 + max(map(_levels, cast("tuple[object, ...]", value)), default=0)
    if isinstance(value, Mapping):
        return 1 + max(map(_levels, cast("Mapping[str, object]", value).values()), default=0)
    return 0


def root(op: str, path: Path) -> Node:
    """An argument, the actor or the row of the enclosing quantifier, and a path into it."""
    return Node(op, (path,), 1, free=op == "each")


def reference(
    kind: str, key: tuple[Node, ...], fields: frozenset[str] | None = None, public: frozenset[str] = frozenset()
) -> RefNode:
    """One row, or all rows of the kind where the key is empty.

    Raises:
        DeclarationError: a kind or constant part that names nothing, a condition or list as a part, or a chain of reads
            that is too long.
    """
    ref = RefNode(kind, key, fields, public)
    if not isinstance(cast("object", kind), str):
        raise DeclarationError(f"a kind of resource is named by text, not by {kind!r}")
    for part in key:
        if part.op in CONDITIONS or part.op in LISTS or (part.op == "lit" and type(part.args[0]) is bool):
            raise DeclarationError(f"a key is text, a number or the like: {render_node(part)} names no row")
    constants = tuple(part.args[0] for part in key if part.op == "lit")
    try:
        Address(kind, constants)
    except CanonicalError as error:
        raise DeclarationError(f"{render_ref(ref)} names no row: {error}") from None
    _refuse_deep(stage(ref), render_ref(ref))
    return ref


def _refuse_deep(reads: int, text: str) -> None:
    if reads > MAX_DEPTH:
        raise DeclarationError(f"{text} follows keys through more than {MAX_DEPTH} reads: name the row by an argument")


def field(ref: RefNode, name: object) -> Node:
    """A field of a row.

    Raises:
        DeclarationError: the row is known to have no such field, or all rows of a kind are meant.
    """
    if not ref.key:
        raise DeclarationError(
            f"{render_ref(ref)} are many rows: each.{name} is a field of one, within every() and others"
        )
    if not isinstance(name, str):
        raise DeclarationError(f"a field is named by text, not by {name!r}: {render_ref(ref)} is a row")
    if ref.fields is not None and name not in ref.fields:
        raise DeclarationError(f"{ref.kind!r} has no field {name!r}{suggestion(name, ref.fields)}")
    return item(make("field", ref, ()), name)


def suggestion(name: str, names: Iterable[str]) -> str:
    """`: did you mean ...?`, or what there is."""
    from difflib import get_close_matches  # only for a message

    known = sorted(names)
    close = get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else f": it has {', '.join(map(repr, known)) or 'none'}"


def item(base: Node, key: object) -> Node:
    """A place within a value: by name, position, or an expression that gives one."""
    if isinstance(key, Node) and key.op == "lit":
        key = key.args[0]
    if isinstance(key, Node):
        if key.op in CONDITIONS or key.op in LISTS:
            raise DeclarationError(f"an item is looked up by text or position, not by {render_node(key)}")
        return make("get", base, key)
    if isinstance(key, bool) or not isinstance(key, (str, int)) or (isinstance(key, int) and key < 0):
        raise DeclarationError(f"{render_node(base)}[{key!r}] is no item: items are named by text or counted from 0")
    step = literal(key).args[0]
    if base.op in ROOTS:
        *before, path = base.args
        return make(base.op, *before, (*path, step)) if before else root(base.op, (*path, step))
    return make("item", base, step)


# --- Comparison and numbers -------------------------------------------------------------------------------------------


def compare(op: str, left: Node, right: Node) -> Node:
    """`== != < <= > >=`."""
    symbol = SYMBOLS[op]
    ordered = op not in {"eq", "ne"}
    for node in (left, right):
        if node.op in {"and", "or"}:
            raise DeclarationError(
                f"{render_node(node)} is already a condition: & and | bind tighter than {symbol}, "
                "so put each comparison in parentheses"
            )
        if node.op == "lit" and node.args[0] is None:
            raise DeclarationError(f"null is not compared with {symbol}: write {_other(left, right)}.is_null()")
        if ordered and (node.op in CONDITIONS or node.op in LISTS or _is_unordered(node)):
            raise DeclarationError(f"{symbol} puts numbers, texts and dates in order: {render_node(node)} is none")
    return make(op, left, right)


def _other(left: Node, right: Node) -> str:
    return render_node(right if left.op == "lit" else left)


def _is_unordered(node: Node) -> bool:
    return node.op == "lit" and (type(node.args[0]) is bool or not isinstance(node.args[0], (int, str, Decimal, date)))


def arithmetic(op: str, first: Node, *others: Node) -> Node:
    """`+ - *` of whole and decimal numbers, exact; a sum that begins with a sum is one node."""
    for node in (first, *others):
        _number(node, SYMBOLS[op])
    return make(op, *(first.args if op == "add" and first.op == "add" else (first,)), *others)


def _number(node: Node, where: str) -> Node:
    value = node.args[0] if node.op == "lit" else 0
    if node.op in CONDITIONS or node.op in LISTS or type(value) not in (int, Decimal):
        hint = "" if not isinstance(value, str) else "; give a key its parts instead of joined text"
        raise DeclarationError(f"{where} takes numbers: {render_node(node)} is none{hint}")
    return node


def rounded(op: str, base: Node, places: object) -> Node:
    """A number of so many decimal places, halves to even."""
    if type(places) is not int or not 0 <= places <= canonical.MAX_DIGITS:
        raise DeclarationError(f"places are a whole number from 0 to {canonical.MAX_DIGITS}, not {places!r}")
    return make(op, _number(base, op), places)


def as_utc(base: Node, zone: object) -> Node:
    """The moment that a clock in this zone showed."""
    from zoneinfo import ZoneInfo  # dear to import, and rarely needed

    try:
        ZoneInfo(zone if isinstance(zone, str) else "")
    except (ValueError, OSError, LookupError):
        raise DeclarationError(f"{zone!r} is no time zone: name one of the IANA's, such as 'Europe/London'") from None
    return make("as_utc", base, zone)


# --- Logic ------------------------------------------------------------------------------------------------------------


def condition(node: Node, where: str) -> Node:
    """The node, unless it can never be true or false."""
    value = node.args[0] if node.op == "lit" else True
    if node.op in NUMBERS or node.op in LISTS or node.op == "as_utc" or type(value) is not bool:
        raise DeclarationError(
            f"{where} takes conditions: {render_node(node)} is neither true nor false{binding_hint(where)}"
        )
    return node


def binding_hint(where: str) -> str:
    """What is nearly always the matter where `&` or `|` got something else than a condition."""
    return f": {where} binds more tightly than ==: write (a == b) {where} c" if where in {"&", "|"} else ""


def logic(op: str, *nodes: Node) -> Node:
    """`&` and `|`; a chain of one of them is one node."""
    parts: list[Node] = []
    for node in nodes:
        parts.extend(node.args if condition(node, SYMBOLS[op]).op == op else (node,))
    return make(op, *parts)


def negation(node: Node) -> Node:
    """`~`."""
    return make("not", condition(node, "~"))


# --- Lists ------------------------------------------------------------------------------------------------------------


def _list(node: Node, where: str) -> Node:
    value = node.args[0] if node.op == "lit" else ()
    if node.op in CONDITIONS or node.op in NUMBERS or node.op == "as_utc" or not isinstance(value, tuple):
        raise DeclarationError(f"{where} takes a list: {render_node(node)} is none")
    return node


def member(op: str, left: Node, right: Node) -> Node:
    """`in`, `contains` and `all_in`."""
    lists = {"in": (right,), "contains": (left,), "all_in": (left, right)}[op]
    for node in lists:
        _list(node, f"{op.removesuffix('_')}()")
    return make(op, left, right)


def quantifier(op: str, rows: Node, criterion: Node) -> Node:
    """`every`, `none` and `where`: `each` in the criterion is the row."""
    node = make(op, _list(rows, f"{op}()"), condition(criterion, f"{op}()"))
    _refuse_deep(nested(node), render_node(node))
    return node


def listed(op: str, rows: Node) -> Node:
    """`count`, `total` and `largest_of`: one value of a whole list."""
    return make(op, _list(rows, f"{op.removesuffix('_of')}()"))


def pluck(rows: Node, path: tuple[object, ...]) -> Node:
    """One value of each row."""
    steps = root("each", ())
    for step in path:
        steps = item(steps, step)
    if not path:
        raise DeclarationError("pluck() takes the constant path of one item of each row, such as pluck('price')")
    return make("pluck", _list(rows, "pluck()"), steps.args[0])


def largest(values: tuple[Node, ...]) -> Node:
    """The largest of several values, or of one list."""
    if len(values) == 1:
        return listed("largest_of", values[0])
    for node in values:
        if node.op in CONDITIONS or node.op in LISTS or _is_unordered(node):
            raise DeclarationError(f"largest() puts numbers, texts and dates in order: {render_node(node)} is none")
    if not values:
        raise DeclarationError("largest() of nothing: give it values or one list")
    return make("largest", *values)


# --- The rest ---------------------------------------------------------------------------------------------------------


def exists(base: Node | RefNode) -> Node:
    """Whether a row or a place is there."""
    if isinstance(base, RefNode):
        return make("exists_row", base)
    if base.op not in ROOTS and base.op not in {"item", "get"}:
        raise DeclarationError(f"exists() asks whether a row, a field or an item is there: {render_node(base)} is none")
    return make("exists", base)


def unary(op: str, base: Node) -> Node:
    """`is_null` and `unchanged`."""
    if op == "unchanged" and base.free:
        raise DeclarationError(f"unchanged() cannot tell the rows of a list apart: {render_node(base)}: take the list")
    return make(op, base)


def holds(base: Node) -> Node:
    """A condition for which unverifiable is false."""
    return make("holds", condition(base, "holds()"))


def before(moment: Node) -> Node:
    """The deadline `now < moment`."""
    return make("before", _moment(moment, "before()"))


def fresh(moment: Node, span: object) -> Node:
    """The deadline `now <= moment + span`."""
    if not isinstance(span, timedelta) or span <= timedelta(0):
        raise DeclarationError(f"fresh() takes a span of time, such as timedelta(minutes=5), not {span!r}")
    return make("fresh", _moment(moment, "fresh()"), span)


def _moment(node: Node, where: str) -> Node:
    value = node.args[0] if node.op == "lit" else None
    if node.free:
        raise DeclarationError(f"a deadline cannot differ by row: {where} got {render_node(node)}")
    if node.op in CONDITIONS or node.op in NUMBERS or node.op in LISTS or not isinstance(value, datetime | None):
        raise DeclarationError(f"{where} takes a datetime with a zone: {render_node(node)} is none")
    return node


def call(name: str, version: str, params: Mapping[str, Any], arguments: tuple[Node, ...]) -> Node:
    """A registered validator's judgement of these values."""
    frozen = literal(params)
    bare = make("call", *arguments)
    return Node("call", (name, version, frozen.args[0], *arguments), max(frozen.height, bare.height), free=bare.free)
