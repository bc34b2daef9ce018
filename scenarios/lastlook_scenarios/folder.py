"""The folder of a run: what was asked for and on what, and the raw rows as far as they are whole.

A run that was killed goes on from there: what is finished is taken as it is. A folder of other options, of other code
or of another machine is refused, so that figures of two runs are never mixed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import lastlook
import lastlook_connectors
import lastlook_scenarios
import lastlook_validators
from lastlook_scenarios import units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lastlook_scenarios.units import Options, Unit

__all__ = ["FolderError", "RunFolder", "as_json", "machine"]

_FORMAT: Final = 1
_PACKAGES: Final = (lastlook, lastlook_connectors, lastlook_validators, lastlook_scenarios)
_LIBRARIES: Final = ("orjson", "pydantic", "sqlalchemy")


class FolderError(Exception):
    """A folder cannot take this run."""


class RunFolder:
    """A run's folder, made or found again.

    Attributes:
        path: where it is.
        rows: where its raw rows are.
        description: what was run, as `run.json` has it.

    Raises:
        FolderError: it holds something else, or another run, or cannot be written.
    """

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.rows = path / "rows"
        self.description = {"format": _FORMAT, **_code(), "options": asdict(options), "machine": machine()}
        file = path / "run.json"
        try:
            if file.is_file():
                self._compare(file)
            elif path.is_dir() and any(path.iterdir()):
                raise FolderError(f"{path} holds something else than an evaluation: name a new or an empty folder")
            self.rows.mkdir(parents=True, exist_ok=True)
            if not file.is_file():
                self.write("run.json", as_json(self.description))
        except OSError as error:
            raise FolderError(f"cannot write to {path}: {error.strerror}") from error

    def finished(self, unit: Unit) -> bool:
        """Whether the unit's rows are all there."""
        return all(file.is_file() for file in units.files(unit, self.rows).values())

    def write(self, name: str, text: str) -> None:
        """Write one of the small files beside the rows, whole or not at all."""
        part = self.path / f"{name}.part"
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(self.path / name)

    def seal(self) -> None:
        """Write down the checksum of every file, as `sha256sum --check` reads it."""
        lines = [f"{_digest(file.read_bytes())}  {file.relative_to(self.path).as_posix()}" for file in self._all()]
        self.write("SHA256SUMS", "".join(f"{line}\n" for line in lines))

    def _all(self) -> Iterator[Path]:
        drawn = [f"figure{n}.{ending}" for n in (1, 2) for ending in ("png", "svg")]
        named = [self.path / name for name in ("run.json", "summary.json", "table3.md", *drawn)]
        yield from (file for file in [*named, *sorted(self.rows.glob("*.csv.gz"))] if file.is_file())

    def _compare(self, file: Path) -> None:
        try:
            found: object = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FolderError(f"{file} cannot be read, so this folder is not gone on with: {error}") from error
        held = cast("dict[str, Any]", found if isinstance(found, dict) else {})
        for where, here, there in _differences(self.description, held):
            raise FolderError(
                f"{self.path} holds a run whose {where} is {there!r}, and here it is {here!r}: "
                "name another folder, or run what it holds"
            )


def as_json(value: object) -> str:
    """A document as the folder keeps it."""
    return json.dumps(value, indent=2) + "\n"


def machine() -> dict[str, Any]:
    """The class of machine and the versions that a run depends on; nothing that names this one machine."""
    release = ".".join(platform.release().split(".")[:2])
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "os": f"{platform.system()} {release}".strip(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        for line in listed.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def _code() -> dict[str, str]:
    """The version, and a digest of every module that a figure may depend on."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        (found,) = map(Path, package.__path__)
        for file in sorted(found.rglob("*.py"), key=lambda path: path.relative_to(found).as_posix()):
            digest.update(f"{package.__name__}/{file.relative_to(found).as_posix()}\0".encode())
            digest.update(_digest(file.read_bytes().replace(b"\r\n", b"\n")).encode())
    return {"version": lastlook.__version__, "code": digest.hexdigest()[:16]}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _differences(here: Mapping[str, Any], there: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in here:
        inner, outer = here[name], there.get(name)
        where = f"{of} {name}".strip()
        if isinstance(inner, dict) and isinstance(outer, dict):
            yield from _differences(cast("Any", inner), cast("Any", outer), name)
        elif inner != outer:
            yield where, inner, outer
