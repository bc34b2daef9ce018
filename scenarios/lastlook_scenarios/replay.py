"""`lastlook replay`: what would each method have done with these decisions and changes?

Each case of the neutral format (`lastlook_scenarios.cases`) gets a gate of its own: its rows become a `Memory`, its
premises expressions, its pending write an effect. Then the change is made, and `gate(intent)` answers.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lastlook import (
    Gate,
    Memory,
    MemoryPermit,
    Outcome,
    actor,
    arg,
    block_unless,
    each,
    exists,
    holds,
    largest,
    literal,
    replan_unless,
    resource,
    rows,
)
from lastlook.canonical import ABSENT, dumps
from lastlook.errors import LastlookError
from lastlook.expressions import to_json
from lastlook_scenarios.cases import Problem, read_cases, type_of, written
from lastlook_scenarios.plain import full_scan, no_check, version_abort

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lastlook import Field, Verdict
    from lastlook.expressions import Expr
    from lastlook.premises import Premise
    from lastlook_scenarios.cases import Case, CasePremise, Node, Step, Tables, Write

__all__ = ["METHODS", "Disagreement", "Judged", "Replay", "Tally", "atr", "condition", "main"]


# --- Expressions ------------------------------------------------------------------------------------------------------

_GIVES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("and", "or", "not", "present", "absent", "every", "none", "in", "not_in", "within"), "truth"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "truth"),
    **dict.fromkeys(("add", "sub", "mul", "sum", "max", "len"), "number"),
    **dict.fromkeys(("pluck", "where", "rows"), "list"),
}
"""The type of a word's value; of the others the evidence decides."""
_PLACES: Final = frozenset({"field", "arg", "actor", "it", "get"})
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_NOWHERE: Final[Expr[Any]] = literal({})["nothing"]
"""Unverifiable whatever the evidence, for what can never be of the right type: lastlook refuses to declare such."""
_NULL: Final[Expr[Any]] = literal([None])[0]
"""Null as an operand, which lastlook would have written `is_null()`; in the format another type is unverifiable."""


def condition(node: Node) -> Expr[bool]:
    """A condition of the format as one of lastlook's: true, false and unverifiable alike."""
    return _expression(node) if _may_be(node, "truth") else _NOWHERE


def _counted(node: Node) -> Expr[bool]:
    """A condition under a word for which unverifiable counts as not true."""
    return holds(condition(node))


def _type(node: Node) -> str | None:
    return type_of(node.given) if node.word == "lit" else _GIVES.get(node.word)


def _may_be(node: Node, *types: str) -> bool:
    return _type(node) in (None, *types)


def _expression(node: Node) -> Expr[Any]:
    """The expression whose value is the format's; an int operand stays whole, a sum is rounded to two places."""
    word, operands = node.word, node.operands
    match word:
        case "lit":
            return literal(node.given)
        case "field":
            key, name, *path = operands
            return _at(resource(str(node.given), _key(key))[str(name.given)], path)
        case "arg":
            return _at(arg.document, operands)
        case "actor":
            return _at(actor, operands)
        case "it":
            return _at(each, operands)
        case "rows":
            return rows(str(node.given))
        case "get":
            return _at(_expression(operands[0]), operands[1:]) if _may_be(operands[0], "list", "map") else _NOWHERE
        case "pluck":
            names = [step.given for step in operands[1:] if isinstance(step.given, (str, int))]
            return _list(operands[0]).pluck(*names)
        case "where":
            return _list(operands[0]).where(_counted(operands[1]))
        case "every":
            return _list(operands[0]).every(_counted(operands[1]))
        case "none":
            return _list(operands[0]).none(_counted(operands[1]))
        case "and" | "or":
            return reduce(_OPERATORS[word], map(_counted, operands))
        case "not":
            return ~condition(operands[0])
        case "present":
            return _present(operands[0])
        case "absent":
            return ~_present(operands[0])
        case "eq" | "ne" | "lt" | "le" | "gt" | "ge":
            return _comparison(word, operands[0], operands[1])
        case "in":
            return _expression(operands[0]).in_(_list(operands[1]))
        case "not_in":
            return ~_expression(operands[0]).in_(_list(operands[1]))
        case "within":
            return _list(operands[0]).all_in(_list(operands[1]))
        case "len":
            return _list(operands[0]).count()
        case "sum":
            return _list(operands[0]).total().rounded(2)
        case "max":
            return (largest(*map(_number, operands)) if operands[1:] else largest(_list(operands[0]))).rounded(2)
        case _:
            result: Expr[Any] = reduce(_OPERATORS[word], map(_number, operands))
            return result.rounded(2)


def _at(base: Expr[Any], path: Sequence[Node]) -> Expr[Any]:
    """What stands at the path below a value."""
    for step in path:
        if isinstance(step.given, (str, int)) and step.word == "lit":
            base = base[step.given]
        elif _may_be(step, "text", "number"):
            base = base[_expression(step)]
        else:
            return _NOWHERE
    return base


def _key(node: Node) -> Expr[Any]:
    return _expression(node) if _may_be(node, "text") else _NOWHERE


def _list(node: Node) -> Expr[Any]:
    return _expression(node) if _may_be(node, "list") else _NOWHERE


def _number(node: Node) -> Expr[Any]:
    return _expression(node) if _may_be(node, "number") else _NOWHERE


def _present(node: Node) -> Expr[bool]:
    """Whether there is such a value; of what is no place, whether it equals itself, which only a value does."""
    match node.word:
        case "lit":
            return literal(True)
        case "field" if len(node.operands) == 1:
            return holds(exists(resource(str(node.given), _key(node.operands[0]))))
        case word if word in _PLACES:
            return holds(exists(_expression(node)))
        case _:
            value = _operand(node)
            return holds(value == value)  # noqa: PLR0124 - an expression, which is not true of what cannot be worked out


def _comparison(word: str, left: Node, right: Node) -> Expr[bool]:
    if word not in {"eq", "ne"} and not (_may_be(left, "number", "text") and _may_be(right, "number", "text")):
        return _NOWHERE
    comparison: Expr[bool] = _OPERATORS[word](_operand(left), _operand(right))
    return comparison


def _operand(node: Node) -> Expr[Any]:
    """An operand of a comparison, where lastlook takes `a & b == c` for a slip of the pen."""
    if node.word in {"and", "or"}:
        return holds(_expression(node))
    return _NULL if node.word == "lit" and node.given is None else _expression(node)


# --- Methods ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """What a method made of a case.

    Attributes:
        outcome: its answer, or None where it had none.
        released: whether the write went out.
        why: its reasons.
    """

    outcome: Outcome | None
    released: bool
    why: str = ""


def atr(case: Case) -> Judged:
    """The answer of lastlook's gate, through its public API alone."""
    try:
        verdict = _release(case)
    except LastlookError as error:
        return Judged(None, released=False, why=f"{type(error).__name__}: {error}")
    reasons = [finding.because or finding.text for finding in verdict.findings]
    if verdict.committed is not verdict.outcome.permits:
        reasons.append(f"the write is {verdict.applied.value}")
    return Judged(verdict.outcome, verdict.committed, "; ".join(reasons) or "every premise holds")


def _release(case: Case) -> Verdict[None]:
    before, after = case.before(), case.after()
    fields = _fields(case, before, after)
    memory = Memory(**{system: before.get(system, {}) for system in fields}).options(fields=fields)
    gate = Gate(memory)
    premises = _premises(case.premises)

    @gate.effect(
        target=resource(*case.target),
        premises=premises,
        refresh=_refresh(case.refresh_fields, before, after),
        no_preconditions=not premises,
    )
    def pending_write(permit: MemoryPermit, document: Any) -> None:  # noqa: ARG001 - the premises name it
        permit.no_write()  # what an operation writes is not in the format

    transaction = gate.transaction()
    for system, table in case.resources.items():
        for key in table:
            transaction.read(resource(system, key))
    intent = transaction.propose(pending_write.options(actor=case.actor), case.arguments)
    for write in case.writes:
        _make(memory, write)
    return gate(intent)


def _fields(case: Case, *moments: Tables) -> dict[str, set[str]]:
    """Every system that the case names, with the fields that are named or that a row has at some moment."""
    fields: defaultdict[str, set[str]] = defaultdict(set, {case.target[0]: set()})
    for tables in moments:
        for system, table in tables.items():
            fields[system].update(*table.values())
    for prefix in case.refresh_fields:
        fields[str(prefix[0])].update(map(str, prefix[2:3]))
    for premise in case.premises:
        for node in _walk(premise.condition):
            if node.word in {"field", "rows"}:
                fields[str(node.given)].update(str(step.given) for step in node.operands[1:2])
    return fields


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for operand in node.operands:
        yield from _walk(operand)


def _premises(given: Iterable[CasePremise]) -> list[Premise]:
    """The premises, one that stands there several times only once and at its highest severity."""
    premises: dict[str, Premise] = {}
    for severity, declare in ((Outcome.BLOCK, block_unless), (Outcome.REPLAN, replan_unless)):
        for premise in given:
            if premise.severity is severity:
                declared = declare(condition(premise.condition), premise.why)
                premises.setdefault(repr(to_json(declared.condition)), declared)
    return list(premises.values())


def _refresh(prefixes: Iterable[tuple[Step, ...]], *moments: Tables) -> list[Field[Any]]:
    """The places under the prefixes; a row or a system as a whole is all fields that it has at some moment."""
    places: dict[tuple[Step, ...], Field[Any]] = {}
    for system, *path in prefixes:
        tables = [tables.get(str(system), {}) for tables in moments]
        for key in path[:1] or sorted({key for table in tables for key in table}):
            for name in path[1:2] or sorted({name for table in tables for name in table.get(str(key), {})}):
                field = resource(str(system), str(key))[str(name)]
                for step in path[2:]:
                    field = field[step]
                places[system, key, name, *path[2:]] = field
    return list(places.values())


def _make(memory: Memory, write: Write) -> None:
    """The other actor's write: a whole row, or the one field of it that the path leads into."""
    row = memory.row(write.system, write.key)
    _, after = written(ABSENT if row is None else row, write.path, write.after)
    name = str(write.path[0]) if write.path else ""
    if not isinstance(after, Mapping):
        memory.delete(write.system, write.key)
    elif not write.path:
        memory.replace(write.system, write.key, after)
    elif name in after:
        memory.change(write.system, write.key, **{name: after[name]})
    else:
        memory.drop(write.system, write.key, name)


def _baseline(method: Callable[[Case], Outcome]) -> Callable[[Case], Judged]:
    def judge(case: Case) -> Judged:
        outcome = method(case)
        return Judged(outcome, outcome.permits)

    return judge


METHODS: Final[Mapping[str, Callable[[Case], Judged]]] = {
    "NoCheck": _baseline(no_check),
    "VersionAbort": _baseline(version_abort),
    "FullScan": _baseline(full_scan),
    "ATR": atr,
}
"""What is compared, by the names that the ATR paper gives them."""
_EXACT: Final = ("FullScan", "ATR")
"""The methods that are to agree with every case; the others are known not to."""


# --- Report -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """How one method did: the cases where its answer is the expected one of the four, and its two kinds of mistakes."""

    agree: int = 0
    unsafe_released: int = 0
    unnecessary_aborts: int = 0


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A case on which a method that is to agree does not."""

    case_id: str
    method: str
    expected: str
    got: str
    why: str

    def __str__(self) -> str:
        return f"{self.case_id}: {self.method}: expected {self.expected}, got {self.got}{self.why and ': '}{self.why}"


class Replay:
    """The cases so far, and how each method did on them."""

    def __init__(self) -> None:
        self.cases = 0
        self.unsafe = 0
        self.tallies = {method: Tally() for method in METHODS}
        self.disagreements: list[Disagreement] = []

    def add(self, case: Case) -> None:
        """Put one case to every method."""
        self.cases += 1
        self.unsafe += not case.release
        for method, judge in METHODS.items():
            judged, tally = judge(case), self.tallies[method]
            agrees = judged.outcome is case.outcome and judged.released is case.release
            tally.agree += agrees
            tally.unsafe_released += judged.released and not case.release
            tally.unnecessary_aborts += case.release and not judged.released
            if method in _EXACT and not agrees:
                got = "no answer" if judged.outcome is None else judged.outcome.name
                self.disagreements.append(Disagreement(case.case_id, method, case.outcome.name, got, judged.why))

    def table(self) -> str:
        """One line a method."""
        safe = self.cases - self.unsafe
        lines = [("method", "cases", "agree", "unsafe released", "unnecessary aborts")]
        lines += [
            (
                name,
                str(self.cases),
                str(t.agree),
                f"{t.unsafe_released}/{self.unsafe}",
                f"{t.unnecessary_aborts}/{safe}",
            )
            for name, t in self.tallies.items()
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines)

    def to_json(self) -> dict[str, object]:
        """The counts and the disagreements."""
        return {
            "cases": self.cases,
            "methods": {method: asdict(tally) for method, tally in self.tallies.items()},
            "disagreements": [asdict(disagreement) for disagreement in self.disagreements],
        }


def main(argv: Sequence[str]) -> int:
    """Replay a file of cases and print how each method did.

    Returns:
        0 if FullScan and ATR agree with every case, 1 on a disagreement, 2 where the input or the command is wrong.
    """
    parser = argparse.ArgumentParser(
        prog="lastlook replay",
        description="Replay recorded decisions and changes: what would each method have done with them?",
        epilog="exit code: 0 all agree, 1 a disagreement, 2 malformed input (the other lines run all the same)",
    )
    parser.add_argument("cases", metavar="CASES.jsonl", help="the cases, one JSON object a line")
    parser.add_argument("--json", metavar="FILE", help="write the counts there too; - for standard output, alone")
    try:
        given = parser.parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2

    replay, malformed = Replay(), 0
    for item in read_cases(given.cases):
        if isinstance(item, Problem):
            malformed += 1
            print(item, file=sys.stderr)
        else:
            replay.add(item)
    counts = dumps({**replay.to_json(), "malformed": malformed}, indent=True).decode()
    if given.json == "-":
        print(counts)
    elif replay.cases:
        print(replay.table())
        for disagreement in replay.disagreements:
            print(disagreement)
    if given.json not in (None, "-"):
        try:
            Path(given.json).write_text(counts + "\n", encoding="utf-8")
        except OSError as error:
            print(f"lastlook replay: cannot write {given.json}: {error.strerror}", file=sys.stderr)
            return 2
    return 2 if malformed else 1 if replay.disagreements else 0
