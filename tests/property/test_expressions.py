"""Random expressions over random worlds: the compiled closures against a plain reading of what the operations mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any, TypeVar, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from lastlook import canonical
from lastlook.errors import DeclarationError
from lastlook.expressions import (
    Env,
    Expr,
    Pending,
    SlotTable,
    Unverifiable,
    actor,
    analyse,
    arg,
    compile_expression,
    each,
    exists,
    from_json,
    holds,
    largest,
    literal,
    lookup,
    render,
    resource,
    rows,
    to_json,
)
from lastlook.records import Address, Observation, Token

TOKEN = Token("digest", "test", "t")

# --- The plain reading of the JSON form, one operation after the other, straight from its definition ------------------


class Bad(Exception):
    """Unverifiable: `missing` something, which may be in the row itself (`in_row`)."""

    def __init__(self, *, missing: bool = False, in_row: bool = False) -> None:
        self.missing = missing
        self.in_row = in_row


@dataclass
class World:
    """What is read: rows by kind and key, where a kind that is absent is unreadable."""

    tables: dict[str, dict[str, Any]]
    arguments: dict[str, Any]
    actor: Any

    def table(self, kind: str) -> dict[str, Any]:
        """The rows of a kind that can be read."""
        if kind not in self.tables:
            raise Bad
        return self.tables[kind]


def kind_of(value: Any) -> str:
    """One word for what a value is compared with; a float is compared with nothing."""
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
            for item in cast("tuple[object, ...]", value):
                kind_of(item)
            return "list"
        case Mapping():
            for item in cast("Mapping[str, Any]", value).values():
                kind_of(item)
            return "map"
        case _:
            raise Bad


def same(a: Any, b: Any) -> bool:
    """Equality within one kind, numbers by value."""
    if kind_of(a) != kind_of(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def number(value: Any) -> Any:
    """The value, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise Bad
    return value


def listed(value: Any) -> tuple[Any, ...]:
    """The value, if it is a list."""
    if not isinstance(value, tuple):
        raise Bad
    return value


def member(value: Any, values: Any) -> bool:
    """Membership; in a list of other kinds only it is unverifiable."""
    kinds = {kind_of(item) for item in listed(values)}
    if kind_of(value) not in kinds and kinds:
        raise Bad
    return any(same(value, item) for item in values)


def all_in(values: Any, others: Any) -> bool:
    """Each element often enough; one that has nothing of its kind to be compared with is unverifiable."""
    answers: list[bool] = []
    unlike = False
    for value in listed(values):
        try:
            member(value, others)
        except Bad:
            unlike = True
            continue
        wanted = sum(same(value, other) for other in values if comparable(other))
        answers.append(sum(same(value, other) for other in others) >= wanted)
    if not isinstance(others, tuple):
        raise Bad
    if not all(answers):
        return False
    if unlike:
        raise Bad
    return True


def comparable(value: Any) -> bool:
    """Whether nothing in the value is a float."""
    try:
        kind_of(value)
    except Bad:
        return False
    return True


def walk(value: Any, path: list[Any], *, in_row: bool = False) -> Any:
    """What lies at a path."""
    for step in path:
        named = isinstance(value, Mapping) and isinstance(step, str) and step in value
        counted = isinstance(value, tuple) and isinstance(step, int) and 0 <= step < len(cast("Any", value))
        if not named and not counted:
            raise Bad(missing=True, in_row=in_row)
        value = cast("Any", value)[step]
    return value


def ordered(a: Any, b: Any) -> None:
    """Whether one can come before the other."""
    if kind_of(a) != kind_of(b) or kind_of(a) not in {"number", "text"}:
        raise Bad


def greatest(values: tuple[Any, ...]) -> Any:
    """The largest of some values of one kind."""
    if not values:
        raise Bad
    for value in values:
        ordered(values[0], value)
    return max(values)


def rounded(value: Any, places: int) -> Any:
    """A decimal at so many places."""
    if type(number(value)) is int:
        return value
    with localcontext() as context:
        context.prec = 60
        return Decimal(number(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)


def worst(errors: list[Bad]) -> Bad:
    """The first that is more than an item that a row lacks, else the first."""
    return next((error for error in errors if not error.in_row), errors[0])


def names_row(tree: Any) -> bool:
    """Whether `each` stands in a tree outside of the conditions in it."""
    match tree:
        case ("each", *_):
            return True
        case ("lit", *_):
            return False
        case (("every" | "none" | "where"), base, _):
            return names_row(base)
        case tuple():
            return any(names_row(part) for part in cast("tuple[object, ...]", tree))
        case _:
            return False


class Reading:
    """Evaluates the JSON form in a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def all(self, trees: list[Any], row: Any) -> list[Any]:
        """All values, or the worst error of any."""
        found: list[Any] = []
        errors: list[Bad] = []
        for tree in trees:
            try:
                found.append(self.value(tree, row))
            except Bad as error:
                errors.append(error)
        if errors:
            raise worst(errors)
        return found

    def row(self, kind: str, keys: Any, row: Any) -> Any:
        """A row by its key, or None."""
        (key,) = self.all(list(keys), row)
        if key is None:
            raise Bad(missing=True)
        if not isinstance(key, (str, int, Decimal)):
            raise Bad
        return self.world.table(kind).get(key if isinstance(key, str) else "no text, no row")

    def truths(self, trees: list[Any], row: Any) -> tuple[list[bool], list[Bad]]:
        """The conditions that can be judged, and the errors of the others."""
        found: list[bool] = []
        errors: list[Bad] = []
        for tree in trees:
            try:
                found.append(self.truth(tree, row))
            except Bad as error:
                errors.append(error)
        return found, errors

    def truth(self, tree: Any, row: Any) -> bool:
        """A condition."""
        value = self.value(tree, row)
        if not isinstance(value, bool):
            raise Bad
        return value

    def matches(
        self, base: Any, condition: Any, row: Any, *, lenient: bool
    ) -> tuple[list[tuple[Any, bool]], list[Bad]]:
        """Of which rows a condition holds, and the errors of the others."""
        found: list[tuple[Any, bool]] = []
        errors: list[Bad] = []
        for item in listed(self.value(base, row)):
            try:
                found.append((item, self.truth(condition, item)))
            except Bad as error:
                if lenient and error.in_row:
                    found.append((item, False))
                else:
                    errors.append(error)
        return found, errors

    def is_there(self, find: Callable[[], Any]) -> bool:
        """Whether something is not missing."""
        try:
            return find() is not canonical.ABSENT
        except Bad as error:
            if error.missing:
                return False
            raise

    def value(self, tree: Any, row: Any = None) -> Any:
        """The value of a tree."""
        op, *parts = tree
        match op, parts:
            case "lit", [value]:
                return value
            case "arg", path:
                return walk(self.world.arguments, path)
            case "actor", path:
                return walk(self.world.actor, path)
            case "each", path:
                return walk(row, path, in_row=True)
            case "field", [kind, keys, *path]:
                found = self.row(kind, keys, row)
                if found is None:
                    raise Bad(missing=True)
                return walk(found, path)
            case "rows", [kind]:
                table = self.world.table(kind)
                return tuple(table[key] for key in sorted(table))
            case "item", [base, key]:
                return walk(self.value(base, row), [key], in_row=names_row(base))
            case "get", [base, key]:
                value, step = self.all([base, key], row)
                if isinstance(step, bool) or not isinstance(step, (str, int)):
                    raise Bad
                return walk(value, [step], in_row=names_row(base))
            case "exists_row", [kind, keys]:
                return self.is_there(lambda: canonical.ABSENT if self.row(kind, keys, row) is None else True)
            case "exists", [base]:
                return self.is_there(lambda: self.value(base, row))
            case (("eq" | "ne"), _):
                a, b = self.all(parts, row)
                if kind_of(a) != kind_of(b):
                    raise Bad
                return same(a, b) is (op == "eq")
            case (("lt" | "le" | "gt" | "ge"), _):
                a, b = self.all(parts, row)
                ordered(a, b)
                return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[op]
            case (("add" | "sub" | "mul"), _):
                first, *others = map(number, self.all(parts, row))
                for other in others:
                    first = first + other if op == "add" else first - other if op == "sub" else first * other
                return first
            case "rounded", [base, places]:
                return rounded(self.value(base, row), places)
            case "in", _:
                value, values = self.all(parts, row)
                return member(value, values)
            case "contains", _:
                values, value = self.all(parts, row)
                return member(value, values)
            case "all_in", _:
                values, others = self.all(parts, row)
                return all_in(values, others)
            case "is_null", [base]:
                return self.value(base, row) is None
            case "and", _:
                truths, errors = self.truths(parts, row)
                if errors and all(truths):
                    raise worst(errors)
                return all(truths)
            case "or", _:
                truths, errors = self.truths(parts, row)
                if errors and not any(truths):
                    raise worst(errors)
                return any(truths)
            case "not", [base]:
                return not self.truth(base, row)
            case "holds", [base]:
                try:
                    return self.truth(base, row)
                except Bad:
                    return False
            case "every", [base, condition]:
                judged, errors = self.matches(base, condition, row, lenient=False)
                if errors and all(match for _, match in judged):
                    raise worst(errors)
                return all(match for _, match in judged)
            case (("none" | "where"), [base, condition]):
                judged, errors = self.matches(base, condition, row, lenient=True)
                if errors:
                    raise worst(errors)
                matching = tuple(item for item, match in judged if match)
                return matching if op == "where" else not matching
            case "pluck", [base, *path]:
                return tuple(walk(item, path, in_row=names_row(base)) for item in listed(self.value(base, row)))
            case "count", [base]:
                return len(listed(self.value(base, row)))
            case "total", [base]:
                return sum(map(number, listed(self.value(base, row))))
            case "largest", _:
                return greatest(tuple(self.all(parts, row)))
            case "largest_of", [base]:
                return greatest(listed(self.value(base, row)))
            case _:
                raise AssertionError(f"this reading knows no operation {op!r}")


# --- Random worlds and expressions ------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
KINDS = ("orders", "users")
NUMBERS: tuple[int | Decimal, ...] = (0, 1, 2, -1, Decimal("1.0"), Decimal("2.50"), Decimal("0.125"))
TEXTS = ("a", "b", "c", "", "1")
ATOMS = (*TEXTS, *NUMBERS, True, False, None)
T = TypeVar("T")


class Tape:
    """Random choices that Hypothesis can shrink and that cost next to nothing; a tape that is spent always says 0."""

    def __init__(self, data: bytes) -> None:
        self.data = iter(data)

    def number(self) -> int:
        """The next choice."""
        return next(self.data, 0)

    def pick(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.number() % len(options)]


def document(tape: Tape, depth: int = 3) -> Any:
    """A value, now and then with a float in it, with which nothing can be compared."""
    shape = tape.number() % 8 if depth > 0 else 0
    if shape in {5, 6}:
        return [document(tape, depth - 1) for _ in range(tape.number() % 4)]
    if shape == 7:
        return record(tape, depth - 1)
    return 1.5 if tape.number() % 30 == 29 else tape.pick(ATOMS)


def record(tape: Tape, depth: int = 3) -> dict[str, Any]:
    """A map with some of the names: mostly a number, a text, a list of rows and a bool."""
    usual: dict[str, Callable[[], Any]] = {
        "a": lambda: tape.pick(NUMBERS),
        "b": lambda: tape.pick(TEXTS),
        "c": lambda: [record(tape, depth - 1) for _ in range(tape.number() % 4)] if depth > 1 else [],
        "d": lambda: tape.pick((True, False)),
    }
    return {
        name: document(tape, depth - 1) if tape.number() % 8 == 7 else make()
        for name, make in usual.items()
        if tape.number() % 8 != 7
    }


def frozen(value: dict[str, Any]) -> dict[str, Any]:
    """A dict of frozen values."""
    return {key: canonical.freeze(item) for key, item in value.items()}


def world_of(data: bytes) -> World:
    """A world in which users cannot always be read."""
    tape = Tape(data)
    arguments = {name: record(tape) for name in ("x", "y") if tape.number() % 8 != 7}
    actor_fields = canonical.freeze(record(tape))
    read: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        if kind == "orders" or tape.number() % 8 != 7:
            read[kind] = frozen({key: record(tape) for key in "abc" if tape.number() % 8 != 7})
    return World(read, frozen(arguments), actor_fields)


def place(tape: Tape, sort: str, depth: int) -> Expr[Any]:
    """An argument, the actor, the row, or a field whose key is one of these; mostly of the sort that is asked for."""
    name = tape.pick(NAMES) if tape.number() % 8 == 7 else tape.pick({"v": "ab", "l": "c", "c": "d", "k": "b"}[sort])
    root = tape.number() % 8
    base: Any
    if root >= 3 and depth:
        key = tape.pick("abc") if tape.number() % 3 else place(tape, "k", depth - 1)
        base = resource(tape.pick(KINDS), key)
    else:
        base = (arg.x, each, actor)[root % 3]
    if tape.number() % 8 == 7:
        base = base["c"][tape.pick((0, 1))]
    return cast("Expr[Any]", base[name])


CONDITIONS: tuple[tuple[str, Callable[..., Expr[Any]]], ...] = (
    ("vv", lambda a, b: a == b),
    ("vv", lambda a, b: a != b),
    ("vv", lambda a, b: a < b),
    ("vv", lambda a, b: a <= b),
    ("vv", lambda a, b: a > b),
    ("vv", lambda a, b: a >= b),
    ("vl", lambda a, b: a.in_(b)),
    ("lv", lambda a, b: a.contains(b)),
    ("ll", lambda a, b: a.all_in(b)),
    ("cc", lambda a, b: a & b),
    ("cc", lambda a, b: a | b),
    ("ccc", lambda a, b, c: (a | b) & c),
    ("c", lambda a: ~a),
    ("c", holds),
    ("v", exists),
    ("k", lambda a: exists(resource("users", a))),
    ("v", lambda a: a.is_null()),
    ("lc", lambda a, b: a.every(b)),
    ("lc", lambda a, b: a.none(b)),
)
VALUES: tuple[tuple[str, Callable[..., Expr[Any]]], ...] = (
    ("vv", lambda a, b: a + b),
    ("vvv", lambda a, b, c: a + b + c),
    ("vv", lambda a, b: a - b),
    ("vv", lambda a, b: a * b),
    ("v", lambda a: a.rounded(1)),
    ("l", lambda a: a.count()),
    ("l", lambda a: a.total()),
    ("l", lambda a: a.total("b")),
    ("vv", largest),
    ("l", largest),
    ("lv", lambda a, b: a[b]["a"]),
    ("k", lambda a: lookup(arg.x, a)),
)
LISTS: tuple[tuple[str, Callable[..., Expr[Any]]], ...] = (
    ("lc", lambda a, b: a.where(b)),
    ("l", lambda a: a.pluck("a")),
    ("", lambda: rows("orders")),
    ("", lambda: rows("users")),
)


OPERATIONS = {"c": CONDITIONS, "v": VALUES, "l": LISTS}


def expression(tape: Tape, sort: str, depth: int) -> Expr[Any]:
    """An expression of about this sort: a condition, a value, a list or a key."""
    if sort == "l" and tape.number() % 4 == 3:
        return literal([tape.pick(ATOMS) for _ in range(tape.number() % 4)])
    if sort == "v" and tape.number() % 4 == 3:
        return literal(tape.pick(ATOMS))
    if not depth or sort == "k" or (sort in "lv" and tape.number() % 2):
        return place(tape, sort, 2)
    parts, build = tape.pick(OPERATIONS[sort])
    try:
        return build(*(expression(tape, part, depth - 1) for part in parts))
    except DeclarationError:
        return place(tape, sort, 2)


def expression_of(data: bytes, *, closed: bool = True) -> Expr[Any]:
    """A random expression, in which `each` stands only in conditions where it is `closed`."""
    tape = Tape(data)
    expr = expression(tape, tape.pick("cccvl"), 4)
    if not closed or not names_row(to_json(expr)):
        return expr
    for condition in (lambda: expr, lambda: ~expr.is_null()):
        try:
            return rows("orders").every(condition())
        except DeclarationError:
            continue
    return arg.x["a"]


def observations(world: World) -> tuple[dict[str, Observation], dict[str, str]]:
    """All that could be read, and all that is unreadable."""
    read: dict[str, Observation] = {}
    unreadable: dict[str, str] = {}
    keys: list[Any] = ["a", "b", "c", "", "1", 0, 1, 2, -1, Decimal("2.50"), Decimal("0.125"), True, False]
    for kind in KINDS:
        addresses = [Address(kind, (key,)) for key in keys]
        if kind not in world.tables:
            unreadable.update((address.identity, "it is down") for address in (*addresses, Address(kind, ())))
            continue
        table = world.tables[kind]
        read[Address(kind, ()).identity] = Observation(tuple(table[key] for key in sorted(table)), TOKEN)
        for address in addresses:
            key = address.key[0]
            row = table.get(key) if isinstance(key, str) else None
            read[address.identity] = Observation(canonical.ABSENT if row is None else row, TOKEN)
    return read, unreadable


def outcome(run: Callable[[], Any]) -> tuple[str, Any]:
    """What comes out, so that outcomes can be compared."""
    try:
        return ("value", run())
    except (Bad, Unverifiable) as stop:
        return ("unverifiable", stop.missing)


def alike(one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    """Whether two outcomes are one; numbers by value."""
    if one[0] != other[0]:
        return False
    return canonical.same(one[1], other[1])


tapes = st.binary(min_size=10, max_size=150)
many = settings(max_examples=2500, deadline=None, print_blob=True)


@many
@given(tapes, tapes)
def test_compiled_closures_agree_with_the_plain_reading(written: bytes, observed: bytes) -> None:
    """Both find the same value, or that there is none and whether that is because something is missing."""
    premise, world = expression_of(written), world_of(observed)
    table = SlotTable()
    compiled = compile_expression(premise, table)
    read, unreadable = observations(world)
    env = Env(table, world.arguments, world.actor, observations=read, unreadable=unreadable)
    found = outcome(lambda: compiled(env))
    expected = outcome(lambda: Reading(world).value(cast("tuple[Any, Any]", to_json(premise))[1]))
    assert alike(found, expected), (found, expected)
    assert env.missing == {}


@many
@given(tapes, tapes)
def test_waves_end_where_reading_everything_does(written: bytes, observed: bytes) -> None:
    """Reading what is asked for, as many times as keys depend on each other, finds the same; all of it is traced."""
    premise, world = expression_of(written), world_of(observed)
    read, unreadable = observations(world)
    table = SlotTable()
    compiled = compile_expression(premise, table)
    everything = Env(table, world.arguments, world.actor, observations=read, unreadable=unreadable)
    env = Env(table, world.arguments, world.actor, touched=[])
    waves = 0
    while True:
        try:
            found = outcome(lambda: compiled(env))
            break
        except Pending:
            waves += 1
            assert env.missing
            for identity in env.missing:
                if identity in unreadable:
                    env.unreadable[identity] = unreadable[identity]
                else:
                    env.observations[identity] = read[identity]
            env.missing.clear()
    assert alike(found, outcome(lambda: compiled(everything)))
    assert waves <= analyse(premise).depth <= 3
    assert {address.identity for address, _ in env.touched or []} == {*env.observations, *env.unreadable}


@many
@given(tapes)
def test_the_json_form_is_the_expression(written: bytes) -> None:
    """Encoded, decoded and loaded, an expression has the same form, text and analysis."""
    premise = expression_of(written, closed=False)
    form = to_json(premise)
    loaded = from_json(canonical.decode(canonical.encode(form)))
    assert canonical.encode(to_json(loaded)) == canonical.encode(form)
    assert render(loaded) == render(premise)
    assert analyse(loaded).fields == analyse(premise).fields
    assert isinstance(loaded, type(premise)) or type(premise) is type(each)
