"""The target of an effect that acts through a plain function: nothing checks its evidence, and nothing can close it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lastlook.errors import Applied, Declined
from lastlook.ports import ApplyResult, Capabilities, CloseResult, Fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.ports import Attempt, Clock, Journal, Store
    from lastlook.records import Address, EffectRow, Observation, Token

__all__ = ["FunctionPermit", "FunctionTarget"]

_CAPABILITIES = Capabilities(
    durable=False, rolls_back=False, closes=False, checks_absence=False, checks_collections=False
)


class FunctionPermit:
    """What the body of such an effect gets.

    Attributes:
        key: the attempt's idempotency key, to be handed to whatever takes one.
        fresh: the refresh fields as the gate last read them, by place.
    """

    __slots__ = ("fresh", "key")

    def __init__(self, key: str, fresh: Mapping[str, Value]) -> None:
        self.key = key
        self.fresh = fresh


class FunctionTarget:
    """Runs a body once and believes what it says: any exception but `Declined` leaves the effect unknown."""

    kinds: frozenset[str] = frozenset()
    capabilities = _CAPABILITIES

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock

    def can_check(self, _: str, /) -> bool:
        """Nothing."""
        return False

    def can_check_token(self, _: Token, /) -> bool:
        """None."""
        return False

    def fields(self, _: str, /) -> Fields:
        """None: it answers for no kind."""
        return Fields(frozenset(), complete=True)

    def is_public(self, _kind: str, _field: str, /) -> bool:
        """Nothing is."""
        return False

    def read_many(self, _: Sequence[Address], /) -> Sequence[Observation]:
        """Nothing is read from it."""
        return ()

    def shares_engine(self, _: Store, /) -> bool:
        """Never: the attempt is durable before the function is called."""
        return False

    def effect_row(self, _: str, /) -> EffectRow | None:
        """There is none."""
        return None

    def apply(self, attempt: Attempt, _: Journal | None, /) -> ApplyResult:
        """Call the function."""
        if self._is_late(attempt):
            return _LATE
        try:
            value = attempt.body(FunctionPermit(attempt.key, attempt.fresh))
        except Exception as error:  # noqa: BLE001 - nobody can say how far it came
            return _failed(error)
        return _done(attempt, value)

    async def apply_async(self, attempt: Attempt, _: Journal | None, /) -> ApplyResult:
        """Call and await the function."""
        if self._is_late(attempt):
            return _LATE
        try:
            value = await attempt.body(FunctionPermit(attempt.key, attempt.fresh))
        except Exception as error:  # noqa: BLE001 - nobody can say how far it came
            return _failed(error)
        return _done(attempt, value)

    def _is_late(self, attempt: Attempt) -> bool:
        """Nobody else can check the deadline, so it is checked right before the call."""
        return attempt.not_after is not None and self._clock.now() > attempt.not_after

    def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """Nobody can say."""
        return CloseResult(Applied.UNKNOWN, reason=f"nobody can say what became of attempt {attempt} of {intent_id}")


_LATE = ApplyResult(Applied.REJECTED, reason="the permission ended before the function was called")


def _failed(error: Exception) -> ApplyResult:
    if isinstance(error, Declined):
        return ApplyResult(Applied.FAILED, error=error, reason=str(error) or "declined")
    return ApplyResult(Applied.UNKNOWN, error=error, reason=f"the function raised {type(error).__name__}")


def _done(attempt: Attempt, value: Any) -> ApplyResult:
    try:
        stored = attempt.encode(value)
    except Exception:  # noqa: BLE001 - whatever the conversion raises comes after the effect
        stored = None  # it has happened: a result that cannot be stored is stored as absent
    return ApplyResult(Applied.COMMITTED, value=value, stored=stored)
