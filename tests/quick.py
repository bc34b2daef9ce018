"""Where databases lie whose tests ask nothing about the disk."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["quick_folder"]


@contextmanager
def quick_folder() -> Generator[Path]:
    """A folder in memory, where the system has such a place, or else on the disk."""
    memory = Path("/dev/shm")  # noqa: S108 - a directory of its own is made there
    with tempfile.TemporaryDirectory(prefix="lastlook-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
