"""Runs in a folder: killed and gone on with, the same bytes for the same options, refused where they do not belong."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lastlook_scenarios import campaign, commands, evaluation, folder, raw, scaling, units
from lastlook_scenarios.raw import TraceRow, UnavailableRow

if TYPE_CHECKING:
    from pathlib import Path

SMALL = units.Options(traces=15, trials=15, pairs=0, durable=0, boundary=1, calls=1)
TIMED = ("latencies", "scaling")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer repetitions of what is repeated to steady a time."""
    monkeypatch.setattr(scaling, "READS", (13, 61))
    monkeypatch.setattr(units, "QUICK", SMALL)


def outcomes(path: Path) -> dict[str, bytes]:
    """The files of rows without times, by name."""
    return {file.name: file.read_bytes() for file in (path / "rows").glob("*") if not file.name.startswith(TIMED)}


def test_the_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    """Two runs of one seed write the same files, times aside; another seed shuffles otherwise."""
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        evaluation.evaluate(dataclasses.replace(SMALL, seed=seed), out=tmp_path / name)
    one, two, three = (outcomes(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two
    assert one.keys() == three.keys()
    assert one["traces-1-refund.csv.gz"] != three["traces-1-refund.csv.gz"]


def test_a_cut_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was whole when a run was cut is taken as it is, what was not is run, and the rows are those of one run."""
    path, whole = tmp_path / "run", tmp_path / "whole"
    perform, performed = units.perform, list[str]()

    def cut(unit: units.Unit, *rest: Any) -> None:
        if unit.stage == "omission":
            raise KeyboardInterrupt
        perform(unit, *rest)

    monkeypatch.setattr(units, "perform", cut)
    with pytest.raises(KeyboardInterrupt):
        evaluation.evaluate(SMALL, out=path)
    before = outcomes(path)
    assert "traces-1-refund.csv.gz" in before
    assert not (path / "summary.json").exists()

    def noted(unit: units.Unit, *rest: Any) -> None:
        performed.append(unit.name)
        perform(unit, *rest)

    monkeypatch.setattr(units, "perform", noted)
    found = evaluation.evaluate(SMALL, out=path)
    assert performed == ["omission-1-refund", "omission-1-remediation", "omission-1-procurement"]
    assert found.resumed == len(units.plan(SMALL)) - 3
    evaluation.evaluate(SMALL, out=whole)
    assert outcomes(path) == outcomes(whole)
    assert before.items() <= outcomes(path).items()


def test_a_unit_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that end in an error get no name: the unit is run again as a whole."""
    file = tmp_path / "unavailable.csv.gz"

    def rows() -> Any:
        yield UnavailableRow("missing", "BLOCK", 0)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        raw.write(file, UnavailableRow, rows())
    assert not file.exists()
    assert raw.write(file, UnavailableRow, [UnavailableRow("missing", "BLOCK", 0)]) == 1
    assert list(raw.read(file, UnavailableRow)) == [UnavailableRow("missing", "BLOCK", 0)]


def test_workers_write_what_one_process_writes(tmp_path: Path) -> None:
    """Two processes side by side leave the same rows as this process alone, and tell of every step."""
    told: dict[str, tuple[int, int]] = {}
    evaluation.evaluate(SMALL, out=tmp_path / "alone")
    evaluation.evaluate(
        SMALL, out=tmp_path / "two", jobs=2, progress=lambda stage, done, of: told.update({stage: (done, of)})
    )
    assert outcomes(tmp_path / "alone") == outcomes(tmp_path / "two")
    assert told["traces"] == (15, 15)
    assert all(done == of for done, of in told.values())


def test_a_killed_worker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that dies in the middle ends the run with its unit's name; what is finished stays."""
    broken = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    popen = subprocess.Popen
    monkeypatch.setattr(
        "lastlook_scenarios.campaign.subprocess.Popen", lambda _command, **options: popen(broken, **options)
    )
    with pytest.raises(campaign.WorkerDied, match=r"ran \w+ ended with exit status -9"):
        evaluation.evaluate(SMALL, out=tmp_path / "run", jobs=2)


@pytest.mark.slow
def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """`kill -9` in the middle, workers and all: the same run again ends well, from what was whole."""
    path = tmp_path / "run"
    options = dataclasses.asdict(dataclasses.replace(SMALL, traces=150))
    code = (
        "import pathlib, sys; from lastlook_scenarios import evaluation, units\n"
        f"print(evaluation.evaluate(units.Options(**{options}), out=pathlib.Path(sys.argv[1]), jobs=2).resumed)"
    )
    command = [sys.executable, "-c", code, str(path)]
    running = subprocess.Popen(command, start_new_session=True)
    moment = threading.Event()
    while not any((path / "rows").glob("traces*.gz")) and running.poll() is None:
        moment.wait(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    there = {file.name: file.stat().st_mtime_ns for file in (path / "rows").glob("*.csv.gz")}
    assert there
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
    assert (path / "summary.json").is_file()
    assert {name: (path / "rows" / name).stat().st_mtime_ns for name in there} == there


@pytest.mark.parametrize(("option", "value"), [("--seed", "2"), ("--traces", "30"), ("--repetitions", "2")])
def test_a_folder_of_another_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    """A folder whose run has another seed or size is refused by name, and left as it is."""
    path = tmp_path / "run"
    folder.RunFolder(path, SMALL)
    before = (path / "run.json").read_text()
    assert commands.evaluate([option, value, "--jobs", "1", "--out", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"options {option.removeprefix('--')} is" in err
    assert "name another folder" in err
    assert (path / "run.json").read_text() == before
    assert list((path / "rows").iterdir()) == []


@pytest.mark.parametrize("what", ["version", "code", "format", "machine"])
def test_a_folder_of_other_code_is_refused(tmp_path: Path, what: str) -> None:
    """Rows of another version, other code or another machine are never mixed with these."""
    path = tmp_path / "run"
    folder.RunFolder(path, SMALL)
    held = json.loads((path / "run.json").read_text())
    held[what] = {"cpu": "another"} if what == "machine" else "another"
    (path / "run.json").write_text(json.dumps(held))
    with pytest.raises(folder.FolderError, match=f"holds a run whose {what}"):
        folder.RunFolder(path, SMALL)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """A folder with something else in it, a damaged description, a file: each is refused, none is touched."""
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    with pytest.raises(folder.FolderError, match="something else"):
        folder.RunFolder(tmp_path / "letters", SMALL)
    assert [file.name for file in (tmp_path / "letters").iterdir()] == ["a.txt"]
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text("{")
    with pytest.raises(folder.FolderError, match="cannot be read"):
        folder.RunFolder(tmp_path / "torn", SMALL)
    (tmp_path / "file").write_text("")
    with pytest.raises(folder.FolderError, match="cannot write to"):
        folder.RunFolder(tmp_path / "file", SMALL)


def test_damaged_rows_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of rows that was cut or is of another kind is named, without a traceback, and nothing is published."""
    path = tmp_path / "run"
    asked = ["--traces", "15", "--trials", "15", "--jobs", "1", "--out", str(path)]
    assert commands.evaluate(asked) == 0
    file = path / "rows" / "traces-1-refund.csv.gz"
    whole = file.read_bytes()
    for damaged in (whole[:40], whole[:-9], b"", (path / "rows" / "table2.csv.gz").read_bytes()):
        file.write_bytes(damaged)
        capsys.readouterr()
        assert commands.evaluate(asked) == 2
        assert "traces-1-refund.csv.gz" in capsys.readouterr().err


def test_the_machine_is_described_as_a_class() -> None:
    """Processor, cores, system and versions are told, and no name of the host."""
    found = folder.machine()
    assert set(found) == {"cpu", "cores", "os", "python", "sqlite", "orjson", "pydantic", "sqlalchemy"}
    assert all(found.values())
    assert os.uname().nodename not in json.dumps(found)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    """Commas, quotes, line ends, empty text and absent numbers survive the file."""
    rows = [
        TraceRow(1, "refund", 'a,"b"\n', "KEEP", "", "KEEP", "ATR", "KEEP", "-", 0, 1, "x; y"),
        TraceRow(2, "refund", "", "KEEP", "a; b", "KEEP", "ATR", "KEEP", "", 5, 0, ""),
    ]
    raw.write(tmp_path / "t.csv.gz", TraceRow, rows)
    assert list(raw.read(tmp_path / "t.csv.gz", TraceRow)) == rows
    latencies = [raw.LatencyRow(1, "refund", None, 7, 8, 9), raw.LatencyRow(1, "refund", 0, None, 8, 9)]
    raw.write(tmp_path / "l.csv.gz", raw.LatencyRow, latencies)
    assert list(raw.read(tmp_path / "l.csv.gz", raw.LatencyRow)) == latencies
