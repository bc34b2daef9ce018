"""The built wheel, alone in a fresh environment, does what the README says; nothing of the checkout is at hand there.

The environment has what the wheel declares that it needs, in the versions of the running environment, and nothing else.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "lastlook": ROOT / "src",
    "lastlook_connectors": ROOT / "connectors",
    "lastlook_validators": ROOT / "validators",
    "lastlook_scenarios": ROOT / "scenarios",
}


@dataclass(frozen=True, slots=True)
class Installed:
    """A fresh environment with the wheel in it.

    Attributes:
        programs: the folder of its interpreter and commands.
        site: where its packages are.
    """

    wheel: Path
    programs: Path
    site: Path

    def run(self, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run one of its programs in a folder, with nothing of this environment's settings for Python."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        return subprocess.run(
            [str(self.programs / program), *arguments],
            cwd=folder,
            env={**env, "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"},
            check=False,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )


def ran(*command: str) -> None:
    """Run a command of this environment to a good end."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def link_dependencies(site: Path, name: str, extras: set[str]) -> None:
    """Put what a distribution needs, and what that needs, beside it; all of it is in the running environment."""
    (own,) = importlib.metadata.distributions(name=name, path=[str(site)])
    waiting = [(text, extras) for text in own.requires or ()]
    linked = set[str]()
    while waiting:
        text, wanted = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in {"", *wanted}):
            continue
        found = importlib.metadata.distribution(requirement.name)
        assert requirement.specifier.contains(found.version, prereleases=True), f"{text}: {found.version} is here"
        waiting += [(further, requirement.extras) for further in found.requires or ()] if text not in linked else []
        linked.add(text)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(found.locate_file(top).resolve())  # type: ignore[attr-defined]  # a Path here


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, built from the checkout and installed in a fresh environment."""
    folder = tmp_path_factory.mktemp("wheel")
    if importlib.util.find_spec("hatchling") and importlib.util.find_spec("build"):
        ran(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    else:
        ran(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False, symlinks=os.name != "nt")
    programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", str(programs / "python"))
    ran(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    (package,) = (folder / "env").glob("**/lastlook/__init__.py")
    link_dependencies(package.parents[1], "lastlook", {"eval"})
    ran(*pip, "check")
    return Installed(wheel, programs, package.parents[1])


# --- What is in it ----------------------------------------------------------------------------------------------------


def test_wheel_has_every_file_of_the_packages(installed: Installed) -> None:
    """The wheel has each source file and each marker of types of the four packages, and no file beside them."""
    with zipfile.ZipFile(installed.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    shipped = {
        path.relative_to(root).as_posix()
        for package, root in PACKAGES.items()
        for path in (root / package).rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    assert names == shipped


def test_packages_come_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    """All four packages are imported from the fresh environment, whose search path leads nowhere into the checkout."""
    names = ", ".join(PACKAGES)
    code = f"import json, sys, {names}; print(json.dumps([sys.path, *[package.__file__ for package in ({names})]]))"
    done = installed.run("python", "-c", code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    search, *files = json.loads(done.stdout)
    assert [Path(file).parents[1] for file in files] == [installed.site] * len(PACKAGES)
    assert [entry for entry in search if (tmp_path / entry).resolve().is_relative_to(ROOT)] == []


def test_metadata_describes_the_project(installed: Installed) -> None:
    """The distribution's long description is the README, and its command is the documented one."""
    (own,) = importlib.metadata.distributions(name="lastlook", path=[str(installed.site)])
    text = own.read_text("METADATA")
    assert text is not None
    assert text.partition("\n\n")[2].strip() == (ROOT / "README.md").read_text("utf-8").strip()
    assert own.metadata["Description-Content-Type"] == "text/markdown"
    assert {entry.name for entry in own.entry_points if entry.group == "console_scripts"} == {"lastlook"}


# --- What it does -----------------------------------------------------------------------------------------------------


def examples(page: Path) -> list[str]:
    """The python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_readme_example_runs(installed: Installed, tmp_path: Path) -> None:
    """From an empty folder the README's example blocks what the lowered limit forbids, and releases what it allows."""
    tool, *use = examples(ROOT / "README.md")
    (tmp_path / "tool.py").write_text(tool, encoding="utf-8")
    (tmp_path / "use.py").write_text("\n".join(["from tool import *", *use]), encoding="utf-8")
    done = installed.run("python", "use.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first.startswith("refund (")
    assert first.endswith("): BLOCK, not attempted")
    assert "KEEP COMMITTED" in others


RESTARTS = '''
from lastlook import (
    Field, Gate, Memory, MemoryPermit, ReplanRequired, Resource, arg, block_unless, each, replan_unless, rows,
)


class Service(Resource, kind="services"):
    state: Field[str]
    healthy: Field[int]
    title: Field[str]


world = Memory(
    services={"web": {"state": "degraded", "healthy": 3, "title": "Shop front"}},
    freezes={"night": {"active": False}},
)
gate = Gate(world)
service = Service(arg.name)


@gate.effect(
    target=service,
    refresh=[service.title],
    premises=[
        replan_unless(service.state == "degraded", "it has recovered"),
        block_unless(arg.instances < service.healthy, "too few instances would be left"),
        block_unless(rows("freezes").none(each.active), "a freeze is on"),
    ],
)
def restart(permit: MemoryPermit, name: str, instances: int = 1) -> str:
    """Restart instances of a service."""
    permit.change("services", name, state="restarting")
    return f"restarted {instances} of {permit.fresh[f'services/{name}.title']}"
'''

USE_OF_RESTARTS = """
from restarts import ReplanRequired, gate, restart, world

intent = restart.propose("web", instances=2)
world.change("services", "web", title="Shop")
assert gate.preview(intent).outcome.name == "REFRESH"
world.change("freezes", "release", active=True)
verdict = gate(intent)
assert (verdict.outcome.name, verdict.applied.name) == ("BLOCK", "NOT_ATTEMPTED"), verdict.explain()
assert [finding.because for finding in verdict.findings] == ["a freeze is on"], verdict.explain()
world.change("freezes", "release", active=False)
print(gate(intent).result())
try:
    restart("web")
except ReplanRequired as stop:
    print(stop.model_text)
"""


def test_second_tool_runs(installed: Installed, tmp_path: Path) -> None:
    """A tool of another domain, with a freeze that appears after the proposal, is blocked, then released once."""
    (tmp_path / "restarts.py").write_text(RESTARTS, encoding="utf-8")
    (tmp_path / "use.py").write_text(USE_OF_RESTARTS, encoding="utf-8")
    done = installed.run("python", "use.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["restarted 2 of Shop", "REPLAN restart: it has recovered"]


@pytest.mark.parametrize(("module", "source"), [("tool", examples(ROOT / "README.md")[0]), ("restarts", RESTARTS)])
def test_show_prints_what_a_gate_would_check(installed: Installed, tmp_path: Path, module: str, source: str) -> None:
    """`lastlook show MODULE:gate` finds the module in the current folder, and says how firmly each premise is tied."""
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    text = installed.run("lastlook", "show", f"{module}:gate", folder=tmp_path)
    data = installed.run("lastlook", "show", f"{module}:gate", "--json", folder=tmp_path)
    assert (text.returncode, data.returncode) == (0, 0), text.stderr + data.stderr
    (effect,) = json.loads(data.stdout)["effects"]
    assert effect["premises"]
    assert {premise["binding"] for premise in effect["premises"]} == {"BOUND"}
    assert all(premise["premise"] in text.stdout for premise in effect["premises"])


def test_evaluation_holds(installed: Installed, tmp_path: Path) -> None:
    """`lastlook evaluate` ends well, and by its JSON, ATR matches every case with no false allow and no false block."""
    done = installed.run(
        "lastlook", "evaluate", "--traces", "150", "--pairs", "20", "--cells", "1", "--json", "-", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    atr = figures["cases"]["ATR"]
    assert atr["of"] == len({"refund", "remediation", "procurement"}) * len(figures["table2"])
    assert (atr["matched"], atr["false_allows"], atr["false_blocks"]) == (atr["of"], 0, 0)
    assert [row["got"] for row in figures["table2"]] == [row["expected"] for row in figures["table2"]]
