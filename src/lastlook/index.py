"""The hash reverse index over recorded dependencies: which pending intents a change reaches (ATR, Proposition 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastlook.errors import DeclarationError
from lastlook.frozen import Frozen
from lastlook.records import NAMES, Address, Capture, collection_of, key_parts

if TYPE_CHECKING:
    from collections.abc import Collection

    from lastlook.records import IntentRecord

__all__ = ["Change", "Closure", "Index"]

_Node = tuple[str, ...]
"""A node of the graph: ("read", transaction, resource, path...), ("decision", transaction, n) or ("intent", id)."""

_NOTHING: dict[str, list[int]] = {}
_CLEAR_AT = 1024
"""How many ended intents the index may hold before it clears them away."""


class Change:
    """A hint that a resource changed: `Change("policies", "refund", "limit")`; without fields, any of it may have.

    A hint starts work, never decides it. It may be early, late, repeated, lost or wrong.

    Raises:
        CanonicalError: the kind or the key has no canonical form.
        DeclarationError: a field that is no text.
    """

    __slots__ = ("address", "fields", "named", "reached")

    def __init__(self, kind: str, key: object, /, *fields: str) -> None:
        self.address = Address(kind, key_parts(key))
        self.fields = tuple(_field(name) for name in fields)
        self.named = repr((self.address.identity, self.fields))  # one text, whose hash is worked out once
        self.reached = tuple({self.address.identity: None, collection_of(self.address.kind).identity: None})

    def __repr__(self) -> str:
        return f"Change({', '.join((str(self.address), *self.fields))})"


def _field(name: object) -> str:
    if not isinstance(name, str):
        raise DeclarationError(f"Change(...) got {name!r} as a field: name the fields that changed by text")
    return str(name)


class Closure(Frozen):
    """What a change reaches: every node visited, once, and the pending intents among them."""

    nodes: tuple[_Node, ...]
    intents: tuple[str, ...]


class _Entry:
    """One pending intent: its record, and the reads that have an edge to its decisions."""

    __slots__ = ("decisions", "fed", "intent", "record")

    def __init__(self, record: IntentRecord, capture: Capture) -> None:
        self.record = record
        self.intent: _Node = ("intent", record.intent_id)
        if capture is Capture.PREDICATE:
            named = {index for premise in record.premises for index in premise.evidence} | set(record.refresh)
            self.fed: frozenset[int] | None = frozenset(named)
        else:
            self.fed = None
        numbers = [str(number) for number in range(len(record.decisions))] or [record.intent_id]
        self.decisions: list[_Node] = [("decision", record.transaction, number) for number in numbers]

    def successors(self, index: int) -> list[_Node]:
        """The decisions that a read leads to: all of them where a premise or the capture says so, else its own."""
        if self.fed is None or index in self.fed:
            return self.decisions
        return [self.decisions[n] for n, decision in enumerate(self.record.decisions) if index in decision.rests_on]


class Index:
    """Postings by resource: which pending intents recorded a read of it, and which of their reads those are.

    The edges read -> decision -> intent behind a posting are the intent's own. Predicate capture has one only from a
    read that a premise, a refresh rule or a conservative dependency names; field and object capture from every read.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._postings: dict[str, dict[str, list[int]]] = {}
        self._entries: dict[str, _Entry] = {}
        self._dead: list[IntentRecord] = []

    def add(self, record: IntentRecord) -> None:
        """Put a pending intent's reads, decisions and itself into the graph."""
        self._entries[record.intent_id] = _Entry(record, self._capture)
        for number, read in enumerate(record.reads):
            self._postings.setdefault(read.address.identity, {}).setdefault(record.intent_id, []).append(number)

    def remove(self, record: IntentRecord) -> None:
        """Take an intent out; what leads only to it is cleared away later, many intents at a time."""
        if self._entries.pop(record.intent_id, None) is not None:
            self._dead.append(record)
            if len(self._dead) > _CLEAR_AT and len(self._dead) > len(self._entries):
                dead, self._dead = self._dead, []
                for each in dead:
                    if each.intent_id not in self._entries:
                        self.forget_edges(each)

    def forget_edges(self, record: IntentRecord) -> None:
        """Lose an intent's reads; alone, what a faulty index would do, for tests that hints decide nothing."""
        for identity in {read.address.identity for read in record.reads}:
            posting = self._postings.get(identity)
            if posting is not None:
                posting.pop(record.intent_id, None)
                if not posting:
                    del self._postings[identity]

    def posted(self, change: Change) -> Collection[str]:
        """The pending intents with a recorded read of the changed resource, whatever field it is of."""
        row, whole = change.reached[0], change.reached[-1]
        posting, others = self._postings.get(row), self._postings.get(whole)
        if others is None or row is whole:
            return () if posting is None else tuple(posting)
        return tuple(others) if posting is None else dict.fromkeys((*posting, *others))

    def reached(self, change: Change) -> list[str]:
        """The pending intents that the change reaches; the same as in its closure."""
        found: dict[str, None] = {}
        names = None if not change.fields or self._capture is Capture.OBJECT else change.fields
        for identity in change.reached:
            for intent_id, numbers in list(self._postings.get(identity, _NOTHING).items()):
                entry = self._entries.get(intent_id)
                if entry is None or intent_id in found:
                    continue
                reads = entry.record.reads
                for number in numbers:
                    path = reads[number].path
                    if (names is None or not path or path[0] in names) and entry.successors(number):
                        found[intent_id] = None
                        break
        return list(found)

    def closure(self, change: Change) -> Closure:
        """Every node that the change reaches, each visited once (lines 6-7).

        A read over all rows of a kind is reached by a change to any of them, and a hint without fields reaches every
        read of its resource.
        """
        names = None if not change.fields or self._capture is Capture.OBJECT else change.fields
        visited: dict[_Node, None] = {}
        intents: dict[str, None] = {}
        for identity in change.reached:
            for intent_id, numbers in list(self._postings.get(identity, _NOTHING).items()):
                entry = self._entries.get(intent_id)
                if entry is None:
                    continue
                reads = entry.record.reads
                for number in numbers:
                    path = reads[number].path
                    if names is not None and path and path[0] not in names:
                        continue
                    if path != NAMES:  # a node is one recorded field; this read only says which fields there are
                        visited["read", entry.record.transaction, identity, *map(str, path)] = None
                    for decision in entry.successors(number):
                        visited[decision] = visited[entry.intent] = None
                        intents[intent_id] = None
        return Closure(tuple(visited), tuple(intents))
