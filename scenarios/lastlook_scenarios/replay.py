"""`lastlook replay`: what would each method have done with these decisions and changes?

Each case of the neutral format (`lastlook_scenarios.cases`) gets a gate of its own: its rows are put into a system
(`lastlook_scenarios.worlds`), its premises become expressions (`conditions`), its pending write an effect. Then the
change is made, and `gate(intent)` answers.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lastlook import Outcome, block_unless, replan_unless, resource
from lastlook.canonical import dumps
from lastlook.errors import LastlookError
from lastlook.expressions import to_json
from lastlook_scenarios.cases import Problem, read_cases
from lastlook_scenarios.conditions import Conditions
from lastlook_scenarios.plain import full_scan, no_check, version_abort
from lastlook_scenarios.worlds import WORLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lastlook import Field, Verdict
    from lastlook.premises import Premise
    from lastlook_scenarios.cases import Case, CasePremise, Step, Tables
    from lastlook_scenarios.conditions import Layout
    from lastlook_scenarios.worlds import World

__all__ = ["METHODS", "Disagreement", "Judged", "Replay", "Tally", "atr", "main", "methods"]


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


def atr(case: Case, system: str = "memory") -> Judged:
    """The answer of lastlook's gate, through its public API alone.

    Args:
        case: what is replayed.
        system: where its rows are put, one of `WORLDS`.
    """
    try:
        with WORLDS[system](case) as world:
            verdict = _release(case, world)
    except LastlookError as error:
        return Judged(None, released=False, why=f"{type(error).__name__}: {error}")
    reasons = [finding.because or finding.text for finding in verdict.findings]
    if verdict.committed is not verdict.outcome.permits:
        reasons.append(f"the write is {verdict.applied.value}")
    return Judged(verdict.outcome, verdict.committed, "; ".join(reasons) or "every premise holds")


def _release(case: Case, world: World) -> Verdict[None]:
    gate, premises = world.gate, _premises(case.premises, Conditions(world.layout))

    @gate.effect(
        target=resource(*case.target),
        premises=premises,
        refresh=_refresh(case.refresh_fields, world.layout, case.before(), case.after()),
        no_preconditions=not premises,
    )
    def pending_write(permit: Any, document: Any) -> None:  # noqa: ARG001 - the premises name it
        permit.no_write()  # what an operation writes is not in the format

    transaction = gate.transaction()
    for system, table in case.resources.items():
        for key in table:
            transaction.read(resource(system, key))
    intent = transaction.propose(pending_write.options(actor=case.actor), case.arguments)
    for write in case.writes:
        world.make(write)
    return gate(intent)


def _premises(given: Iterable[CasePremise], conditions: Conditions) -> list[Premise]:
    """The premises, one that stands there several times only once and at its highest severity."""
    premises: dict[str, Premise] = {}
    for severity, declare in ((Outcome.BLOCK, block_unless), (Outcome.REPLAN, replan_unless)):
        for premise in given:
            if premise.severity is severity:
                declared = declare(conditions.condition(premise.condition), premise.why)
                premises.setdefault(repr(to_json(declared.condition)), declared)
    return list(premises.values())


def _refresh(prefixes: Iterable[tuple[Step, ...]], layout: Layout, *moments: Tables) -> list[Field[Any]]:
    """The places under the prefixes; a row or a system as a whole is all fields that it has at some moment."""
    places: dict[tuple[Step, ...], Field[Any]] = {}
    for system, *path in prefixes:
        tables = [tables.get(str(system), {}) for tables in moments]
        for key in path[:1] or sorted({key for table in tables for key in table}):
            for name in path[1:2] or sorted({name for table in tables for name in table.get(str(key), {})}):
                field = layout.field(str(system), str(key), str(name))
                for step in path[2:]:
                    field = field[step]
                places[system, key, name, *path[2:]] = field
    return list(places.values())


def _baseline(method: Callable[[Case], Outcome]) -> Callable[[Case], Judged]:
    def judge(case: Case) -> Judged:
        outcome = method(case)
        return Judged(outcome, outcome.permits)

    return judge


def methods(system: str = "memory") -> dict[str, Callable[[Case], Judged]]:
    """What is compared, by the names that the ATR paper gives them; ATR on rows in that system."""
    return {
        "NoCheck": _baseline(no_check),
        "VersionAbort": _baseline(version_abort),
        "FullScan": _baseline(full_scan),
        "ATR": lambda case: atr(case, system),
    }


METHODS: Final[Mapping[str, Callable[[Case], Judged]]] = methods()
"""The methods, with every row in memory."""
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
    """The cases so far, and how each method did on them.

    Args:
        system: where ATR finds the rows, one of `WORLDS`.
    """

    def __init__(self, system: str = "memory") -> None:
        self._methods = methods(system)
        self.cases = 0
        self.unsafe = 0
        self.tallies = {method: Tally() for method in METHODS}
        self.disagreements: list[Disagreement] = []

    def add(self, case: Case) -> None:
        """Put one case to every method."""
        self.cases += 1
        self.unsafe += not case.release
        for method, judge in self._methods.items():
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
    parser.add_argument(
        "--system",
        choices=sorted(WORLDS),
        default="memory",
        help="where ATR finds the rows and applies the effect: in memory, or in tables of SQLite (default: memory)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the counts there too; - for standard output, alone")
    try:
        given = parser.parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2

    replay, malformed = Replay(given.system), 0
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
