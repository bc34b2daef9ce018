"""Premises, run on one set of observations (ATR, Algorithm 1, lines 8-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastlook.errors import Outcome
from lastlook.expressions import Pending, Unverifiable, explain, hidden_name
from lastlook.ports import Unreadable
from lastlook.records import Finding, Observation

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Sequence

    from lastlook.contract import Program
    from lastlook.expressions import Env
    from lastlook.records import Address, Path

__all__ = ["MAX_WAVES", "NOTHING_TOUCHED", "Evaluation", "Seen", "findings_of", "hidden_names"]

Seen = Observation | Unreadable
"""What a look brings for one address."""

MAX_WAVES = 3
"""How many waves of further reads a validation may need; what is declared never needs more."""

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_KEEP = Outcome.KEEP
NOTHING_TOUCHED: dict[int, tuple[tuple[Address, Path], ...]] = {}
"""What no premise has used yet; never written to."""


class Evaluation:
    """Premises run on one set of observations: each at most once, all on the same observation of a resource.

    Attributes:
        results: by number of the premise: True, False, or the reason why it is unverifiable.
        waiting: premises that need something read or judged first; `env` says what.
        touched: for a traced premise, the evidence that it really used.
        worst: the severity of the worst failed premise so far.
    """

    __slots__ = ("env", "program", "results", "touched", "waiting", "worst")

    def __init__(self, program: Program, env: Env, run: Sequence[int]) -> None:
        self.program = program
        self.env = env
        self.waiting: Sequence[int] = run
        self.results: dict[int, bool | str] = {}
        self.touched: dict[int, tuple[tuple[Address, Path], ...]] = NOTHING_TOUCHED
        self.worst = _KEEP

    def run(self) -> None:
        """Evaluate what waits, as far as the observations go."""
        env, checks, results = self.env, self.program.checks, self.results
        waiting: Sequence[int] = ()
        for index in self.waiting:
            check = checks[index]
            if check.traced:
                env.touched = []
            try:
                value = check.holds(env)
            except Pending:
                waiting = (*waiting, index)
                env.touched = None
                continue
            except Unverifiable as unverifiable:
                value = unverifiable.reason
            # Only True itself holds: not 1, not a text, not an object with an opinion.
            if value is True:
                results[index] = value
            elif value is False:
                results[index] = value
                severity = check.severity
                if severity > self.worst:  # noqa: PLR1730 - max() costs as much as the premise
                    self.worst = severity
            else:
                self.fail(index, value)
            if env.touched is not None:
                self.touched = {**self.touched, index: tuple(env.touched)}
                env.touched = None
        self.waiting = waiting

    def fail(self, index: int, value: object) -> None:
        """Note that a premise is unverifiable, and why."""
        self.results[index] = value if isinstance(value, str) else "it is not a truth value"
        severity = self.program.checks[index].severity
        self.worst = max(self.worst, severity)

    def observe(self, addresses: Sequence[Address], found: Sequence[Seen]) -> None:
        """Take in what was read."""
        for address, seen in zip(addresses, found, strict=True):
            if isinstance(seen, Unreadable):
                self.env.failed(address, seen.reason)
            else:
                self.env.observed(address, seen)

    def give_up(self, reason: str) -> None:
        """Everything that still waits is unverifiable."""
        for index in self.waiting:
            self.fail(index, reason)
        self.waiting = ()

    def reached(self) -> list[Address]:
        """The addresses that traced premises really used; those of the others stand in the plan."""
        return [address for touched in self.touched.values() for address, _ in touched]

    def valid_until(self) -> dt.datetime | None:
        """The earliest moment at which a premise with a deadline stops holding."""
        ends = [
            end
            for index, result in self.results.items()
            if result is True and (until := self.program.checks[index].until) is not None
            if (end := until(self.env)) is not None
        ]
        return min(ends, default=None)


def hidden_names(evaluation: Evaluation, public: Callable[[Address, Path], bool]) -> dict[Address, str]:
    """What stands in texts for the resources of which the key was read, and is not public."""
    program = evaluation.program
    if not program.joins:
        return {}
    env, slots = evaluation.env, program.slots
    names: dict[Address, str | None] = {}
    for slot, derived in enumerate(slots.derived):
        address = env.addresses[slot] if env.addresses else None
        if address is not None and not derived:
            names[address] = None
    for slot, derived in enumerate(slots.derived):
        address = env.addresses[slot] if env.addresses else None
        if address is not None and derived and address not in names:
            names[address] = hidden_name(slots.refs[slot], env, public)
    for address in evaluation.reached():
        names.setdefault(address, slots.free.get(address.kind))
    return {address: name for address, name in names.items() if name is not None}


def findings_of(
    evaluation: Evaluation, public: Callable[[Address, Path], bool], *, reveal: bool
) -> tuple[Finding, ...]:
    """The premises of an evaluation that did not hold, as text; values only where public, boolean or revealed."""
    found: list[Finding] = []
    for number, result in evaluation.results.items():
        if result is True:
            continue
        check = evaluation.program.checks[number]
        text = explain(check.expression, evaluation.env, public=public, reveal=reveal)
        if isinstance(result, str) and result not in text:
            text = f"{text}: {result}"
        found.append(Finding(check.label, check.severity, False if result is False else None, text, check.because))
    return tuple(found)
