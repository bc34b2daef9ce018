"""What the protocol asks its driver to do: it touches no clock, socket, thread or random number itself.

Commands are not frozen, since a frozen one costs as much to make as the unchanged look itself; nobody changes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from lastlook.contract import Pin
    from lastlook.expressions import Judgement
    from lastlook.plan import Plan
    from lastlook.ports import Append, Attempt, Journal
    from lastlook.records import Address, IntentRecord

__all__ = [
    "Apply",
    "Close",
    "Command",
    "Create",
    "FindRow",
    "Judge",
    "Load",
    "Now",
    "Observe",
    "Pause",
    "Protocol",
    "Read",
    "T",
    "Transit",
]

T = TypeVar("T")

Protocol: TypeAlias = "Generator[Command, Any, T]"
"""A piece of the protocol: it yields commands, is sent what became of each, and returns a T."""


@dataclass(slots=True, eq=False)
class Load:
    """Give the stored intent, or None."""

    intent_id: str


@dataclass(slots=True, eq=False)
class Observe:
    """Read all of a plan's evidence anew: its cells."""

    plan: Plan


@dataclass(slots=True, eq=False)
class FindRow:
    """Give the intent's row at its target, or None."""

    record: IntentRecord


@dataclass(slots=True, eq=False)
class Read:
    """Read these addresses: one observation each, in order, one batch per system."""

    addresses: tuple[Address, ...]


@dataclass(slots=True, eq=False)
class Judge:
    """Call these validators: for each judgement's key, True, False or why it gave neither."""

    judgements: tuple[Judgement, ...]
    pins: frozenset[Pin]


@dataclass(slots=True, eq=False)
class Now:
    """Give the gate's present moment, aware."""


@dataclass(slots=True, eq=False)
class Create:
    """Store a proposal, superseding another in the same transaction if there is one."""

    record: IntentRecord
    supersedes: Append | None


@dataclass(slots=True, eq=False)
class Transit:
    """Make a state transition in the store."""

    append: Append


@dataclass(slots=True, eq=False)
class Apply:
    """Let the effect's target apply an attempt; with a journal, in one transaction with its record."""

    plan: Plan
    attempt: Attempt
    journal: Journal | None


@dataclass(slots=True, eq=False)
class Close:
    """Ask the target to close an attempt."""

    record: IntentRecord
    attempt: int


@dataclass(slots=True, eq=False)
class Pause:
    """Wait a little, in seconds."""

    seconds: float


Command = Load | Observe | FindRow | Read | Judge | Now | Create | Transit | Apply | Close | Pause
