"""The rows of a `Memory` and what is derived from them: frozen cells, each with its version, collections, queries."""

from __future__ import annotations

import os
import threading
from decimal import Decimal
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import CanonicalError, DeclarationError
from lastlook.ports import Unreadable
from lastlook.records import Address, Observation, Token, collection_of, key_parts
from lastlook.wanted import mistaken, wanted_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastlook.canonical import Value

__all__ = ["Query", "Tables", "frozen_row"]

_Key = Any
"""A row's key: one text or number, or a tuple of them for a composite key."""

Query: TypeAlias = "Callable[..., object]"
"""A named query: called with the tables and the parts of the key that it is asked by."""


class Tables:
    """Rows by kind and key, which nothing writes but by `put`; readers take no lock.

    Attributes:
        lock: whoever writes, or must see several things at one moment, holds it.
        namespace: of the tokens.
        cells: the observation of every identity, those of absent rows, whole kinds and queries derived on demand.
        kinds: the addresses that were ever written, by kind and identity.
        queries: the named queries.
        unreadable: the kinds that cannot be read, and how many say so.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.namespace = f"memory:{os.urandom(4).hex()}"
        self.cells = _Cells(self._derive)
        self.kinds: dict[str, dict[str, Address]] = {}
        self.queries: dict[str, Query] = {}
        self.unreadable: dict[str, int] = {}
        self._nothing = Observation(ABSENT, Token("counter", self.namespace, 0))
        self._counters: dict[str, int] = {}
        self._collections: dict[str, str] = {}
        self._asked: dict[str, Address] = {}
        self._answers: dict[str, Observation] = {}
        self._salt = os.urandom(16)

    def row(self, kind: str, key: _Key, /) -> Mapping[str, Value] | None:
        """A row's fields, frozen, or None if there is none."""
        value = self.cells[self.address(kind, key).identity].value
        return None if value is ABSENT else cast("Mapping[str, Value]", value)

    def rows(self, kind: str, /) -> dict[Any, Mapping[str, Value]]:
        """All rows of a kind in key order; a key of one part stands for itself."""
        with self.lock:
            cells, addresses = self.cells, self.kinds[self.known(kind)].values()
            present = [(address.key, cells[address.identity].value) for address in addresses]
        rows = sorted(((key, value) for key, value in present if value is not ABSENT), key=lambda item: _order(item[0]))
        return {(key[0] if len(key) == 1 else key): cast("Mapping[str, Value]", value) for key, value in rows}

    def address(self, kind: str, key: _Key, /) -> Address:
        """The canonical address of a row.

        Raises:
            LookupError: this memory has no such kind.
            CanonicalError: a part of the key has no canonical form, or is true or false, which Python takes for 1 or 0.
        """
        address = Address(self.known(kind), key_parts(key))
        if not address.key or any(isinstance(part, bool) for part in address.key):
            raise CanonicalError(f"{kind}: {key!r} is no row's key: give it a text, a number, or a tuple of them")
        return address

    def row_address(self, kind: str, key: _Key, /) -> Address:
        """As `address`, of a row that can be written.

        Raises:
            LookupError: this memory has no such kind.
            DeclarationError: it is a query, which only answers.
        """
        if self.known(kind) in self.queries:
            raise DeclarationError(f"{kind!r} is a query, which cannot be written: write the rows that it is asked of")
        return self.address(kind, key)

    def cell(self, address: Address, /) -> Observation | Unreadable:
        """What is at an address now, for whoever is inside."""
        self._note(address)
        return self.cells[address.identity]

    def reader(self, addresses: Sequence[Address], /) -> Callable[[], tuple[Observation | Unreadable, ...]]:
        """A compiled `read_many` for a fixed list of addresses, which never raises."""
        for address in addresses:
            self._note(address)
        cells, unreadable = self.cells, self.unreadable
        names = [address.identity for address in addresses]
        if not names:
            return tuple
        fetch: Callable[[Any], Any] = itemgetter(*names)
        if len(names) == 1:
            return lambda: (self._read(addresses[0]),) if unreadable else (fetch(cells),)
        return lambda: tuple(self._read(address) for address in addresses) if unreadable else fetch(cells)

    def read_many(self, addresses: Sequence[Address], /) -> tuple[Observation | Unreadable, ...]:
        """One observation per address, in order."""
        return self.reader(addresses)()

    def add_kind(self, kind: str) -> None:
        """Take a kind among those that have rows."""
        self.kinds[kind] = {}
        self._counters[kind] = 0
        self._collections[collection_of(kind).identity] = kind

    def put(self, address: Address, row: Mapping[str, Value] | None) -> None:
        """Write a frozen row, or None for none; whoever calls this holds the lock."""
        cell = self.cells[address.identity]
        version = cast("int", cell.token.value) + 1
        value = ABSENT if row is None else row
        self.cells[address.identity] = Observation(value, Token("counter", self.namespace, version))
        self.kinds[address.kind].setdefault(address.identity, address)
        self._counters[address.kind] += 1
        self.cells.pop(collection_of(address.kind).identity, None)
        # A new map, always: a query that is being asked right now keeps its answer in the old one, which nobody reads.
        self._answers = {}

    def _derive(self, identity: str) -> Any:
        """What is no stored row: an absent row, a whole collection, a query; the last two are kept until a write."""
        answered = self._answers.get(identity)
        if answered is not None:
            return answered
        with self.lock:
            if identity in self._collections:
                kind = self._collections[identity]
                rows = tuple(self.rows(kind).values())
                cell = Observation(rows, Token("counter", self.namespace, self._counters[kind]))
            elif identity in self._asked:
                answers = self._answers
                answer = self._ask(self._asked[identity])
                if isinstance(answer, Observation):
                    answers[identity] = answer
                return answer
            else:
                return self._nothing
            self.cells[identity] = cell
            return cell

    def _ask(self, address: Address) -> Observation | Unreadable:
        tables = MappingProxyType({kind: MappingProxyType(self.rows(kind)) for kind in self.kinds})
        try:
            answer = canonical.freeze(self.queries[address.kind](tables, *address.key), path=address.kind)
        except Exception as error:  # noqa: BLE001 - whatever a query raises, it has no answer
            return Unreadable(f"query {address.kind!r} raised {type(error).__name__}")
        value = MappingProxyType({"rows" if isinstance(answer, tuple) else "value": answer})
        return Observation(value, Token("digest", self.namespace, canonical.fingerprint(value, salt=self._salt)))

    def _note(self, address: Address) -> None:
        if address.kind in self.queries:
            self._asked[address.identity] = address

    def _read(self, address: Address) -> Observation | Unreadable:
        if address.kind in self.unreadable:
            return Unreadable(f"{address.kind} could not be read")
        return self.cells[address.identity]

    def known(self, kind: str) -> str:
        """The kind, if there are rows or a query of that name; raises as `address`."""
        if not isinstance(cast("object", kind), str):
            raise mistaken("a kind of this memory", kind, "name it by a text")
        if kind in self.kinds or kind in self.queries:
            return kind
        from difflib import get_close_matches  # only for a message

        near = get_close_matches(kind, [*self.kinds, *self.queries], 1)
        hint = f": did you mean {near[0]!r}?" if near else f": it has {', '.join(sorted(self.kinds)) or 'no kinds'}"
        message = f"this memory has no kind {kind!r}{hint}"
        raise LookupError(message)


class _Cells(dict[str, Observation]):
    """Observations by identity; what is no stored row is derived on demand."""

    __slots__ = ("_derive",)

    def __init__(self, derive: Callable[[str], Observation]) -> None:
        super().__init__()
        self._derive = derive

    def __missing__(self, identity: str) -> Observation:
        return self._derive(identity)


def frozen_row(address: Address, row: Mapping[str, object]) -> Mapping[str, Value]:
    """A row as it is kept.

    Raises:
        DeclarationError: it is no map.
        CanonicalError: as `canonical.freeze`.
    """
    wanted_map(row, f"the row {address}", "give a map of its fields")
    return cast("Mapping[str, Value]", canonical.freeze(row))


def _order(key: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple(("number" if isinstance(part, (int, Decimal)) else type(part).__name__, part) for part in key)
