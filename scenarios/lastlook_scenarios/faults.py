"""Where the guarantee ends: omitted dependencies, and validators that do not answer."""

from __future__ import annotations

import datetime as dt
import random
import threading
from typing import TYPE_CHECKING, Final

from lastlook import Gate, Memory, MemoryPermit, arg, block_unless, resource, validator
from lastlook.testing import forget_edges, without_validator
from lastlook_scenarios import workloads
from lastlook_scenarios.contracts import Bench
from lastlook_scenarios.raw import OmissionRow, UnavailableRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastlook_scenarios.workloads import Workload

__all__ = ["OMISSION_RATES", "omission", "unavailable_validators"]

OMISSION_RATES: Final = (1, 5, 10)
_WAYS: Final = ("explicit", "conservative", "index_only")
_TRIALS_PER_BENCH: Final = 200


# --- omission ---------------------------------------------------------------------------------------------------------


def omission(workload: Workload, trials: int, seed: int, *, repetition: int = 1) -> Iterator[OmissionRow]:
    """Let the sole critical rule be broken in every trial, with the dependency left out in some of them.

    The draw is over the trials of all workloads; a workload has every third of them.

    Args:
        workload: whose share of the trials is run.
        trials: how many there are at each rate, all workloads together.
        seed: of the draws.
        repetition: which one; each has draws of its own.
    """
    of = [one.name for one in workloads.WORKLOADS]
    share = range(of.index(workload.name), trials, len(of))
    for rate in OMISSION_RATES:
        draw = random.Random(f"{seed} {repetition} {rate}")
        drawn = frozenset(draw.sample(range(trials), max(1, round(trials * rate / 100))))
        for start in range(0, len(share), _TRIALS_PER_BENCH):
            chunk = share[start : start + _TRIALS_PER_BENCH]
            omitted = [trial in drawn for trial in chunk]
            allowed = {way: _false_allows(workload, way, omitted) for way in _WAYS}
            for n in range(len(chunk)):
                yield OmissionRow(
                    repetition=repetition,
                    workload=workload.name,
                    rate=rate,
                    omitted=int(omitted[n]),
                    explicit=int(allowed["explicit"][n]),
                    conservative=int(allowed["conservative"][n]),
                    index_only=int(allowed["index_only"][n]),
                )


def _false_allows(workload: Workload, way: str, omitted: list[bool]) -> list[bool]:
    """For each trial, whether the effect took place."""
    sole, breaking = workload.sole
    change = workload.case(breaking).change
    softer = [reason for reason, severity in workload.rules.items() if severity == "REPLAN"]
    complete = Bench(workload, only=[*softer, sole], context_fields=0)
    lacking = complete if way == "index_only" else Bench(workload, only=softer, context_fields=0)
    allowed: list[bool] = []
    for omits in omitted:
        bench = lacking if omits else complete
        intent = bench.propose(policy_supports=way != "explicit")
        if omits and way == "index_only":
            forget_edges(bench.gate, intent)
        bench.change(change)
        bench.gate(intent)
        allowed.append(intent.id in bench.world.effects)
        if not allowed[-1]:
            bench.gate.withdraw(intent)
        bench.reset(change)
    return allowed


# --- validators that do not answer ------------------------------------------------------------------------------------


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


def unavailable_validators() -> list[UnavailableRow]:
    """Change the limit to one that still permits the refund, and let the validator fail in three ways, then answer."""
    rows: list[UnavailableRow] = []
    look = _pending_refund("missing")
    with without_validator("evaluation-within-limit", "1"):
        rows.append(look())

    look = _pending_refund("raising")
    _LEDGER.broken = True
    try:
        rows.append(look())
    finally:
        _LEDGER.broken = False

    look = _pending_refund("hanging")
    _LEDGER.answers.clear()
    try:
        rows.append(look())
    finally:
        _LEDGER.answers.set()

    rows.append(_pending_refund("answering")())
    return rows


def _pending_refund(validator_is: str) -> Callable[[], UnavailableRow]:
    """A refund under a limit that has moved; called, it takes the last look."""
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

    def look() -> UnavailableRow:
        verdict = gate(intent)
        return UnavailableRow(validator_is, verdict.outcome.name, int(intent.id in world.effects))

    return look
