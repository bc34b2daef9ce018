"""What one validation evaluates in: arguments, observations, captured values, the clock, and what is lacking."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from lastlook.canonical import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from lastlook.canonical import Absent, Value
    from lastlook.expressions.evaluate import SlotTable
    from lastlook.expressions.tree import Path
    from lastlook.records import Address, Observation

__all__ = [
    "Env",
    "Judgement",
    "Pending",
    "Unverifiable",
]


class Unverifiable(Exception):
    """An expression has no value, which is neither true nor false.

    Attributes:
        reason: why, in words that name kinds and resolved places and never a value.
        missing: a row, field or item is not there; else something is of an unlike kind, out of bounds or unreadable.
        unreadable: a system could not be read.
        in_row: what is missing is an item of the row that `each` stands for, so that `where` and `none` pass it over.
    """

    def __init__(self, reason: str, *, missing: bool = False, unreadable: bool = False, in_row: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = missing
        self.unreadable = unreadable
        self.in_row = in_row


class Pending(Exception):
    """Something must be read or judged first; `Env.missing` and `Env.unjudged` say what."""


class Judgement:
    """A validator's call that is to be made.

    Attributes:
        key: under which `Env.judged` takes the answer; equal for equal calls.
        name: the validator's registered name.
        version: its version.
        params: its parameters, as they were declared.
        values: its arguments.
    """

    __slots__ = ("key", "name", "params", "values", "version")

    def __init__(
        self, key: str, name: str, version: str, params: Mapping[str, Value], values: tuple[Value, ...]
    ) -> None:
        self.key: Final = key
        self.name: Final = name
        self.version: Final = version
        self.params: Final = params
        self.values: Final = values


_NOTHING = cast("dict[str, Any]", MappingProxyType({}))
_NO_ADDRESSES: list[Any] = []


class Env:
    """The state of one validation: made for it, filled wave by wave, and thrown away.

    Attributes:
        table: the slots that the compiled expressions refer to.
        arguments: the effect's arguments by name.
        actor: who acts, or ABSENT.
        observations: what was read, by `Address.identity`.
        unreadable: why a system could not be read, by `Address.identity`.
        slots: the observation of each slot, or None where it is to be taken from `observations`.
        addresses: the address of each slot, or None where the key is to be worked out.
        now: the clock's reading, or None where deadlines cannot be judged.
        captured: the values that `unchanged` compares with.
        capturing: whether `unchanged` stores its value in `captured` and holds.
        judged: each judgement's answer, or the reason why there is none.
        missing: what must be read next, by `Address.identity`; filled by evaluation.
        unjudged: which validators must be called next, by key; filled by evaluation.
        touched: where not None, each evaluation appends the evidence that it uses: an address and a path in its value;
            an empty path is the row's existence or the whole collection.
        row: the row that `each` stands for.
    """

    # What most looks never touch stands on the class, so that making an environment costs little; the empty maps are
    # shared, and nobody writes to them but by the methods below.
    now: datetime | None = None
    capturing = False
    observations: dict[str, Observation] = _NOTHING
    unreadable: dict[str, str] = _NOTHING
    judged: dict[str, bool | str] = _NOTHING
    missing: dict[str, Address] = _NOTHING
    unjudged: dict[str, Judgement] = _NOTHING
    addresses: list[Address | None] = _NO_ADDRESSES
    row: Value = ABSENT

    def __init__(
        self,
        table: SlotTable,
        arguments: Mapping[str, Value],
        actor: Mapping[str, Value] | Absent = ABSENT,
        *,
        observations: dict[str, Observation] | None = None,
        unreadable: dict[str, str] | None = None,
        slots: list[Observation | None] | None = None,
        addresses: list[Address | None] | None = None,
        now: datetime | None = None,
        captured: dict[str, Value] | None = None,
        capturing: bool = False,
        judged: dict[str, bool | str] | None = None,
        touched: list[tuple[Address, Path]] | None = None,
    ) -> None:
        self.table = table
        self.arguments = arguments
        self.actor = actor
        self.observations = {} if observations is None else observations
        self.unreadable = {} if unreadable is None else unreadable
        self.slots: list[Observation | None] = [None] * len(table.refs) if slots is None else slots
        self.addresses = [None] * len(table.refs) if addresses is None else addresses
        self.now = now
        self.captured = {} if captured is None else captured
        self.capturing = capturing
        self.judged = {} if judged is None else judged
        self.missing = {}
        self.unjudged = {}
        self.touched = touched

    @classmethod
    def of_look(
        cls,
        table: SlotTable,
        arguments: Mapping[str, Value],
        actor: Mapping[str, Value] | Absent,
        captured: dict[str, Value],
        slots: list[Observation | None],
    ) -> Env:
        """An environment of one look whose slots are filled already: as the constructor, at a third of its cost."""
        env = cls.__new__(cls)
        env.table = table
        env.arguments = arguments
        env.actor = actor
        env.slots = slots
        env.captured = captured
        env.touched = None
        return env

    def observed(self, address: Address, observation: Observation) -> None:
        """Take in an observation."""
        if self.observations is _NOTHING:
            self.observations = {}
        self.observations[address.identity] = observation

    def failed(self, address: Address, reason: str) -> None:
        """Take in that an address could not be read."""
        if self.unreadable is _NOTHING:
            self.unreadable = {}
        self.unreadable[address.identity] = reason

    def answered(self, answers: Mapping[str, bool | str]) -> None:
        """Take in what validators said."""
        self.judged = {**self.judged, **answers}

    def ask(self, judgement: Judgement) -> None:
        """Note that a validator must be called next."""
        if self.unjudged is _NOTHING:
            self.unjudged = {}
        self.unjudged[judgement.key] = judgement

    def settled(self) -> None:
        """Forget what was lacking: it is there now."""
        if self.missing:
            self.missing.clear()
        if self.unjudged:
            self.unjudged.clear()

    def address(self, slot: int) -> Address:
        """The address of a slot.

        Raises:
            Unverifiable: its key names no row.
            Pending: its key needs evidence that is not read yet.
        """
        if self.addresses is _NO_ADDRESSES:
            self.addresses = [None] * len(self.slots)
        address = self.addresses[slot]
        if address is None:
            address = self.addresses[slot] = self.table.keys[slot](self)
        return address

    def fetch(self, slot: int) -> Observation:
        """The observation of a slot that has none yet.

        Raises:
            Unverifiable: its key names no row, or its system is unreadable.
            Pending: it is not read yet; `missing` then has it.
        """
        observation = self.slots[slot] = self.observe(self.address(slot), self.table.names[slot])
        return observation

    def observe(self, address: Address, name: Callable[[Env], str]) -> Observation:
        """The observation of an address, which `name` tells of; raises as `fetch`."""
        observation = self.observations.get(address.identity)
        if observation is None:
            reason = self.unreadable.get(address.identity)
            if reason is not None:
                raise Unverifiable(f"{name(self)} is unreadable: {reason}", unreadable=True)
            if self.missing is _NOTHING:
                self.missing = {}
            self.missing[address.identity] = address
            raise Pending
        return observation

    def touch(self, slot: int, path: Path) -> None:
        """Append to `touched` the use of a slot and of its key's evidence, which another premise may have fetched."""
        touched = self.touched
        if touched is not None:
            if self.table.derived[slot]:
                self.table.keys[slot](self)
            touched.append((self.address(slot), path))
