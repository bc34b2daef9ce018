"""Agent transactions: what an agent read and concluded before it proposes; a value that crosses threads and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.commands import Read
from lastlook.errors import DeclarationError, LastlookError
from lastlook.expressions import (
    Env,
    Expr,
    Field,
    Pending,
    Ref,
    SlotTable,
    Unverifiable,
    analyse,
    field_place,
    hidden_name,
    to_json,
)
from lastlook.ports import Unreadable
from lastlook.records import NAMES, Decision, Observation, at
from lastlook.records import Read as ReadRecord
from lastlook.wanted import mistaken, wanted_text

if TYPE_CHECKING:
    from lastlook.canonical import Value
    from lastlook.commands import Protocol
    from lastlook.ports import Store
    from lastlook.records import Address, Path

__all__ = ["Evidence", "Ledger", "read_evidence"]


class Evidence:
    """What one `transaction.read` brought: the value, frozen, and the reads to rest a decision on.

    Attributes:
        value: the row's fields, or the field's value, or the rows; None where there is no row.
        reads: the numbers of those reads in their transaction.
    """

    __slots__ = ("_ledger", "reads", "value")

    def __init__(self, value: Any, reads: tuple[int, ...], ledger: Ledger) -> None:
        self.value = value
        self.reads = reads
        self._ledger = ledger

    def is_of(self, ledger: Ledger) -> bool:
        """Whether it was read in that very transaction."""
        return self._ledger is ledger

    def __getitem__(self, name: str) -> Any:
        return self.value[name]

    def __bool__(self) -> bool:
        raise TypeError("evidence is not a yes or no: compare its value")


class Ledger:
    """The reads and decisions of one transaction; each intent that is proposed from it takes them as they stand."""

    def __init__(self, transaction_id: str, store: Store) -> None:
        self.id = transaction_id
        self._store = store
        self._reads: list[ReadRecord] = []
        self._decisions: list[Decision] = []

    @property
    def reads(self) -> tuple[ReadRecord, ...]:
        """Everything read so far."""
        return tuple(self._reads)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Everything decided so far."""
        return tuple(self._decisions)

    def record(self, address: Address, path: Path, observation: Observation, value: Any, named: str | None) -> Evidence:
        """Record an observation: a row field by field, anything else as one."""
        row = observation.value
        # Beside a row's fields, which of them there are: one that appears is a change as well.
        paths: list[Path] = [path] if path or not isinstance(row, Mapping) else [NAMES, *((name,) for name in row)]
        first, salt = len(self._reads), self._store.salt
        for each in paths:
            digest = canonical.fingerprint(at(row, each), salt=salt)
            self._reads.append(ReadRecord(address, each, digest, observation.token, "AGENT", named))
        return Evidence(None if value is ABSENT else value, tuple(range(first, len(self._reads))), self)

    def decide(self, text: str, rests_on: Iterable[object]) -> None:
        """Record a conclusion and the reads that it rests on.

        Raises:
            DeclarationError: no text, or something in `rests_on` is no read of this transaction.
        """
        conclusion = wanted_text(text, "decide(text)", "write what was concluded")
        if isinstance(rests_on, (str, Evidence)) or not isinstance(cast("object", rests_on), Iterable):
            raise mistaken("decide(rests_on=...)", rests_on, "give a list of what transaction.read returned")
        indexes: dict[int, None] = {}
        for evidence in rests_on:
            if not isinstance(evidence, Evidence):
                raise DeclarationError(
                    f"decide(rests_on=...) got {type(evidence).__name__}: give it what transaction.read returned"
                )
            if not evidence.is_of(self):
                raise DeclarationError(
                    "decide(rests_on=...) got evidence of another transaction: rest a decision on what this "
                    "transaction has read, and read it here as well"
                )
            indexes.update(dict.fromkeys(evidence.reads))
        self._decisions.append(Decision(conclusion, tuple(indexes)))


def read_evidence(ledger: Ledger, what: Ref | Expr[Any], arguments: Mapping[str, Value]) -> Protocol[Evidence]:
    """Read a resource, a field, or all rows of a kind, and record it.

    Raises:
        LastlookError: it could not be read.
        DeclarationError: it names nothing that can be read.
    """
    ref, path = _place(what)
    slots = SlotTable()
    slot = slots.slot(ref)
    env = Env(slots, arguments)
    while True:
        env.settled()
        try:
            observation = env.fetch(slot)
            break
        except Unverifiable as unverifiable:
            raise LastlookError(f"{what!r} could not be read: {unverifiable.reason}") from unverifiable
        except Pending:
            addresses = tuple(env.missing.values())
            for address, found in zip(addresses, (yield Read(addresses)), strict=True):
                if isinstance(found, Unreadable):
                    place = next(slots.names[n](env) for n, known in enumerate(env.addresses) if known == address)
                    raise LastlookError(f"{place} could not be read: {found.reason}") from None
                env.observed(address, found)
    # Whose key it read itself, an agent may know; what others read of it later need not.
    named = hidden_name(ref, env, lambda _address, _path: False)
    return ledger.record(env.address(slot), path, observation, at(observation.value, path), named)


def _place(what: object) -> tuple[Ref, Path]:
    if isinstance(what, Ref):
        return what, ()
    if isinstance(what, Field):
        return field_place(cast("Field[object]", what))
    if isinstance(what, Expr):
        expression = cast("Expr[object]", what)
        if cast("Any", to_json(expression))[1][0] == "rows":
            return analyse(expression).static[0][0], ()
    raise DeclarationError(f"transaction.read() got {what!r}: read a resource, one of its fields, or rows(kind)")
