"""Small systems of record with one flaw or habit each, and a shop: what the tests of the semantics are run against."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from lastlook import (
    STRICT,
    Applied,
    AsyncGate,
    BindingPolicy,
    Capture,
    Gate,
    Memory,
    MemoryPermit,
    MemoryStore,
    arg,
    block_unless,
    replan_unless,
    resource,
)
from lastlook.canonical import ABSENT, freeze
from lastlook.events import LookTaken, PremiseChecked, ReadChanged
from lastlook.ports import ApplyResult, Capabilities, CloseResult, Fields
from lastlook.records import Address, EffectRow, Observation, Token
from lastlook.testing import FakeClock

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.effects import AsyncEffect, Effect
    from lastlook.events import Event
    from lastlook.ports import Attempt, Clock, Journal, Store, Unreadable
    from lastlook.premises import Premise

__all__ = [
    "DEFECT",
    "DELIVERED",
    "LIMIT",
    "NOT_REFUNDED",
    "AsyncShop",
    "Crash",
    "Desk",
    "DeskPermit",
    "Relay",
    "Shelf",
    "Shop",
    "SlowShelf",
    "Torn",
    "changed",
    "checked",
    "looked",
    "numbered",
    "opaque",
    "order",
    "policy",
    "shop_premises",
    "shop_rows",
]


class Crash(BaseException):
    """The process ends here."""


# --- Systems ----------------------------------------------------------------------------------------------------------


class Shelf:
    """Rows to be read, each with the token that it was put there with; nothing is applied to it or checked by it."""

    name = "shelf"

    def __init__(self, **kinds: Mapping[str, Mapping[str, object]]) -> None:
        self.kinds: Collection[str] = frozenset(kinds)
        self.reads: list[tuple[str, ...]] = []
        self._cells: dict[str, Observation] = {}
        self._last = 0
        for kind, rows in kinds.items():
            for key, row in rows.items():
                self.put(kind, key, row)

    def put(self, kind: str, key: str, row: Mapping[str, object] | None, *, token: Token | None = None) -> None:
        """Put a row there, or take it away; under the next number if no token is given."""
        self._last += 1
        value = ABSENT if row is None else cast("Mapping[str, Value]", freeze(row))
        self._cells[Address(kind, (key,)).identity] = Observation(
            value, token or Token("counter", self.name, self._last)
        )

    def fields(self, _: str, /) -> Fields:
        """Nobody knows."""
        return Fields(frozenset(), complete=False)

    def is_public(self, _kind: str, _field: str, /) -> bool:
        """Nothing is."""
        return False

    def read_many(self, addresses: Sequence[Address], /) -> Sequence[Observation | Unreadable]:
        """What stands there."""
        self.reads.append(tuple(str(address) for address in addresses))
        nothing = Observation(ABSENT, Token("counter", self.name, 0))
        return [self._cells.get(address.identity, nothing) for address in addresses]


class SlowShelf(Shelf):
    """A shelf that an event loop waits for: it answers when `released` is set, or fails."""

    asked: asyncio.Event
    released: asyncio.Event
    failure: Exception | None = None

    async def read_many(self, addresses: Sequence[Address], /) -> Any:  # type: ignore[override]  # the other colour
        """What stands there, later."""
        self.asked.set()
        await self.released.wait()
        if self.failure is not None:
            raise self.failure
        return super().read_many(addresses)


class DeskPermit:
    """What a body may do at a desk."""

    def __init__(self, key: str, fresh: Mapping[str, Value]) -> None:
        self.key = key
        self.fresh = fresh
        self.writes: list[tuple[str, str, Mapping[str, object]]] = []

    def put(self, kind: str, key: str, **row: object) -> None:
        """Put a whole row there, with the effect."""
        self.writes.append((kind, key, row))


class Desk(Shelf):
    """A shelf that applies effects, compares tokens, and may lose its answer.

    Attributes:
        loses: `before`: the attempt never arrives; `after`: it is applied; either way the answer is UNKNOWN.
        raises: what it raises instead of answering UNKNOWN.
        closes: whether it can say what became of an attempt.
        applied: the attempts that arrived.
    """

    name = "desk"

    def __init__(self, **kinds: Mapping[str, Mapping[str, object]]) -> None:
        super().__init__(**kinds)
        self.loses = ""
        self.raises: BaseException | None = None
        self.closes = True
        self.applied: list[Attempt] = []
        self.effects: dict[str, EffectRow] = {}
        self._lock = threading.RLock()

    @property
    def capabilities(self) -> Capabilities:
        """It compares rows that are there, and nothing else."""
        return Capabilities(
            durable=False, rolls_back=True, closes=self.closes, checks_absence=False, checks_collections=False
        )

    def can_check(self, kind: str, /) -> bool:
        """Its own rows."""
        return kind in self.kinds

    def can_check_token(self, token: Token, /) -> bool:
        """Whatever it made, but what is weak."""
        return token.namespace == self.name and token.kind != "weak"

    def shares_engine(self, _: Store, /) -> bool:
        """Never."""
        return False

    def effect_row(self, intent_id: str, /) -> EffectRow | None:
        """The intent's row."""
        return self.effects.get(intent_id)

    def apply(self, attempt: Attempt, _: Journal | None, /) -> ApplyResult:
        """Compare, run the body, and commit; then the answer may get lost."""
        self.applied.append(attempt)
        answer = self._apply(attempt) if self.loses != "before" else None
        if not self.loses and answer is not None:
            return answer
        if self.raises is not None:
            raise self.raises
        return ApplyResult(Applied.UNKNOWN, reason="no answer came")

    def _apply(self, attempt: Attempt) -> ApplyResult:
        with self._lock:
            row = self.effects.get(attempt.intent_id)
            if row is not None and row.committed_at is not None:
                return ApplyResult(Applied.COMMITTED, row.result, row.result, repeated=True)
            if row is not None and attempt.number < row.floor:
                return ApplyResult(Applied.REJECTED, reason="the attempt was closed")
            found = self.read_many([address for address, _ in attempt.binding])
            for (address, then), now in zip(attempt.binding, found, strict=True):
                if getattr(now, "token", None) != then.token:
                    return ApplyResult(Applied.REJECTED, reason=f"{address} moved")
            permit = DeskPermit(attempt.key, attempt.fresh)
            try:
                value = attempt.body(permit)
                stored = attempt.encode(value)
            except Exception as error:  # noqa: BLE001 - nothing was written yet
                return ApplyResult(Applied.FAILED, error=error)
            for kind, key, fields in permit.writes:
                self.put(kind, key, fields)
            number = attempt.number
            self.effects[attempt.intent_id] = EffectRow(
                attempt.intent_id, attempt.arguments_digest, number, number, stored, 1
            )
            return ApplyResult(Applied.COMMITTED, value, stored)

    def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """Raise the floor, unless it has committed."""
        if not self.closes:
            return CloseResult(Applied.UNKNOWN, reason="the desk keeps no record")
        with self._lock:
            row = self.effects.get(intent_id)
            if row is not None and row.committed_at is not None:
                return CloseResult(Applied.COMMITTED, row.result)
            self.effects[intent_id] = EffectRow(intent_id, "", attempt + 1, None, None, None)
            return CloseResult(Applied.NOT_ATTEMPTED)


class Relay:
    """A memory behind a line: it answers what the memory answers, unless told otherwise.

    Attributes:
        reads: the addresses of each read.
        after_read: called after each read, when the answer is on its way already.
        failure: raised instead of reading.
        lags: reads answer what stood there when this was set; effects go to the memory itself.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.name = "relay"
        self.reads: list[tuple[str, ...]] = []
        self.after_read: Callable[[], object] | None = None
        self.failure: BaseException | None = None
        self._then: dict[str, Observation | Unreadable] | None = None

    def lag(self, addresses: Iterable[tuple[str, object]]) -> None:
        """From now on these rows are read as they stand now."""
        found = [self.memory.address(kind, key) for kind, key in addresses]
        read = self.memory.read_many(found)
        self._then = {address.identity: cell for address, cell in zip(found, read, strict=True)}

    def catch_up(self) -> None:
        """Read what stands there."""
        self._then = None

    @property
    def kinds(self) -> Collection[str]:
        """The memory's."""
        return self.memory.kinds

    @property
    def capabilities(self) -> Capabilities:
        """The memory's."""
        return self.memory.capabilities

    def fields(self, kind: str, /) -> Fields:
        """The memory's."""
        return self.memory.fields(kind)

    def is_public(self, kind: str, name: str, /) -> bool:
        """As the memory says."""
        return self.memory.is_public(kind, name)

    def read_many(self, addresses: Sequence[Address], /) -> Sequence[Observation | Unreadable]:
        """What the memory answers, or answered."""
        self.reads.append(tuple(str(address) for address in addresses))
        if self.failure is not None:
            raise self.failure
        found = self.memory.read_many(addresses)
        if self._then is not None:
            found = tuple(self._then.get(a.identity, now) for a, now in zip(addresses, found, strict=True))
        if self.after_read is not None:
            self.after_read()
        return found

    def can_check(self, kind: str, /) -> bool:
        """As the memory says."""
        return self.memory.can_check(kind)

    def can_check_token(self, token: Token, /) -> bool:
        """As the memory says."""
        return self.memory.can_check_token(token)

    def shares_engine(self, store: Store, /) -> bool:
        """As the memory says."""
        return self.memory.shares_engine(store)

    def use_clock(self, clock: Clock, /) -> None:
        """Hand it on."""
        self.memory.use_clock(clock)

    def effect_row(self, intent_id: str, /) -> EffectRow | None:
        """The memory's."""
        return self.memory.effect_row(intent_id)

    def apply(self, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        """At the memory."""
        return self.memory.apply(attempt, journal)

    def close(self, intent_id: str, attempt: int, /) -> CloseResult:
        """At the memory."""
        return self.memory.close(intent_id, attempt)


class Torn(Relay):
    """Reads the values first and their tokens afterwards, which no system may do; `between` happens in between."""

    between: Callable[[], object] | None = None

    def read_many(self, addresses: Sequence[Address], /) -> Sequence[Observation | Unreadable]:
        """Values and tokens that never stood together."""
        values = self.memory.read_many(addresses)
        if self.between is not None:
            self.between()
        tokens = self.memory.read_many(addresses)
        return [
            Observation(value.value, token.token)
            for value, token in zip(values, tokens, strict=True)
            if isinstance(value, Observation) and isinstance(token, Observation)
        ]


def opaque(value: str, *, of: str = "desk") -> Token:
    """A token that is equal or is not, and nothing else."""
    return Token("opaque", of, value)


# --- The shop ---------------------------------------------------------------------------------------------------------

order, policy = resource("orders", arg.order_id), resource("policies", "refund")
DELIVERED = "orders[arg.order_id].delivered"
DEFECT = "orders[arg.order_id].defect"
NOT_REFUNDED = "~orders[arg.order_id].refunded"
LIMIT = "arg.amount <= policies['refund'].limit"


def shop_rows() -> dict[str, dict[str, dict[str, object]]]:
    """Two delivered, defective orders that may be refunded, a limit of 100, and what has nothing to do with them."""
    goods: dict[str, object] = {"delivered": True, "defect": True, "refunded": False, "customer_name": "reader 7"}
    return {
        "orders": {"o-1": goods, "o-2": dict(goods)},
        "policies": {"refund": {"limit": 100}},
        "weather": {"uk": {"rain": True}},
    }


def shop_premises() -> list[Premise]:
    """Why a refund may be paid."""
    return [
        replan_unless(order.delivered),
        replan_unless(order.defect),
        block_unless(~order.refunded, "already refunded"),
        block_unless(arg.amount <= policy.limit, "over the refund limit"),
    ]


@dataclass
class Shop:
    """A gate over a memory, with one effect: `refund(order_id, amount)`.

    Attributes:
        separate: the memory is another engine than the store, so that attempts are opened and closed.
        ran: the amounts that bodies were run with.
        fresh: the refresh fields that each body was given.
    """

    separate: bool = False
    policy: BindingPolicy = STRICT
    capture: Capture = Capture.PREDICATE
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: FakeClock = field(default_factory=FakeClock)
    world: Memory = field(default_factory=lambda: Memory(**shop_rows()))
    premises: list[Premise] = field(default_factory=shop_premises)
    awaits: list[Premise] = field(default_factory=list["Premise"])
    others: tuple[Any, ...] = ()
    relay: bool = False
    irreversible: bool = False
    ran: list[int] = field(default_factory=list[int])
    fresh: list[Mapping[str, Value]] = field(default_factory=list["Mapping[str, Value]"])
    gate: Gate = field(init=False)
    refund: Effect[..., str] = field(init=False)
    line: Relay = field(init=False)

    def __post_init__(self) -> None:
        """Open it."""
        if self.separate:
            self.world.options(separate=True)
        self.line = Relay(self.world)
        system = self.line if self.relay else self.world
        self.gate = Gate(
            system, *self.others, store=self.store, policy=self.policy, clock=self.clock, capture=self.capture
        )

        @self.gate.effect(
            target=order,
            premises=self.premises,
            awaits=self.awaits,
            refresh=[order.customer_name],
            irreversible=self.irreversible,
        )
        def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
            self.ran.append(amount)
            self.fresh.append(dict(permit.fresh))
            permit.change("orders", order_id, refunded=True)
            return f"refunded {order_id}"

        self.refund = refund

    def again(self, store: MemoryStore | None = None, **changes: Any) -> Shop:
        """Another process on the same world and store, or on another store."""
        given: dict[str, Any] = {
            "separate": self.separate,
            "policy": self.policy,
            "capture": self.capture,
            "store": store or self.store,
            "clock": self.clock,
            "world": self.world,
            "premises": self.premises,
            "awaits": self.awaits,
            "others": self.others,
            "ran": self.ran,
        }
        return Shop(**(given | changes))


@dataclass
class AsyncShop:
    """The same for asyncio; the body may wait for `hold`."""

    separate: bool = False
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: FakeClock = field(default_factory=FakeClock)
    world: Memory = field(default_factory=lambda: Memory(**shop_rows()))
    others: tuple[Any, ...] = ()
    premises: list[Premise] = field(default_factory=shop_premises)
    started: asyncio.Event | None = None
    hold: asyncio.Event | None = None
    ran: list[int] = field(default_factory=list[int])
    gate: AsyncGate = field(init=False)
    refund: AsyncEffect[..., str] = field(init=False)

    def __post_init__(self) -> None:
        """Open it."""
        if self.separate:
            self.world.options(separate=True)
        self.gate = AsyncGate(self.world, *self.others, store=self.store, clock=self.clock)

        @self.gate.effect(target=order, premises=self.premises, refresh=[order.customer_name])
        async def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
            self.ran.append(amount)
            if self.started is not None:
                self.started.set()
            if self.hold is not None:
                await self.hold.wait()
            permit.change("orders", order_id, refunded=True)
            return f"refunded {order_id}"

        self.refund = refund


def checked(found: Iterable[Event]) -> list[str]:
    """The premises that ran, in order, each as often as it ran."""
    return [event.premise for event in found if isinstance(event, PremiseChecked)]


def changed(found: Iterable[Event]) -> list[str]:
    """The places that were found changed."""
    return [event.place for event in found if isinstance(event, ReadChanged)]


def looked(found: Iterable[Event]) -> list[str]:
    """The intents that were looked at."""
    return [event.intent_id for event in found if isinstance(event, LookTaken)]


def numbered(*cases: Any) -> list[Any]:
    """Cases without a name of their own, by number; a tuple is several parameters."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), id=str(n)) for n, case in enumerate(cases)]
