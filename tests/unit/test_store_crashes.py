"""A process that is killed, and a write-ahead log that is torn: what was acknowledged is there, the rest is not."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from stores import proposal, transit

from lastlook import IntegrityError, StoreError
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock

ROOT = Path(__file__).resolve().parents[1]
NOW = FakeClock().now()
RECORDS = 12

WRITER = """
import sys
from lastlook.store.sql import SqlStore
from lastlook.testing import FakeClock
from stores import proposal, transit

store, now, me = SqlStore(sys.argv[1]), FakeClock().now(), sys.argv[2]
n = 0
while True:
    store.create(proposal(f"{me}-{n}"), now, None)
    store.append(transit(f"{me}-{n}", 0), now)
    print(n, flush=True)
    n += 1
"""


def test_a_killed_writer_loses_nothing_that_it_told_of(tmp_path: Path) -> None:
    """After kill -9 at any moment, every acknowledged record is there, every chain holds, and others write on."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = SqlStore(url)
    store.install()
    for kill in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, url, f"w{kill}"],
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join([*sys.path, str(ROOT)])},
        )
        assert process.stdout is not None
        for _ in range(1 + 3 * kill):
            process.stdout.readline()
        process.kill()
        told = 1 + 3 * kill + len(process.stdout.readlines())
        process.wait(timeout=30)
        process.stdout.close()
        assert store.create(proposal(f"after-{kill}"), NOW, None).ok
        there = [intent_id for intent_id in store.intents(f"w{kill}-") if len(store.journal(intent_id)) == 2]
        assert len(there) >= told
    for intent_id in store.intents():
        store.verify(intent_id)
    store.close()


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A file, its write-ahead log with one intent's records, a transaction each, and the log's sizes by then."""
    folder = tmp_path_factory.mktemp("images")
    live = folder / "live.db"
    store = SqlStore(f"sqlite:///{live}")
    store.install()
    keep = sqlite3.connect(live)  # so that the log is not written back when others close
    keep.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    keep.execute("SELECT count(*) FROM lastlook_intent").fetchall()
    wal = Path(f"{live}-wal")
    sizes: list[int] = []
    store.create(proposal("i-1"), NOW, None)
    sizes.append(wal.stat().st_size)
    for seq in range(RECORDS):
        store.append(transit("i-1", seq, body={"note": "x" * 500}), NOW)
        sizes.append(wal.stat().st_size)
    for name in (live, wal):
        shutil.copy(name, folder / name.name.replace("live", "image"))
    store.close()
    keep.close()
    return folder / "image.db", sizes


def opened(folder: Path, image: Path, wal: bytes) -> int | None:
    """How many records a store made of such an image shows; None where it says that it is damaged."""
    file = folder / "torn.db"
    for name in folder.iterdir():
        name.unlink()
    shutil.copy(image, file)
    Path(f"{file}-wal").write_bytes(wal)
    store = SqlStore(f"sqlite:///{file}")
    try:
        stored = store.load("i-1")
        if stored is None:
            assert list(store.intents()) == []
            return 0
        store.verify("i-1")
        assert store.append(transit("i-1", stored.row.seq), NOW).ok
        store.verify("i-1")
        return stored.row.seq + 1
    except (IntegrityError, StoreError):
        return None
    finally:
        store.close()


def _torn(tmp_path: Path, images: tuple[Path, list[int]], seed: int, tries: int) -> None:
    image, sizes = images
    whole = Path(f"{image}-wal").read_bytes()
    rng = random.Random(seed)
    for number in range(tries):
        cut = rng.random() < 0.5
        at = rng.randrange(len(whole))
        torn = bytearray(whole[:at] if cut else whole)
        if not cut:
            torn[at] ^= 1 << rng.randrange(8)
        found = opened(tmp_path, image, bytes(torn))
        least = sum(size <= at for size in sizes)
        if found is not None:
            what = f"seed {seed}, image {number}: {'cut' if cut else 'flipped'} at {at} of {len(whole)}"
            assert least <= found <= RECORDS + 1, f"{what}: {found} records where at least {least} were whole"


def test_a_torn_log_shows_a_prefix_or_is_told_of(tmp_path: Path, images: tuple[Path, list[int]]) -> None:
    """Of a log that is cut or has a flipped bit, a store shows the records before that, or says that it is damaged."""
    assert opened(tmp_path, images[0], Path(f"{images[0]}-wal").read_bytes()) == RECORDS + 1
    _torn(tmp_path, images, seed=1, tries=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_torn_logs(tmp_path: Path, images: tuple[Path, list[int]], seed: int) -> None:
    """The same of 500 more images."""
    _torn(tmp_path, images, seed=seed, tries=50)


def test_a_flipped_bit_of_the_file_is_never_taken_for_a_record(tmp_path: Path, images: tuple[Path, list[int]]) -> None:
    """After the log is written back, a flipped bit anywhere leaves the records as they were, or is told of."""
    image, _ = images
    file = tmp_path / "flat.db"
    shutil.copy(image, file)
    shutil.copy(f"{image}-wal", f"{file}-wal")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    store = SqlStore(f"sqlite:///{file}")
    expected = store.journal("i-1")
    store.close()
    flat = file.read_bytes()
    rng = random.Random(7)
    told = 0
    for _ in range(60):
        at, bit = rng.randrange(len(flat)), 1 << rng.randrange(8)
        torn = bytearray(flat)
        torn[at] ^= bit
        file.write_bytes(torn)
        damaged = SqlStore(f"sqlite:///{file}")
        try:
            stored = damaged.load("i-1")
            damaged.verify("i-1")
            if stored is not None:
                assert damaged.journal("i-1") == expected, f"a flipped bit {bit} at {at} changed a record"
        except (IntegrityError, StoreError, LookupError):
            told += 1
        finally:
            damaged.close()
    assert told > 0
