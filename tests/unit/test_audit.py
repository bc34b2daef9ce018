"""The audit: it passes what a run publishes, and fails on one altered row of every kind, however it was resealed."""

from __future__ import annotations

import ast
import csv
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lastlook_scenarios import evaluation, scaling, units

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
AUDIT = ROOT / "artifact" / "audit.py"
SMALL = units.Options(traces=15, trials=30, repetitions=2, pairs=2, durable=1, boundary=2, calls=3, seed=5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one small run, with its figures drawn."""
    folder = tmp_path_factory.mktemp("audited") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "READS", (13, 61))
        evaluation.evaluate(SMALL, out=folder, figures=True)
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A copy of it, to be altered."""
    return shutil.copytree(run, tmp_path / "run")


@dataclass(frozen=True, slots=True)
class Audited:
    """How an audit ended."""

    status: int
    out: str
    err: str


def audit(*arguments: str | Path) -> Audited:
    """Run the audit as a stranger would, without this environment's settings."""
    command = [sys.executable, "-I", str(AUDIT), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return Audited(done.returncode, done.stdout, done.stderr)


def alter(file: Path, change: Callable[[list[dict[str, str]]], object]) -> None:
    """Change the rows of a file."""
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    change(rows)
    packed = io.StringIO()
    writer = csv.DictWriter(packed, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    file.write_bytes(gzip.compress(packed.getvalue().encode(), mtime=0))


def reseal(folder: Path) -> None:
    """Write the checksums anew, as a forger would."""
    seals = folder / "SHA256SUMS"
    names = [line.partition("  ")[2] for line in seals.read_text().splitlines()]
    digests = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
    seals.write_text("".join(f"{digest}  {name}\n" for digest, name in zip(digests, names, strict=True)))


def test_a_run_passes(run: Path) -> None:
    """Every figure of a run is what its rows say: one line a figure, and 0 at the end."""
    done = audit(run)
    assert (done.status, done.err) == (0, "")
    *figures, closing = done.out.splitlines()
    assert closing == f"{len(figures)} figures recomputed, 0 differences"
    assert all(line.endswith(" =") for line in figures)
    published = json.loads((run / "summary.json").read_text())
    assert {line.partition(":")[0].partition(".")[0].partition("[")[0] for line in figures} == set(published) - {"run"}


@pytest.mark.slow
def test_the_published_run_passes() -> None:
    """The full run in the repository is what its rows say, and is as large as the paper's."""
    folder = ROOT / "artifact" / "run"
    done = audit(folder)
    assert (done.status, done.err) == (0, "")
    published = json.loads((folder / "summary.json").read_text("utf-8"))
    assert published["traces"] == 210_000
    assert published["races"] == {"pairs": 7000, "double": 0, "zero": 0}
    assert {rate: found["trials"] for rate, found in published["detail"]["omission"].items()} == dict.fromkeys(
        ("1", "5", "10"), 35_000
    )
    assert published["durable_cells"]["ATR"] == {"matched": 100, "of": 100}


def test_it_rests_on_the_standard_library_alone() -> None:
    """The audit imports nothing else, so that it cannot count by the code that it checks."""
    found = set[str]()
    for node in ast.walk(ast.parse(AUDIT.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(str(node.module).partition(".")[0])
    assert found <= set(sys.stdlib_module_names)


def one(column: str, value: str, number: int = 0) -> Callable[[list[dict[str, str]]], object]:
    """A change of one field of one row."""
    return lambda rows: rows[number].update({column: value})


def flip(column: str) -> Callable[[list[dict[str, str]]], object]:
    """A change of a 0 to a 1, or the other way, in the last row."""
    return lambda rows: rows[-1].update({column: str(1 - int(rows[-1][column]))})


def more(column: str, by: int = 1) -> Callable[[list[dict[str, str]]], object]:
    """A larger number in the last row."""
    return lambda rows: rows[-1].update({column: str(int(rows[-1][column]) + by)})


CLASSES = [
    ("table2", one("outcome", "KEEP"), "table2[0].got"),
    ("table2", one("oracle", "KEEP"), "Table 2, name: oracle"),
    ("traces-2-refund", flip("released"), "cases.ATR.false_"),
    ("traces-2-refund", more("premises"), "detail.methods.ATR.premises"),
    ("traces-1-procurement", one("outcome", "BLOCK"), "detail.methods.NoCheck.outcomes.BLOCK"),
    ("traces-1-procurement", one("reasons", "another rule", -1), "cases.ATR.matched"),
    ("traces-1-procurement", one("objection", "the preview said KEEP", 2), "cases.FullScan.matched"),
    ("traces-1-procurement", lambda rows: rows.pop(), "traces: published 30"),
    ("latencies-1-refund", more("atr_ns", 10**9), "detail.latency.ATR.p99_us"),
    ("closures", more("nodes"), "nodes_visited.object"),
    ("closures", one("premises", "1"), "detail.closures.predicate.premises_per_change"),
    ("omission-1-refund", flip("explicit"), "omission.10.explicit_pct"),
    ("omission-1-refund", flip("conservative"), "omission.10.conservative_pct"),
    ("omission-2-refund", flip("index_only"), "omission.10.index_pct"),
    ("omission-2-refund", flip("omitted"), "detail.omission.10.omitted"),
    ("unavailable", one("outcome", "KEEP"), "unavailable_validators.blocked"),
    ("boundary", one("released", "1"), "binding_boundary.bound_rejected"),
    ("boundary", one("released", "0", 2), "binding_boundary.target_only_committed"),
    ("boundary", one("stale", "0", -1), "detail.boundary[2].released"),
    ("durable-office", one("outcome", "BLOCK", -2), "durable_cells.ATR.matched"),
    ("durable-office", one("outcome", "REPLAN"), "detail.durable.NoCheck.outcomes.REPLAN"),
    ("durable-cloud", more("premises"), "table3.ATR.premises_per_change"),
    ("durable-cloud", flip("released"), "detail.durable.ATR.false_allows"),
    ("durable-cloud", one("oracle", "KEEP", -1), "cloud/blocking: oracle"),
    ("races-1", one("commits", "2"), "races.double"),
    ("races-2", one("commits", "0", -1), "detail.races.lane.zero"),
    ("scaling-2", lambda rows: [row.update(ns="1") for row in rows if row["round"] == "1"], "scaling.13.hint_us"),
]


@pytest.mark.parametrize(("name", "change", "figure"), CLASSES, ids=[f"{name}-{fig}" for name, _, fig in CLASSES])
def test_one_altered_row_fails(
    copy: Path, name: str, change: Callable[[list[dict[str, str]]], object], figure: str
) -> None:
    """A row that says something else contradicts the figure that it is counted in, even under a new seal."""
    alter(copy / "rows" / f"{name}.csv.gz", change)
    reseal(copy)
    done = audit(copy)
    assert done.status == 1
    assert any(line.startswith(f"difference: {figure}") for line in done.err.splitlines()), done.err


def test_a_row_that_moves_no_figure_breaks_its_seal(copy: Path) -> None:
    """One nanosecond in one row is noticed, by the checksum of the file."""
    alter(copy / "rows" / "latencies-1-refund.csv.gz", more("atr_ns"))
    done = audit(copy)
    assert done.status == 1
    assert "difference: rows/latencies-1-refund.csv.gz is not the file that was sealed" in done.err


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("summary.json", '"traces": 30', '"traces": 45'),
        ("table3.md", "| NoCheck | 100.0", "| NoCheck | 0.0"),
        ("run.json", '"seed": 5', '"seed": 6'),
    ],
)
def test_what_is_published_otherwise_fails(copy: Path, file: str, old: str, new: str) -> None:
    """A figure, a table or a description that says something else than the rows fails."""
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    reseal(copy)
    assert audit(copy).status == 1


def test_a_drawing_of_other_numbers_fails(copy: Path) -> None:
    """The numbers in the drawing are those of the rows."""
    drawn = copy / "figure2.svg"
    first = json.loads((copy / "summary.json").read_text())["scaling"]["13"]["full_scan_us"]
    label = f"{first:.1f}"
    text = drawn.read_text()
    assert f">{label}<" in text
    drawn.write_text(text.replace(f">{label}<", ">0.1<"))
    reseal(copy)
    done = audit(copy)
    assert done.status == 1
    assert f"figure2.svg lacks the label '{label}'" in done.err


def test_files_that_come_and_go_are_noticed(copy: Path) -> None:
    """A file that is missing, and one that nobody sealed, is named."""
    (copy / "figure1.png").unlink()
    shutil.copy(copy / "rows" / "table2.csv.gz", copy / "rows" / "extra.csv.gz")
    err = audit(copy).err
    assert "figure1.png is missing" in err
    assert "rows/extra.csv.gz was not sealed" in err


def test_a_note_of_the_run_fails(copy: Path) -> None:
    """What a run itself noted as a disagreement is no success."""
    text = (copy / "summary.json").read_text()
    (copy / "summary.json").write_text(text.replace('"disagreements": []', '"disagreements": ["x"]'))
    reseal(copy)
    assert "the run itself noted: ['x']" in audit(copy).err


def test_nothing_to_audit_ends_with_2(copy: Path, tmp_path: Path) -> None:
    """No folder, no rows, a damaged file, a wrong call: one sentence, no traceback."""
    for arguments in ([], [tmp_path / "nowhere"], [copy, copy], ["--help"]):
        done = audit(*arguments)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(("audit: ", "usage: "))
    (copy / "rows" / "traces-1-refund.csv.gz").write_bytes(b"\x1f\x8b torn")
    done = audit(copy)
    assert done.status == 2
    assert "traces-1-refund.csv.gz cannot be read" in done.err
    alter(copy / "rows" / "boundary.csv.gz", lambda rows: [row.pop("stale") for row in rows])
    shutil.copy(copy / "rows" / "traces-2-refund.csv.gz", copy / "rows" / "traces-1-refund.csv.gz")
    assert "KeyError: 'stale'" in audit(copy).err
