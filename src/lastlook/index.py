"""The hash reverse index over recorded dependencies: which pending intents can a change reach? (ATR, Proposition 2)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastlook.records import Address, Capture, place

if TYPE_CHECKING:
    from lastlook.records import IntentRecord, Path

__all__ = ["Change", "Closure", "Index"]

Node = tuple[str, ...]
"""A node of the graph: ("read", transaction, place), ("decision", transaction, number) or ("intent", id)."""


class Change:
    """A hint that a resource changed: `Change("policies", "refund", "limit")`; without fields, any of it may have.

    A hint starts work, never decides it. It may be early, late, repeated, lost or wrong.

    Raises:
        CanonicalError: the kind or the key has no canonical form.
    """

    __slots__ = ("address", "fields")

    def __init__(self, kind: str, key: object, /, *fields: str) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        self.address = Address(kind, parts)  # type: ignore[arg-type]  # the address refuses what is no key
        self.fields = fields

    def __repr__(self) -> str:
        return f"Change({', '.join((str(self.address), *self.fields))})"


@dataclass(frozen=True, slots=True)
class Closure:
    """What a change reaches: every node visited, once, and the pending intents among them."""

    nodes: tuple[Node, ...]
    intents: tuple[str, ...]


class Index:
    """Reads by resource, and the edges read -> decision -> intent behind them.

    Predicate capture has an edge only from a read that a premise, a refresh rule or a conservative dependency names;
    field and object capture from every read of the transaction.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._reads: dict[str, dict[Node, Path]] = {}
        self._edges: dict[Node, dict[Node, None]] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._owned: dict[str, dict[Node, str]] = {}

    def add(self, record: IntentRecord) -> None:
        """Put a pending intent's reads, decisions and itself into the graph."""
        transaction = record.transaction
        self._members.setdefault(transaction, {})[record.intent_id] = None
        owned = self._owned.setdefault(transaction, {})
        decisions: list[Node] = [("decision", transaction, str(number)) for number in range(len(record.decisions))]
        decisions = decisions or [("decision", transaction, record.intent_id)]
        intent: Node = ("intent", record.intent_id)
        for decision in decisions:
            owned[decision] = ""
            self._edges.setdefault(decision, {})[intent] = None
        named = {index for premise in record.premises for index in premise.evidence} | set(record.refresh)
        for index, read in enumerate(record.reads):
            node: Node = ("read", transaction, place(read.address, read.path))
            owned[node] = read.address.identity
            self._reads.setdefault(read.address.identity, {})[node] = read.path
            edges = self._edges.setdefault(node, {})
            if index in named or self._capture is not Capture.PREDICATE:
                edges.update(dict.fromkeys(decisions))
            for number, decision_ in enumerate(record.decisions):
                if index in decision_.rests_on:
                    edges[decisions[number]] = None

    def remove(self, record: IntentRecord) -> None:
        """Take an intent out; its transaction's reads and decisions go with its last intent."""
        members = self._members.get(record.transaction, {})
        members.pop(record.intent_id, None)
        intent: Node = ("intent", record.intent_id)
        owned = self._owned.get(record.transaction, {})
        for node in owned:
            self._edges.get(node, {}).pop(intent, None)
        if members:
            return
        for node, identity in owned.items():
            self._edges.pop(node, None)
            reads = self._reads.get(identity)
            if reads is not None:
                reads.pop(node, None)
                if not reads:
                    del self._reads[identity]
        self._owned.pop(record.transaction, None)
        self._members.pop(record.transaction, None)

    def forget_edges(self, record: IntentRecord) -> None:
        """Lose an intent's reads, as a faulty index would; for tests that hints decide nothing."""
        for node, identity in self._owned.get(record.transaction, {}).items():
            self._reads.get(identity, {}).pop(node, None)

    def closure(self, change: Change) -> Closure:
        """Every node that the change reaches, each visited once (lines 6-7).

        A read over all rows of a kind is reached by a change to any of them, and a hint without fields reaches every
        read of its resource.
        """
        address = change.address
        names = frozenset(change.fields)
        whole = not names or self._capture is Capture.OBJECT
        seeds = [
            node for node, path in self._reads.get(address.identity, {}).items() if whole or not path or path[0] in names
        ]
        if address.key:
            seeds.extend(self._reads.get(Address(address.kind, ()).identity, {}))
        visited = dict.fromkeys(seeds)
        stack = seeds
        while stack:
            for successor in self._edges.get(stack.pop(), ()):
                if successor not in visited:
                    visited[successor] = None
                    stack.append(successor)
        intents = tuple(node[1] for node in visited if node[0] == "intent")
        return Closure(tuple(visited), intents)
