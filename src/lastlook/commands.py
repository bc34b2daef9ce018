"""What the protocol asks its driver to do: it touches no clock, socket, thread or random number itself.

Commands are not frozen, since a frozen one costs as much to make as the unchanged look itself; nobody changes one.
They are no dataclasses, each of which costs a third of a millisecond when it is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Generator
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
    "Poll",
    "Protocol",
    "Read",
    "T",
    "Transit",
    "Weed",
]

T = TypeVar("T")

Protocol: TypeAlias = "Generator[Command, Any, T]"
"""A piece of the protocol: it yields commands, is sent what became of each, and returns a T."""


class _Command:
    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__slots__)
        return f"{type(self).__name__}({parts})"


class Load(_Command):
    """Give the stored intent, or None."""

    __slots__ = ("intent_id",)

    def __init__(self, intent_id: str) -> None:
        self.intent_id = intent_id


class Observe(_Command):
    """Read all of a plan's evidence anew: its cells."""

    __slots__ = ("plan",)

    def __init__(self, plan: Plan) -> None:
        self.plan = plan


class FindRow(_Command):
    """Give the intent's row at its target, or None."""

    __slots__ = ("record",)

    def __init__(self, record: IntentRecord) -> None:
        self.record = record


class Read(_Command):
    """Read these addresses: one observation each, in order, one batch per system."""

    __slots__ = ("addresses",)

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        self.addresses = addresses


class Judge(_Command):
    """Call these validators: for each judgement's key, True, False or why it gave neither."""

    __slots__ = ("judgements", "pins")

    def __init__(self, judgements: tuple[Judgement, ...], pins: frozenset[Pin]) -> None:
        self.judgements = judgements
        self.pins = pins


class Now(_Command):
    """Give the gate's present moment, aware."""

    __slots__ = ()


class Create(_Command):
    """Store a proposal, superseding another in the same transaction if there is one."""

    __slots__ = ("record", "supersedes")

    def __init__(self, record: IntentRecord, supersedes: Append | None) -> None:
        self.record = record
        self.supersedes = supersedes


class Transit(_Command):
    """Make a state transition in the store."""

    __slots__ = ("append",)

    def __init__(self, append: Append) -> None:
        self.append = append


class Poll(_Command):
    """Give the pending intents that were stored since a mark: `News`."""

    __slots__ = ("after",)

    def __init__(self, after: int) -> None:
        self.after = after


class Weed(_Command):
    """Give those of these intents that have ended, or are not in the store."""

    __slots__ = ("intent_ids",)

    def __init__(self, intent_ids: Collection[str]) -> None:
        self.intent_ids = intent_ids


class Apply(_Command):
    """Let the effect's target apply an attempt; with a journal, in one transaction with its record."""

    __slots__ = ("attempt", "journal", "plan")

    def __init__(self, plan: Plan, attempt: Attempt, journal: Journal | None) -> None:
        self.plan = plan
        self.attempt = attempt
        self.journal = journal


class Close(_Command):
    """Ask the target to close an attempt."""

    __slots__ = ("attempt", "record")

    def __init__(self, record: IntentRecord, attempt: int) -> None:
        self.record = record
        self.attempt = attempt


class Pause(_Command):
    """Wait a little, in seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


Command = Load | Observe | FindRow | Read | Judge | Now | Create | Transit | Poll | Weed | Apply | Close | Pause
