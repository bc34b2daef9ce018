"""For users' own tests: step in between look and effect, watch what ran, set the clock, take a validator away."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any

from lastlook.commands import Apply, Command
from lastlook.drivers import Tap
from lastlook.errors import UnknownIntent
from lastlook.validators import REGISTRY
from lastlook.wanted import mistaken

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from lastlook.events import Event
    from lastlook.gate import AsyncGate, Gate
    from lastlook.verdicts import Intent

__all__ = ["FakeClock", "events", "failpoint", "forget_edges", "interpose", "without_validator"]


@contextlib.contextmanager
def interpose(gate: Gate | AsyncGate, change: Callable[[], Any], /) -> Generator[None]:
    """Call `change` once, in the window between the gate's look and the effect: the race, without sleeps."""
    pending = [change]

    def before(command: Command) -> Any:
        if isinstance(command, Apply) and pending:
            return pending.pop()()
        return None

    tap = _tap(gate, "interpose(gate, change)")
    with tap.listed(tap.before, before):
        yield


@contextlib.contextmanager
def failpoint(
    gate: Gate | AsyncGate,
    command: type[Any],
    /,
    *,
    before: Callable[[Any], Any] | None = None,
    after: Callable[[Any, Any], Any] | None = None,
) -> Generator[None]:
    """Step in at a command of the protocol (`lastlook.commands`): raise before it, or replace its reply after it.

    What `after` returns is the reply; an exception of either reaches the protocol as the command's failure, and one
    that is no `Exception` ends the gate as a crash would.
    """

    def step_in(at: Command) -> Any:
        return before(at) if before is not None and isinstance(at, command) else None

    def step_out(at: Command, reply: Any) -> Any:
        return after(at, reply) if after is not None and isinstance(at, command) else reply

    tap = _tap(gate, "failpoint(gate, command)")
    with tap.listed(tap.before, step_in), tap.listed(tap.after, step_out):
        yield


@contextlib.contextmanager
def events(gate: Gate | AsyncGate, /) -> Generator[list[Event]]:
    """The events of a gate while this lasts: exactly which premises ran, which nodes were visited, what was applied."""
    found: list[Event] = []
    tap = _tap(gate, "events(gate)")
    with tap.listed(tap.listeners, found.append):
        yield found


def _tap(gate: Any, where: str) -> Tap:
    tap = getattr(gate, "_tap", None)
    if not isinstance(tap, Tap):
        raise mistaken(where, gate, "give it a Gate or an AsyncGate")
    return tap


class FakeClock:
    """A clock that moves only when it is told to, or slept on.

    Args:
        start: the first moment, aware; a fixed one if not given.
    """

    def __init__(self, start: dt.datetime | None = None) -> None:
        self._now = start or dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def now(self) -> dt.datetime:
        """The moment it stands at."""
        return self._now

    def advance(self, span: dt.timedelta) -> None:
        """Move it, also backwards."""
        self._now += span

    def sleep(self, seconds: float) -> None:
        """Move it instead of waiting."""
        self.advance(dt.timedelta(seconds=seconds))


@contextlib.contextmanager
def without_validator(name: str, version: str, /) -> Generator[None]:
    """A process in which a validator is not registered."""
    removed = REGISTRY.remove(name, version)
    try:
        yield
    finally:
        if removed is not None:
            REGISTRY.remove(name, version)
            REGISTRY.add(removed)


def forget_edges(gate: Gate | AsyncGate, intent: Intent[Any], /) -> None:
    """Lose an intent's reads from the gate's index, as a faulty index would: hints no longer reach it.

    Raises:
        UnknownIntent: it is not pending here.
    """
    runtime = gate._runtime()  # noqa: SLF001 - the gate's seam for this module
    plan = runtime.plans.get(intent.id)
    if plan is None:
        raise UnknownIntent(f"intent {intent.id!r} is not pending at this gate")
    runtime.index.forget_edges(plan.record)
