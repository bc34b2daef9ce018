"""From what a gate was given as its store to the store; SQLAlchemy is loaded only if it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lastlook.errors import DeclarationError

if TYPE_CHECKING:
    from lastlook.ports import Engine, Store

__all__ = ["given_store"]


def given_store(given: Store | Engine | str, *, asynchronous: bool) -> Store:
    """The store that `store=` names: a store as it is, an engine's, or that of a URL.

    Raises:
        DeclarationError: it is none of these, of the other colour, or cannot hold a store.
    """
    found: Any = given
    if hasattr(found, "append") and hasattr(found, "load"):
        if hasattr(found, "ready") and not asynchronous:
            raise DeclarationError(
                f"store= got {type(found).__name__}, which has to be awaited: use AsyncGate, or SqlStore with Gate"
            )
        return cast("Store", found)
    if not isinstance(found, str) and not (hasattr(found, "dialect") and hasattr(found, "url")):
        raise DeclarationError(
            f"store= got {type(found).__name__}: give a SQLAlchemy engine, a URL such as 'sqlite:///path/to/file.db', "
            "a store such as MemoryStore(), or None for one in memory"
        )
    if asynchronous:
        from lastlook.store.asynchronous import AsyncSqlStore

        return cast("Store", AsyncSqlStore(found))
    from lastlook.store.sql import SqlStore

    return cast("Store", SqlStore(found))
