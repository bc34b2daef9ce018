"""Where the shop's data is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sqlalchemy import create_engine
from sqlalchemy.orm import Session, sessionmaker

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["engine", "get_session"]

engine = create_engine(os.environ["DATABASE_URL"])
_sessions = sessionmaker(engine)


def get_session() -> Generator[Session]:
    """A session a request."""
    with _sessions() as session:
        yield session
