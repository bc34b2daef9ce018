"""One attempt inside one transaction of the target: lock, compare, run the body, mark, commit; or nothing at all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy.exc import DBAPIError

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import Applied, EffectNotBound, IntegrityError, StoreBusy
from lastlook.ports import ApplyResult, CloseResult
from lastlook.records import Observation, microseconds
from lastlook_connectors.sql.dialects import Busy
from lastlook_connectors.sql.evidence import Batch
from lastlook_connectors.sql.permits import Body

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection

    from lastlook.canonical import Value
    from lastlook.ports import Attempt, Journal
    from lastlook.records import EffectRow
    from lastlook_connectors.sql.effect_table import EffectTable
    from lastlook_connectors.sql.evidence import Library

__all__ = ["Release", "close_attempt", "differs"]


_ENDED = "had a body that ended its transaction itself, so that nobody can tell what of it was committed"


class Release:
    """One attempt on an open connection of its own.

    `open` begins the transaction, locks and compares; then the body runs; then `conclude` or `fail`. Whatever comes of
    it, `end` leaves the connection as it was.

    Args:
        library: reads the evidence again.
        effects: the effect table, or None where it is not installed.
        now: the target's clock.
        patience: how many seconds to wait for a lock.
        journal: the transition to COMMITTED, where the store is in the same database.
    """

    def __init__(
        self,
        library: Library,
        effects: EffectTable | None,
        now: Callable[[], dt.datetime],
        patience: float,
        connection: Connection,
        attempt: Attempt,
        journal: Journal | None,
    ) -> None:
        self._library = library
        self._dialect = library.dialect
        self._effects = effects
        self._now = now
        self._patience = patience
        self._connection = connection
        self._attempt = attempt
        self._journal = journal
        self._stack = contextlib.ExitStack()
        self._body: Body | None = None

    def open(self) -> ApplyResult | Body:
        """Begin, lock and compare; a Body if it may run."""
        try:
            self._stack.enter_context(self._dialect.writing(self._connection, self._patience))
            refused = self._refusal()
            if refused is not None:
                return refused
            self._dialect.hold(self._connection)
            self._body = Body(self._connection, self._attempt)
            return self._body
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing was applied
            return self._definite(error)

    def conclude(self, value: Any) -> ApplyResult:
        """Let go of the savepoint, mark the effect as committed, and commit."""
        try:
            said = self._mark(value)
        except Exception as error:  # noqa: BLE001 - as above
            return self._definite(error)
        if said.status is not Applied.COMMITTED or said.repeated:
            return said
        try:
            self._dialect.commit(self._connection)
        except Exception as error:  # noqa: BLE001 - what it means depends on how far the commit came
            if not self._connection.invalidated and self._dialect.is_open(self._connection):
                return self._definite(error)
            return ApplyResult(
                Applied.UNKNOWN, error=error, reason=f"no answer to the commit: {self._dialect.told(error)}"
            )
        return said

    def fail(self, error: Exception) -> ApplyResult:
        """The body raised: nothing of it stays."""
        if self._dialect.is_busy(error):
            message = (
                f"the body of intent {self._attempt.intent_id} waited for a lock that its own transaction holds: it "
                "wrote through another connection, which nothing ties to the check: write through permit.session or "
                "permit.connection"
            )
            unbound = EffectNotBound(message)
            unbound.__cause__ = error
            return ApplyResult(Applied.FAILED, error=unbound, reason=message)
        if not self._dialect.is_open(self._connection) and not self._dialect.rolls_back_itself(error):
            return self._torn(error)
        return ApplyResult(Applied.FAILED, error=error, reason="the body raised")

    def end(self) -> None:
        """Roll back what is open, and give the connection back as it was."""
        if self._body is not None:
            self._body.end()
        self._stack.close()

    # Inside.

    def _refusal(self) -> ApplyResult | None:
        attempt, connection = self._attempt, self._connection
        if self._journal is not None and not self._journal.begin(connection):
            return ApplyResult(Applied.REJECTED, lost=True, reason="the intent moved meanwhile")
        if self._effects is not None:
            row = self._effects.enter(connection, attempt.intent_id, attempt.arguments_digest)
            refused = _refused_by_row(row, attempt)
            if refused is not None:
                return refused
        return self._moved() or self._late()

    def _moved(self) -> ApplyResult | None:
        binding = sorted(self._attempt.binding, key=lambda bound: bound[0].identity)
        found = Batch(self._library, [address for address, _ in binding]).read(self._connection, inside=True)
        for (address, seen), now in zip(binding, found, strict=True):
            if now is seen:
                continue
            if not isinstance(now, Observation):
                reason = f"{address} could not be read again: {now.reason}"
                return ApplyResult(Applied.REJECTED, reason=reason)
            if differs(seen, now, self._attempt.projection(address)):
                return ApplyResult(Applied.REJECTED, reason=f"{address} moved after it was looked at")
        return None

    def _late(self) -> ApplyResult | None:
        last = self._attempt.not_after
        if last is not None and self._now() > last:
            return ApplyResult(Applied.REJECTED, reason="the permission ended before the effect was committed")
        return None

    def _mark(self, value: Any) -> ApplyResult:
        attempt, connection, body = self._attempt, self._connection, cast("Body", self._body)
        body.end()
        if not body.statements and not body.silent:
            message = (
                f"the body of intent {attempt.intent_id} executed nothing through its permit, so nothing ties it to "
                "the check: write through permit.session or permit.connection, or call permit.no_write()"
            )
            return ApplyResult(Applied.FAILED, error=EffectNotBound(message), reason=message)
        if not self._dialect.is_open(connection) or not self._dialect.let_go(connection):
            return self._torn(None)
        stored = attempt.encode(value)
        late = self._late()
        if late is not None:
            return late
        now = self._now()
        if self._effects is not None:
            rows = self._effects.commit(
                connection, attempt.intent_id, attempt.arguments_digest, attempt.number, stored, microseconds(now)
            )
            if rows != 1:
                message = (
                    f"the effect row of intent {attempt.intent_id} was changed by the effect's own body: leave "
                    "lastlook_effect alone"
                )
                return ApplyResult(Applied.FAILED, error=IntegrityError(message), reason=message)
        if self._journal is not None:
            appended = self._journal.commit(stored, now, on=connection)
            if appended.holder is not None:
                return ApplyResult(Applied.IN_PROGRESS, reason=appended.holder)
            if not appended.ok:
                reason = f"{appended.stale} moved after it was looked at"
                return ApplyResult(Applied.REJECTED, lost=not appended.stale, reason=reason)
        return ApplyResult(Applied.COMMITTED, value, stored)

    def _definite(self, error: Exception) -> ApplyResult:
        """An error before the commit: nothing was applied."""
        if isinstance(error, (Busy, StoreBusy)):
            return ApplyResult(Applied.BUSY, reason=str(error))
        if self._dialect.is_busy(error):
            return ApplyResult(Applied.BUSY, reason=f"the database is locked: {self._dialect.told(error)}")
        return ApplyResult(Applied.FAILED, error=error, reason=self._dialect.told(error))

    def _torn(self, error: Exception | None) -> ApplyResult:
        """The body has ended the transaction behind its permit's back: what it wrote before that may be there."""
        attempt = self._attempt
        message = (
            f"the body of intent {attempt.intent_id} ended the transaction itself, so that nobody can tell what of it "
            "was committed: look, and say so by gate.assert_outcome(); never commit or roll back but by permit.session"
        )
        self._connection.rollback()  # of SQLAlchemy's own state
        if self._effects is not None:
            self._connection.begin()
            self._effects.enter(self._connection, attempt.intent_id, attempt.arguments_digest)
            self._effects.mark(self._connection, attempt.intent_id, attempt.number)
            self._connection.commit()
        unbound = EffectNotBound(message)
        unbound.__cause__ = error
        return ApplyResult(Applied.UNKNOWN, error=unbound, reason=message)


def close_attempt(
    library: Library, effects: EffectTable, patience: float, connection: Connection, intent_id: str, number: int
) -> CloseResult:
    """End an attempt for good: its floor rises above it, unless the effect has committed."""
    dialect = library.dialect
    try:
        with dialect.writing(connection, patience):
            row = effects.enter(connection, intent_id, "", number + 1)
            if row.committed_at is not None:
                return CloseResult(Applied.COMMITTED, row.result)
            if row.attempt is not None:
                return CloseResult(Applied.UNKNOWN, reason=f"attempt {row.attempt} {_ENDED}")
            if row.floor <= number:
                effects.raise_floor(connection, intent_id, number + 1)
            dialect.commit(connection)
            return CloseResult(Applied.NOT_ATTEMPTED)
    except Busy as error:
        return CloseResult(Applied.UNKNOWN, reason=str(error))
    except DBAPIError as error:
        return CloseResult(Applied.UNKNOWN, reason=f"the attempt could not be closed: {dialect.told(error)}")


def _refused_by_row(row: EffectRow, attempt: Attempt) -> ApplyResult | None:
    """What the intent's own row says: of other arguments, committed before, or closed."""
    if row.args_digest not in ("", attempt.arguments_digest):
        message = f"the target row of intent {attempt.intent_id} is of other arguments: do not release it"
        return ApplyResult(Applied.FAILED, error=IntegrityError(message), reason=message)
    if row.committed_at is not None:
        return ApplyResult(Applied.COMMITTED, row.result, row.result, repeated=True)
    if row.attempt is not None:
        return ApplyResult(Applied.UNKNOWN, reason=f"attempt {row.attempt} {_ENDED}")
    if attempt.number < row.floor:
        return ApplyResult(Applied.REJECTED, floor=row.floor, reason="the attempt was closed")
    return None


def differs(seen: Observation, now: Observation, fields: frozenset[str] | None) -> bool:
    """Whether what decides is another than was looked at: these fields, or all of it."""
    if now.token == seen.token:
        return False
    if fields is None or seen.value is ABSENT or now.value is ABSENT or isinstance(seen.value, tuple):
        return not canonical.same(seen.value, now.value)
    was, value = cast("Mapping[str, Value]", seen.value), cast("Mapping[str, Value]", now.value)
    return any(not canonical.same(was.get(name, ABSENT), value.get(name, ABSENT)) for name in fields)
