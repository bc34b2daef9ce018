"""A worker is killed at each of its steps, and so is who comes after it: nothing is lost, doubled or misreported."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import killed
import pytest
from quick import quick_folder

if TYPE_CHECKING:
    from collections.abc import Generator

_KILL = -9
_SEED = 20260101
_SERVERS = 2


@pytest.fixture(scope="module")
def fast() -> Generator[Path]:
    """A folder in memory where there is one: a killed process leaves the system's caches as they are."""
    with quick_folder() as folder:
        yield folder


class _Server:
    """A process that has everything imported, and forks one for each job."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import killed; killed.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(killed.__file__).parent), *sys.path])},
        )

    def __call__(self, *arguments: Any) -> int:
        """Run a job in a process of its own; how that ended."""
        given, answers = self._process.stdin, self._process.stdout
        assert given is not None
        assert answers is not None
        given.write(json.dumps(arguments) + "\n")
        given.flush()
        return int(answers.readline())

    def end(self) -> None:
        """Let it go."""
        self._process.communicate()


@pytest.fixture(scope="module")
def servers() -> Generator[SimpleQueue[_Server]]:
    """One for each core that a small machine has."""
    free: SimpleQueue[_Server] = SimpleQueue()
    for _ in range(_SERVERS):
        free.put(_Server())
    yield free
    for _ in range(_SERVERS):
        free.get().end()


class _Trial:
    """One copy of the shop, and the processes that come one after another to it."""

    def __init__(self, server: _Server, made: Path, form: str, watch: str, where: Path, name: str) -> None:
        self.server = server
        self.folder, self.name = where / name, f"{form}, {watch}, {name}"
        shutil.copytree(made, self.folder)
        self.form, self.watch, self.minutes = form, watch, 0

    def job(self, job: str, kill_at: int | None) -> list[str] | None:
        """The steps of a job that ended; None if it was killed."""
        code = self.server(str(self.folder), self.form, job, self.watch, kill_at, self.minutes)
        self.minutes += 1
        if code == _KILL:
            return None
        assert code == 0, f"{job} of {self.name} ended with {code}"
        return list(json.loads((self.folder / "steps.json").read_text()))

    def told(self) -> list[tuple[str, str]]:
        """What its processes were told before they died."""
        file = self.folder / "told"
        return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []

    def judged(self) -> None:
        """A fresh process agrees with the rows, and with what any of the dead was told."""
        assert self.job("judge", None) is not None
        report: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        _agree(report, self.told(), self.name)
        shutil.rmtree(self.folder)


def _agree(report: dict[str, Any], told: list[tuple[str, str]], where: str) -> None:
    before, after, end, intents = report["before"], report["after"], report["end"], report["intents"]
    assert before == after, f"{where}: reconciling applied something: {before} and {after}"
    for intent_id, found in intents.items():
        what = f"{where}: {intent_id} {found}, {before}, told {told}"
        landed = before.get(found["order"], 0)
        assert landed <= 1, what
        assert (found["state"] == "COMMITTED") is (landed == 1) is found["marked"], what
        assert (found["journal"][-1] == "COMMITTED") is (landed == 1), what
        assert found["journal"].count("COMMITTED") == landed, what
        assert found["applied"] == found["again"], what
        assert (found["applied"] == "COMMITTED") is (end.get(found["order"], 0) == 1), what
    orders = [found["order"] for found in intents.values()]
    assert set(before) <= set(orders), f"{where}: a refund without an intent: {before}, {intents}"
    for kind, name in told:
        if kind == "refunded":
            assert before.get(name) == 1, f"{where}: {name} was told to be refunded: {before}"
        elif kind == "committed":
            assert intents[name]["state"] == "COMMITTED", f"{where}: {name}: {intents}"
        elif kind == "withdrawn":
            assert intents[name]["state"] == "WITHDRAWN", f"{where}: {name}: {intents}"
        else:
            assert name in intents, f"{where}: {kind} {name} is lost: {intents}"
            if kind == "refused":
                assert intents[name]["outcome"] == "BLOCK", f"{where}: {name}: {intents}"
    assert report["again"] == "refunded 70 of o-2", f"{where}: {report['again']}"
    assert (end["o-1"], end["o-2"]) == (1, 1), f"{where}: {end}"
    assert all(number == 1 for number in end.values()), f"{where}: {end}"


@pytest.mark.slow
@pytest.mark.parametrize("watch", ["commands", "statements"])
@pytest.mark.parametrize("form", killed.FORMS)
def test_killed_at_every_step(fast: Path, servers: SimpleQueue[_Server], form: str, watch: str) -> None:
    """After kill -9 at any step of the work and of the recovery, 0 effects are lost, doubled or misreported."""
    where = Path(tempfile.mkdtemp(dir=fast))
    made = where / "made"
    made.mkdir()
    killed.template(made, form)
    server = servers.get()
    whole = _Trial(server, made, form, watch, where, "whole")
    steps = whole.job("work", None)
    whole.judged()
    servers.put(server)
    assert steps

    def trial(number: int) -> int:
        rng = random.Random(_SEED + number)
        server = servers.get()
        try:
            one = _Trial(server, made, form, watch, where, str(number))
            one.name += f" ({steps[number]}), seed {_SEED}"
            assert one.job("work", number) is None, f"step {number} of {len(steps)} was not reached"
            kills = 1
            while kills < 3 and one.job("recover", rng.randrange(12)) is None:  # and the recovery, and the next one
                kills += 1
            one.judged()
        finally:
            servers.put(server)
        return kills

    with ThreadPoolExecutor(_SERVERS) as pool:
        kills = sum(pool.map(trial, range(len(steps))))
    assert kills > 100, f"{form}, {watch}: {kills} kills at {len(steps)} steps, seed {_SEED}"
