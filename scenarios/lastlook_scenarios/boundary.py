"""The binding boundary: one history, with and without the policy among what the target checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastlook import UNBOUND, Gate, Memory, MemoryPermit, arg, block_unless, resource
from lastlook.events import ApplyAnswered
from lastlook.testing import events, interpose
from lastlook_scenarios import workloads
from lastlook_scenarios.contracts import Bench
from lastlook_scenarios.raw import BoundaryRow

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["histories"]


def histories(trials: int) -> Iterator[BoundaryRow]:
    """Lower the limit in the window between the look and the effect, with and without the policy bound."""
    for trial in range(1, trials + 1):
        yield _beside_the_policy(trial)
        yield _with_the_policy(trial)


def _beside_the_policy(trial: int) -> BoundaryRow:
    orders = Memory(orders={"o-1": {"refunded": False}})
    policies = Memory(policies={"refund": {"limit": 100}})
    gate = Gate(orders, policies)
    order, policy = resource("orders", arg.order_id), resource("policies", "refund")
    within = block_unless(
        arg.amount <= policy.limit,
        "over the refund limit",
        accept=UNBOUND("the race with the policy's owner is what is shown here"),
    )

    @gate.effect(target=order, premises=[block_unless(~order.refunded, "already refunded"), within])
    def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
        permit.change("orders", order_id, refunded=True)
        return f"refunded {amount}"

    intent = refund.propose("o-1", amount=80)
    with events(gate) as seen, interpose(gate, lambda: policies.change("policies", "refund", limit=50)):
        verdict = gate(intent)
    first = next(event.applied.name for event in seen if isinstance(event, ApplyAnswered))
    released = int(intent.id in orders.effects)
    return BoundaryRow("external", "target only", trial, first, verdict.outcome.name, 1, released)


def _with_the_policy(trial: int) -> BoundaryRow:
    bench = Bench(workloads.WORKLOADS[0], context_fields=0)
    intent = bench.propose()
    lowered = workloads.WORKLOADS[0].case("limit-50").change
    with events(bench.gate) as seen, interpose(bench.gate, lambda: bench.change(lowered)):
        verdict = bench.gate(intent)
    first = next(event.applied.name for event in seen if isinstance(event, ApplyAnswered))
    released = int(intent.id in bench.world.effects)
    return BoundaryRow("same database", "bound", trial, first, verdict.outcome.name, 1, released)
