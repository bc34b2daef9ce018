"""Typed events: what the protocol did, step by step, so that a test can assert exactly which premises ran.

Events tell; they never decide. A gate hands each one to its listeners as it happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lastlook.frozen import Frozen

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


class ProposalRefused(Frozen):
    """A premise was untrue when the effect was proposed; nothing was stored."""

    effect: str
    outcome: Outcome
    premises: tuple[str, ...]


class IntentProposed(Frozen):
    """An intent was stored; `unproven` are the premises not known to have held."""

    intent_id: str
    effect: str
    unproven: tuple[str, ...]


class LookTaken(Frozen):
    """All required evidence of an intent was read anew."""

    intent_id: str
    places: tuple[str, ...]


class ReadChanged(Frozen):
    """A recorded piece of evidence differs from what was recorded."""

    intent_id: str
    place: str


class PremiseChecked(Frozen):
    """A premise ran; `holds` is None if it could not be verified."""

    intent_id: str
    premise: str
    holds: bool | None


class OutcomeDecided(Frozen):
    """The dominating outcome of one validation."""

    intent_id: str
    outcome: Outcome
    trigger: Literal["PRE_EFFECT", "PREVIEW", "EVENT", "PROPOSE"]


class ClosureComputed(Frozen):
    """A change hint was followed through the index: the nodes visited, and the pending intents reached."""

    change: str
    nodes: tuple[str, ...]
    intents: tuple[str, ...]


class AttemptOpened(Frozen):
    """An attempt is about to be made; in the same-engine form it opens and ends in one transaction."""

    intent_id: str
    attempt: int


class ApplyAnswered(Frozen):
    """The target answered an attempt."""

    intent_id: str
    attempt: int
    applied: Applied


class AttemptClosed(Frozen):
    """The target was asked to close an attempt."""

    intent_id: str
    attempt: int
    applied: Applied


class StateChanged(Frozen):
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
