"""The chain of an intent's records: the digest that ties a record to the one before, and what shows that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastlook import canonical
from lastlook.errors import IntegrityError
from lastlook.records import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.ports import JournalEntry

__all__ = ["GENESIS", "chain_digest", "chained", "check_chain", "fits", "foreign"]

GENESIS = ""
"""What an intent's first record is chained to."""

_STATES = {state.name: state for state in State}


def chain_digest(previous: str, intent_id: str, seq: int, kind: str, at_us: int, body: bytes) -> str:
    """The digest that chains a record to the one before it (SHA-256 over the canonical form of both)."""
    head = canonical.encode((previous, intent_id, seq, kind, at_us))
    import hashlib  # dear to import, and not needed to declare an effect

    return "sha256:" + hashlib.sha256(len(head).to_bytes(8, "big") + head + body).hexdigest()


def chained(previous: str, intent_id: str, seq: int, kind: object, at_us: object, body: object, digest: object) -> bool:
    """Whether a record as it was found, of whatever types, is the one that was chained to the one before it."""
    if type(kind) is not str or type(at_us) is not int or type(body) is not bytes:
        return False
    return chain_digest(previous, intent_id, seq, kind, at_us, body) == digest


def check_chain(intent_id: str, journal: Sequence[JournalEntry], seq: int) -> None:
    """Recompute a chain from its first record; `seq` is that of the last record as the intent's row has it.

    Raises:
        IntegrityError: a record was edited, cut, reordered, put in, or is of another intent.
    """
    previous = GENESIS
    for number, entry in enumerate(journal):
        found = (entry.kind, entry.at_us, entry.body, entry.digest)
        if (entry.intent_id, entry.seq) != (intent_id, number) or not chained(previous, intent_id, number, *found):
            raise foreign(intent_id, f"record {number}")
        previous = entry.digest
    if len(journal) != seq + 1:
        raise IntegrityError(
            f"intent {intent_id} has {len(journal)} records where {seq + 1} were written: "
            + ("its tail was cut" if len(journal) <= seq else "some were put in")
            + ": do not release it, restore the store"
        )


def foreign(intent_id: str, what: str) -> IntegrityError:
    """The error that tells of a record, or a part of the row, that is not what was written."""
    return IntegrityError(f"{what} of intent {intent_id} is not what was written: do not release it, restore the store")


def fits(state: State, kind: str, body: Callable[[], Mapping[str, Value]] | None) -> bool:
    """Whether an intent whose last record is of this kind, and has this body, can be in this state."""
    if kind == "ASSERTED" and body is not None:
        return state is (State.COMMITTED if body().get("committed") is True else State.OPEN)
    return state is _STATES.get(kind, State.OPEN)
