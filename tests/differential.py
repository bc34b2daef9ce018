"""One random case at both gates, the real and the naive one, and where they differ.

`python tests/differential.py 12.7` runs case 7 of group 12 alone, and `12` all cases of that group.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from drawing import FIELDS, Draw
from reading import Bad, Place, address
from reference import TRIES, Answer, ReferenceGate
from worlds import Changes, Group, Op, perform, tree_of

from lastlook import Applied, Change, EffectStopped, Intent, Preview, Verdict, rows
from lastlook.commands import Apply
from lastlook.errors import LastlookError
from lastlook.events import OutcomeDecided
from lastlook.expressions import exists
from lastlook.plan import Plan
from lastlook.records import State, place
from lastlook.testing import events, failpoint
from lastlook.verdicts import NOTHING_SEEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["CASES", "Case", "run"]

CASES = 25
"""How many cases are run on the effect and world of one group."""


class Case:
    """One intent at both gates, and what happens to its world meanwhile; raises AssertionError where they differ.

    Args:
        tally: counts the cases that got to the gate, their outcomes, and those with a rejected attempt.
    """

    def __init__(self, group: Group, number: int, tally: Counter[str]) -> None:
        self.name = f"{group.seed}.{number}"
        self.group = group
        self.tally = tally
        self.draw = draw = Draw(Random(f"case {self.name}"), group.kinds)
        self.arguments = group.arguments if draw.odds(0.75) else draw.arguments()
        self.naive = ReferenceGate(group.contract, group.model, self.arguments, group.actor)
        self.attempts: list[Any] = []
        self.window: list[Sequence[Op]] = []
        self.story: list[Any] = [self.arguments]

    def run(self) -> None:
        """Propose, and gate once or twice, each time after some changes."""
        draw, group = self.draw, self.group
        group.reset()
        if draw.odds(0.2):
            self._change(self._changes().some(2))
        with failpoint(group.gate, Apply, before=self._applying):
            mode = draw.one_of(["PROVE"] * 5 + ["RECORD"] * 4 + ["ONE_SHOT"] if group.sound else ["RECORD", "ONE_SHOT"])
            self.story.append(mode)
            if mode == "ONE_SHOT":
                self._open_window()
                self._agree(self._call(), self.naive.release(self._act, self._act_between))
                self._count()
                return
            intent = self._propose(prove=mode == "PROVE")
            for number in range(2 if draw.odds(0.25) else 1):
                if intent is None:
                    break
                self._change(self._happenings())
                self._ask(intent)
                self._open_window()
                self._gate(intent)
                if number == 0:
                    self._count()

    # What happens in the world.

    def _places(self) -> list[Place]:
        refreshed = [read[0] for read in self.naive.refreshed if read is not None]
        return [*self.naive.recorded, *(place for place, _ in self.naive.edges), *refreshed]

    def _changes(self) -> Changes:
        return Changes(self.group, self.draw, self._places())

    def _change(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self.story.append(op)
            self.group.perform([op])

    def _happenings(self) -> Iterable[Op]:
        """Nothing; or a change of what is only refreshed; or one there and back; or anything."""
        changes, chosen = self._changes(), self.draw.number(0, 99)
        refreshed = [read[0] for read in self.naive.refreshed if read is not None]
        if chosen < 10:
            return ()
        if chosen < 50 and refreshed:
            return [changes.set(self.draw.one_of(refreshed))]
        return changes.back() if chosen < 60 else changes.some(4)

    def _open_window(self) -> None:
        """Decide what happens between looking and applying, at each attempt."""
        self.attempts, self.window = [], []
        if self.draw.odds(0.25):
            changes, always = self._changes(), self.draw.odds(0.3)
            for _ in range(TRIES if always else self.draw.number(1, TRIES)):
                self.window.append(list(changes.back() if always or self.draw.odds(0.4) else changes.some(2)))
            self.story.append(("between", self.window))

    def _applying(self, command: Apply) -> None:
        """What the real gate is about to apply, and then what happens before it does."""
        binding = {address(at.kind, at.key): found.token.value for at, found in command.attempt.binding}
        self.attempts.append((binding, dict(command.attempt.fresh)))
        for op in self._between(len(self.attempts) - 1):
            perform(self.group.memories[op[1]], op)

    def _act_between(self, attempt: int) -> None:
        for op in self._between(attempt):
            perform(self.group.model, op)

    def _between(self, attempt: int) -> Sequence[Op]:
        return self.window[attempt] if attempt < len(self.window) else ()

    def _act(self) -> None:
        self.group.model.change("orders", (self.arguments["target"],), done=True)

    # Both gates.

    def _propose(self, *, prove: bool) -> Intent[str] | None:
        """Propose at both, if not to prove then with what an agent read; None where both refuse."""
        transaction, intent, refused = self.group.gate.transaction(), None, None
        evidence, rests_on = ([], []) if prove else self._read(transaction)
        transaction.decide("it may go out", rests_on=evidence)
        try:
            if prove:
                intent = self.group.effect.propose(**self.arguments)
            else:
                intent = transaction.propose(self.group.effect, **self.arguments)
        except EffectStopped as stop:
            refused = stop.verdict
        expected = self.naive.propose(rests_on, prove=prove)
        self._check(refused, expected, (refused is None) is (expected is None))
        if refused is not None and expected is not None:
            self.tally["refused"] += 1
            self._agree(refused, expected, proposed=True)
        return intent

    def _read(self, transaction: Any) -> tuple[list[Any], list[Any]]:
        """Read something at both; what the decision rests on, as each of them has it."""
        evidence: list[Any] = []
        rests_on: list[Any] = []
        for _ in range(self.draw.number(0, 3)):
            ref, chosen = self.draw.ref(1), self.draw.number(0, 9)
            what: Any = ref if chosen < 4 else rows(self.draw.one_of(self.draw.kinds))
            what = what if chosen < 5 else ref[self.draw.one_of(FIELDS)]
            tree = tree_of(exists(ref) if what is ref else what)
            self.story.append(("read", what))
            found = unless(LastlookError, partial(transaction.read, what, **self.arguments))
            reads = unless(Bad, partial(self.naive.read, tree))
            self._check(found, reads, (found is None) is (reads is None))
            if reads is None:
                continue
            if self.draw.odds(0.7):
                evidence.append(found)
                rests_on.extend(reads)
                self.story.append("which the decision rests on")
            if self.draw.odds(0.15):
                self._change(Changes(self.group, self.draw, [place for place, _ in reads]).some(1))
        return evidence, rests_on

    def _ask(self, intent: Intent[str]) -> None:
        """What must not matter: hints, previews, and that this process has lost the compiled plan."""
        gate, draw = self.group.gate, self.draw
        if draw.odds(0.2):
            gate._runtime().forget(intent.id)  # pyright: ignore[reportPrivateUsage] - as a restart would
            self.story.append("the plan is lost")
        if draw.odds(0.1):
            kind = draw.one_of(draw.kinds)
            gate.affected(Change(kind, draw.key(kind), *([draw.one_of(FIELDS)] if draw.odds(0.5) else [])))
        if draw.odds(0.1) and self.naive.committed is None:
            preview, (expected, _, _) = gate.preview(intent), self.naive.look()
            found = Answer(int(preview.outcome), {finding.premise for finding in preview.findings})
            self._check(preview, expected, found == expected)

    def _gate(self, intent: Intent[str]) -> None:
        """Release at both; now and then one kind cannot be read."""
        lost = [self.draw.one_of(self.draw.kinds)] if self.draw.odds(0.03) else []
        self.story.append(("unreadable", lost))
        with contextlib.ExitStack() as stack:
            for kind in lost:
                stack.enter_context(self.group.memories[kind].unreadable(kind))
            verdict = self.group.gate(intent)
        self.group.model.unreadable.update(lost)
        expected = self.naive.release(self._act, self._act_between)
        self.group.model.unreadable.clear()
        self._agree(verdict, expected)

    def _call(self) -> Verdict[str]:
        """The verdict of a one-shot call, which tells it only where it stops."""
        with events(self.group.gate) as told:
            try:
                self.group.effect(**self.arguments)
            except EffectStopped as stop:
                return stop.verdict
        outcome = [event.outcome for event in told if isinstance(event, OutcomeDecided)][-1]
        return Verdict(outcome, Applied.COMMITTED, "", None, NOTHING_SEEN, state=State.COMMITTED)

    # The comparison.

    def _agree(self, verdict: Verdict[str], expected: Answer, *, proposed: bool = False) -> None:
        """Outcome, failed premises, tokens bound, refreshed values, apply status, state, and the world that is left."""
        failed = {finding.premise for finding in verdict.findings}
        found = Answer(int(verdict.outcome), failed, verdict.applied.name, self.attempts)
        self._check(verdict, expected, found == expected)
        self._check(verdict, expected, (verdict.state is State.COMMITTED) is verdict.committed)
        self._check(verdict, expected, (verdict.state is None) is proposed)
        left = {at: row for kind in self.group.kinds for at, row in self.group.table(kind).items()}
        self._check(verdict, expected, left == self.group.model.rows)
        self.outcome = verdict

    def _count(self) -> None:
        self.tally.update(["cases", self.outcome.outcome.name, self.outcome.applied.name])
        self.tally["rejected"] += len(self.attempts) > self.outcome.committed

    def _check(self, found: Any, expected: Any, agree: bool) -> None:
        if not agree:
            raise AssertionError(self.told(found, expected))

    def told(self, found: Any, expected: Any) -> str:
        """All that is needed to see why they differ."""
        contract, group = self.group.contract, self.group
        lines = [
            f"the gates differ in case {self.name}; it alone: python tests/differential.py {self.name}",
            *(f"{['replan', 'block'][premise.severity - 2]} unless {premise.label}" for premise in contract.premises),
            f"awaited {[premise.label for premise in contract.premises if premise.awaited]}",
            f"refresh {contract.refresh}, critical {set(contract.critical)}, foreign {set(contract.foreign)}",
            f"irreversible {contract.irreversible}, {group.capture}, actor {group.actor}",
            *(f"at first {kind} {key!r} {row}" for kind, table in group.base.items() for key, row in table.items()),
            *(f"then {event}" for event in self.story),
            f"expected {expected}",
            f"found {found if not isinstance(found, Verdict | Preview) else found.explain(reveal=True)}",
            f"attempts {self.attempts}",
        ]
        return "\n".join(lines)


def unless(refusal: type[Exception], read: Callable[[], Any]) -> Any:
    """What is read, or None where that is refused."""
    try:
        return read()
    except refusal:
        return None


def run(groups: Iterable[int], cases: Iterable[int] = range(CASES)) -> Counter[str]:
    """Run these cases of each of these groups, and count what came out."""
    tally: Counter[str] = Counter()
    with mock.patch.object(Plan, "where", _by_key):
        for seed in groups:
            group = Group(seed)
            for number in cases:
                Case(group, number, tally).run()
    return tally


def _by_key(plan: Plan, index: int, watch: Any) -> str:
    """Another `Plan.where`: a row is named by its key, as the naive gate names it, wherever the key was read."""
    return place(plan.addresses[index], watch.path)


if __name__ == "__main__":
    seed, _, number = sys.argv[1].partition(".")
    sys.stdout.write(f"{run([int(seed)], [int(number)] if number else range(CASES))}\n")
