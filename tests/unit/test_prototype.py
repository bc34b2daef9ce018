"""The yardstick must keep measuring the same thing: outcomes, selectivity, refusals."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "prototype.py"

CASES = (
    ("refund", "unrelated"),
    ("refund", "customer-renamed"),
    ("refund", "defect-withdrawn"),
    ("refund", "limit-50"),
    ("refund", "refunded-elsewhere"),
    ("remediation", "unrelated"),
    ("remediation", "title-reworded"),
    ("remediation", "resolved"),
    ("remediation", "freeze-begins"),
    ("remediation", "restarted-elsewhere"),
    ("procurement", "unrelated"),
    ("procurement", "label-reworded"),
    ("procurement", "vendor-unapproved"),
    ("procurement", "cap-300"),
    ("procurement", "budget-spent"),
)
KEEP, REFRESH, REPLAN, BLOCK = "KEEP", "REFRESH", "REPLAN", "BLOCK"
ORACLE = (KEEP, REFRESH, REPLAN, BLOCK, BLOCK) * 3
EXPECTED = {"NoCheck": (KEEP,) * 15, "VersionAbort": (REPLAN,) * 15, "FullScan": ORACLE, "ATR": ORACLE}


def load() -> ModuleType:
    """Import the benchmark by its path; dataclasses need the module to be registered."""
    name = "lastlook_benchmark_prototype"
    spec = importlib.util.spec_from_file_location(name, FILE)
    if spec is None or spec.loader is None:
        raise ImportError(FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


prototype = load()


def hinted(method: Any, granularity: Any) -> list[Any]:
    """Each case's verdict when its change arrives as a hint."""
    verdicts: list[Any] = []
    for case in prototype.cases():
        runtime, intent_id = prototype.mutated(case, method, granularity=granularity)
        verdicts.append(runtime.validate(prototype.Event.CHANGE, intent_id, (case[1].key,)))
    return verdicts


def test_the_cases_and_their_oracle_are_the_literal_table() -> None:
    """The 15 cases come in a fixed order, each with its declared outcome."""
    found = [(scenario.name, mutation.name) for scenario, mutation in prototype.cases()]
    assert tuple(found) == CASES
    assert tuple(m.expected.name for _, m in prototype.cases()) == ORACLE


@pytest.mark.parametrize("method", prototype.METHODS, ids=lambda method: method.name)
def test_outcomes_of_every_method_equal_the_literal_table(method: Any) -> None:
    """The gate of each method answers all 15 cases as the table says."""
    found: list[str] = []
    for case in prototype.cases():
        runtime, intent_id = prototype.mutated(case, method)
        found.append(runtime.gate(intent_id)[0].name)
    assert tuple(found) == EXPECTED[method.name]


@pytest.mark.parametrize("granularity", prototype.Granularity, ids=lambda level: level.value)
def test_granularity_never_changes_an_outcome(granularity: Any) -> None:
    """Coarser capture checks more and still decides all 15 cases alike."""
    found: list[str] = []
    for case in prototype.cases():
        runtime, intent_id = prototype.mutated(case, prototype.Runtime, granularity=granularity)
        found.append(runtime.gate(intent_id)[0].name)
    assert tuple(found) == ORACLE


def test_nodes_visited_are_the_papers_means() -> None:
    """Predicate capture visits 2.6 nodes per change and object capture 6.4."""
    levels = prototype.Granularity
    by_predicate = hinted(prototype.Runtime, levels.PREDICATE)
    by_object = hinted(prototype.Runtime, levels.OBJECT)
    assert mean(len(verdict.visited) for verdict in by_predicate) == 2.6
    assert mean(len(verdict.visited) for verdict in by_object) == 6.4


@pytest.mark.parametrize(("name", "premises"), [("Runtime", 0.6), ("FullScan", 5.0)])
def test_premises_evaluated_per_change(name: str, premises: float) -> None:
    """ATR evaluates 0.6 premises per change and FullScan all five of the intent."""
    evaluated: list[int] = []
    for case in prototype.cases():
        runtime, intent_id = prototype.mutated(case, getattr(prototype, name))
        verdict = runtime.validate(prototype.Event.PRE_EFFECT, intent_id)
        evaluated.append(len(verdict.results))
    assert mean(evaluated) == premises


def test_the_first_explanation_survives_the_second() -> None:
    """Explanations are only ever appended."""
    runtime, intent_id = prototype.build(prototype.refund())
    runtime.gate(intent_id)
    first = list(runtime.explanations)
    runtime.store.write(prototype.Key("policy:refund", "limit"), 50)
    runtime.gate(intent_id)
    assert runtime.explanations[:1] == first
    last = json.loads(runtime.explanations[1])
    assert last["premises"] == {"amount <= limit": False}
    assert last["validators"] == [["amount <= limit", 1]]
    assert (last["outcome"], last["applied"]) == ("BLOCK", "not_attempted")


def test_a_rejected_apply_is_logged_as_rejected() -> None:
    """KEEP and a rejected apply stay apart, in the answer as in the explanation."""
    runtime, intent_id = prototype.build(prototype.refund())
    apply_if = runtime.target.apply_if

    def overtaken(binding: Any, intent: Any) -> Any:
        """Let another writer reach the policy first."""
        runtime.store.write(prototype.Key("policy:refund", "limit"), 50)
        return apply_if(binding, intent)

    runtime.target.apply_if = overtaken
    outcome, applied = runtime.gate(intent_id)
    assert (outcome.name, applied.name) == ("KEEP", "REJECTED")
    line = json.loads(runtime.explanations[-1])
    assert (line["outcome"], line["applied"]) == ("KEEP", "rejected")
    assert runtime.to_revalidate == [intent_id]
    assert runtime.target.effects == []


def test_a_change_between_validate_and_apply_is_refused() -> None:
    """The target compares the very tokens that were validated, policy row included."""
    runtime, intent_id = prototype.build(prototype.refund())
    intent = runtime.trace.intents[intent_id]
    verdict = runtime.validate(prototype.Event.PRE_EFFECT, intent_id)
    runtime.store.write(prototype.Key("policy:refund", "limit"), 90)
    assert runtime.target.apply_if(verdict.binding, intent) is prototype.Applied.REJECTED
    again = runtime.validate(prototype.Event.PRE_EFFECT, intent_id)
    assert again.outcome is prototype.Outcome.KEEP
    assert runtime.target.apply_if(again.binding, intent) is prototype.Applied.COMMITTED


def test_a_vital_premise_that_the_target_cannot_check_blocks() -> None:
    """With only the order enforced, the policy's evidence is unbound and fails closed."""
    runtime, intent_id = prototype.build(prototype.refund())
    runtime.target = prototype.Target(runtime.store, {"order:1042"})
    outcome, applied = runtime.gate(intent_id)
    assert (outcome.name, applied.name) == ("BLOCK", "NOT_ATTEMPTED")


@pytest.mark.parametrize("scenario", prototype.SCENARIOS, ids=lambda make: make.__name__)
def test_an_unavailable_validator_counts_as_a_false_premise(scenario: Any) -> None:
    """A changed premise without its validator gets the severity of its failure."""
    case = (scenario(), scenario().mutations[3])
    runtime, intent_id = prototype.mutated(case, prototype.Runtime)
    runtime.validators = {}
    assert runtime.gate(intent_id)[0].name == "BLOCK"
