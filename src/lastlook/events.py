"""Typed events: what the protocol did, step by step, so that a test can assert exactly which premises ran.

Events tell; they never decide. A gate hands each one to its listeners as it happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lastlook.errors import Applied, Outcome
    from lastlook.records import State

__all__ = [
    "ApplyAnswered",
    "AttemptClosed",
    "AttemptOpened",
    "ClosureComputed",
    "Event",
    "IntentProposed",
    "LookTaken",
    "OutcomeDecided",
    "PremiseChecked",
    "ProposalRefused",
    "ReadChanged",
    "StateChanged",
]


@dataclass(frozen=True, slots=True)
class ProposalRefused:
    """A premise was untrue when the effect was proposed; nothing was stored."""

    effect: str
    outcome: Outcome
    premises: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IntentProposed:
    """An intent was stored; `unproven` are the premises not known to have held."""

    intent_id: str
    effect: str
    unproven: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookTaken:
    """All required evidence of an intent was read anew."""

    intent_id: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadChanged:
    """A recorded piece of evidence differs from what was recorded."""

    intent_id: str
    place: str


@dataclass(frozen=True, slots=True)
class PremiseChecked:
    """A premise ran; `holds` is None if it could not be verified."""

    intent_id: str
    premise: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class OutcomeDecided:
    """The dominating outcome of one validation."""

    intent_id: str
    outcome: Outcome
    trigger: Literal["PRE_EFFECT", "PREVIEW", "EVENT", "PROPOSE"]


@dataclass(frozen=True, slots=True)
class ClosureComputed:
    """A change hint was followed through the index: the nodes visited, and the pending intents reached."""

    change: str
    nodes: tuple[str, ...]
    intents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttemptOpened:
    """An attempt is about to be made; in the same-engine form it opens and ends in one transaction."""

    intent_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ApplyAnswered:
    """The target answered an attempt."""

    intent_id: str
    attempt: int
    applied: Applied


@dataclass(frozen=True, slots=True)
class AttemptClosed:
    """The target was asked to close an attempt."""

    intent_id: str
    attempt: int
    applied: Applied


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The store accepted a transition."""

    intent_id: str
    kind: str
    state: State


Event = (
    ProposalRefused
    | IntentProposed
    | LookTaken
    | ReadChanged
    | PremiseChecked
    | OutcomeDecided
    | ClosureComputed
    | AttemptOpened
    | ApplyAnswered
    | AttemptClosed
    | StateChanged
)
