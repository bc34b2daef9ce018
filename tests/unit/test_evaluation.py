"""The evaluation itself: its figures, its shape, and that it fails when something is planted."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lastlook import Capture, block_unless
from lastlook_scenarios import commands, contracts, evaluation, faults, report, scaling, traces, workloads

if TYPE_CHECKING:
    from pathlib import Path

SMALL = evaluation.Options(traces=30, seed=7, trials=60)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer repetitions of what is repeated to steady a time."""
    monkeypatch.setattr(scaling, "READS", (13, 61))
    monkeypatch.setattr(scaling, "CALLS", 5)


@pytest.fixture(scope="module")
def found() -> evaluation.Evaluation:
    """One small evaluation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "CALLS", 5)
        return evaluation.evaluate(SMALL)


def test_nothing_mismatches(found: evaluation.Evaluation) -> None:
    """Every judged figure is the paper's or differs as explained."""
    assert report.mismatches(found) == []


def test_json_has_the_agreed_shape(found: evaluation.Evaluation) -> None:
    """The JSON document has exactly these keys and, times aside, exactly these figures."""
    data = json.loads(json.dumps(report.as_json(found)))
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
            "FullScan": {"unsafe_released_pct": 0, "safe_replanned_pct": 0, "premises_per_change": 5},
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
    planted = replace(found, table2=[("name", "REFRESH", "KEEP"), *found.table2[1:]], disagreements=["x"])
    assert report.closing(planted) == f"{judged} figures compared, 2 mismatches"
    planted = replace(found, disagreements=["x"])
    assert report.closing(planted) == f"{judged} figures compared, 1 mismatch"


def test_what_was_not_run_is_said(found: evaluation.Evaluation) -> None:
    """The seeds are printed, and that the parts which need a database are not there yet."""
    lines = "\n".join(report.heading(found))
    assert "refund 7, remediation 8, procurement 9" in lines
    assert "durable cells" in lines
    assert not {"durable_cells", "races"} & set(report.as_json(found))


def test_traces_are_balanced(found: evaluation.Evaluation) -> None:
    """The number of traces is rounded up so that every case is run equally often, 40 % of them safe."""
    tally = found.tallies["ATR"]
    assert (tally.safe, tally.unsafe) == (12, 18)
    assert len(tally.nanoseconds) == 30


@pytest.mark.parametrize(
    ("capture", "nodes"),
    [(Capture.PREDICATE, (1, 3, 3, 3, 3)), (Capture.OBJECT, (4, 8, 8, 4, 8))],
    ids=["predicate", "object"],
)
def test_closures_case_by_case(capture: Capture, nodes: tuple[int, ...]) -> None:
    """By predicate a hint visits the field, the decision and the intent; by object the whole row before them."""
    found, disagreements = traces.closures(capture)
    assert found.nodes == nodes * 3
    assert disagreements == []


def test_a_hint_runs_only_what_it_touches() -> None:
    """By predicate the irrelevant and the presentation-only change run nothing, each other change one premise."""
    found, _ = traces.closures(Capture.PREDICATE)
    assert found.premises == (0, 0, 1, 1, 1) * 3


def test_omission_is_exact() -> None:
    """False allows are exactly the omitted trials; none if linked conservatively, none if only the index forgets."""
    done: list[tuple[int, int]] = []
    found = faults.omission(10, 90, 3, lambda *step: done.append(step))
    assert found == faults.Omission(rate=10, trials=90, omitted=9, explicit=9, conservative=0, index_only=0)
    assert done[-1] == (270, 270)


def test_omission_counts_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """If conservative links were ignored, the study would say so."""
    propose = contracts.Bench.propose
    monkeypatch.setattr(contracts.Bench, "propose", lambda self, **_: propose(self, policy_supports=False))
    found = faults.omission(10, 90, 3, lambda *_: None)
    assert (found.explicit, found.conservative) == (9, 9)


def test_a_wrong_expectation_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A case that expects another outcome than the business rules and the gate say ends with exit code 1, named."""
    refund = workloads.WORKLOADS[0]
    planted = [
        case.model_copy(update={"outcome": "KEEP"}) if case.name == "limit-50" else case for case in refund.cases
    ]
    changed = refund.model_copy(update={"cases": tuple(planted)})
    monkeypatch.setattr(workloads, "WORKLOADS", (changed, *workloads.WORKLOADS[1:]))
    assert commands.evaluate(["--traces", "15", "--trials", "30", "--json", "-"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["cases"]["ATR"]["matched"] == 14
    assert "refund/limit-50: KEEP is expected, the business rules say BLOCK" in printed.err
    assert "refund/limit-50: ATR gives BLOCK where KEEP is expected" in printed.err


def test_a_wrong_reason_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that stops for another reason than the declared one has not matched the case."""
    refund = workloads.WORKLOADS[0]
    planted = [
        case.model_copy(update={"reasons": ("already refunded",)}) if case.name == "limit-50" else case
        for case in refund.cases
    ]
    monkeypatch.setattr(workloads, "WORKLOADS", (refund.model_copy(update={"cases": tuple(planted)}),))
    tallies = traces.run(5, {"refund": 1}, lambda *_: None)
    assert set(tallies["ATR"].unmatched) == set(tallies["FullScan"].unmatched) == {"refund/limit-50"}
    assert not tallies["ATR"].false_allows


def test_an_always_true_premise_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With premises that hold whatever happens, unsafe effects take place, and the evaluation says so and exits 1."""
    monkeypatch.setattr(
        "lastlook_scenarios.contracts.block_unless",
        lambda condition, because: block_unless(condition | ~condition, because),
    )
    assert commands.evaluate(["--traces", "15", "--trials", "30", "--json", "-"]) == 1
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert figures["cases"]["ATR"] == {"matched": 9, "of": 15, "false_allows": 6, "false_blocks": 0}
    assert figures["table3"]["ATR"]["unsafe_released_pct"] == pytest.approx(100 * 6 / 9)
    assert figures["omission"]["10"]["conservative_pct"] > 0
    assert "Fifteen cases, ATR, false allows: 6" in printed.err


def test_a_figure_that_moves_is_a_mismatch(found: evaluation.Evaluation) -> None:
    """One false allow under conservative links, one effect too many at the boundary, one validator: each is named."""
    omission = [one._replace(conservative=1) for one in found.omission[:1]]
    planted = replace(
        found,
        omission=omission,
        unavailable=found.unavailable._replace(blocked=2),
        boundary=found.boundary._replace(bound_rejected=99),
    )
    assert [sentence.partition(":")[0] for sentence in report.mismatches(planted)] == [
        "Omission of the sole critical edge, at 1 %, linked conservatively",
        "Failure modes, unavailable validators, BLOCK",
        "Binding boundary, policy bound too, rejected",
    ]


def test_command_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`lastlook evaluate --json FILE` prints plain text where nobody is looking, writes the figures, and exits 0."""
    file = tmp_path / "figures.json"
    assert commands.evaluate(["--traces", "1", "--trials", "10", "--seed", "3", "--json", str(file)]) == 0
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
    assert "seeds: refund 7" in stream.getvalue()


def test_without_rich_a_terminal_gets_text(found: evaluation.Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rich` is optional: without it the plain table is printed."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    report.show(found, stream=stream)
    assert stream.getvalue().startswith(report.text(report.rows(found)))


@pytest.mark.parametrize(
    "argv",
    [["--traces", "0"], ["--traces", "many"], ["--json"], ["--unknown"], ["--json", "/nowhere/at/all/figures.json"]],
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
    assert "example: lastlook evaluate" in capsys.readouterr().out


def test_commands_are_cheap_to_import() -> None:
    """Importing the commands loads neither the workloads nor rich, so that the command line stays quick."""
    code = "import sys, lastlook_scenarios.commands; print([m for m in ('pydantic', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
