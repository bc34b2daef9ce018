"""Compiling: a tree becomes a tree of small closures, which work in an `Env`; three-valued, without clock or I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from lastlook.canonical import ABSENT, Value
from lastlook.errors import CanonicalError, DeclarationError
from lastlook.expressions import context, leaves, operations, quantifiers, values
from lastlook.expressions.english import render_node, render_path, render_ref, render_value
from lastlook.expressions.environment import Env, Pending, Unverifiable
from lastlook.expressions.expr import Expr, node_of, reference_in
from lastlook.expressions.jsonform import ref_text, text_of
from lastlook.expressions.resources import Ref, ref_from
from lastlook.expressions.tree import CONDITIONS, QUANTIFIERS, Node, Path, RefNode, children, stage, walk
from lastlook.records import Address

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook.expressions.operations import Compiled, Place
    from lastlook.records import Observation

__all__ = [
    "Shown",
    "SlotTable",
    "compile_condition",
    "compile_expression",
    "compile_key",
    "compile_node",
    "from_evidence",
    "name_of",
    "place_of",
]


_EVIDENCE: Final = frozenset({"field", "rows", "exists_row"})

Shown: TypeAlias = "Callable[[Node], bool]"
"""Whether a part of a key, which was read, may be shown."""


class SlotTable:
    """The resources that the expressions of one contract name, each once, and how their keys are worked out.

    All expressions are compiled before the first `Env` is made. Resources whose key names `each` differ from row to row
    and have no slot.

    Attributes:
        refs: the resource of each slot; one without key parts stands for all rows of its kind.
        keys: what works out the slot's address in an `Env`; raises Pending and Unverifiable.
        derived: whether the key needs evidence.
        names: what names the slot's resource in texts; see `name_of`.
        stages: how many reads it takes until the resource is read, 1 where its key needs no evidence.
        free: by kind, the text of a resource whose key names an `each` that stands for evidence.
    """

    def __init__(self) -> None:
        self.refs: list[Ref] = []
        self.keys: list[Callable[[Env], Address]] = []
        self.names: list[Callable[[Env], str]] = []
        self.derived: list[bool] = []
        self.stages: list[int] = []
        self.free: dict[str, str] = {}
        self._slots: dict[str, int] = {}

    def slot(self, ref: Ref) -> int:
        """The slot of a resource, a new one if need be.

        Raises:
            DeclarationError: its key names `each`, or it is no resource.
        """
        found = reference_in(ref)
        if found is None or found.free:
            raise DeclarationError(f"{ref!r} is no resource by itself: each stands only within every() and others")
        return self.slot_of(found)

    def slot_of(self, ref: RefNode) -> int:
        """As `slot`, of a tree whose key does not name `each`."""
        text = ref_text(ref)
        slot = self._slots.get(text)
        if slot is None:
            key = compile_key(ref, self)  # which first adds the slots of the key's own evidence
            slot = self._slots[text] = len(self.refs)
            self.refs.append(ref_from(ref))
            self.keys.append(key)
            self.names.append(lambda env: name_of(ref, env))
            self.derived.append(stage(ref) > 1)
            self.stages.append(stage(ref))
        return slot


def compile_expression(expr: Expr[Any], slots: SlotTable) -> Compiled:
    """A function from an `Env` to the expression's value, which raises Pending or Unverifiable where there is none.

    Raises:
        DeclarationError: `each` outside of a quantifier.
    """
    node = node_of(expr)
    if node.free:
        raise DeclarationError(f"each stands only within every(), none() and where(): {render_node(node)}")
    _note_free(node, slots, given=True)
    return compile_node(node, slots)


def _note_free(node: Node, slots: SlotTable, *, given: bool) -> None:
    """Note the resources whose key names an `each` that stands for evidence, not for an item of an argument."""
    for ref in (part for part in node.args if isinstance(part, RefNode) and part.free and not given):
        slots.free.setdefault(ref.kind, render_ref(ref))
    if node.op in QUANTIFIERS:
        rows, condition = node.args
        _note_free(rows, slots, given=given)
        _note_free(condition, slots, given=not _reads(rows) and (given or not rows.free))
        return
    for child in children(node):
        _note_free(child, slots, given=given)


def _reads(node: Node) -> bool:
    return any(below.op in _EVIDENCE for below in walk(node))


def compile_node(node: Node, slots: SlotTable) -> Compiled:
    """As `compile_expression`, of a tree that may name `each`."""

    def rows(part: Node, *conditions: Node) -> Callable[[Env], tuple[Value, ...]]:
        evidence = [below for condition in conditions for below in walk(condition) if below.op in _EVIDENCE]
        ahead = [compile_node(below, slots) for below in evidence if not below.free]
        return quantifiers.rows_of(compile_node(part, slots), place_of(part), ahead)

    match node.op, node.args:
        case "lit", (value,):
            return lambda _: value
        case "arg", ((str() as name,),):
            return _argument(name)
        case "arg", (path,):
            return _within(lambda env: cast("Value", env.arguments), path, node)
        case "actor", (path,):
            return _within(lambda env: env.actor, path, node)
        case "each", (path,):
            return _within(lambda env: env.row, path, node)
        case "item", (base, step):
            return _within(compile_node(base, slots), (step,), node)
        case "get", (base, key):
            both = compile_node(base, slots), compile_node(key, slots)
            return operations.get(*both, place_of(node), in_row=base.free)
        case "field", (RefNode() as ref, path):
            return _field(ref, path, slots)
        case "rows", (RefNode() as ref,):
            return _rows(ref, slots)
        case "exists_row", (RefNode() as ref,):
            return operations.present(_row(ref, slots))
        case "exists", (base,):
            return operations.present(compile_node(base, slots))
        case (("eq" | "ne" | "lt" | "le" | "gt" | "ge"), (left, right)):
            both = compile_node(left, slots), compile_node(right, slots)
            compare = operations.comparison(node.op, *both, place_of(node))
            kinds = operations.plain_kinds(node.op)
            return leaves.comparison(operations.COMPARISONS[node.op], kinds, (left, right), slots, compare)
        case (("and" | "or"), parts):
            return operations.kleene([compile_condition(part, slots) for part in parts], decisive=node.op == "or")
        case "not", (part,):
            negated = operations.negation(compile_condition(part, slots))
            field = leaves.field_of(part, slots)
            return negated if field is None else leaves.truth(field, negated, wanted=False)
        case "holds", (part,):
            return operations.holds(compile_condition(part, slots))
        case "every", (base, condition):
            return quantifiers.every(rows(base, condition), compile_condition(condition, slots))
        case "none", (base, condition):
            return quantifiers.none(rows(base, condition), compile_condition(condition, slots))
        case "where", (base, condition):
            return quantifiers.where(rows(base, condition), compile_condition(condition, slots))
        case "pluck", (base, path):
            return quantifiers.pluck(rows(base), path, place_of(node), in_row=node.free)
        case "unchanged", (base,):
            part = _storable(base, slots)
            return context.unchanged(text_of(base), part, place_of(node))
        case "before", (moment,):
            return context.before(compile_node(moment, slots), place_of(node))
        case "fresh", (moment, span):
            return context.fresh(compile_node(moment, slots), span, place_of(node))
        case "call", (name, version, params, *arguments):
            storable = [_storable(argument, slots) for argument in arguments]
            return context.judgement(name, version, params, storable, place_of(node))
        case "as_utc", (base, zone):
            from zoneinfo import ZoneInfo  # dear to import, and rarely needed

            return operations.strict("as_utc", [compile_node(base, slots)], (ZoneInfo(zone),), place_of(node))
        case "declared", _:
            raise DeclarationError("Field(...) declares a field in the body of a Resource and has no value")
        case _:
            operands = [compile_node(part, slots) for part in node.args if isinstance(part, Node)]
            constants = tuple(part for part in node.args if not isinstance(part, Node))
            return operations.strict(node.op, operands, constants, place_of(node))


def compile_condition(node: Node, slots: SlotTable) -> Compiled:
    """As `compile_node`, where the value has to be true or false."""
    part = compile_node(node, slots)
    if node.op in CONDITIONS:
        return part
    certain = operations.truth(part, place_of(node))
    field = leaves.field_of(node, slots)
    return certain if field is None else leaves.truth(field, certain, wanted=True)


def _storable(node: Node, slots: SlotTable) -> Compiled:
    return context.checked(compile_node(node, slots), place_of(node))


def place_of(node: Node, shown: Shown | None = None) -> Place:
    """What names a tree, once something is wrong with it: the tree's text with its resources resolved."""

    def place(env: Env) -> str:
        return render_node(node, lambda ref: name_of(ref, env, shown))

    return place


def from_evidence(part: Node, ref: RefNode, slots: SlotTable) -> bool:
    """Whether a part of a resource's key is worked out from what was read."""
    return _reads(part) or (part.free and ref.kind in slots.free)


def name_of(ref: RefNode, env: Env, shown: Shown | None = None) -> str:
    """A resource as texts name it: `orders/o-1`, or `customers[orders/o-1.email]` where its key was read.

    Such a key is a value like any other, which nobody may have declared public; where it comes from is enough to find
    it by.

    Args:
        ref: the resource.
        env: with what its key is worked out from.
        shown: which parts of keys may be shown although they were read; none by default.
    """
    slots = env.table
    told = [not from_evidence(part, ref, slots) or (shown is not None and shown(part)) for part in ref.key]
    if all(told):
        try:
            return str(compile_key(ref, slots)(env))
        except (Pending, Unverifiable):
            told = [False] * len(told)
    parts = [_told(part, env) if fine else "" for part, fine in zip(ref.key, told, strict=True)]
    named = [
        text or render_node(part, lambda ref: name_of(ref, env, shown))
        for part, text in zip(ref.key, parts, strict=True)
    ]
    return f"{ref.kind}[{', '.join(named)}]"


def _told(part: Node, env: Env) -> str:
    """The value of a part of a key; empty where it has none."""
    try:
        return render_value(compile_node(part, env.table)(env))
    except (Pending, Unverifiable):
        return ""


def compile_key(ref: RefNode, slots: SlotTable) -> Callable[[Env], Address]:
    """A function from an `Env` to the address of a resource; a null part is taken for a missing one."""
    if all(part.op == "lit" for part in ref.key):
        constant = Address(ref.kind, tuple(part.args[0] for part in ref.key))
        return lambda _: constant
    parts = [compile_node(part, slots) for part in ref.key]
    kind, text = ref.kind, render_ref(ref)

    def address(env: Env) -> Address:
        key = tuple(operations.all_of(parts, env))
        if any(part is None for part in key):
            raise Unverifiable(f"the key of {text} is null", missing=True)
        try:
            return Address(kind, key)
        except CanonicalError:
            raise Unverifiable(f"the key of {text} names no row") from None

    return address


# --- Roots ------------------------------------------------------------------------------------------------------------


def _argument(name: str) -> Compiled:
    def argument(env: Env) -> Value:
        try:
            return env.arguments[name]
        except KeyError:
            raise Unverifiable(f"there is no argument {name!r}", missing=True) from None

    return argument


def _within(start: Compiled, path: Path, node: Node) -> Compiled:
    place = place_of(node)
    return lambda env: operations.there(start(env), path, env, place, in_row=node.free)


def _observed(ref: RefNode, path: Path, slots: SlotTable) -> Callable[[Env], Observation]:
    """What looks at a resource and traces the use of a path of it."""
    if ref.free:
        key = compile_key(ref, slots)

        def look_up(env: Env) -> Observation:
            address = key(env)
            if env.touched is not None:
                env.touched.append((address, path))
            return env.observe(address, lambda env: name_of(ref, env))

        return look_up
    slot = slots.slot_of(ref)

    def look(env: Env) -> Observation:
        env.touch(slot, path)
        return env.slots[slot] or env.fetch(slot)

    return look


def _row(ref: RefNode, slots: SlotTable) -> Compiled:
    observed = _observed(ref, (), slots)

    def row(env: Env) -> Value:
        observation = observed(env)
        if observation.value is ABSENT:
            raise Unverifiable(f"there is no {name_of(ref, env)}", missing=True)
        return observation.value

    return row


def _rows(ref: RefNode, slots: SlotTable) -> Compiled:
    return quantifiers.rows_of(_row(ref, slots), lambda _: render_ref(ref))


def _field(ref: RefNode, path: Path, slots: SlotTable) -> Compiled:
    observed = _observed(ref, path, slots)

    def reach(env: Env) -> Value:
        """The long way, which knows what is missing."""
        value: Any = observed(env).value
        if value is ABSENT:
            raise Unverifiable(f"there is no {name_of(ref, env)}", missing=True)
        for depth, step in enumerate(path):
            try:
                value = values.reach(value, step)
            except LookupError:
                value = ABSENT
            if value is ABSENT:
                holder = f"{name_of(ref, env)}{render_path(path[:depth]) if depth else ''}"
                raise Unverifiable(f"{holder} has no {'item' if depth else 'field'} {step!r}", missing=True)
        return cast("Value", value)

    name, *deeper = path
    if ref.free or deeper:
        return reach
    slot = slots.slot_of(ref)

    def field(env: Env) -> Value:
        if env.touched is not None:
            env.touch(slot, path)
        observation: Any = env.slots[slot]
        if observation is None:
            observation = env.fetch(slot)
        try:
            value: Any = observation.value[name]
        except (LookupError, TypeError):
            return reach(env)
        return reach(env) if value is ABSENT else value

    return field
