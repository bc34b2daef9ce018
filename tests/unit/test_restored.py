"""A store that is restored from a backup under a running process, and goes on with another history."""

from __future__ import annotations

import contextlib
import sqlite3
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from shop import Order, declare, open_shop
from sqlalchemy import create_engine, select
from systems import Shop

from lastlook import Applied, KeyReused, Outcome
from lastlook.commands import Apply
from lastlook.testing import failpoint

if TYPE_CHECKING:
    from pathlib import Path


def stepped(gate: Any, way: str) -> contextlib.AbstractContextManager[Any]:
    """Somebody steps in at the gate's commands, or nobody."""
    return contextlib.nullcontext() if way == "at once" else failpoint(gate, Apply, before=lambda _: None)


@pytest.mark.parametrize("way", ["at once", "step by step"])
def test_a_plan_of_a_lost_history_releases_nothing(tmp_path: Path, way: str) -> None:
    """The proposal that a process remembers was lost, and another has its id: the stored one is what goes out."""
    file = tmp_path / "shop.db"
    first, second = open_shop(file), create_engine(f"sqlite:///{file}")
    gate, refund = declare(first, first)
    backup = sqlite3.connect(tmp_path / "backup.db")
    live = sqlite3.connect(file)
    live.backup(backup)
    mine = refund.options(key="call-1").propose("o-1", amount=Decimal(80))
    first.dispose()
    backup.backup(live)
    live.close()
    backup.close()
    _, again = declare(second, second)
    theirs = again.options(key="call-1").propose("o-1", amount=Decimal(20))
    assert mine.id == theirs.id
    assert gate.preview(theirs).outcome is Outcome.KEEP
    with stepped(gate, way):
        verdict = gate(gate.intent(theirs.id))
    assert (verdict.applied, verdict.result()) == (Applied.COMMITTED, "o-1: 20")
    with first.connect() as connection:
        assert connection.scalar(select(Order.refunded).where(Order.id == "o-1"))
    with pytest.raises(KeyReused, match="other arguments"):
        refund.options(key="call-1").propose("o-1", amount=Decimal(80))
    first.dispose()
    second.dispose()


@pytest.mark.parametrize("way", ["at once", "step by step"])
def test_a_plan_is_of_the_stored_record(way: str) -> None:
    """In memory too: a plan compiled from another record of the same id is compiled anew, and previews are."""
    shop = Shop()
    intent = shop.refund.propose("o-1", amount=80)
    other = shop.refund.propose("o-1", amount=60)
    runtime = shop.gate._runtime()
    chains = vars(shop.store)["_chains"]
    lost = runtime.plans[intent.id]
    chains[intent.id].record = chains[other.id].record.but(intent_id=intent.id)
    chains[intent.id].stored = None
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    assert runtime.plans[intent.id] is not lost
    runtime.plans[intent.id] = lost
    with stepped(shop.gate, way):
        assert shop.gate(intent).committed
    row = shop.world.effects[intent.id]
    assert row["args_digest"] == chains[other.id].record.arguments_digest
