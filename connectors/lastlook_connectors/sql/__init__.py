"""SQL databases: rows of mapped classes and tables and named queries as evidence, and effects in one transaction.

`AsyncSql` and its permit need the extra `lastlook[aiosqlite]`, and are imported when they are first named.
"""

from typing import TYPE_CHECKING

from lastlook_connectors.sql.effect_table import METADATA
from lastlook_connectors.sql.permits import SqlConnection, SqlPermit
from lastlook_connectors.sql.rows import row
from lastlook_connectors.sql.system import Sql

if TYPE_CHECKING:
    from lastlook_connectors.sql.asynchronous import AsyncSql, AsyncSqlPermit

__all__ = ["METADATA", "AsyncSql", "AsyncSqlPermit", "Sql", "SqlConnection", "SqlPermit", "row"]


def __getattr__(name: str) -> object:
    if name in {"AsyncSql", "AsyncSqlPermit"}:
        from lastlook_connectors.sql import asynchronous

        return getattr(asynchronous, name)
    raise AttributeError(f"module 'lastlook_connectors.sql' has no attribute {name!r}")
