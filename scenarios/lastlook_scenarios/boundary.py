"""The binding boundary on SQLite: one history, and what the target checks when the effect is applied decides its end.

A refund is validated under a limit of 100, a second connection lowers the limit to 50, and then the effect is
attempted. Where the policy is among what the target checks, the attempt is rejected and the next look blocks. Where it
is not, the refund is paid, no matter whether the policy's row lies in another database or in the very same one.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from lastlook import UNBOUND, Gate, arg, block_unless, resource
from lastlook.events import ApplyAnswered
from lastlook.ports import Fields
from lastlook.records import Observation, Token
from lastlook.testing import events, interpose
from lastlook_connectors.sql import Sql, SqlPermit, row
from lastlook_scenarios.raw import BoundaryRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastlook.effects import Effect
    from lastlook.ports import System
    from lastlook.records import Address

__all__ = ["EXTERNAL", "HISTORIES", "SAME", "History", "Order", "Policy", "PolicyDesk", "histories"]

EXTERNAL: Final = "another database"
SAME: Final = "same database"
_AMOUNT: Final = 80
_RACE: Final = UNBOUND("the race with the policy's owner is what is shown here")


class History(NamedTuple):
    """Where the policy's row lies, seen from the target, and whether the target checks it."""

    policy: str
    bound: bool


HISTORIES: Final = (History(SAME, bound=True), History(SAME, bound=False), History(EXTERNAL, bound=False))
"""The three that can be: what lies in another database cannot be bound, and is refused unless that is accepted."""


class _Base(DeclarativeBase):
    pass


class Order(_Base):
    """The target."""

    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    refunded: Mapped[bool]


class _PolicyBase(DeclarativeBase):
    pass


class Policy(_PolicyBase):
    """What limits it."""

    __tablename__ = "policies"
    id: Mapped[str] = mapped_column(primary_key=True)
    most: Mapped[int]


class PolicyDesk:
    """The policies as a service hands them out that the target knows nothing of: each with its version as the token."""

    name = "policy desk"
    kinds = ("policies",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def fields(self, kind: str, /) -> Fields:
        """What a policy says."""
        del kind
        return Fields(frozenset({"most"}), complete=True)

    def is_public(self, kind: str, field: str, /) -> bool:
        """No value is."""
        del kind, field
        return False

    def read_many(self, addresses: Sequence[Address], /) -> Sequence[Observation]:
        """The rows as they are."""
        return [self._read(str(address.key[0])) for address in addresses]

    def _read(self, key: str) -> Observation:
        most, version = self._connection.execute("SELECT most, version FROM policies WHERE id = ?", (key,)).fetchone()
        return Observation({"most": most}, Token("counter", self.name, version))


def histories(trials: int) -> Iterator[BoundaryRow]:
    """Every history that many times, one after the other."""
    for history in HISTORIES:
        with tempfile.TemporaryDirectory(prefix="lastlook-boundary-") as folder, ExitStack() as stack:
            bench = _Bench(history, Path(folder), stack)
            for trial in range(1, trials + 1):
                yield bench.run(trial)


class _Bench:
    """Databases, a second connection and a gate for one history."""

    def __init__(self, history: History, folder: Path, stack: ExitStack) -> None:
        self._history = history
        engine = create_engine(f"sqlite:///{folder / 'orders.db'}")
        stack.callback(engine.dispose)
        _Base.metadata.create_all(engine)
        file = folder / ("policies.db" if history.policy == EXTERNAL else "orders.db")
        self._owner = stack.enter_context(closing(sqlite3.connect(file)))
        self._owner.execute("PRAGMA journal_mode = WAL")
        self._owner.execute(
            "CREATE TABLE policies (id TEXT PRIMARY KEY, most INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 1)"
        )
        self._owner.execute("INSERT INTO policies (id, most) VALUES ('refund', 100)")
        self._owner.commit()
        self._orders = stack.enter_context(closing(sqlite3.connect(folder / "orders.db")))

        systems: list[System] = [Sql(engine, Order, Policy)] if history.bound else [Sql(engine, Order)]
        if history.policy == EXTERNAL:
            elsewhere = create_engine(f"sqlite:///{file}")
            stack.callback(elsewhere.dispose)
            systems.append(Sql(elsewhere, Policy))
        elif not history.bound:
            systems.append(PolicyDesk(stack.enter_context(closing(sqlite3.connect(file)))))
        self._gate = Gate(*systems, store=engine)
        self._gate.install()
        self._refund = self._declare()

    def _declare(self) -> Effect[..., str]:
        order, policy = row(Order, arg.order_id), resource("policies", "refund")
        within = block_unless(
            arg.amount <= policy.most, "over the refund limit", accept=None if self._history.bound else _RACE
        )

        @self._gate.effect(target=order, premises=[block_unless(~order.refunded, "already refunded"), within])
        def refund(permit: SqlPermit, order_id: str, amount: int) -> str:
            permit.session.get_one(Order, order_id).refunded = True
            return f"refunded {amount}"

        return refund

    def run(self, trial: int) -> BoundaryRow:
        """Propose under a limit of 100, let it fall in the window between the look and the effect, and count."""
        key = f"o-{trial}"
        self._orders.execute("INSERT INTO orders VALUES (?, 0)", (key,))
        self._orders.commit()
        self._limit(100)
        intent = self._refund.propose(key, amount=_AMOUNT)
        with events(self._gate) as seen, interpose(self._gate, lambda: self._limit(50)):
            verdict = self._gate(intent)
        answers = [event.applied.name for event in seen if isinstance(event, ApplyAnswered)]
        return BoundaryRow(
            policy=self._history.policy,
            binding="bound" if self._history.bound else "target only",
            trial=trial,
            applied=answers[0] if answers else "NOT_ATTEMPTED",
            outcome=verdict.outcome.name,
            stale=int(self._number("SELECT most FROM policies", of=self._owner) < _AMOUNT),
            released=self._number("SELECT refunded FROM orders WHERE id = ?", key, of=self._orders),
        )

    def _limit(self, most: int) -> None:
        self._owner.execute("UPDATE policies SET most = ?, version = version + 1", (most,))
        self._owner.commit()

    def _number(self, statement: str, *values: str, of: sqlite3.Connection) -> int:
        ((number,),) = of.execute(statement, values).fetchall()
        return int(number)
