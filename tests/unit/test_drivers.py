"""The asynchronous driver: whoever steps in is awaited, and a command's failure reaches the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from systems import AsyncShop

from lastlook import Applied, Change, LastlookError, Outcome
from lastlook.commands import Apply, Load, Now, Transit
from lastlook.events import ClosureComputed, PremiseChecked
from lastlook.ports import ApplyResult
from lastlook.testing import events, failpoint, interpose


def test_a_hint_that_reaches_nothing() -> None:
    """A protocol that needs no command at all ends at once."""
    shop = AsyncShop()

    async def run() -> None:
        with events(shop.gate) as seen:
            assert await shop.gate.affected(Change("policies", "refund")) == []
        assert [type(event) for event in seen] == [ClosureComputed]

    asyncio.run(run())


def test_an_awaited_change_between_look_and_effect() -> None:
    """A change that has to be awaited lands in the window, and the effect is refused there and looked at anew."""
    shop = AsyncShop()

    async def change() -> None:
        await asyncio.sleep(0)
        shop.world.change("policies", "refund", limit=1)

    async def run() -> None:
        intent = await shop.refund.propose("o-1", amount=80)
        with interpose(shop.gate, change), events(shop.gate) as seen:
            verdict = await shop.gate(intent)
        assert (verdict.outcome, verdict.applied) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED)
        assert [event.holds for event in seen if isinstance(event, PremiseChecked)] == [False]

    asyncio.run(run())
    assert shop.ran == []


def test_a_reply_is_replaced() -> None:
    """What steps in after a command answers in its place: here that the target was busy, once."""
    shop = AsyncShop()
    busy = [ApplyResult(Applied.BUSY)]

    def replace(_: Apply, reply: Any) -> Any:
        return busy.pop() if busy else reply

    async def run() -> None:
        intent = await shop.refund.propose("o-1", amount=80)
        with failpoint(shop.gate, Apply, after=replace):
            assert (await shop.gate(intent)).committed

    asyncio.run(run())


class Lost(LastlookError):
    """The store cannot be reached."""


def test_a_command_that_fails() -> None:
    """A command's failure reaches the protocol: one that it does not answer for comes out, one of an apply does not."""
    shop = AsyncShop()

    def lose(_: object) -> None:
        raise Lost

    async def run() -> None:
        intent = await shop.refund.propose("o-1", amount=80)
        with failpoint(shop.gate, Load, before=lose), pytest.raises(Lost):
            await shop.gate(intent)
        lost = [Lost()]

        def lose_once(_: object) -> None:
            if lost:
                raise lost.pop()

        with failpoint(shop.gate, Apply, before=lose_once):
            verdict = await shop.gate(intent)
        assert verdict.committed
        with failpoint(shop.gate, Now, before=lose):
            assert (await shop.gate(intent)).result() == "refunded o-1"

    asyncio.run(run())
    assert shop.ran == [80]


def test_a_commit_that_cannot_be_recorded_yet() -> None:
    """Once the target has said so, COMMITTED is the answer, with the error that kept it from being recorded."""
    shop = AsyncShop(separate=True)

    def lose(command: Transit) -> None:
        if command.append.kind == "COMMITTED":
            raise Lost

    async def run() -> None:
        intent = await shop.refund.propose("o-1", amount=80)
        with failpoint(shop.gate, Transit, before=lose):
            verdict = await shop.gate(intent)
        assert verdict.committed
        assert isinstance(verdict.error, Lost)
        assert (await shop.gate(intent)).result() == "refunded o-1"

    asyncio.run(run())
    assert shop.ran == [80]
