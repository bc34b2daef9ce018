"""Compare lastlook's gate with a plain reading of the ATR paper, interleaved in one process.

    python benchmarks/compare.py --json ratios.json            # against benchmarks/prototype.py
    python benchmarks/compare.py --rod FILE --json ratios.json # against another file of the same interface

Every figure is a ratio (the yardstick's time over lastlook's), the minimum of several interleaved windows on each side;
absolute times mean nothing on a shared machine. `pre_effect_*` time the public `gate.preview(intent)` with the plan in
process and nothing recorded; `change_hint` times `gate.affected(change)`; `gate_full` times `gate(intent)` with its
explanation recorded; `flatness_pct` is how much an unchanged preview costs more over 100,000 unrelated recorded reads
than over 13, the median of five interleaved ratios.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastlook import Change, Gate, Memory, MemoryPermit, arg, block_unless, replan_unless, resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from lastlook import Intent

HERE = Path(__file__).resolve().parent
WORKLOAD_READS = 8
SMALL, LARGE = 13, 100_000
REPETITIONS = 9
WINDOW_NS = 20_000_000
GATE_CALLS, GATE_WINDOWS = 20, 200


def load(path: Path) -> ModuleType:
    """The yardstick as a module."""
    spec = importlib.util.spec_from_file_location("yardstick", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["yardstick"] = module
    spec.loader.exec_module(module)
    return module


class Ours:
    """The refund case on lastlook: one target row, one policy row, and unrelated recorded reads."""

    def __init__(self, reads: int) -> None:
        extra = reads - WORKLOAD_READS
        notes = {f"n-{n}": {"a": f"note {2 * n}", "b": f"note {2 * n + 1}"} for n in range((extra + 1) // 2)}
        order = {
            "delivered": True,
            "defect": True,
            "refunded": False,
            "amount": 80,
            "currency": "GBP",
            "customer_name": "first customer",
        }
        self.world = Memory(orders={"o-1": order}, policies={"refund": {"limit": 100, "may_refund": True}}, notes=notes)
        self.gate = Gate(self.world)
        self.applied: list[tuple[str, int]] = []
        row, policy = resource("orders", arg.order_id), resource("policies", "refund")

        @self.gate.effect(
            target=row,
            refresh=[row.customer_name],
            premises=[
                replan_unless(row.delivered),
                replan_unless(row.defect),
                block_unless(~row.refunded),
                block_unless(row.amount <= policy.limit),
                block_unless(policy.may_refund),
            ],
        )
        def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
            permit.no_write()
            self.applied.append((order_id, amount))
            return "refunded"

        self._refund = refund
        transaction = self.gate.transaction()
        seen = [transaction.read(resource("orders", "o-1")), transaction.read(resource("policies", "refund"))]
        for name in notes:
            transaction.read(resource("notes", name))
        transaction.decide("eligible", rests_on=seen[:0])
        self.intent: Intent[str] = transaction.propose(refund, "o-1", amount=80)

    def propose(self) -> Intent[str]:
        """Another intent, of the workload's own reads."""
        return self._refund.propose("o-1", amount=80)


def interleaved(sides: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Nanoseconds a call of each side: the minimum over windows taken in turn."""
    counts: dict[str, int] = {}
    for name, call in sides.items():
        for _ in range(50):
            call()
        start = time.perf_counter_ns()
        for _ in range(200):
            call()
        counts[name] = max(50, WINDOW_NS * 200 // max(1, time.perf_counter_ns() - start))
    best = dict.fromkeys(sides, float("inf"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(REPETITIONS):
            for name, call in sides.items():
                repeats = range(counts[name])
                start = time.perf_counter_ns()
                for _ in repeats:
                    call()
                best[name] = min(best[name], (time.perf_counter_ns() - start) / counts[name])
            gc.collect()
    finally:
        gc.enable()
    return best


def ratio(theirs: Callable[[], Any], ours: Callable[[], Any]) -> float:
    """How many times dearer the yardstick is."""
    best = interleaved({"theirs": theirs, "ours": ours})
    return best["theirs"] / best["ours"]


def previews(rod: ModuleType) -> dict[str, float]:
    """Validation alone: nothing changed, the limit lowered, and the same as a change hint."""
    scenario = rod.refund()
    runtime, name = rod.build(scenario, context_reads=SMALL - WORKLOAD_READS)
    validate, pre_effect, hinted = runtime.validate, rod.Event.PRE_EFFECT, rod.Event.CHANGE
    ours = Ours(SMALL)
    preview, affected, intent = ours.gate.preview, ours.gate.affected, ours.intent
    unchanged = ratio(lambda: validate(pre_effect, name, ()), lambda: preview(intent))
    mutation = scenario.mutations[3]
    runtime.store.write(mutation.key, mutation.value)
    ours.world.change("policies", "refund", limit=50)
    expect(validate(pre_effect, name, ()).outcome.name, "BLOCK")
    expect(preview(intent).outcome.name, "BLOCK")
    changed = ratio(lambda: validate(pre_effect, name, ()), lambda: preview(intent))
    hint, change = (mutation.key,), Change("policies", "refund", "limit")
    expect(affected(change)[0].outcome.name, "BLOCK")
    by_hint = ratio(lambda: validate(hinted, name, hint), lambda: affected(change))
    return {"pre_effect_unchanged": unchanged, "pre_effect_one_change": changed, "change_hint": by_hint}


def whole_gate(rod: ModuleType) -> float:
    """Validation, conditional apply and the recorded explanation.

    An intent is released once, so ours are proposed, untimed, a few before each window: as warm as the yardstick's one.
    """
    runtime, name = rod.build(rod.refund(), context_reads=SMALL - WORKLOAD_READS)
    theirs, ours = runtime.gate, Ours(SMALL)
    gate = ours.gate
    best = {"theirs": float("inf"), "ours": float("inf")}
    gc.collect()
    gc.disable()
    try:
        for _ in range(GATE_WINDOWS):
            intents = [ours.propose() for _ in range(GATE_CALLS)]
            start = time.perf_counter_ns()
            for _ in range(GATE_CALLS):
                theirs(name)
            best["theirs"] = min(best["theirs"], (time.perf_counter_ns() - start) / GATE_CALLS)
            start = time.perf_counter_ns()
            for intent in intents:
                gate(intent)
            best["ours"] = min(best["ours"], (time.perf_counter_ns() - start) / GATE_CALLS)
    finally:
        gc.enable()
    expect(str(len(ours.applied)), str(GATE_WINDOWS * GATE_CALLS))
    return best["theirs"] / best["ours"]


def flatness() -> float:
    """Per cent by which 100,000 unrelated recorded reads make an unchanged preview dearer than 13."""
    small, large = Ours(SMALL), Ours(LARGE)
    ratios: list[float] = []
    for _ in range(5):
        best = interleaved(
            {
                "small": lambda: small.gate.preview(small.intent),
                "large": lambda: large.gate.preview(large.intent),
            }
        )
        ratios.append(best["large"] / best["small"])
    return 100 * (statistics.median(ratios) - 1)


def expect(found: str, wanted: str) -> None:
    """Stop unless both sides do the work that is being timed."""
    if found != wanted:
        raise SystemExit(f"expected {wanted}, found {found}: the comparison would mean nothing")


def measure(path: Path) -> dict[str, float]:
    """All ratios."""
    rod = load(path)
    figures = previews(rod)
    figures["gate_full"] = whole_gate(rod)
    figures["flatness_pct"] = flatness()
    return {name: round(value, 2) for name, value in figures.items()}


def main() -> int:
    """Measure, print and write the ratios."""
    parser = argparse.ArgumentParser(description="lastlook's gate against a plain reading of the paper, as ratios.")
    parser.add_argument("--rod", type=Path, default=HERE / "prototype.py", help="the yardstick's file")
    parser.add_argument("--json", type=Path, help="write the ratios here too")
    options = parser.parse_args()
    figures = measure(options.rod)
    for name, value in figures.items():
        print(f"{name:<24}{value:>8.2f}{' %' if name.endswith('_pct') else ' x'}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
