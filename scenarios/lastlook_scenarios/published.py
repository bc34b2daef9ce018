"""What a run publishes: the figures as JSON, and Table 3. All of it is recomputed from the raw rows by the audit."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from lastlook_scenarios.counts import Boundary
from lastlook_scenarios.summary import METHODS, TIMED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook_scenarios.counts import Spread
    from lastlook_scenarios.summary import Summary

__all__ = ["as_json", "in_detail", "premises_per_change", "table3"]

_TARGET_ONLY: Final = ("same database", "target only")
_BOUND: Final = ("same database", "bound")


def as_json(summary: Summary) -> dict[str, Any]:
    """The figures for a program."""
    of = summary.cases
    blocked, unavailable = summary.blocked
    figures: dict[str, Any] = {
        "table2": [{"case": name, "expected": want, "got": got} for name, want, got in summary.table2],
        "cases": {
            name: {
                "matched": of - len(tally.unmatched),
                "of": of,
                "false_allows": len(tally.false_allows),
                "false_blocks": len(tally.false_blocks),
            }
            for name, tally in summary.tallies.items()
        },
        "table3": {
            name: {
                "unsafe_released_pct": tally.unsafe_released_pct,
                "safe_replanned_pct": tally.safe_replanned_pct,
                "premises_per_change": premises_per_change(summary, name),
                "p50_us": _us(summary.latency(name, 50)),
            }
            for name, tally in summary.tallies.items()
        },
        "nodes_visited": {capture: sum(found.nodes) / len(found.nodes) for capture, found in summary.closures.items()},
        "omission": {
            str(rate): {
                "explicit_pct": 100 * found.explicit / found.trials,
                "conservative_pct": 100 * found.conservative / found.trials,
                "index_pct": 100 * found.index_only / found.trials,
            }
            for rate, found in summary.omission.items()
        },
        "unavailable_validators": {"blocked": blocked, "of": unavailable},
    }
    if summary.durable:
        figures["durable_cells"] = {
            name: {"matched": summary.durable[name].matched, "of": summary.durable[name].of} for name in METHODS
        }
    if summary.races:
        races = summary.races.values()
        figures["races"] = {
            "pairs": sum(found.pairs for found in races),
            "double": sum(found.double for found in races),
            "zero": sum(found.zero for found in races),
        }
    target_only, bound = (summary.boundary.get(history, Boundary()) for history in (_TARGET_ONLY, _BOUND))
    figures["binding_boundary"] = {
        "target_only_committed": target_only.released,
        "bound_rejected": bound.rejected,
        "of": bound.trials,
    }
    figures["scaling"] = {
        str(reads): {f"{path}_us": _us(spread.mean) for path, spread in paths.items()}
        for reads, paths in summary.scaling().items()
    }
    figures["traces"] = summary.tallies["ATR"].traces
    return figures


def premises_per_change(summary: Summary, method: str) -> float:
    """That of the durable cells where they ran, as the paper's, else that of the fifteen cases."""
    return (summary.durable or summary.tallies)[method].premises_per_change


def in_detail(summary: Summary, description: Mapping[str, Any]) -> dict[str, Any]:
    """The figures for a program, with what they were computed from and on; `summary.json` of a run's folder."""
    detail: dict[str, Any] = {
        "methods": {
            name: {
                "traces": tally.traces,
                "unsafe": tally.unsafe,
                "unsafe_released": tally.released,
                "safe": tally.safe,
                "safe_replanned": tally.replanned,
                "safe_retained": tally.retained,
                "premises": tally.premises,
                "matched": tally.matched,
                "outcomes": tally.outcomes,
            }
            for name, tally in summary.tallies.items()
        },
        "latency": {
            name: {
                **{f"p{percent}_us": _us(summary.latency(name, percent)) for percent in (50, 95, 99)},
                "repetitions_p50": _spread(summary.latency_p50(name)),
            }
            for name in TIMED
        },
        "closures": {
            capture: {"most_nodes": max(found.nodes), "premises_per_change": sum(found.premises) / len(found.premises)}
            for capture, found in summary.closures.items()
        },
        "omission": {str(rate): asdict(found) for rate, found in summary.omission.items()},
        "unavailable": {
            state: {"outcome": outcome, "released": released}
            for state, (outcome, released) in summary.unavailable.items()
        },
        "boundary": [
            {"policy": policy, "binding": binding, **asdict(found)}
            for (policy, binding), found in summary.boundary.items()
        ],
        "scaling": {
            str(reads): {path: _spread(spread) for path, spread in paths.items()}
            for reads, paths in summary.scaling().items()
        },
        "durable": {
            name: {
                "premises_per_change": found.premises_per_change,
                "false_allows": found.false_allows,
                "false_blocks": found.false_blocks,
                "outcomes": found.outcomes,
                "unmatched": sorted(found.unmatched),
            }
            for name, found in summary.durable.items()
        },
        "races": {over: asdict(found) for over, found in summary.races.items()},
        "disagreements": summary.disagreements,
    }
    return {"run": dict(description), **as_json(summary), "detail": detail}


def table3(summary: Summary) -> str:
    """Table 3 as Markdown."""
    lines = [
        "| Method | Unsafe released (%) | Safe replanned (%) | Premises / change | p50 (us) |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in ("NoCheck", "VersionAbort", "FullScan", "ATR"):
        tally = summary.tallies[name]
        timed = name in TIMED
        premises = f"{premises_per_change(summary, name):.1f}" if timed else "-"
        p50 = f"{summary.latency(name, 50):.1f}" if timed else "-"
        lines.append(
            f"| {name} | {tally.unsafe_released_pct:.1f} | {tally.safe_replanned_pct:.1f} | {premises} | {p50} |"
        )
    return "\n".join(lines) + "\n"


def _us(microseconds: float) -> float:
    """A time as it is published, to the nanosecond."""
    return round(microseconds, 3)


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "mean_us": _us(spread.mean),
        "ci95_us": _us(spread.ci95),
        "each_us": [_us(value) for value in spread.values],
    }
