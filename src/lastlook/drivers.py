"""How a protocol is run: synchronously or on an event loop, with whoever listens or steps in.

The two drivers differ in one word: the asynchronous one awaits what a command's execution returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from typing import TYPE_CHECKING, Any, Protocol

from lastlook.commands import Apply
from lastlook.errors import EffectNotBound

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from lastlook.commands import Command
    from lastlook.commands import Protocol as Steps
    from lastlook.events import Event
    from lastlook.protocol import Scene

__all__ = ["IN_BODY", "Driven", "Tap", "drive", "drive_async", "in_body", "refuse_nesting"]

IN_BODY: contextvars.ContextVar[str | None] = contextvars.ContextVar("lastlook_in_body", default=None)


in_body = IN_BODY.get
"""The effect whose body runs here, or None."""


def refuse_nesting() -> None:
    """Raise where a gate is used inside an effect's body, whose check it would undo.

    Raises:
        EffectNotBound: always, inside a body.
    """
    name = IN_BODY.get()
    if name is not None:
        raise EffectNotBound(
            f"a gate was called inside the body of {name!r}, where the target is checked and locked: "
            "call it after the body returns"
        )


class Tap:
    """Where tests and tools listen to a gate, and step in at its commands.

    Attributes:
        listeners: called with each event.
        before: called before each command; may raise.
        after: called with each command and its reply; what it returns is the reply.
        active: whether there is any of these.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[Event], None]] = []
        self.before: list[Callable[[Command], Any]] = []
        self.after: list[Callable[[Command, Any], Any]] = []
        self.active = False

    @contextlib.contextmanager
    def listed(self, items: list[Any], item: Any) -> Generator[None]:
        """Put somebody on one of the lists for as long as this lasts."""
        items.append(item)
        self.active = True
        try:
            yield
        finally:
            items.remove(item)
            self.active = bool(self.listeners or self.before or self.after)

    def step(self, command: Command, execute: Mapping[type[Any], Callable[[Any], Any]]) -> Any:
        """Execute a command with whoever steps in before and after it."""
        for before in tuple(self.before):
            before(command)
        reply = execute[type(command)](command)
        for after in tuple(self.after):
            reply = after(command, reply)
        return reply

    def emit(self, event: Event) -> None:
        """Hand an event to every listener."""
        for listener in tuple(self.listeners):
            listener(event)


class Driven(Protocol):
    """What a driver needs to know of a connected gate: how each command is executed, its scene, and its tap."""

    @property
    def execute(self) -> Mapping[type[Any], Callable[[Any], Any]]:
        """What executes each type of command."""
        ...

    @property
    def scene(self) -> Scene:
        """What the protocol knows of the gate."""
        ...

    @property
    def tap(self) -> Tap:
        """Where others listen and step in."""
        ...


def drive(runtime: Driven, protocol: Steps[Any]) -> Any:
    """Run a protocol to its end, executing each command."""
    tap, execute, send = runtime.tap, runtime.execute, protocol.send
    runtime.scene.emit = tap.emit if tap.listeners else None
    step = tap.step if tap.before or tap.after else None
    try:
        command = send(None)
        while True:
            try:
                reply = execute[type(command)](command) if step is None else step(command, execute)
            except Exception as error:  # noqa: BLE001 - the protocol decides what a failed command means
                command = protocol.throw(error)
            else:
                command = send(reply)
    except StopIteration as stop:
        return stop.value
    except BaseException:
        protocol.close()
        raise


async def drive_async(
    runtime: Driven, protocol: Steps[Any], shielded: Callable[[Any], asyncio.Task[Any]] | None = None
) -> Any:
    """As `drive`, awaiting what is awaitable.

    From the first apply on, the rest runs in a task of its own that a cancellation of the caller does not reach: the
    effect's outcome is journaled, whoever still waits for it.
    """
    runtime.scene.emit = runtime.tap.emit if runtime.tap.listeners else None
    owned = True
    try:
        command = next(protocol)
        while True:
            if shielded is not None and isinstance(command, Apply):
                owned = False
                return await asyncio.shield(shielded(_finish(runtime, protocol, command)))
            command = await _step(runtime, protocol, command)
    except StopIteration as stop:
        return stop.value
    except _Ended as ended:
        return ended.value
    finally:
        if owned:
            protocol.close()


async def _finish(runtime: Driven, protocol: Steps[Any], command: Command) -> Any:
    try:
        while True:
            command = await _step(runtime, protocol, command)
    except _Ended as ended:
        return ended.value
    finally:
        protocol.close()


class _Ended(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


async def _step(runtime: Driven, protocol: Steps[Any], command: Command) -> Command:
    tap = runtime.tap
    try:
        for before in tap.before:
            started = before(command)
            if inspect.isawaitable(started):
                await started
        reply = runtime.execute[type(command)](command)
        if inspect.isawaitable(reply):
            reply = await reply
        for after in tap.after:
            reply = after(command, reply)
    except Exception as error:  # noqa: BLE001 - the protocol decides what a failed command means
        failure = error
    else:
        try:
            return protocol.send(reply)
        except StopIteration as stop:
            raise _Ended(stop.value) from None
    try:
        return protocol.throw(failure)
    except StopIteration as stop:
        raise _Ended(stop.value) from None
