"""The three workloads as a user of lastlook would write them: effects, their premises, and the gate around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastlook import Capture, Gate, Memory, MemoryPermit, arg, block_unless, replan_unless, resource
from lastlook_scenarios.workloads import CONTEXT_FIELDS, rows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lastlook import Intent, Transaction
    from lastlook.effects import Effect
    from lastlook.premises import Premise
    from lastlook_scenarios.workloads import Mutation, Workload

__all__ = ["Bench", "declare"]


class Bench:
    """A world on record, a gate before it, and one workload's effect; used for one trace after the other.

    Args:
        workload: whose rows and whose effect.
        only: the reasons of the premises to declare; all of them unless given.
        capture: how finely the gate links a change to what was decided.
        context_fields: how many fields that no premise names the agent reads beside the eight of target and policy.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        only: Collection[str] | None = None,
        capture: Capture = Capture.PREDICATE,
        context_fields: int = CONTEXT_FIELDS,
    ) -> None:
        self._workload = workload
        self._rows = rows(workload, context_fields=context_fields)
        self.world = Memory(**self._rows)
        self.gate = Gate(self.world, capture=capture)
        self._effect = declare(self.gate, workload, only)
        self._supplied = {(kind, key): resource(kind, key) for kind, table in self._rows.items() for key in table}

    def propose(self, *, policy_supports: bool = True) -> Intent[str]:
        """Read everything on record, decide, and propose.

        Args:
            policy_supports: whether the decision is said to rest on the policy row too, not on the target alone.
        """
        return self.propose_from(self.read(policy_supports=policy_supports))

    def read(self, *, policy_supports: bool = True) -> Transaction:
        """Read everything on record and decide, in a transaction that can propose more than once."""
        tx = self.gate.transaction()
        read = {where: tx.read(what) for where, what in self._supplied.items()}
        supports = [self._workload.target, self._workload.policy] if policy_supports else [self._workload.target]
        tx.decide(f"{self._workload.name} is due", rests_on=[read[where] for where in supports])
        return tx

    def propose_from(self, tx: Transaction) -> Intent[str]:
        """Propose the workload's call."""
        return tx.propose(self._effect, **self._workload.arguments)

    def change(self, mutation: Mutation) -> None:
        """Another actor's write."""
        self.world.change(mutation.kind, mutation.key, **{mutation.field: mutation.value})

    def reset(self, mutation: Mutation) -> None:
        """Put back what the mutation and the effect wrote."""
        for kind, key in {(mutation.kind, mutation.key), self._workload.target}:
            self.world.replace(kind, key, self._rows[kind][key])


def declare(gate: Gate, workload: Workload, only: Collection[str] | None = None) -> Effect[..., str]:
    """Declare a workload's effect on a gate, with all of its premises or with `only` those of the given reasons.

    Raises:
        LookupError: no such workload.
    """
    match workload.name:
        case "refund":
            return _refund(gate, only)
        case "remediation":
            return _remediation(gate, only)
        case "procurement":
            return _procurement(gate, only)
        case name:
            raise LookupError(f"no effect is written for {name!r}")


def _refund(gate: Gate, only: Collection[str] | None) -> Effect[..., str]:
    order, policy = resource("orders", arg.order_id), resource("policies", "refund")
    premises = [
        replan_unless(order.delivered, "the order is not delivered"),
        replan_unless(order.defect, "no defect is on record"),
        block_unless(~order.refunded, "already refunded"),
        block_unless(arg.amount <= policy.limit, "over the refund limit"),
        block_unless(policy.agent_may_refund, "no refund authority"),
    ]

    @gate.effect(target=order, refresh=[order.customer_name], premises=_chosen(premises, only))
    def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
        permit.change("orders", order_id, refunded=True)
        return f"refunded {amount}"

    return refund


def _remediation(gate: Gate, only: Collection[str] | None) -> Effect[..., str]:
    incident, policy = resource("incidents", arg.incident_id), resource("policies", "operations")
    premises = [
        replan_unless(incident.state == "open", "the incident is not open"),
        replan_unless(arg.batch <= incident.healthy, "too few healthy instances"),
        block_unless(~incident.remediated, "already remediated"),
        block_unless(~policy.freeze, "a maintenance freeze is on"),
        block_unless(policy.agent_may_restart, "no restart authority"),
    ]

    @gate.effect(target=incident, refresh=[incident.title], premises=_chosen(premises, only))
    def restart(permit: MemoryPermit, incident_id: str, batch: int) -> str:
        permit.change("incidents", incident_id, remediated=True)
        return f"restarted {batch} instances"

    return restart


def _procurement(gate: Gate, only: Collection[str] | None) -> Effect[..., str]:
    request, policy = resource("requests", arg.request_id), resource("policies", "purchasing")
    premises = [
        replan_unless(request.state == "ready", "the request is not ready"),
        replan_unless(request.vendor_status == "approved", "the vendor is not approved"),
        block_unless(arg.cost <= request.budget_left, "over the budget"),
        block_unless(arg.cost <= policy.auto_cap, "over the auto-approval cap"),
        block_unless(policy.agent_may_buy, "no purchasing authority"),
    ]

    @gate.effect(target=request, refresh=[request.title], premises=_chosen(premises, only))
    def buy(permit: MemoryPermit, request_id: str, cost: int) -> str:
        permit.change("requests", request_id, state="ordered")
        return f"ordered for {cost}"

    return buy


def _chosen(premises: Sequence[Premise], only: Collection[str] | None) -> list[Premise]:
    return [premise for premise in premises if only is None or premise.because in only]
