"""Reading evidence: one batch per system, and whatever a system raises or answers, one frozen cell for each address."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, cast

from lastlook.canonical import freeze
from lastlook.memory import Memory
from lastlook.ports import Unreadable
from lastlook.records import Observation, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lastlook.ports import System
    from lastlook.records import Address

__all__ = ["reader_of"]


def reader_of(
    find: Callable[[str], System | None], addresses: Sequence[Address], *, asynchronous: bool
) -> Callable[[], Any]:
    """A read of these addresses that gives one cell for each, in order; an awaitable of them if a system is awaited.

    A system that fails makes its own addresses unreadable, and no others.
    """
    grouped: dict[int, tuple[System | None, list[int]]] = {}
    for number, address in enumerate(addresses):
        system = find(address.kind)
        grouped.setdefault(id(system), (system, []))[1].append(number)
    parts = [
        (numbers, _guarded(system, [addresses[number] for number in numbers], asynchronous=asynchronous))
        for system, numbers in grouped.values()
    ]
    if len(parts) == 1:
        return parts[0][1]
    return functools.partial(_gather, len(addresses), parts)


def _guarded(system: System | None, addresses: list[Address], *, asynchronous: bool) -> Callable[[], Any]:
    """One batched read of a system: whatever it raises or answers, there is one frozen cell for each address."""
    if system is None:
        missing = tuple(Unreadable(f"no system answers for {address.kind!r}") for address in addresses)
        return lambda: missing
    if isinstance(system, Memory):
        return system.reader(addresses)
    count = len(addresses)
    compiled: Callable[[Sequence[Address]], Callable[[], Any]] | None = getattr(system, "reader", None)

    def failed(error: Exception) -> tuple[Unreadable, ...]:
        return (Unreadable(f"{system.name} could not be read ({type(error).__name__})"),) * count

    def checked(found: Any) -> tuple[Any, ...]:
        cells = tuple(found)
        if len(cells) != count:
            raise ValueError(f"{len(cells)} observations for {count} addresses")
        return tuple(_frozen(cell) for cell in cells)

    async def later(found: Any) -> tuple[Any, ...]:
        try:
            return checked(await found)
        except Exception as error:  # noqa: BLE001 - whatever a system raises, its evidence is unreadable
            return failed(error)

    try:
        # A system may compile a fixed list of addresses once, as `reader(addresses)`, for as often as it is read.
        read: Callable[[], Any] = (
            functools.partial(system.read_many, addresses) if compiled is None else compiled(addresses)
        )
    except Exception as error:  # noqa: BLE001 - as above
        unread = failed(error)
        return lambda: unread

    def guarded() -> Any:
        try:
            found: Any = read()
            if not inspect.isawaitable(found):
                return checked(found)
            if not asynchronous:
                getattr(found, "close", bool)()
                raise TypeError("it has to be awaited: use AsyncGate")
        except Exception as error:  # noqa: BLE001 - as above
            return failed(error)
        return later(found)

    return guarded


def _frozen(cell: Any) -> Observation | Unreadable:
    """What a system answered for one address, deep-frozen; what is frozen already is kept, with its identity."""
    if isinstance(cell, Unreadable):
        return cell
    if type(cell) is not Observation or type(cell.token) is not Token:
        return Unreadable(f"the system answered with {type(cell).__name__}, not with an observation and its token")
    value = freeze(cell.value)
    return cell if value is cell.value else Observation(cast("Any", value), cell.token)


def _gather(size: int, parts: list[tuple[list[int], Callable[[], Any]]]) -> Any:
    found: list[Any] = [None] * size
    later: list[tuple[list[int], Any]] = []
    for numbers, read in parts:
        cells = read()
        if inspect.isawaitable(cells):
            later.append((numbers, cells))
            continue
        for number, cell in zip(numbers, cells, strict=True):
            found[number] = cell
    return _gather_later(found, later) if later else tuple(found)


async def _gather_later(found: list[Any], later: list[tuple[list[int], Any]]) -> tuple[Any, ...]:
    for numbers, cells in later:
        for number, cell in zip(numbers, await cells, strict=True):
            found[number] = cell
    return tuple(found)
