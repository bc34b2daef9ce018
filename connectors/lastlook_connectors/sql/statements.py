"""Statements compiled once, run with the driver's own values."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sqlalchemy import Connection, CursorResult
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.elements import CompilerElement

__all__ = ["Prepared"]


class Prepared:
    """A statement with named parameters, for execution without SQLAlchemy's types.

    The values that it is given and the rows that it returns are the driver's own: what they mean is for whoever has
    prepared it. Constants within the statement are processed as ever.

    Attributes:
        names: the parameters that need a value, in the order in which they first occur.
    """

    def __init__(self, statement: CompilerElement, dialect: Dialect) -> None:
        compiled = cast("SQLCompiler", statement.compile(dialect=dialect))
        needed = {name for name, bind in compiled.binds.items() if bind.required}
        state = compiled.construct_expanded_state(dict.fromkeys(needed), escape_names=False)
        self._text = state.statement
        self._order = state.positiontup
        self._fixed: dict[str, Any] = {}
        for name, value in state.parameters.items():
            process = state.processors.get(name)
            if name not in needed:
                self._fixed[name] = value if process is None else cast("Any", process)(value)
        self.names = tuple(name for name in dict.fromkeys(self._order or state.parameters) if name in needed)

    def run(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Execute it with values for its parameters."""
        return connection.exec_driver_sql(self._text, self._given(values))

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """All rows, as the driver gives them; past SQLAlchemy unless somebody listens to what its engine executes.

        Raises:
            DBAPIError: as `run`.
        """
        if _is_heard(connection):
            return [tuple(found) for found in self.run(connection, values)]
        if not connection.in_transaction():
            connection.begin()  # as `run` does: a listener may set the session up when it begins
        with self._sent(connection, values) as cursor:
            return list(cursor.fetchall())

    def send(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Have the driver execute it in the open transaction, past SQLAlchemy and its listeners; how many rows it hit.

        Raises:
            DBAPIError: as SQLAlchemy would, without the parameters.
        """
        with self._sent(connection, values) as cursor:
            return int(cursor.rowcount)

    @contextlib.contextmanager
    def _sent(self, connection: Connection, values: Mapping[str, Any]) -> Generator[Any]:
        cursor = connection.connection.cursor()
        try:
            cursor.execute(self._text, self._given(values))
            yield cursor
        except connection.dialect.loaded_dbapi.Error as error:
            driver = connection.dialect
            raise DBAPIError.instance(
                self._text, None, error, driver.loaded_dbapi.Error, hide_parameters=True, dialect=driver
            ) from error
        finally:
            cursor.close()

    def _given(self, values: Mapping[str, Any]) -> Any:
        given = {**self._fixed, **values} if self._fixed else values
        return given if self._order is None else tuple([given[name] for name in self._order])


def _is_heard(connection: Connection) -> bool:
    """Whether a listener or a log has a part in what is executed on a connection."""
    mine, drivers = cast("Any", connection.dispatch), cast("Any", connection.dialect).dispatch
    return bool(
        mine.before_cursor_execute
        or mine.after_cursor_execute
        or drivers.do_execute
        or drivers.handle_error
        or connection.engine.logger.isEnabledFor(logging.INFO)
    )
