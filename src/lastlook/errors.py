"""Outcomes, apply statuses and every exception that lastlook raises.

Messages have one form: what was wrong, where, what to do; lower case, no final period, and never an evidence value that
was not declared public.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lastlook.verdicts import Verdict

__all__ = [
    "Applied",
    "CanonicalError",
    "DeclarationError",
    "Declined",
    "EffectBlocked",
    "EffectContended",
    "EffectNotBound",
    "EffectStopped",
    "EffectUnknown",
    "InFlight",
    "IntegrityError",
    "KeyReused",
    "LastlookError",
    "Outcome",
    "ReplanRequired",
    "Severity",
    "StoreBusy",
    "StoreError",
    "UnknownEffect",
    "UnknownIntent",
]


class Outcome(enum.IntEnum):
    """What the last look decided, in rising dominance (ATR, Table 1): the worst one wins, so `max` combines them."""

    KEEP = 0
    REFRESH = 1
    REPLAN = 2
    BLOCK = 3

    def __init__(self, rank: int) -> None:
        self.permits = rank <= 1
        """Whether the effect may be released: KEEP and REFRESH only."""


Severity = Literal[Outcome.REPLAN, Outcome.BLOCK]
"""What a failed premise demands; a premise of severity KEEP would be none."""


class Applied(enum.Enum):
    """What became of the effect; separate from the outcome, and never inferred from it."""

    NOT_ATTEMPTED = "NOT_ATTEMPTED"
    """Nothing was sent to the target."""
    COMMITTED = "COMMITTED"
    """The target acknowledged the effect."""
    REJECTED = "REJECTED"
    """The target compared and a bound value differed: nothing was applied."""
    BUSY = "BUSY"
    """The target could not take a lock in time: nothing was applied."""
    FAILED = "FAILED"
    """The effect's own error, definite: rolled back or never sent."""
    IN_PROGRESS = "IN_PROGRESS"
    """Another attempt on this intent or on its lane is open."""
    UNKNOWN = "UNKNOWN"
    """Sent, and no answer: it may have happened."""


class LastlookError(Exception):
    """Base of everything that lastlook raises on purpose."""


class CanonicalError(LastlookError, ValueError):
    """A value, a document or a key that has no canonical form; the message names its path."""


class DeclarationError(LastlookError, TypeError):
    """The developer declared something that cannot hold; raised at import or at connect, before any effect."""


class UnknownEffect(LastlookError, LookupError):
    """An intent's effect is not declared in this process."""


class UnknownIntent(LastlookError, LookupError):
    """No intent of that id is in the gate's store."""


class IntegrityError(LastlookError):
    """A stored record is not what was stored: edited, cut, reordered, or from a newer version."""


class StoreError(LastlookError):
    """The store cannot be used: not installed, from a newer version, read-only, full, or no database of lastlook's."""


class StoreBusy(StoreError):
    """Others kept the store locked for too long; nothing was written, and trying again is safe."""


class InFlight(LastlookError):
    """The intent has an open attempt: it cannot be withdrawn or superseded until the target has closed it."""


class KeyReused(LastlookError, ValueError):
    """A call key was used before, with other arguments or for an intent that is dead."""


class EffectNotBound(LastlookError, RuntimeError):
    """The body wrote nothing through its permit, or used the permit outside its release: rolled back."""


class Declined(LastlookError):
    """Raised by a body to say that the remote side refused for certain: FAILED, never UNKNOWN."""


class EffectStopped(LastlookError):
    """The gate did not release the effect, or cannot say that it was.

    Attributes:
        verdict: the whole verdict.
        model_text: what a model may read: reasons and resources, no undeclared values.
        retryable: whether calling again, unchanged, is safe and can help.
    """

    retryable = False

    def __init__(self, verdict: Verdict[Any], model_text: str) -> None:
        super().__init__(model_text)
        self.verdict = verdict
        self.model_text = model_text


class ReplanRequired(EffectStopped):
    """The intent is no longer justified, although the task may still be feasible."""


class EffectBlocked(EffectStopped):
    """A safety, authority, policy or irreversible-effect premise is false or cannot be verified."""


class EffectContended(EffectStopped):
    """Nothing was applied, because others were at work there; calling again is safe."""

    retryable = True


class EffectUnknown(EffectStopped):
    """The effect may have happened; ask by `gate(intent)`, do not call again."""
