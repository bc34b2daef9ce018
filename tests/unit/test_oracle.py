"""The ground truth of the evaluation: it agrees with every declared case, and it can disagree."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from lastlook_scenarios import baselines, oracle
from lastlook_scenarios.workloads import TABLE2, WORKLOADS, Case, Workload, cells, changed, rows

CASES = [
    pytest.param(workload, case, id=f"{workload.name}-{case.name}") for workload in WORKLOADS for case in workload.cases
]
BY_NAME = {workload.name: workload for workload in WORKLOADS}

# field of the target or policy row, another value, what the business says then
SINGLE_FIELDS = [
    ("refund", "delivered", False, "REPLAN"),
    ("refund", "defect", False, "REPLAN"),
    ("refund", "refunded", True, "BLOCK"),
    ("refund", "total", 81, "KEEP"),
    ("refund", "currency", "EUR", "KEEP"),
    ("refund", "customer_name", "another name", "REFRESH"),
    ("refund", "limit", 80, "KEEP"),
    ("refund", "limit", 79, "BLOCK"),
    ("refund", "agent_may_refund", False, "BLOCK"),
    ("remediation", "state", "closed", "REPLAN"),
    ("remediation", "healthy", 3, "KEEP"),
    ("remediation", "healthy", 2, "REPLAN"),
    ("remediation", "remediated", True, "BLOCK"),
    ("remediation", "service", "search", "KEEP"),
    ("remediation", "region", "eu-2", "KEEP"),
    ("remediation", "title", "another title", "REFRESH"),
    ("remediation", "freeze", True, "BLOCK"),
    ("remediation", "agent_may_restart", False, "BLOCK"),
    ("procurement", "state", "draft", "REPLAN"),
    ("procurement", "vendor", "second vendor", "KEEP"),
    ("procurement", "vendor_status", "suspended", "REPLAN"),
    ("procurement", "budget_left", 400, "KEEP"),
    ("procurement", "budget_left", 399, "BLOCK"),
    ("procurement", "cost_center", "lab", "KEEP"),
    ("procurement", "title", "another title", "REFRESH"),
    ("procurement", "auto_cap", 400, "KEEP"),
    ("procurement", "auto_cap", 399, "BLOCK"),
    ("procurement", "agent_may_buy", False, "BLOCK"),
]


def imported(module: Any) -> set[str]:
    """The top-level packages that a module's source imports."""
    tree = ast.parse(inspect.getsource(module))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize(("workload", "case"), CASES)
def test_agrees_with_every_case(workload: Workload, case: Case) -> None:
    """The business rules give each case's declared outcome."""
    before = rows(workload)
    assert oracle.judge(workload.name, before, changed(before, case.change), workload.arguments) == case.outcome


@pytest.mark.parametrize("case", TABLE2, ids=lambda case: case.name)
def test_agrees_with_table_2(case: Case) -> None:
    """The business rules give the paper's Table 2."""
    before = rows(WORKLOADS[0])
    assert oracle.judge("refund", before, changed(before, case.change), WORKLOADS[0].arguments) == case.outcome


@pytest.mark.parametrize(("name", "field", "value", "expected"), SINGLE_FIELDS)
def test_every_field_is_judged_by_itself(name: str, field: str, value: Any, expected: str) -> None:
    """A change of one field alone moves the judgement exactly where the business says so, bounds included."""
    workload = BY_NAME[name]
    before, now = rows(workload), rows(workload)
    kind, key = next(
        where for where in (workload.target, workload.policy) if field in workload.state[where[0]][where[1]]
    )
    now[kind][key][field] = value
    assert oracle.judge(name, before, now, workload.arguments) == expected


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_recorded_field_was_tried(workload: Workload) -> None:
    """No field of a target or policy row is left out of the single-field table."""
    tried = {field for name, field, _, _ in SINGLE_FIELDS if name == workload.name}
    assert tried == {cell.field for cell, _ in cells(rows(workload, context_fields=0))}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_worst_rule_wins(workload: Workload) -> None:
    """With everything changed at once the critical rule decides, not the presentation or the replanning one."""
    before = rows(workload)
    now = before
    for case in workload.cases:
        now = changed(now, case.change)
    assert oracle.judge(workload.name, before, now, workload.arguments) == "BLOCK"


@pytest.mark.parametrize(
    ("name", "argument", "value", "expected"),
    [("refund", "amount", 101, "BLOCK"), ("remediation", "batch", 6, "REPLAN"), ("procurement", "cost", 501, "BLOCK")],
)
def test_the_call_is_judged_too(name: str, argument: str, value: int, expected: str) -> None:
    """Arguments beyond the bounds are judged on the state as it was shown."""
    before = rows(BY_NAME[name])
    assert oracle.judge(name, before, before, {**BY_NAME[name].arguments, argument: value}) == expected


def test_missing_records_are_not_guessed() -> None:
    """The oracle refuses a workload it does not know, a record that is not there, and a number that is none."""
    workload = BY_NAME["refund"]
    before = rows(workload)
    with pytest.raises(LookupError, match="no business rules for 'payroll'"):
        oracle.judge("payroll", before, before, {})
    with pytest.raises(LookupError):
        oracle.judge("refund", before, {**before, "policies": {}}, workload.arguments)
    now = rows(workload)
    now["policies"]["refund"]["limit"] = True
    with pytest.raises(TypeError):
        oracle.judge("refund", before, now, workload.arguments)


@pytest.mark.parametrize("module", [oracle, baselines])
def test_independent_of_the_core(module: Any) -> None:
    """Neither the oracle nor the baselines import lastlook, the workloads or their expectations."""
    assert not {name for name in imported(module) if name.startswith(("lastlook", "pydantic"))}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_workloads_have_the_papers_shape(workload: Workload) -> None:
    """Six target fields, two policy fields, 48 fields of context, five rules and the five kinds of mutation."""
    state = rows(workload)
    assert len(state[workload.target[0]][workload.target[1]]) == 6
    assert len(state[workload.policy[0]][workload.policy[1]]) == 2
    assert [len(row) for row in state["notes"].values()] == [2] * 24
    assert len(workload.rules) == 5
    assert [case.category for case in workload.cases] == [
        "irrelevant",
        "presentation",
        "decision",
        "critical",
        "critical",
    ]


@pytest.mark.parametrize("case", TABLE2, ids=lambda case: case.name)
def test_unknown_fields_are_denied(case: Case) -> None:
    """A case with a misspelt or extra field is refused, not read past."""
    with pytest.raises(ValidationError, match="Extra inputs"):
        Case.model_validate({**case.model_dump(), "outcomes": "KEEP"})


def test_incoherent_workloads_are_denied() -> None:
    """A case that names an unknown rule or changes a field that is not on record is refused."""
    data = WORKLOADS[0].model_dump()
    with pytest.raises(ValidationError, match="has no rule"):
        Workload.model_validate({**data, "sole": ("no such rule", "limit-50")})
    strange = {**data["cases"][1], "change": {**data["cases"][1]["change"], "field": "nickname"}}
    with pytest.raises(ValidationError, match="not on record"):
        Workload.model_validate({**data, "cases": (strange,)})


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_full_scan_sees_what_is_missing(workload: Workload) -> None:
    """FullScan blocks when the policy row vanishes or a bound is no number, instead of raising or passing."""
    state = rows(workload)
    trace = baselines.Trace(
        workload.name,
        workload.arguments,
        workload.target,
        workload.policy,
        (*workload.target, workload.presentation),
        baselines.Records(cells(state)).capture(),
    )
    del state[workload.policy[0]]
    assert baselines.FullScan()(trace, baselines.Records(cells(state))).outcome == "BLOCK"
    assert baselines.VersionAbort()(trace, baselines.Records(cells(state))).outcome == "REPLAN"
    strange = baselines.Records(cells(rows(workload)))
    strange.write((*workload.policy, next(iter(workload.state[workload.policy[0]][workload.policy[1]]))), "many")
    assert baselines.FullScan()(trace, strange).outcome == "BLOCK"
