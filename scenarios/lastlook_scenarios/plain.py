"""The case format's own meaning, read plainly: what FullScan evaluates, beside VersionAbort and NoCheck.

Nothing here knows lastlook's expressions, so that two independent readings of one format can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import reduce
from typing import TYPE_CHECKING, Final

from lastlook.canonical import ABSENT, Absent, Value
from lastlook.errors import Outcome
from lastlook_scenarios.cases import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastlook_scenarios.cases import Case, Node, Row, Step, Tables

__all__ = ["PlainEvaluator", "UnverifiableError", "full_scan", "no_check", "version_abort"]

_EXACT: Final = Context(prec=1000, rounding=ROUND_HALF_EVEN)
_CENT: Final = Decimal("0.01")


class UnverifiableError(Exception):
    """Evidence is missing or of a wrong type."""


class PlainEvaluator:
    """The words of the format over the rows of one moment."""

    def __init__(self, tables: Tables, arguments: Row, actor: Row) -> None:
        self._tables = tables
        self._arguments = arguments
        self._actor = actor

    def holds(self, node: Node, it: Value = None) -> bool:
        """Whether the condition is true; one that cannot be verified is not."""
        try:
            return self.value(node, it) is True
        except UnverifiableError:
            return False

    def value(self, node: Node, it: Value) -> Value:
        """The value of an expression; `it` is the row of the enclosing quantifier.

        Raises:
            UnverifiableError: evidence is missing or of a wrong type.
        """
        operands = node.operands
        match node.word:
            case "lit":
                return node.given
            case "field":
                return self.at(self.row(node, it), operands[1:], it)
            case "arg":
                return self.at(self._arguments, operands, it)
            case "actor":
                return self.at(self._actor, operands, it)
            case "it":
                return self.at(it, operands, it)
            case "get":
                return self.at(self.value(operands[0], it), operands[1:], it)
            case "pluck":
                return tuple([self.at(item, operands[1:], it) for item in self.items(operands[0], it)])
            case "rows":
                table = self._tables.get(str(node.given), {})
                return tuple([table[key] for key in sorted(table)])
            case "and":
                return all(self.holds(operand, it) for operand in operands)
            case "or":
                return any(self.holds(operand, it) for operand in operands)
            case "not":
                return self.negated(operands[0], it)
            case "present":
                return self.present(operands[0], it)
            case "absent":
                return not self.present(operands[0], it)
            case "where":
                return tuple([item for item in self.items(operands[0], it) if self.holds(operands[1], item)])
            case "every":
                return all(self.holds(operands[1], item) for item in self.items(operands[0], it))
            case "none":
                return not any(self.holds(operands[1], item) for item in self.items(operands[0], it))
            case word:
                return self.computed(word, [self.value(operand, it) for operand in operands])

    # --- Evidence -----------------------------------------------------------------------------------------------------

    def row(self, node: Node, it: Value) -> Value:
        """The row that a `field` names; its key may be an expression."""
        key = self.value(node.operands[0], it)
        row = self._tables.get(str(node.given), {}).get(key) if isinstance(key, str) else None
        return self.found(ABSENT if row is None else row)

    def at(self, value: Value, path: Sequence[Node], it: Value) -> Value:
        """What stands at the path in the value."""
        for step in path:
            value = self.found(_entry(value, self.value(step, it)))
        return value

    def found(self, value: Value) -> Value:
        """The value, if there is one; null is a value."""
        if isinstance(value, Absent):
            raise UnverifiableError
        return value

    def present(self, node: Node, it: Value) -> bool:
        """Whether the expression has a value."""
        try:
            self.value(node, it)
        except UnverifiableError:
            return False
        return True

    def items(self, node: Node, it: Value) -> tuple[Value, ...]:
        """The elements of a list."""
        return self.elements(self.value(node, it))

    def elements(self, value: Value) -> tuple[Value, ...]:
        """The elements of a list; nothing else has any."""
        if not isinstance(value, tuple):
            raise UnverifiableError
        return value

    # --- Logic --------------------------------------------------------------------------------------------------------

    def negated(self, node: Node, it: Value) -> bool:
        """The contrary of a truth value; what cannot be verified has none."""
        value = self.value(node, it)
        if not isinstance(value, bool):
            raise UnverifiableError
        return not value

    def equal(self, a: Value, b: Value) -> bool:
        """Whether two values of one type are equal."""
        if type_of(a) != type_of(b):
            raise UnverifiableError
        return _identical(a, b)

    def below(self, a: Value, b: Value) -> bool:
        """Whether the first of two numbers, or of two texts, is the smaller."""
        if isinstance(a, str) and isinstance(b, str):
            return a < b
        first, second = _numbers((a, b))
        return first < second

    def contained(self, value: Value, values: Sequence[Value]) -> bool:
        """Whether the value is an element; among elements of other types alone it is of a wrong one."""
        if values and not any(type_of(value) == type_of(item) for item in values):
            raise UnverifiableError
        return any(_identical(value, item) for item in values)

    def within(self, a: Sequence[Value], b: Sequence[Value]) -> bool:
        """Whether every element of the first list is in the second, as often as it is in the first."""
        left, unlike = list(b), False
        for item in a:
            if b and not any(type_of(item) == type_of(other) for other in b):
                unlike = True
                continue
            at = next((index for index, other in enumerate(left) if _identical(item, other)), None)
            if at is None:
                return False
            del left[at]
        if unlike:
            raise UnverifiableError
        return True

    # --- Words whose operands are values ------------------------------------------------------------------------------

    def computed(self, word: str, values: Sequence[Value]) -> Value:
        """The value of a word that needs no more than the values of its operands."""
        a, b = values[0], values[-1]
        match word:
            case "eq":
                return self.equal(a, b)
            case "ne":
                return not self.equal(a, b)
            case "lt":
                return self.below(a, b)
            case "ge":
                return not self.below(a, b)
            case "gt":
                return self.below(b, a)
            case "le":
                return not self.below(b, a)
            case "in":
                return self.contained(a, self.elements(b))
            case "not_in":
                return not self.contained(a, self.elements(b))
            case "within":
                return self.within(self.elements(a), self.elements(b))
            case "len":
                return len(self.elements(a))
            case "sum":
                return self.combined(_EXACT.add, (0, *self.elements(a)))
            case "add":
                return self.combined(_EXACT.add, values)
            case "sub":
                return self.combined(_EXACT.subtract, values)
            case "mul":
                return self.combined(_EXACT.multiply, values)
            case _:
                several = values if len(values) > 1 else self.elements(a)
                return self.combined(_EXACT.max, several)

    def combined(self, operation: Callable[[Decimal, Decimal], Decimal], values: Sequence[Value]) -> Value:
        """One number of one or more, rounded; whole where they are."""
        numbers = _numbers(values)
        if not numbers:
            raise UnverifiableError
        result = reduce(operation, map(Decimal, numbers))
        return int(result) if all(isinstance(number, int) for number in numbers) else self.rounded(result)

    def rounded(self, number: Decimal) -> Decimal:
        """The number to two places, half even."""
        return number.quantize(_CENT, context=_EXACT)


# --- Values -----------------------------------------------------------------------------------------------------------


def _identical(a: Value, b: Value) -> bool:
    """Whether two values are one, all the way down; values of different types are not."""
    if type_of(a) != type_of(b):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_identical(*pair) for pair in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_identical(a[name], b[name]) for name in a)
    return a == b


def _numbers(values: Sequence[Value]) -> list[int | Decimal]:
    numbers = [value for value in values if isinstance(value, (int, Decimal)) and not isinstance(value, bool)]
    if len(numbers) < len(values):
        raise UnverifiableError
    return numbers


def _entry(value: Value, step: Value) -> Value:
    if isinstance(value, Mapping) and isinstance(step, str):
        return value.get(step, ABSENT)
    if isinstance(value, tuple) and isinstance(step, int) and not isinstance(step, bool) and 0 <= step < len(value):
        return value[step]
    return ABSENT


# --- Methods ----------------------------------------------------------------------------------------------------------


def full_scan(case: Case, evaluator: type[PlainEvaluator] = PlainEvaluator) -> Outcome:
    """All declared premises over the rows after the change, then the refresh rules."""
    before, after = case.before(), case.after()
    scan = evaluator(after, case.arguments, case.actor)
    failed = [premise.severity for premise in case.premises if not scan.holds(premise.condition)]
    if failed:
        return max(failed)
    moved = any(not _identical(_under(before, path), _under(after, path)) for path in case.refresh_fields)
    return Outcome.REFRESH if moved else Outcome.KEEP


def _under(tables: Tables, path: Sequence[Step]) -> Value:
    value: Value = tables
    for step in path:
        value = _entry(value, step)
    return value


def version_abort(case: Case) -> Outcome:
    """REPLAN if any row that was read was written; rows of the world were not read."""
    read = any(write.key in case.resources.get(write.system, {}) for write in case.writes)
    return Outcome.REPLAN if read else Outcome.KEEP


def no_check(_case: Case) -> Outcome:
    """Always KEEP."""
    return Outcome.KEEP
