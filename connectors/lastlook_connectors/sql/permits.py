"""What an effect's body may do: a session and a connection inside the transaction, and nothing that ends it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from lastlook.errors import EffectNotBound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, CursorResult, Executable, NestedTransaction, ScalarResult

    from lastlook.canonical import Value
    from lastlook.ports import Attempt

__all__ = ["Body", "Permit", "SqlConnection", "SqlPermit"]

_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$)|;)+", re.DOTALL)
_POINTS = re.compile(r"(?:SAVEPOINT|RELEASE|ROLLBACK\s+(?:TRANSACTION\s+)?TO)\b", re.IGNORECASE)
_ENDS = re.compile(r"(?:BEGIN|COMMIT|END|ROLLBACK|START\s+TRANSACTION|ATTACH|DETACH)\b", re.IGNORECASE)


class Body:
    """What becomes of the body's statements: counted, and refused where one would end the transaction."""

    def __init__(self, connection: Connection, attempt: Attempt) -> None:
        self._connection = connection
        self.attempt = attempt
        self.statements = 0
        self.silent = False
        self.open = True
        event.listen(connection, "before_cursor_execute", self._before)

    def _before(self, *told: Any) -> None:
        statement: str = told[2]  # after the connection and the cursor
        text = _COMMENTS.sub("", statement, count=1) if not statement[:1].isalpha() else statement
        if _POINTS.match(text):
            return
        ends = _ENDS.match(text)
        if ends is not None:
            raise EffectNotBound(
                f"the body of intent {self.attempt.intent_id} executed {ends[0].upper()}, which would end the "
                "transaction that holds its evidence: leave that to the gate; session.commit() and begin_nested() are "
                "allowed"
            )
        self.statements += 1

    def check(self) -> None:
        """Raise if the body is over.

        Raises:
            EffectNotBound: it is.
        """
        if not self.open:
            raise EffectNotBound(
                f"the permit of intent {self.attempt.intent_id} is over: it lives only inside the effect's body, so do "
                "all of the effect's work there"
            )

    def end(self) -> None:
        """From now on the permit is dead."""
        if self.open:
            self.open = False
            event.remove(self._connection, "before_cursor_execute", self._before)


class Permit:
    """What both colours of permit have."""

    def __init__(self, body: Body) -> None:
        self._body = body

    @property
    def key(self) -> str:
        """The attempt's idempotency key."""
        return self._body.attempt.key

    @property
    def fresh(self) -> Mapping[str, Value]:
        """The refresh fields as the gate last read them, by their place such as `orders/o-1.customer_name`."""
        return self._body.attempt.fresh

    def no_write(self) -> None:
        """Say that this effect does nothing here on purpose; without it a body that executes nothing is refused."""
        self._body.check()
        self._body.silent = True


class SqlPermit(Permit):
    """What an effect's body may do on a `Sql` while it runs; its writes land with the check, or not at all."""

    def __init__(self, body: Body, connection: Connection) -> None:
        super().__init__(body)
        self._connection = connection
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """A session inside the effect's transaction: `commit()` and `rollback()` of it reach a savepoint only."""
        self._body.check()
        if self._session is None:
            self._session = Session(bind=self._connection, join_transaction_mode="create_savepoint")
        return self._session

    @property
    def connection(self) -> SqlConnection:
        """The connection inside the effect's transaction, without what would end it."""
        self._body.check()
        return SqlConnection(self._body, self._connection)

    def flush(self) -> None:
        """Write what the body's session still holds."""
        if self._session is not None:
            self._session.commit()

    def end(self) -> None:
        """Close the session; the permit is dead."""
        self._body.end()
        if self._session is not None:
            try:
                self._session.close()
            except DBAPIError:  # its savepoint went with the transaction
                self._session.expunge_all()


class SqlConnection:
    """`execute`, `scalar`, `scalars` and `begin_nested` of the connection that the effect runs on."""

    def __init__(self, body: Body, connection: Connection) -> None:
        self._body = body
        self._connection = connection

    def execute(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> CursorResult[Any]:
        """Execute a statement, as SQLAlchemy's `Connection.execute`."""
        self._body.check()
        return self._connection.execute(statement, parameters)

    def scalar(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first column of the first row, as SQLAlchemy's `Connection.scalar`."""
        self._body.check()
        return self._connection.scalar(statement, parameters)

    def scalars(
        self, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> ScalarResult[Any]:
        """The first column of all rows, as SQLAlchemy's `Connection.scalars`."""
        self._body.check()
        return self._connection.scalars(statement, parameters)

    def begin_nested(self) -> NestedTransaction:
        """A savepoint, as SQLAlchemy's `Connection.begin_nested`."""
        self._body.check()
        return self._connection.begin_nested()
