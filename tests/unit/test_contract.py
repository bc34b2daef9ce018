"""What policy marks as critical, as the contract compiles it."""

from __future__ import annotations

from typing import Any

import pytest
from systems import Shop, order

from lastlook import BindingPolicy, Outcome, count, each, replan_unless, rows


@pytest.mark.parametrize(
    ("critical", "outcome"),
    [
        pytest.param({"policies"}, Outcome.BLOCK, id="the kind"),
        pytest.param({"policies.limit"}, Outcome.BLOCK, id="a field of it"),
        pytest.param({"orders.refunded"}, Outcome.REPLAN, id="a field of another"),
        pytest.param(set[str](), Outcome.REPLAN, id="nothing"),
    ],
)
@pytest.mark.parametrize(
    "premise",
    [
        pytest.param(replan_unless(count(rows("policies")) == 1), id="all rows"),
        pytest.param(replan_unless(count(rows("policies").where(each.limit > 50)) == 1), id="some rows"),
    ],
)
def test_a_premise_over_all_rows_is_as_critical_as_any_field_of_theirs(
    premise: Any, critical: set[str], outcome: Outcome
) -> None:
    """A premise over all rows of a kind rests on all of their fields, so that a mark on any of them makes it block."""
    shop = Shop(policy=BindingPolicy(critical=frozenset(critical)), premises=[replan_unless(order.delivered), premise])
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "second", limit=60)
    assert shop.gate.preview(intent).outcome is outcome
