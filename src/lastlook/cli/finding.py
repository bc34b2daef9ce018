"""From what a command was given to what it is about: the gate, the store, the intent."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from lastlook.errors import LastlookError
from lastlook.gate import AsyncGate, Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from lastlook.ports import Store

__all__ = ["LEAST", "Mistake", "Place", "find_gate", "find_intent", "opened", "places"]

LEAST = 6
"""The least characters of an id that stand for it."""
_NAMED = 5
"""How many candidates a message names."""


class Mistake(Exception):
    """A mistake in the use of the command."""


class Place:
    """Where the intents are that a command is about.

    Attributes:
        named: how it was named.
        gate: the gate, or None where only a store was named.
        store: where the intents live.
        wait: makes an answer of what a gate or a store gave, which may have to be awaited.
    """

    def __init__(self, named: str, gate: Gate | AsyncGate | None, store: Store, wait: Callable[[Any], Any]) -> None:
        self.named = named
        self.gate = gate
        self.store = store
        self.wait = wait

    def verify(self, intent_id: str) -> None:
        """Recompute an intent's chain.

        Raises:
            IntegrityError: it is damaged.
        """
        verify: Callable[[str], Any] = self.store.verify
        self.wait(verify(intent_id))


def find_gate(where: str) -> Gate | AsyncGate:
    """The gate at MODULE:GATE; importing the module may run any code of it.

    Raises:
        Mistake: there is no such module, or no such gate in it.
    """
    module_name, colon, name = where.partition(":")
    if not colon or not module_name or not name:
        raise Mistake(f"{where!r} names no gate: write MODULE:GATE, such as shop.refunds:gate")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except LastlookError:
        raise
    except ModuleNotFoundError as error:
        raise Mistake(f"no module {error.name!r}: run this from the folder that holds it, or install it") from error
    except Exception as error:
        raise Mistake(f"importing {module_name!r} raised {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if isinstance(found, (Gate, AsyncGate)):
        return found
    gates = sorted(key for key, value in vars(module).items() if isinstance(value, (Gate, AsyncGate)))
    hint = f": it has {', '.join(gates)}" if gates else ", and no gate at all"
    raise Mistake(f"{module_name!r} has no gate {name!r}{hint}")


def places(
    options: Any, *, store: bool, intent: Literal["none", "optional", "required"]
) -> tuple[str | None, str | None]:
    """The MODULE:GATE and the INTENT among the names that a command was given; None where there is none.

    Args:
        options: the command's; with `names`, and with `store` for the URL of a store.
        store: whether a store's URL may stand for the gate.
        intent: whether an intent has to be named.

    Raises:
        Mistake: too little was named, or too much.
    """
    names: list[str] = list(options.names)
    where = names.pop(0) if names and options.store is None else None
    if where is None and options.store is None:
        raise Mistake("no gate named: write MODULE:GATE, such as shop.refunds:gate" + (", or --store URL" * store))
    if options.store is not None and names and ":" in names[0]:
        raise Mistake("name one place: MODULE:GATE or --store URL, not both")
    chosen = names.pop(0) if names and intent != "none" else None
    if chosen is None and intent == "required":
        raise Mistake(f"no intent named: give its id, or the first {LEAST} characters of it")
    if names:
        raise Mistake(f"too many names: there is no place for {', '.join(map(repr, names))}")
    return where, chosen


@contextlib.contextmanager
def opened(where: str | None, store_url: str | None) -> Generator[Place]:
    """The place that MODULE:GATE or a store's URL names, for as long as a command works on it.

    Raises:
        LastlookError: there is no such gate, it is not connected, or there is no such store.
    """
    if store_url is not None:
        from lastlook.store.sql import SqlStore  # dear to import

        with contextlib.closing(SqlStore(store_url)) as opened_store:
            yield Place("this store", None, cast("Store", opened_store), lambda answer: answer)
        return
    named = str(where)
    gate = find_gate(named)
    runtime = gate._runtime()  # noqa: SLF001 - the command is the library's own
    store = runtime.store
    if not store.durable:
        print(
            f"lastlook: {named} keeps its intents in memory, so there is nothing to show but what this process itself "
            "proposed: give the gate a durable store=",
            file=sys.stderr,
        )
    with asyncio.Runner() as runner:

        def wait(answer: Any) -> Any:
            return runner.run(_awaited(answer)) if inspect.isawaitable(answer) else answer

        try:
            yield Place(named, gate, store, wait)
        finally:
            # The connections of an asynchronous engine belong to this runner's loop, and would outlive it.
            for part in (store, *dict.fromkeys(runtime.systems.values())):
                dispose = getattr(getattr(part, "engine", None), "dispose", None)
                if inspect.iscoroutinefunction(dispose):
                    wait(dispose())


async def _awaited(answer: Any) -> Any:
    return await answer


def find_intent(place: Place, given: str) -> str:
    """The id that an id, or the beginning of one, stands for.

    Raises:
        Mistake: it is too short, or no intent's, or that of several.
    """
    beginning = given.strip().lower()
    if len(beginning) < LEAST:
        raise Mistake(f"{given!r} is too short to name an intent: give {LEAST} characters of its id or more")
    found: list[str] = list(itertools.islice(place.wait(place.store.intents(beginning)), _NAMED + 1))
    if len(found) == 1:
        return found[0]
    if not found:
        raise Mistake(f"no intent of {place.named} has an id that begins with {beginning!r}")
    several = ", ".join(found[:_NAMED]) + (", and others" if len(found) > _NAMED else "")
    raise Mistake(f"{beginning!r} is the beginning of several ids: {several}")
