"""SQL databases: rows of mapped classes and tables and named queries as evidence, and effects in one transaction."""

from lastlook_connectors.sql.effect_table import METADATA
from lastlook_connectors.sql.permits import SqlConnection, SqlPermit
from lastlook_connectors.sql.rows import row
from lastlook_connectors.sql.system import Sql

__all__ = ["METADATA", "Sql", "SqlConnection", "SqlPermit", "row"]
