"""What an effect's body may do on a `Memory` while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import EffectNotBound
from lastlook.memory.tables import frozen_row
from lastlook.ports import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.canonical import Value
    from lastlook.memory.tables import Tables
    from lastlook.ports import Attempt
    from lastlook.records import Address, Observation

__all__ = ["MemoryPermit"]

_Key = Any
"""A row's key: one text or number, or a tuple of them for a composite key."""


class MemoryPermit:
    """What an effect's body may do on a `Memory` while it runs; its writes land with the check, or not at all."""

    __slots__ = ("_attempt", "_open", "_read", "_silent", "_tables", "_writes")

    def __init__(self, tables: Tables, attempt: Attempt) -> None:
        self._tables = tables
        self._attempt = attempt
        self._writes: dict[Address, Mapping[str, Value] | None] = {}
        self._read: dict[Address, Observation] = {}
        self._open = True
        self._silent = False

    @property
    def key(self) -> str:
        """The attempt's idempotency key."""
        return self._attempt.key

    @property
    def fresh(self) -> Mapping[str, Value]:
        """The refresh fields as the gate last read them, by their place such as `orders/o-1.customer_name`."""
        return self._attempt.fresh

    def row(self, kind: str, key: _Key, /) -> Mapping[str, Value] | None:
        """A row as the effect would leave it, or None if there is none."""
        self._check()
        address = self._tables.address(kind, key)
        if address in self._writes:
            return self._writes[address]
        cell = self._tables.cell(address)
        if isinstance(cell, Unreadable):
            message = f"{address} could not be read: {cell.reason}"
            raise LookupError(message)  # noqa: TRY004 - no wrong type: there is no answer
        self._read.setdefault(address, cell)
        return None if cell.value is ABSENT else cast("Mapping[str, Value]", cell.value)

    def change(self, kind: str, key: _Key, /, **fields: object) -> None:
        """Set fields of a row, which is created if there is none."""
        self._check()
        address = self._tables.row_address(kind, key)
        row = dict(self.row(kind, key) or {})
        row.update({name: canonical.freeze(value, path=name) for name, value in fields.items()})
        self._writes[address] = frozen_row(address, row)

    def replace(self, kind: str, key: _Key, row: Mapping[str, object], /) -> None:
        """Put a whole row in place of whatever is there."""
        self._check()
        address = self._tables.row_address(kind, key)
        self._writes[address] = frozen_row(address, row)

    def delete(self, kind: str, key: _Key, /) -> None:
        """Remove a row; no error if there is none."""
        self._check()
        self._writes[self._tables.row_address(kind, key)] = None

    def no_write(self) -> None:
        """Say that this effect writes nothing here on purpose; without it a body that writes nothing is refused."""
        if not self._open:
            self._check()
        self._silent = True

    def _check(self) -> None:
        if not self._open:
            message = (
                f"the permit of intent {self._attempt.intent_id} is over: it lives only inside the effect's body, "
                "so do all of the effect's work there"
            )
            raise EffectNotBound(message)
