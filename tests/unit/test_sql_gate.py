"""`Sql` on a SQLite file: evidence, conditional effects, the effect row, close."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from shop import Order, Policy, change, declare, open_shop
from sqlalchemy import create_engine, select

from lastlook import Applied, DeclarationError, MemoryStore, Outcome, State
from lastlook.commands import Apply
from lastlook.testing import failpoint, interpose

if TYPE_CHECKING:
    from pathlib import Path


class Apart(MemoryStore):
    """A store that is durable elsewhere."""

    durable = True


@pytest.fixture(params=["apart", "same"])
def shop(request: Any, tmp_path: Path) -> Any:
    """A shop, its gate and its refund, with the store elsewhere or in the same engine."""
    engine = open_shop(tmp_path / "shop.db")
    store = Apart() if request.param == "apart" else engine
    gate, refund = declare(engine, store)
    yield engine, gate, refund
    engine.dispose()


def refunded(engine: Any) -> bool:
    """Whether the order is."""
    with engine.connect() as connection:
        return bool(connection.scalar(select(Order.refunded).where(Order.id == "o-1")))


def test_an_unchanged_world_keeps(shop: Any) -> None:
    """Nothing changed: the service's own commit lands with the check, once."""
    engine, gate, refund = shop
    intent = refund.propose("o-1", amount=Decimal(80))
    verdict = gate(intent)
    assert (verdict.outcome, verdict.applied, verdict.result()) == (Outcome.KEEP, Applied.COMMITTED, "o-1: 80")
    assert verdict.checked == ()
    assert refunded(engine)
    assert gate(intent).committed


@pytest.mark.parametrize(
    ("model", "key", "fields", "outcome", "ran"),
    [
        (Order, "o-1", {"customer_name": "B"}, Outcome.REFRESH, 0),
        (Order, "o-1", {"total": Decimal(90)}, Outcome.KEEP, 0),
        (Order, "o-1", {"delivered": False}, Outcome.REPLAN, 1),
        (Order, "o-1", {"refunded": True}, Outcome.BLOCK, 1),
        (Policy, "uk", {"limit": Decimal(50)}, Outcome.BLOCK, 1),
        (Policy, "uk", {"limit": Decimal(90)}, Outcome.KEEP, 1),
    ],
)
@pytest.mark.parametrize("when", ["before", "race"])
def test_a_change_decides(shop: Any, when: str, model: Any, key: str, fields: Any, outcome: Outcome, ran: int) -> None:
    """A change before the gate, or between its look and the effect, is decided alike: one premise runs, or none."""
    engine, gate, refund = shop
    intent = refund.propose("o-1", amount=Decimal(80))
    if when == "before":
        change(engine, model, key, **fields)
        verdict = gate(intent)
    else:
        with interpose(gate, lambda: change(engine, model, key, **fields)):
            verdict = gate(intent)
    if when == "before":
        assert len(verdict.checked) == ran
    bound = when == "before" or "customer_name" not in fields
    assert verdict.outcome is (outcome if bound else Outcome.KEEP)
    assert verdict.committed is verdict.outcome.permits
    assert refunded(engine) is (verdict.committed or "refunded" in fields)


# --- Another database: attempts, takeover, close ----------------------------------------------------------------------


@pytest.fixture
def apart(tmp_path: Path) -> Any:
    """A shop whose intents are stored elsewhere."""
    engine = open_shop(tmp_path / "shop.db")
    gate, refund = declare(engine, Apart())
    yield engine, gate, refund
    engine.dispose()


def test_a_reply_that_is_lost_after_the_commit_is_found_by_closing(apart: Any) -> None:
    """The target committed and its answer never came: the next gate finds the commit, and nothing runs twice."""
    engine, gate, refund = apart
    intent = refund.propose("o-1", amount=Decimal(80))

    def crash(command: Any, reply: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), failpoint(gate, Apply, after=crash):
        gate(intent)
    verdict = gate(intent)
    assert (verdict.applied, verdict.result()) == (Applied.COMMITTED, "o-1: 80")
    assert refunded(engine)


def test_an_attempt_that_died_is_closed_before_the_next_one(apart: Any) -> None:
    """The gate died before it applied: the attempt is closed at the target, its late apply refused, the next lands."""
    engine, gate, refund = apart
    intent = refund.propose("o-1", amount=Decimal(80))
    late: list[Any] = []

    def die(command: Any) -> None:
        late.append(command)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), failpoint(gate, Apply, before=die):
        gate(intent)
    assert gate.reconcile()[0].state is State.OPEN
    target = late[0].plan.target
    said = target.apply(late[0].attempt, None)
    assert (said.status, said.floor) == (Applied.REJECTED, 2)
    assert not refunded(engine)
    assert gate(intent).committed
    assert target.effect_row(intent.id).attempt == 2


def test_closing_says_what_it_found(apart: Any) -> None:
    """Closing what never was tombstones it, twice over; closing what has committed gives the stored result."""
    _, gate, refund = apart
    target = gate._runtime().systems["orders"]
    closed = [target.close("never", 3), target.close("never", 1)]
    assert [said.status for said in closed] == [Applied.NOT_ATTEMPTED, Applied.NOT_ATTEMPTED]
    assert target.effect_row("never").floor == 4
    intent = refund.propose("o-1", amount=Decimal(80))
    assert gate(intent).committed
    said = target.close(intent.id, 1)
    assert (said.status, said.stored) == (Applied.COMMITTED, "o-1: 80")


def test_one_file_through_two_engines_is_refused(tmp_path: Path) -> None:
    """The store has another engine on the target's file: refused when the gate connects, with the remedy."""
    engine = open_shop(tmp_path / "shop.db")
    other = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with pytest.raises(DeclarationError, match="give store= the engine"):
        declare(engine, other)
    engine.dispose()
    other.dispose()
