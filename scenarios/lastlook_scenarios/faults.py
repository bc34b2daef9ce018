"""Where the guarantee ends: omitted dependencies, validators that do not answer, evidence the target cannot check."""

from __future__ import annotations

import datetime as dt
import random
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from lastlook import UNBOUND, Applied, Gate, Memory, MemoryPermit, Outcome, arg, block_unless, resource, validator
from lastlook.events import ApplyAnswered
from lastlook.testing import events, forget_edges, interpose, without_validator
from lastlook_scenarios import workloads
from lastlook_scenarios.contracts import Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook_scenarios.workloads import Workload

__all__ = [
    "OMISSION_RATES",
    "Boundary",
    "Omission",
    "Unavailable",
    "binding_boundary",
    "omission",
    "unavailable_validators",
]

OMISSION_RATES: Final = (1, 5, 10)
_BOUNDARY_TRIALS: Final = 100
_TRIALS_PER_BENCH: Final = 200


# --- omission ---------------------------------------------------------------------------------------------------------


class Omission(NamedTuple):
    """Unsafe trials in some of which the sole critical dependency was left out.

    Attributes:
        rate: how many per cent of the trials were drawn.
        explicit: false allows where the declaration lacked the premise and the decision did not rest on the read.
        conservative: false allows where the declaration lacked the premise and the decision rested on the read.
        index_only: false allows where the premise was declared and only the index had lost the intent's edges.
    """

    rate: int
    trials: int
    omitted: int
    explicit: int
    conservative: int
    index_only: int


def omission(rate: int, trials: int, seed: int, tell: Callable[[int, int], None]) -> Omission:
    """Let the sole critical rule be broken in every trial, with the dependency left out in `rate` per cent of them."""
    drawn = frozenset(random.Random(seed * 1000 + rate).sample(range(trials), max(1, round(trials * rate / 100))))
    allowed = {"explicit": 0, "conservative": 0, "index_only": 0}
    done = 0
    for n, workload in enumerate(workloads.WORKLOADS):
        share = range(n, trials, len(workloads.WORKLOADS))
        for way in allowed:
            for start in range(0, len(share), _TRIALS_PER_BENCH):
                chunk = share[start : start + _TRIALS_PER_BENCH]
                allowed[way] += _false_allows(workload, way, [trial in drawn for trial in chunk])
                done += len(chunk)
                tell(done, trials * len(allowed))
    return Omission(rate, trials, len(drawn), **allowed)


def _false_allows(workload: Workload, way: str, omitted: list[bool]) -> int:
    sole, breaking = workload.sole
    change = workload.case(breaking).change
    softer = [reason for reason, severity in workload.rules.items() if severity == "REPLAN"]
    complete = Bench(workload, only=[*softer, sole], context_fields=0)
    lacking = complete if way == "index_only" else Bench(workload, only=softer, context_fields=0)
    allowed = 0
    for omits in omitted:
        bench = lacking if omits else complete
        intent = bench.propose(policy_supports=way != "explicit")
        if omits and way == "index_only":
            forget_edges(bench.gate, intent)
        bench.change(change)
        allowed += bench.gate(intent).committed
        if intent.id not in bench.world.effects:
            bench.gate.withdraw(intent)
        bench.reset(change)
    return allowed


# --- validators that do not answer ------------------------------------------------------------------------------------


class Unavailable(NamedTuple):
    """What the gate made of block-critical premises whose validator was missing, raised, or was too slow.

    Attributes:
        control: whether the same change was let through while the validator answered.
    """

    blocked: int
    of: int
    control: bool


class _Ledger:
    """What the validator asks; it can break, and it can hang."""

    def __init__(self) -> None:
        self.broken = False
        self.answers = threading.Event()
        self.answers.set()

    def ask(self) -> None:
        self.answers.wait()
        if self.broken:
            raise ConnectionError("the ledger does not answer")


_LEDGER: Final = _Ledger()


@validator("evaluation-within-limit", version="1", timeout=dt.timedelta(milliseconds=250))
def _within_limit(amount: int, limit: int) -> bool:
    _LEDGER.ask()
    return amount <= limit


def unavailable_validators() -> Unavailable:
    """Change the limit to one that still permits the refund, and let the validator fail in three ways, then answer."""
    blocked = [_blocks_while_missing(), _blocks_while_raising(), _blocks_while_hanging()]
    return Unavailable(sum(blocked), len(blocked), control=_pending_refund()() is Outcome.KEEP)


def _pending_refund() -> Callable[[], Outcome]:
    """A refund under a limit that has moved; called, it takes the last look, and says KEEP if the effect took place."""
    world = Memory(orders={"o-1": {"refunded": False}}, policies={"refund": {"limit": 100}})
    gate = Gate(world)
    order, policy = resource("orders", arg.order_id), resource("policies", "refund")

    @gate.effect(
        target=order, premises=[block_unless(_within_limit(arg.amount, policy.limit), "over the refund limit")]
    )
    def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
        permit.change("orders", order_id, refunded=True)
        return f"refunded {amount}"

    intent = refund.propose("o-1", amount=80)
    world.change("policies", "refund", limit=90)

    def look() -> Outcome:
        verdict = gate(intent)
        return Outcome.KEEP if intent.id in world.effects else verdict.outcome

    return look


def _blocks_while_missing() -> bool:
    look = _pending_refund()
    with without_validator("evaluation-within-limit", "1"):
        return look() is Outcome.BLOCK


def _blocks_while_raising() -> bool:
    look = _pending_refund()
    _LEDGER.broken = True
    try:
        return look() is Outcome.BLOCK
    finally:
        _LEDGER.broken = False


def _blocks_while_hanging() -> bool:
    look = _pending_refund()
    _LEDGER.answers.clear()
    try:
        return look() is Outcome.BLOCK
    finally:
        _LEDGER.answers.set()


# --- the binding boundary ---------------------------------------------------------------------------------------------


class Boundary(NamedTuple):
    """One history, repeated: validate, let the policy change, then attempt the effect.

    Attributes:
        target_only_committed: effects that took place where the target could not check the policy.
        bound_rejected: effects that were rejected, and blocked by the next look, where it could.
    """

    target_only_committed: int
    bound_rejected: int
    of: int


def binding_boundary() -> Boundary:
    """Lower the limit in the window between the look and the effect, with and without the policy bound."""
    return Boundary(
        target_only_committed=sum(_commits_beside_the_policy() for _ in range(_BOUNDARY_TRIALS)),
        bound_rejected=sum(_rejects_with_the_policy() for _ in range(_BOUNDARY_TRIALS)),
        of=_BOUNDARY_TRIALS,
    )


def _commits_beside_the_policy() -> bool:
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
    with interpose(gate, lambda: policies.change("policies", "refund", limit=50)):
        verdict = gate(intent)
    return verdict.committed and intent.id in orders.effects


def _rejects_with_the_policy() -> bool:
    bench = Bench(workloads.WORKLOADS[0], context_fields=0)
    intent = bench.propose()
    lowered = workloads.WORKLOADS[0].case("limit-50").change
    with events(bench.gate) as seen, interpose(bench.gate, lambda: bench.change(lowered)):
        verdict = bench.gate(intent)
    answers = [event.applied for event in seen if isinstance(event, ApplyAnswered)]
    blocked = verdict.outcome is Outcome.BLOCK and not verdict.committed
    return answers == [Applied.REJECTED] and blocked and intent.id not in bench.world.effects
