"""The evaluation itself: its figures, its shape, and that it fails when something is planted."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import Capture, block_unless
from lastlook_scenarios import (
    commands,
    contracts,
    counts,
    evaluation,
    faults,
    published,
    report,
    scaling,
    summary,
    traces,
    units,
    workloads,
)

if TYPE_CHECKING:
    from pathlib import Path

SMALL = units.Options(traces=30, seed=7, trials=60, pairs=6, durable=1, calls=3)
ASKED = ["--traces", "15", "--trials", "30", "--jobs", "1"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer repetitions of what is repeated to steady a time."""
    monkeypatch.setattr(scaling, "READS", (13, 61))
    monkeypatch.setattr(units, "QUICK", replace(units.QUICK, calls=3, pairs=0, durable=0, boundary=2))


@pytest.fixture(scope="module")
def found() -> evaluation.Evaluation:
    """One small evaluation."""
    return evaluation.evaluate(SMALL)


def planted(evaluated: evaluation.Evaluation, **changes: Any) -> evaluation.Evaluation:
    """The evaluation with something else in its summary."""
    other = copy.copy(evaluated.summary)
    for name, value in changes.items():
        setattr(other, name, value)
    return replace(evaluated, summary=other)


def test_nothing_mismatches(found: evaluation.Evaluation) -> None:
    """Every judged figure is the paper's or differs as explained."""
    assert report.mismatches(found) == []


def test_json_has_the_agreed_shape(found: evaluation.Evaluation) -> None:
    """The JSON document has exactly these keys and, times aside, exactly these figures."""
    data = json.loads(json.dumps(published.as_json(found.summary)))
    for row in data["table3"].values():
        assert row.pop("p50_us") > 0
    assert {reads: sorted(row) for reads, row in data.pop("scaling").items()} == {
        reads: ["full_scan_us", "hint_us", "pre_effect_us"] for reads in ("13", "61", "253", "1021", "4093")
    }
    assert data == {
        "table2": [
            {"case": "name", "expected": "REFRESH", "got": "REFRESH"},
            {"case": "limit-90", "expected": "KEEP", "got": "KEEP"},
            {"case": "defect", "expected": "REPLAN", "got": "REPLAN"},
            {"case": "limit-50", "expected": "BLOCK", "got": "BLOCK"},
            {"case": "refunded", "expected": "BLOCK", "got": "BLOCK"},
        ],
        "cases": {
            "ATR": {"matched": 15, "of": 15, "false_allows": 0, "false_blocks": 0},
            "FullScan": {"matched": 15, "of": 15, "false_allows": 0, "false_blocks": 0},
            "NoCheck": {"matched": 3, "of": 15, "false_allows": 9, "false_blocks": 0},
            "VersionAbort": {"matched": 3, "of": 15, "false_allows": 0, "false_blocks": 6},
        },
        "table3": {
            "ATR": {"unsafe_released_pct": 0, "safe_replanned_pct": 0, "premises_per_change": 0.6},
            "FullScan": {"unsafe_released_pct": 0, "safe_replanned_pct": 0, "premises_per_change": 6},
            "NoCheck": {"unsafe_released_pct": 100, "safe_replanned_pct": 0, "premises_per_change": 0},
            "VersionAbort": {"unsafe_released_pct": 0, "safe_replanned_pct": 100, "premises_per_change": 0},
        },
        "nodes_visited": {"predicate": 2.6, "object": 6.4},
        "omission": {
            "1": {"explicit_pct": pytest.approx(100 / 60), "conservative_pct": 0, "index_pct": 0},
            "5": {"explicit_pct": 5, "conservative_pct": 0, "index_pct": 0},
            "10": {"explicit_pct": 10, "conservative_pct": 0, "index_pct": 0},
        },
        "unavailable_validators": {"blocked": 3, "of": 3},
        "durable_cells": {
            "ATR": {"matched": 10, "of": 10},
            "FullScan": {"matched": 10, "of": 10},
            "NoCheck": {"matched": 4, "of": 10},
            "VersionAbort": {"matched": 2, "of": 10},
        },
        "races": {"pairs": 6, "double": 0, "zero": 0},
        "binding_boundary": {"target_only_committed": 100, "bound_rejected": 100, "of": 100},
        "traces": 30,
    }


def test_every_row_is_the_papers_or_says_why(found: evaluation.Evaluation) -> None:
    """No row is printed without "=" or a reason, and "=" stands only where the figures are the same text."""
    for row in report.rows(found):
        assert row.note
        assert (row.note == "=") == (row.here == row.paper and "time" not in row.note)


def test_the_times_are_beside_the_papers(found: evaluation.Evaluation) -> None:
    """The paper's scaling and latency figures are printed, and none of them is judged."""
    timed = {row.name: row.paper for row in report.rows(found) if "not judged" in row.note}
    assert timed["13: ATR, change hint"] == "8.8"
    assert timed["4093: FullScan"] == "2595.9"
    assert timed["ATR, p50 us"] == "10.8"


def test_the_count_of_mismatches_closes_the_table(found: evaluation.Evaluation) -> None:
    """The last line counts the judged figures and the mismatches; a difference with a reason and a time are none."""
    stream = io.StringIO()
    report.show(found, stream=stream)
    rows = report.rows(found)
    assert any(row.ok and row.here != row.paper and "time" not in row.note for row in rows)
    judged = sum("time" not in row.note for row in rows)
    assert stream.getvalue().splitlines()[-1] == f"{judged} figures compared, 0 mismatches"
    table2 = [("name", "REFRESH", "KEEP"), *found.summary.table2[1:]]
    both = planted(found, table2=table2, disagreements=["x"])
    assert report.closing(both) == f"{judged} figures compared, 2 mismatches"
    assert report.closing(planted(found, disagreements=["x"])) == f"{judged} figures compared, 1 mismatch"


def test_what_was_run_is_said(found: evaluation.Evaluation) -> None:
    """The seed and the amounts are printed."""
    assert "seed 7; 1 x 30 traces a method, 1 x 60 unsafe trials" in "\n".join(report.heading(found))


def test_schedules_have_seeds_of_their_own() -> None:
    """No two repetitions or workloads of a full run are shuffled alike, and the seed decides how."""
    full = [unit for unit in units.plan(units.FULL) if unit.stage == "traces"]
    seeds = [units.schedule_seed(units.FULL, unit) for unit in full]
    assert len(set(seeds)) == len(full) == 21
    refund = workloads.named("refund")
    assert traces.schedule(refund, 50, seeds[0]) == traces.schedule(refund, 50, seeds[0])
    assert traces.schedule(refund, 50, seeds[0]) != traces.schedule(refund, 50, seeds[3])


def test_a_full_run_is_as_large_as_the_papers() -> None:
    """Seven repetitions of 10,000 traces in each of three workloads, 35,000 unsafe trials a rate, 7,000 pairs."""
    full = units.FULL
    assert len(workloads.WORKLOADS) * full.repetitions * len(traces.schedule(workloads.named("refund"), 10_000, 1)) == (
        full.repetitions * full.traces
    )
    assert full.repetitions * full.traces == 210_000
    assert full.repetitions * full.trials == 35_000
    assert full.repetitions * full.pairs == 7_000
    assert (full.durable, full.alone) == (10, True)


def test_the_default_has_every_part() -> None:
    """The quick run leaves out no stage of the full one."""
    stages = {unit.stage for unit in units.plan(units.Options())}
    assert stages == {unit.stage for unit in units.plan(units.FULL)} == set(units.KINDS) - {"latencies"}


def test_traces_are_balanced(found: evaluation.Evaluation) -> None:
    """The number of traces is rounded up so that every case is run equally often, 40 % of them safe."""
    tally = found.summary.tallies["ATR"]
    assert (tally.safe, tally.unsafe) == (12, 18)
    assert {len(traces.schedule(workload, 7, 1)) for workload in workloads.WORKLOADS} == {10}


@pytest.mark.parametrize(
    ("capture", "nodes"),
    [(Capture.PREDICATE, (1, 3, 3, 3, 3)), (Capture.OBJECT, (4, 8, 8, 4, 8))],
    ids=["predicate", "object"],
)
def test_closures_case_by_case(capture: Capture, nodes: tuple[int, ...]) -> None:
    """By predicate a hint visits the field, the decision and the intent; by object the whole row before them."""
    rows = [row for row in traces.closures() if row.capture == capture.name.lower()]
    assert tuple(row.nodes for row in rows) == nodes * 3
    assert [row for row in rows if row.outcome != row.expected] == []


def test_a_hint_runs_only_what_it_touches() -> None:
    """By predicate the irrelevant and the presentation-only change run nothing, each other change one premise."""
    rows = [row for row in traces.closures() if row.capture == "predicate"]
    assert tuple(row.premises for row in rows) == (0, 0, 1, 1, 1) * 3


def omitted(trials: int, seed: int) -> dict[int, counts.Omission]:
    """The study of omissions in little."""
    counted = summary.Summary(units.QUICK)
    for workload in workloads.WORKLOADS:
        counted.add("omission", faults.omission(workload, trials, seed))
    return counted.omission


def test_omission_is_exact() -> None:
    """False allows are exactly the omitted trials; none if linked conservatively, none if only the index forgets."""
    found = omitted(90, 3)
    assert found[10] == counts.Omission(trials=90, omitted=9, explicit=9, conservative=0, index_only=0)
    assert [one.omitted for one in found.values()] == [1, 4, 9]
    rows = [row for workload in workloads.WORKLOADS for row in faults.omission(workload, 30, 3)]
    assert all(row.explicit == row.omitted for row in rows)


def test_omission_counts_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """If conservative links were ignored, the study would say so."""
    propose = contracts.Bench.propose
    monkeypatch.setattr(contracts.Bench, "propose", lambda self, **_: propose(self, policy_supports=False))
    found = omitted(90, 3)[10]
    assert (found.explicit, found.conservative) == (9, 9)


def test_a_wrong_expectation_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A case that expects another outcome than the business rules and the gate say ends with exit code 1, named."""
    refund = workloads.WORKLOADS[0]
    wrong = [case.model_copy(update={"outcome": "KEEP"}) if case.name == "limit-50" else case for case in refund.cases]
    changed = refund.model_copy(update={"cases": tuple(wrong)})
    monkeypatch.setattr(workloads, "WORKLOADS", (changed, *workloads.WORKLOADS[1:]))
    assert commands.evaluate([*ASKED, "--json", "-"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["cases"]["ATR"]["matched"] == 14
    assert "refund/limit-50: KEEP is expected, the business rules say BLOCK" in printed.err
    assert "refund/limit-50: ATR gives BLOCK where KEEP is expected" in printed.err


def test_a_wrong_reason_fails() -> None:
    """A method that stops for another reason than the declared one has not matched the case."""
    refund = workloads.WORKLOADS[0]
    wrong = [
        case.model_copy(update={"reasons": ("already refunded",)}) if case.name == "limit-50" else case
        for case in refund.cases
    ]
    changed = refund.model_copy(update={"cases": tuple(wrong)})
    counted = summary.Summary(units.QUICK)
    counted.add("traces", (row for traced in traces.run(changed, 5, 1) for row in traced.answers))
    tallies = counted.tallies
    assert set(tallies["ATR"].unmatched) == set(tallies["FullScan"].unmatched) == {"refund/limit-50"}
    assert not tallies["ATR"].false_allows


def test_an_always_true_premise_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With premises that hold whatever happens, unsafe effects take place, and the evaluation says so and exits 1."""
    monkeypatch.setattr(
        "lastlook_scenarios.contracts.block_unless",
        lambda condition, because: block_unless(condition | ~condition, because),
    )
    assert commands.evaluate([*ASKED, "--json", "-"]) == 1
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert figures["cases"]["ATR"] == {"matched": 9, "of": 15, "false_allows": 6, "false_blocks": 0}
    assert figures["table3"]["ATR"]["unsafe_released_pct"] == pytest.approx(100 * 6 / 9)
    assert figures["omission"]["10"]["conservative_pct"] > 0
    assert "Fifteen cases, ATR, false allows: 6" in printed.err


def test_a_figure_that_moves_is_a_mismatch(found: evaluation.Evaluation) -> None:
    """One false allow under conservative links, one effect too many at the boundary, one validator: each is named."""
    one_percent, bound = found.summary.omission[1], ("same database", "bound")
    moved = planted(
        found,
        omission={**found.summary.omission, 1: replace(one_percent, conservative=1)},
        unavailable={**found.summary.unavailable, "hanging": ("KEEP", 1)},
        boundary={bound: replace(found.summary.boundary[bound], rejected=99)},
        durable={**found.summary.durable, "ATR": replace(found.summary.durable["ATR"], matched=9, false_allows=1)},
        races={"lane": replace(found.summary.races["lane"], double=1, zero=1)},
    )
    assert [sentence.partition(":")[0] for sentence in report.mismatches(moved)] == [
        "Ten durable cells, ATR, exact outcomes %",
        "Ten durable cells, ATR, executions matched",
        "Ten durable cells, ATR, false allows and blocks",
        "Two connections race, two effects",
        "Two connections race, no effect",
        "Binding boundary, bound, policy in the same database, rejected",
        "Failure modes, unavailable validators, BLOCK",
        "Omission of the sole critical edge, at 1 %, linked conservatively",
    ]


def test_command_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lastlook evaluate --json FILE` prints plain text where nobody is looking, writes the figures, and exits 0."""
    file = tmp_path / "figures.json"
    assert (
        commands.evaluate(["--traces", "1", "--trials", "10", "--seed", "3", "--jobs", "1", "--json", str(file)]) == 0
    )
    assert json.loads(file.read_text())["traces"] == 15
    printed = capsys.readouterr()
    assert "\nTable 3\n" in printed.out
    assert "\x1b" not in printed.out
    assert printed.err == ""


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """It is a terminal."""
        return True


def test_a_terminal_gets_a_table(found: evaluation.Evaluation) -> None:
    """Where `rich` is installed and a terminal is attached, the same rows are drawn as a table."""
    pytest.importorskip("rich")
    stream = Terminal()
    report.show(found, stream=stream)
    assert "lastlook beside the ATR paper" in stream.getvalue()
    assert "seed 7; 1 x 30 traces" in stream.getvalue()


def test_a_terminal_gets_progress_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar a stage is drawn where a terminal is attached to the errors, and nothing where none is."""
    pytest.importorskip("rich")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with commands._progress() as progress:
        assert progress is not None
        progress("traces", 15, 30)
        progress("races", 1, 1)
    assert "traces" in stream.getvalue()
    assert "50%" in stream.getvalue()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with commands._progress() as progress:
        assert progress is None


def test_command_keeps_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--out DIR --figures` leaves rows, summary, Table 3, both figures twice, and their checksums."""
    assert commands.evaluate([*ASKED, "--out", str(tmp_path / "run"), "--figures"]) == 0
    assert f"table3.md are in {tmp_path / 'run'}" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "run").iterdir()}
    drawn = {f"figure{n}.{ending}" for n in (1, 2) for ending in ("png", "svg")}
    assert names == {"rows", "run.json", "summary.json", "table3.md", "SHA256SUMS", *drawn}
    assert (tmp_path / "run" / "table3.md").read_text().count("\n") == 6
    sealed = {line.partition("  ")[2] for line in (tmp_path / "run" / "SHA256SUMS").read_text().splitlines()}
    rows = {f"rows/{path.name}" for path in (tmp_path / "run" / "rows").iterdir()}
    assert sealed == rows | names - {"rows", "SHA256SUMS"}


def test_a_full_run_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--full` without `--out` keeps its rows in a folder beside where it is run, so that it can be gone on with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(units, "FULL", replace(units.QUICK, repetitions=2))
    assert commands.evaluate(["--full", *ASKED, "--json", "-"]) == 0
    assert json.loads((tmp_path / "lastlook-evaluation" / "summary.json").read_text())["traces"] == 30


def test_without_rich_a_terminal_gets_text(found: evaluation.Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rich` is optional: without it the plain table is printed."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    report.show(found, stream=stream)
    assert stream.getvalue().startswith(report.text(report.rows(found)))


def test_a_part_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a fresh process does not answer, the command says so in one sentence and ends with 1."""

    def failing(*_: object, **__: object) -> None:
        raise units.UnitFailed("ATR on office ended with exit status 1: killed")

    monkeypatch.setattr(units, "perform", failing)
    assert commands.evaluate([*ASKED, "--json", "-"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "lastlook evaluate: ATR on office ended with exit status 1: killed\n")


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that cannot be written end the command with 2 and the system's own reason, without a traceback."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "rows/table2.csv.gz.part")

    monkeypatch.setattr(units, "perform", full)
    assert commands.evaluate([*ASKED, "--json", "-"]) == 2
    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["--traces", "0"],
        ["--traces", "many"],
        ["--pairs", "0"],
        ["--cells", "-1"],
        ["--json"],
        ["--unknown"],
        ["--json", "/nowhere/at/all/figures.json"],
        ["--figures"],
    ],
)
def test_wrong_usage_exits_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option or a file that cannot be written is told before anything runs, without a traceback."""
    assert commands.evaluate(argv) == 2
    printed = capsys.readouterr()
    assert "lastlook evaluate" in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_folder_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder given for the figures is refused by name."""
    assert commands.evaluate(["--json", str(tmp_path)]) == 2
    assert "it is a folder" in capsys.readouterr().err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` exits 0 and shows one command to copy."""
    assert commands.evaluate(["--help"]) == 0
    assert "examples: lastlook evaluate" in capsys.readouterr().out


def test_commands_are_cheap_to_import() -> None:
    """Importing the commands loads no workload, no drawing and no database, so that the command line stays quick."""
    heavy = ("pydantic", "rich", "matplotlib", "sqlalchemy")
    code = f"import sys, lastlook_scenarios.commands; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
