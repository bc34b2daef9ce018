"""The registry of validators: what an expression cannot say, said in Python, registered by name and version and pinned.

A premise records its validators' name, version, parameters and a digest of their source, and is judged only by what is
registered here under that pin; nothing is ever imported by name. The digest finds forgotten version bumps, not
attackers: the registry is trusted.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import textwrap
import threading
from typing import TYPE_CHECKING, Any, Protocol, cast

from lastlook.canonical import freeze
from lastlook.errors import DeclarationError
from lastlook.expressions import Expr, call_node, literal
from lastlook.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastlook.expressions import Judgement

__all__ = ["REGISTRY", "TIMEOUT", "Registered", "Registry", "Validator", "judge", "judge_async", "validator"]

TIMEOUT = dt.timedelta(seconds=5)
"""How long a validator may take that does not say."""


class Validator(Protocol):
    """A registered validator: called with expressions it gives a condition, to be used in a premise."""

    def __call__(self, *evidence: Any, **parameters: Any) -> Expr[bool]:
        """The condition that the validator holds for this evidence, under these constant parameters."""
        ...


class Registered(Frozen):
    """A registered validator.

    Attributes:
        source: a digest of its source text, or of the declared revision.
        judges: older versions whose premises it may judge; they then always run.
        reads_clock: it is given `now`, and its premises always run.
        timeout: after this it counts as unavailable; a synchronous one cannot be stopped and runs on in its thread.
    """

    name: str
    version: str
    source: str
    function: Callable[..., Any]
    judges: frozenset[str]
    reads_clock: bool
    timeout: dt.timedelta
    is_async: bool


class Registry:
    """Validators by name and version. `generation` moves with every change, so that plans can tell."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Registered] = {}
        self.generation = 0

    def add(self, registered: Registered) -> None:
        """Register a validator.

        Raises:
            DeclarationError: another validator of the same name and version has other source.
        """
        pin = (registered.name, registered.version)
        known = self._known.get(pin)
        if known is not None and known.source != registered.source:
            raise DeclarationError(
                f"validator {registered.name!r} version {registered.version!r} is already registered with other "
                "source: give the new one a new version"
            )
        self._known[pin] = registered
        self.generation += 1

    def remove(self, name: str, version: str) -> Registered | None:
        """Forget a validator; for tests of what happens without it."""
        self.generation += 1
        return self._known.pop((name, version), None)

    def pinned(self, name: str, version: str, source: str) -> Registered | None:
        """The validator of exactly this pin, or None."""
        known = self._known.get((name, version))
        return known if known is not None and known.source == source else None

    def current(self, name: str, version: str) -> Registered | None:
        """The validator registered under this name and version now."""
        return self._known.get((name, version))

    def find(self, name: str, version: str, source: str) -> Registered | str:
        """Who may judge a premise of this pin: the pinned one, or a newer one that says so; else why nobody may."""
        known = self._known.get((name, version))
        if known is not None:
            if known.source == source:
                return known
            return f"validator {name!r} version {version!r} has other source than when the premise was recorded"
        for other in self._known.values():
            if other.name == name and version in other.judges:
                return other
        return f"validator {name!r} version {version!r} is not registered in this process"


REGISTRY = Registry()
"""The registry of this process."""


def validator(
    name: str,
    /,
    *,
    version: str,
    judges: Sequence[str] = (),
    reads_clock: bool = False,
    timeout: dt.timedelta = TIMEOUT,
    revision: str | None = None,
) -> Callable[[Callable[..., Any]], Validator]:
    """Register a function as a validator, usable in premises: `block_unless(within(arg.amount, policy.limit))`.

    The function gets the values of the expressions it is called with, in order, frozen; constants given by keyword are
    its parameters and are pinned. It must return True or False themselves: anything else, an exception or a timeout
    makes its premise unverifiable.

    Args:
        name: the name under which premises pin it.
        version: to be raised whenever its meaning changes.
        judges: older versions whose premises this one may judge.
        reads_clock: its truth moves with time: it is given `now=` (aware) and runs at every gate.
        timeout: how long it may take; a synchronous validator runs in a thread and cannot be stopped.
        revision: stands for the source where there is none to read (a REPL, a frozen application).

    Raises:
        DeclarationError: no source and no revision, or the name and version are taken by other source.
    """

    def register(function: Callable[..., Any]) -> Validator:
        registered = Registered(
            name=name,
            version=version,
            source=_source(function, name, revision),
            function=function,
            judges=frozenset(judges),
            reads_clock=reads_clock,
            timeout=timeout,
            is_async=inspect.iscoroutinefunction(function),
        )
        REGISTRY.add(registered)

        def condition(*evidence: Any, **parameters: Any) -> Expr[bool]:
            frozen: dict[str, Any] = {}
            for key, value in parameters.items():
                if isinstance(value, Expr):
                    raise DeclarationError(
                        f"validator {name!r} got an expression as parameter {key!r}: "
                        "pass evidence by position, constants by keyword"
                    )
                frozen[key] = freeze(value, path=key)
            arguments = tuple(_expression(item) for item in evidence)
            return call_node(name, version, frozen, arguments)

        condition.__name__ = condition.__qualname__ = getattr(function, "__name__", name)
        condition.__doc__ = function.__doc__
        return condition

    return register


def _expression(item: object) -> Expr[Any]:
    return cast("Expr[object]", item) if isinstance(item, Expr) else literal(item)


def judge(registered: Registered, judgement: Judgement, now: dt.datetime) -> bool | str:
    """Run a synchronous validator under its timeout: True, False, or why it gave neither.

    An exception that is no `Exception` (an interrupt) is raised on.
    """
    answer: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(_call(registered, judgement, now))
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread below
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True, name=f"lastlook-validator-{registered.name}")
    thread.start()
    thread.join(registered.timeout.total_seconds())
    if failure:
        return _raised(registered, failure[0])
    if not answer:
        return _late(registered)
    return _verdict(registered, answer[0])


async def judge_async(registered: Registered, judgement: Judgement, now: dt.datetime) -> bool | str:
    """As `judge`, for a gate on an event loop; a synchronous validator runs in a thread there too."""
    if not registered.is_async:
        return await asyncio.to_thread(judge, registered, judgement, now)
    try:
        async with asyncio.timeout(registered.timeout.total_seconds()):
            answer = await _call(registered, judgement, now)
    except TimeoutError:
        return _late(registered)
    except Exception as error:  # noqa: BLE001 - whatever it raises, its premise is unverifiable
        return _raised(registered, error)
    return _verdict(registered, answer)


def _call(registered: Registered, judgement: Judgement, now: dt.datetime) -> Any:
    clock = {"now": now} if registered.reads_clock else {}
    return registered.function(*judgement.values, **judgement.params, **clock)


def _verdict(registered: Registered, answer: object) -> bool | str:
    if answer is True or answer is False:
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    return f"validator {registered.name!r} returned {type(answer).__name__}, not True or False"


def _raised(registered: Registered, error: BaseException) -> str:
    if not isinstance(error, Exception):
        raise error
    return f"validator {registered.name!r} raised {type(error).__name__}"


def _late(registered: Registered) -> str:
    return f"validator {registered.name!r} took longer than {registered.timeout.total_seconds():g} s"


def _source(function: Callable[..., Any], name: str, revision: str | None) -> str:
    if revision is not None:
        return f"revision:{revision}"
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise DeclarationError(
            f"validator {name!r} has no source to pin: give it revision='...' and raise that with every change"
        ) from error
    import hashlib  # dear to import, and not needed to declare an effect

    return "sha256:" + hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()
