"""The gate against a naive one, on random worlds, effects, premises, agents and changes."""

from __future__ import annotations

from typing import Any

import pytest
from differential import run

import lastlook.gate
import lastlook.plan
from lastlook import Outcome
from lastlook.expressions import operations
from lastlook.look import Kept, Look
from lastlook.plan import Plan
from lastlook.protocol import Limits

BLOCKS, GROUPS, LEAST = 8, 108, 20_000


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_gate_answers_as_the_naive_one_does(block: int) -> None:
    """Outcome, failed premises, tokens bound, apply status, refreshed values and the world left behind are the same."""
    tally = run(range(block * GROUPS, (block + 1) * GROUPS))
    cases = tally["cases"]
    assert cases >= LEAST / BLOCKS, tally
    assert min(tally[outcome.name] for outcome in Outcome) >= 0.10 * cases, tally
    assert tally["rejected"] >= 0.05 * cases, tally


def always(answer: Any) -> Any:
    """A function of anything that gives this answer."""

    def function(*_: object) -> Any:
        return answer

    return function


compare, fail, binding, run_premises = Look.compare, Look.fail, Look.binding, Look.run


def fail_mildly(look: Look, index: int, value: object) -> None:
    """Another `Look.fail`: the mildest of the failed premises decides."""
    fail(look, index, value)
    checks = look.program.checks
    look.worst = min(checks[number].severity for number, result in look.results.items() if result is not True)


def fail_if_false(look: Look, index: int, value: object) -> None:
    """Another `Look.fail`: whatever is not False holds."""
    look.results[index] = True
    if value is False:
        fail(look, index, value)


def run_all_but_the_first(look: Look) -> None:
    """Another `Look.run`."""
    look.waiting = look.waiting[1:]
    run_premises(look)


def compare_versions(look: Look, seen: Any) -> None:
    """Another `Look.compare`: whatever has another version differs."""
    compare(look, seen)
    moved = [index for index, cell in enumerate(look.cells) if cell is not seen[index]]
    look.differing = [(index, watch) for index in moved for watch in look.plan.places[index].watches.values()]


def bind_what_was_recorded(look: Look) -> Any:
    """Another `Look.binding`: the tokens of the proof instead of those that were looked at."""
    if type(look) is Kept:
        return binding(look)
    then = dict(zip(look.plan.addresses, look.plan.seen, strict=True))
    return tuple((address, then.get(address) or now) for address, now in binding(look))


def negate_leniently(part: operations.Compiled) -> operations.Compiled:
    """Another `operations.negation`: true of what cannot be told."""
    holds = operations.holds(part)
    return lambda env: holds(env) is False


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "the mildest failure decides": (Look, "fail", fail_mildly),
    "what cannot be told is true": (Look, "fail", fail_if_false),
    "a changed premise is skipped": (Look, "run", run_all_but_the_first),
    "an unproven premise is skipped": (Plan, "always", 0),
    "versions are compared instead of values": (Look, "compare", compare_versions),
    "nothing is bound": (Look, "binding", always(())),
    "the proof's tokens are bound": (Look, "binding", bind_what_was_recorded),
    "what a join leads to is not bound": (Look, "reached", always([])),
    "what only the decision rests on is forgotten": (lastlook.plan, "_conservative_edges", always(())),
    "a rejected attempt is not looked at anew": (lastlook.gate, "Limits", always(Limits(revalidations=0))),
    "the negation of what cannot be told is true": (operations, "negation", negate_leniently),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_gate_is_found_out(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in the gate makes it differ from the naive one within some hundred cases."""
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError, match="the gates differ"):
        run(range(16))
