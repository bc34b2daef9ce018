"""The evaluation beside the paper: one row a figure, its verdict, and the same as JSON.

A figure that follows from the definitions is judged: it is the paper's ("="), or the reason why it differs stands
beside it, or it is a mismatch. A time depends on the machine and is never judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastlook_scenarios.evaluation import Evaluation
    from lastlook_scenarios.faults import Omission

__all__ = ["Row", "as_json", "closing", "heading", "mismatches", "rows", "show", "text"]

_NONE: Final = "-"
_TIME: Final = "a time, not judged"
_MISMATCH: Final = "MISMATCH: "
_STATED: Final = "not stated by the paper"

_PAPER_TABLE2: Final = {
    "name": "REFRESH",
    "limit-90": "KEEP",
    "defect": "REPLAN",
    "limit-50": "BLOCK",
    "refunded": "BLOCK",
}
# method -> unsafe released %, safe replanned %, premises per change, p50 in microseconds
_PAPER_TABLE3: Final = {
    "NoCheck": ("100.0", "0.0", _NONE, _NONE),
    "VersionAbort": ("0.0", "100.0", _NONE, _NONE),
    "FullScan": ("0.0", "0.0", "6.0", "39.9"),
    "ATR": ("0.0", "0.0", "0.6", "10.8"),
}
_PAPER_OMISSION: Final = {1: "0.95", 5: "5.05", 10: "9.97"}
_PAPER_SCALING: Final = {13: ("8.8", "12.1"), 4093: ("9.3", "2595.9")}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        note: "=" where it is the paper's, else why it differs.
        ok: False for a mismatch.
    """

    section: str
    name: str
    paper: str
    here: str
    note: str
    ok: bool = True


def rows(evaluation: Evaluation) -> list[Row]:
    """Every figure, in the paper's order."""
    return [
        *_table2(evaluation),
        *_cases(evaluation),
        *_table3(evaluation),
        *_localization(evaluation),
        *_omission(evaluation),
        *_failures(evaluation),
        *_scaling(evaluation),
    ]


def mismatches(evaluation: Evaluation) -> list[str]:
    """What is not as it must be, one sentence each; empty when the evaluation holds."""
    wrong = [
        f"{row.section}, {row.name}: {row.here}, {row.note.removeprefix(_MISMATCH)}"
        for row in rows(evaluation)
        if not row.ok
    ]
    return [*wrong, *evaluation.disagreements]


def heading(evaluation: Evaluation) -> list[str]:
    """What was run, and what was not."""
    seeds = ", ".join(f"{name} {seed}" for name, seed in evaluation.seeds.items())
    trials = evaluation.options.trials
    return [
        f"{evaluation.traces} traces a method, {trials} unsafe trials an omission rate, {evaluation.seconds:.1f} s",
        f"seeds: {seeds}; omission {evaluation.options.seed}",
        "durable cells and two-client races need a database and are not part of this evaluation yet",
    ]


def closing(evaluation: Evaluation) -> str:
    """How many figures were judged, and how many things are not as they must be."""
    judged = sum(row.note != _TIME for row in rows(evaluation))
    wrong = len(mismatches(evaluation))
    return f"{judged} figures compared, {wrong} {'mismatch' if wrong == 1 else 'mismatches'}"


def _judged(section: str, name: str, paper: str, here: str, *, must: str | None = None, reason: str = "") -> Row:
    """A figure that must be `must` (the paper's unless given), for the given reason where that differs."""
    must = paper if must is None else must
    if here != must:
        return Row(section, name, paper, here, f"{_MISMATCH}must be {must}", ok=False)
    return Row(section, name, paper, here, "=" if here == paper else reason)


def _table2(evaluation: Evaluation) -> Iterator[Row]:
    got = {name: outcome for name, _, outcome in evaluation.table2}
    for name, outcome in _PAPER_TABLE2.items():
        yield _judged("Table 2", name, outcome, got.get(name, _NONE))


def _cases(evaluation: Evaluation) -> Iterator[Row]:
    section, of = "Fifteen cases", evaluation.cases
    for name in ("ATR", "FullScan"):
        tally = evaluation.tallies[name]
        yield _judged(section, f"{name}, cases matched", f"{of} of {of}", f"{of - len(tally.unmatched)} of {of}")
        yield _judged(section, f"{name}, false allows", "0", str(len(tally.false_allows)))
        yield _judged(section, f"{name}, false blocks", "0", str(len(tally.false_blocks)))
    for name, why in (("NoCheck", "the irrelevant changes"), ("VersionAbort", "the decision-invalidating changes")):
        matched = of - len(evaluation.tallies[name].unmatched)
        reason = f"{_STATED} for these cases: {why}"
        yield _judged(
            section, f"{name}, cases matched", _NONE, f"{matched} of {of}", must=f"{of // 5} of {of}", reason=reason
        )


def _table3(evaluation: Evaluation) -> Iterator[Row]:
    section = "Table 3"
    for name, (unsafe, safe, premises, p50) in _PAPER_TABLE3.items():
        tally = evaluation.tallies[name]
        yield _judged(section, f"{name}, unsafe released %", unsafe, f"{tally.unsafe_released_pct:.1f}")
        yield _judged(section, f"{name}, safe replanned %", safe, f"{tally.safe_replanned_pct:.1f}")
        if premises != _NONE:
            yield _judged(
                section,
                f"{name}, premises a change",
                premises,
                f"{tally.premises_per_change:.1f}",
                must="5.0" if name == "FullScan" else premises,
                reason="these intents have 5 premises, those of the paper's durable cells 6",
            )
            yield Row(section, f"{name}, p50 us", p50, f"{tally.percentile(50):.1f}", _TIME)
    atr, no_check = evaluation.tallies["ATR"], evaluation.tallies["NoCheck"]
    for percent, paper in ((95, "13.0"), (99, "20.5")):
        yield Row(section, f"ATR, p{percent} us", paper, f"{atr.percentile(percent):.1f}", _TIME)
    share = 100 * no_check.released / (no_check.safe + no_check.unsafe)
    yield _judged(section, "NoCheck, invalid effects % of all", "60.0", f"{share:.1f}")


def _localization(evaluation: Evaluation) -> Iterator[Row]:
    section = "Closure of a change hint"
    for name, nodes, most in (("predicate", "2.6", "3"), ("object", "6.4", "8")):
        found = evaluation.closures[name]
        yield _judged(section, f"nodes visited, {name} capture", nodes, f"{found.mean_nodes:.1f}")
        yield _judged(section, f"nodes visited at most, {name} capture", most, str(max(found.nodes)))
    premises = f"{evaluation.closures['predicate'].mean_premises:.1f}"
    reason = f"{_STATED} for hints; as at the gate"
    yield _judged(section, "premises run, predicate capture", _NONE, premises, must="0.6", reason=reason)


def _omission(evaluation: Evaluation) -> Iterator[Row]:
    section = "Omission of the sole critical edge"
    for found in evaluation.omission:
        paper = _PAPER_OMISSION.get(found.rate, _NONE)
        exact = f"exactly the omitted ones: {found.omitted} of {found.trials}"
        yield _judged(
            section,
            f"at {found.rate} %, false allows %",
            paper,
            _share(found, found.explicit),
            must=_share(found, found.omitted),
            reason=exact,
        )
        yield _judged(section, f"at {found.rate} %, linked conservatively", "0.00", _share(found, found.conservative))
        yield _judged(
            section,
            f"at {found.rate} %, only the index forgets",
            paper,
            _share(found, found.index_only),
            must="0.00",
            reason="the gate reads all evidence of the premise anew, index or not",
        )


def _share(found: Omission, count: int) -> str:
    return f"{100 * count / found.trials:.2f}"


def _failures(evaluation: Evaluation) -> Iterator[Row]:
    unavailable, boundary = evaluation.unavailable, evaluation.boundary
    yield _judged(
        "Failure modes", "unavailable validators, BLOCK", "3 of 3", f"{unavailable.blocked} of {unavailable.of}"
    )
    for name, count in (
        ("target checks itself only, committed", boundary.target_only_committed),
        ("policy bound too, rejected", boundary.bound_rejected),
    ):
        yield _judged("Binding boundary", name, "100 of 100", f"{count} of {boundary.of}")


def _scaling(evaluation: Evaluation) -> Iterator[Row]:
    for reads, found in evaluation.scaling.items():
        hint, full_scan = _PAPER_SCALING.get(reads, (_NONE, _NONE))
        section = "p50 us by recorded reads"
        yield Row(section, f"{reads}: ATR, change hint", hint, f"{found['hint_us']:.1f}", _TIME)
        yield Row(section, f"{reads}: ATR, PRE_EFFECT", _NONE, f"{found['pre_effect_us']:.1f}", _TIME)
        yield Row(section, f"{reads}: FullScan", full_scan, f"{found['full_scan_us']:.1f}", _TIME)


def text(table: Sequence[Row]) -> str:
    """The rows as plain text, in columns under their sections."""
    columns = [
        max(len(cell) for cell in column) for column in zip(*((r.name, r.paper, r.here) for r in table), strict=True)
    ]
    name, paper, here = (max(width, least) for width, least in zip(columns, (4, 5, 4), strict=True))
    lines = [f"{'':{name}}  {'paper':>{paper}}  {'here':>{here}}"]
    section = ""
    for row in table:
        if row.section != section:
            section = row.section
            lines += ["", section]
        lines.append(f"{row.name:{name}}  {row.paper:>{paper}}  {row.here:>{here}}  {row.note}")
    return "\n".join(lines)


def show(evaluation: Evaluation, *, stream: TextIO) -> None:
    """Print it: a table of `rich` where that is installed and somebody is looking, else plain text."""
    table = rows(evaluation)
    if stream.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            drawn = Table("", "paper", "here", "", title="lastlook beside the ATR paper")
            section = ""
            for row in table:
                if row.section != section:
                    section = row.section
                    drawn.add_section()
                    drawn.add_row(section, style="bold")
                drawn.add_row(row.name, row.paper, row.here, row.note, style=None if row.ok else "bold red")
            Console(file=stream).print(drawn)
            print(*heading(evaluation), closing(evaluation), sep="\n", file=stream)
            return
    print(text(table), "", *heading(evaluation), closing(evaluation), sep="\n", file=stream)


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """The figures for a program."""
    of = evaluation.cases
    return {
        "table2": [{"case": name, "expected": want, "got": got} for name, want, got in evaluation.table2],
        "cases": {
            name: {
                "matched": of - len(tally.unmatched),
                "of": of,
                "false_allows": len(tally.false_allows),
                "false_blocks": len(tally.false_blocks),
            }
            for name, tally in _ordered(evaluation)
        },
        "table3": {
            name: {
                "unsafe_released_pct": tally.unsafe_released_pct,
                "safe_replanned_pct": tally.safe_replanned_pct,
                "premises_per_change": tally.premises_per_change,
                "p50_us": tally.percentile(50),
            }
            for name, tally in _ordered(evaluation)
        },
        "nodes_visited": {name: found.mean_nodes for name, found in evaluation.closures.items()},
        "omission": {
            str(found.rate): {
                "explicit_pct": 100 * found.explicit / found.trials,
                "conservative_pct": 100 * found.conservative / found.trials,
                "index_pct": 100 * found.index_only / found.trials,
            }
            for found in evaluation.omission
        },
        "unavailable_validators": {"blocked": evaluation.unavailable.blocked, "of": evaluation.unavailable.of},
        "binding_boundary": evaluation.boundary._asdict(),
        "scaling": {str(reads): dict(found) for reads, found in evaluation.scaling.items()},
        "traces": evaluation.traces,
    }


def _ordered(evaluation: Evaluation) -> list[tuple[str, Any]]:
    return [(name, evaluation.tallies[name]) for name in ("ATR", "FullScan", "NoCheck", "VersionAbort")]
