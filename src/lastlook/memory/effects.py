"""A `Memory`'s own rows of intents: fence, idempotency key and tombstone in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lastlook.errors import Applied, IntegrityError
from lastlook.ports import ApplyResult
from lastlook.records import EffectRow, microseconds

if TYPE_CHECKING:
    import datetime as dt

    from lastlook.canonical import Value
    from lastlook.ports import Attempt

__all__ = ["NO_ROW", "StoredRow", "exposed", "refused_by_row"]

StoredRow: TypeAlias = "tuple[str, int, int | None, Value, dt.datetime | None]"
"""The intent's own row: digest of the arguments, floor, attempt, stored result, when committed."""
NO_ROW: StoredRow = ("", 0, None, None, None)


def exposed(intent_id: str, row: StoredRow) -> EffectRow:
    """The row as others see it, its time as it is stored."""
    digest, floor, attempt, stored, committed_at = row
    return EffectRow(
        intent_id, digest, floor, attempt, stored, None if committed_at is None else microseconds(committed_at)
    )


def refused_by_row(row: StoredRow, attempt: Attempt) -> ApplyResult | None:
    """What the intent's own row says: committed before, of other arguments, or closed."""
    digest, floor, _, stored, committed_at = row
    if committed_at is not None and digest == attempt.arguments_digest:
        return ApplyResult(Applied.COMMITTED, stored, stored, repeated=True)
    if digest not in ("", attempt.arguments_digest):
        message = f"the target row of intent {attempt.intent_id} is of other arguments: do not release it"
        return ApplyResult(Applied.FAILED, error=IntegrityError(message), reason=message)
    if attempt.number < floor:
        return ApplyResult(Applied.REJECTED, floor=floor, reason="the attempt was closed")
    return None
