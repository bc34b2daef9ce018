"""The evaluation beside the paper: one row a figure, and its verdict.

A figure that follows from the definitions is judged: it is the paper's ("="), or the reason why it differs stands
beside it, or it is a mismatch. A time depends on the machine and is never judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final, TextIO

from lastlook_scenarios import published
from lastlook_scenarios.counts import percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastlook_scenarios.evaluation import Evaluation
    from lastlook_scenarios.summary import Summary

__all__ = ["Row", "closing", "heading", "mismatches", "rows", "show", "text"]

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
_WHERE: Final = {"same database": "the same database"}
_PAPER_TRACES: Final = 210_000
_PAPER_PAIRS: Final = 7_000
_PAPER_DURABLE: Final = {"NoCheck": "40", "VersionAbort": "20", "FullScan": "100", "ATR": "100"}
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
    summary = evaluation.summary
    return [
        *_table2(summary),
        *_cases(summary),
        *_table3(summary),
        *_durable(summary),
        *_localization(summary),
        *_scaling(summary),
        *_races(summary),
        *_boundary(summary),
        *_failures(summary),
        *_omission(summary),
    ]


def mismatches(evaluation: Evaluation) -> list[str]:
    """What is not as it must be, one sentence each; empty when the evaluation holds."""
    wrong = [
        f"{row.section}, {row.name}: {row.here}, {row.note.removeprefix(_MISMATCH)}"
        for row in rows(evaluation)
        if not row.ok
    ]
    return [*wrong, *evaluation.summary.disagreements]


def heading(evaluation: Evaluation) -> list[str]:
    """What was run."""
    options, repetitions = evaluation.options, evaluation.options.repetitions
    traces = evaluation.summary.tallies["ATR"].traces // repetitions
    amounts = (
        f"{repetitions} x {traces} traces a method, {repetitions} x {options.trials} unsafe trials an omission rate"
    )
    lines = [f"seed {options.seed}; {amounts}; {evaluation.seconds:.1f} s"]
    if evaluation.resumed:
        lines.append(f"{evaluation.resumed} finished parts of an earlier run were taken as they are")
    if evaluation.kept is not None:
        lines.append(f"raw rows, summary.json and table3.md are in {evaluation.kept}")
    return lines


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


def _table2(summary: Summary) -> Iterator[Row]:
    got = {name: outcome for name, _, outcome in summary.table2}
    for name, outcome in _PAPER_TABLE2.items():
        yield _judged("Table 2", name, outcome, got.get(name, _NONE))


def _cases(summary: Summary) -> Iterator[Row]:
    section, of = "Fifteen cases", summary.cases
    for name in ("ATR", "FullScan"):
        tally = summary.tallies[name]
        yield _judged(section, f"{name}, cases matched", f"{of} of {of}", f"{of - len(tally.unmatched)} of {of}")
        yield _judged(section, f"{name}, false allows", "0", str(len(tally.false_allows)))
        yield _judged(section, f"{name}, false blocks", "0", str(len(tally.false_blocks)))
    for name, why in (("NoCheck", "the irrelevant changes"), ("VersionAbort", "the decision-invalidating changes")):
        matched = of - len(summary.tallies[name].unmatched)
        reason = f"{_STATED} for these cases: {why}"
        yield _judged(
            section, f"{name}, cases matched", _NONE, f"{matched} of {of}", must=f"{of // 5} of {of}", reason=reason
        )


def _table3(summary: Summary) -> Iterator[Row]:
    section = "Table 3"
    for name, (unsafe, safe, premises, p50) in _PAPER_TABLE3.items():
        tally = summary.tallies[name]
        yield _judged(section, f"{name}, unsafe released %", unsafe, f"{tally.unsafe_released_pct:.1f}")
        yield _judged(section, f"{name}, safe replanned %", safe, f"{tally.safe_replanned_pct:.1f}")
        if premises != _NONE:
            here = f"{published.premises_per_change(summary, name):.1f}"
            if summary.durable:
                yield _judged(section, f"{name}, premises a change", premises, here)
            else:
                yield _judged(
                    section,
                    f"{name}, premises a change",
                    premises,
                    here,
                    must="5.0" if name == "FullScan" else premises,
                    reason="these intents have 5 premises, those of the paper's durable cells 6",
                )
            yield Row(section, f"{name}, p50 us", p50, f"{summary.latency(name, 50):.1f}", _TIME)
    for percent, paper in ((95, "13.0"), (99, "20.5")):
        yield Row(section, f"ATR, p{percent} us", paper, f"{summary.latency('ATR', percent):.1f}", _TIME)
    each = summary.latency_p50("ATR")
    yield Row(section, "ATR, p50 us by repetition", "10.77 +- 0.07", f"{each.mean:.2f} +- {each.ci95:.2f}", _TIME)

    traces = summary.tallies["ATR"].traces
    fewer = f"of {traces} traces, not of {_PAPER_TRACES}"
    for name, what, percent, count in (
        ("NoCheck", "invalid effects released", 60, summary.tallies["NoCheck"].released),
        ("VersionAbort", "safe changes replanned", 40, summary.tallies["VersionAbort"].replanned),
        ("ATR", "safe changes retained", 40, summary.tallies["ATR"].retained),
    ):
        yield _judged(
            section,
            f"{name}, {what}",
            str(_PAPER_TRACES * percent // 100),
            str(count),
            must=str(traces * percent // 100),
            reason=fewer,
        )


def _durable(summary: Summary) -> Iterator[Row]:
    section = "Ten durable cells"
    for name, paper in _PAPER_DURABLE.items():
        found = summary.durable.get(name)
        if found is not None:
            yield _judged(section, f"{name}, exact outcomes %", paper, f"{100 * found.matched / found.of:.0f}")
    for name in ("FullScan", "ATR"):
        if (found := summary.durable.get(name)) is not None:
            yield _judged(
                section,
                f"{name}, executions matched",
                "100 of 100",
                f"{found.matched} of {found.of}",
                must=f"{found.of} of {found.of}",
                reason="fewer executions",
            )
            wrong = found.false_allows + found.false_blocks
            yield _judged(section, f"{name}, false allows and blocks", "0", str(wrong))


def _localization(summary: Summary) -> Iterator[Row]:
    section = "Closure of a change hint"
    for name, nodes, most in (("predicate", "2.6", "3"), ("object", "6.4", "8")):
        found = summary.closures[name]
        yield _judged(section, f"nodes visited, {name} capture", nodes, f"{fmean(found.nodes):.1f}")
        p95 = percentile(sorted(found.nodes), 95)
        yield _judged(section, f"nodes visited p95, {name} capture", most, str(p95))
    premises = f"{fmean(summary.closures['predicate'].premises):.1f}"
    reason = f"{_STATED} for hints; as at the gate"
    yield _judged(section, "premises run, predicate capture", _NONE, premises, must="0.6", reason=reason)


def _scaling(summary: Summary) -> Iterator[Row]:
    section = "p50 us by recorded reads"
    for reads, found in summary.scaling().items():
        hint, full_scan = _PAPER_SCALING.get(reads, (_NONE, _NONE))
        for path, name, paper in (
            ("hint", "ATR, change hint", hint),
            ("pre_effect", "ATR, PRE_EFFECT", _NONE),
            ("full_scan", "FullScan", full_scan),
        ):
            yield Row(section, f"{reads}: {name}", paper, f"{found[path].mean:.1f}", _TIME)


def _races(summary: Summary) -> Iterator[Row]:
    section = "Two connections race"
    pairs = sum(found.pairs for found in summary.races.values())
    if not pairs:
        return
    of = {"intent": "one intent", "lane": "two intents of one lane"}
    yield _judged(
        section,
        "pairs",
        str(_PAPER_PAIRS),
        str(pairs),
        must=str(pairs),
        reason=", ".join(f"{found.pairs} over {of[over]}" for over, found in summary.races.items()),
    )
    yield _judged(section, "two effects", "0", str(sum(found.double for found in summary.races.values())))
    yield _judged(section, "no effect", "0", str(sum(found.zero for found in summary.races.values())))


def _boundary(summary: Summary) -> Iterator[Row]:
    section = "Binding boundary"
    for (policy, binding), found in summary.boundary.items():
        bound = binding == "bound"
        count = found.rejected if bound else found.released
        yield _judged(
            section,
            f"{binding}, policy in {_WHERE.get(policy, policy)}, {'rejected' if bound else 'committed'}",
            "100 of 100",
            f"{count} of {found.trials}",
            must=f"{found.trials} of {found.trials}",
            reason="other trials",
        )


def _failures(summary: Summary) -> Iterator[Row]:
    blocked, of = summary.blocked
    yield _judged("Failure modes", "unavailable validators, BLOCK", "3 of 3", f"{blocked} of {of}")


def _omission(summary: Summary) -> Iterator[Row]:
    section = "Omission of the sole critical edge"
    for rate, found in summary.omission.items():
        paper = _PAPER_OMISSION.get(rate, _NONE)
        exact = f"exactly the omitted ones: {found.omitted} of {found.trials}"
        explicit, omitted, conservative, index_only = (
            f"{100 * count / found.trials:.2f}"
            for count in (found.explicit, found.omitted, found.conservative, found.index_only)
        )
        yield _judged(section, f"at {rate} %, false allows %", paper, explicit, must=omitted, reason=exact)
        yield _judged(section, f"at {rate} %, linked conservatively", "0.00", conservative)
        yield _judged(
            section,
            f"at {rate} %, only the index forgets",
            paper,
            index_only,
            must="0.00",
            reason="the gate reads all evidence of the premise anew, index or not",
        )


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
