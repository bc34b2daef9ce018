"""An intent's story: its journal, read back. Nothing here asks a gate, a system or today's declarations."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.errors import CanonicalError, DeclarationError, IntegrityError
from lastlook.expressions import Env, Expr, SlotTable, compile_expression, from_json
from lastlook.expressions.prose import say
from lastlook.records import EPOCH, SCHEMA, State
from lastlook.store.bodies import RECORD_BYTES, intent_from_body

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastlook.ports import JournalEntry
    from lastlook.records import IntentRecord, PremiseRecord, Read

__all__ = ["Step", "Story", "moment", "printable", "read_story"]


class Step:
    """One record behind the proposal.

    Attributes:
        kind: the transition.
        at: when it was made, ISO 8601.
        body: the record as it is stored.
    """

    __slots__ = ("at", "body", "kind")

    def __init__(self, kind: str, at_us: int, body: Mapping[str, Any]) -> None:
        self.kind = kind
        self.at = moment(at_us)
        self.body = body

    @property
    def looked(self) -> bool:
        """Whether it tells of a look of its own."""
        return "outcome" in self.body and not self.body.get("recovered")


class Story:
    """What is known of one intent.

    Attributes:
        record: the proposal.
        proposed_at: when it was made, ISO 8601.
        steps: what happened since.
        demands: each premise in words, by label.
    """

    def __init__(self, record: IntentRecord, proposed_at: str, steps: Sequence[Step]) -> None:
        self.record = record
        self.proposed_at = proposed_at
        self.steps = tuple(steps)
        self.demands = _demands(record)

    @property
    def state(self) -> State:
        """Where the intent stands by its last record."""
        if not self.steps:
            return State.OPEN
        last = self.steps[-1]
        if last.kind == "ASSERTED":
            return State.COMMITTED if last.body["committed"] else State.OPEN
        return State[last.kind] if last.kind in State.__members__ else State.OPEN

    def places(self, indexes: Sequence[int]) -> tuple[str, ...]:
        """The names of these reads, each once."""
        return tuple(dict.fromkeys(self.record.reads[index].place for index in indexes))

    def as_json(self, *, reveal: bool) -> dict[str, Any]:
        """The story as a plain tree; `reveal` adds arguments, the actor, what was captured, refreshed and returned."""
        record = self.record
        tree: dict[str, Any] = {
            "intent": record.intent_id,
            "effect": record.effect,
            "target": record.target,
            "state": self.state.name,
            "proposed": self.proposed_at,
            "expires": None if record.expires_us is None else moment(record.expires_us),
            "transaction": record.transaction,
            "supersedes": record.supersedes,
            "one_shot": record.one_shot,
            "arguments": sorted(record.arguments),
            "actor": None if record.actor is None else sorted(record.actor),
            "premises": [self._premise(premise) for premise in record.premises],
            "refresh": list(self.places(record.refresh)),
            "reads": [{"place": read.place, "by": _reader(read)} for read in record.reads],
            "decisions": [{"text": each.text, "rests_on": self.places(each.rests_on)} for each in record.decisions],
            "differences": list(record.differences),
            "steps": [_step(step, reveal=reveal) for step in self.steps],
        }
        if reveal:
            tree["revealed"] = {"arguments": record.arguments, "actor": record.actor}
        return cast("dict[str, Any]", canonical.to_json(tree))

    def _premise(self, premise: PremiseRecord) -> dict[str, Any]:
        return {
            "premise": premise.label,
            "demands": self.demands[premise.label],
            "severity": premise.severity.name,
            "because": premise.because,
            "accepts": premise.accepts,
            "awaited": premise.awaited,
            "proven": premise.proven,
            "rests_on": list(self.places(premise.evidence)),
            "validators": [f"{name}@{version}" for name, version, _, _ in premise.validators],
        }


def read_story(entries: Sequence[JournalEntry]) -> Story:
    """The story that an intent's journal tells.

    Raises:
        IntegrityError: a record cannot be read, or is of a newer version.
    """
    bodies = [_body(entry) for entry in entries]
    if not bodies:
        raise IntegrityError("the intent has no records at all: restore the store")
    steps = [Step(entry.kind, entry.at_us, body) for entry, body in zip(entries[1:], bodies[1:], strict=True)]
    return Story(intent_from_body(bodies[0]), moment(entries[0].at_us), steps)


def _body(entry: JournalEntry) -> Mapping[str, Any]:
    try:
        body: Any = canonical.decode(entry.body, limit=RECORD_BYTES)
        schema = body["schema"]
    except (CanonicalError, LookupError, TypeError) as error:
        raise IntegrityError(
            f"record {entry.seq} of intent {entry.intent_id} cannot be read: the store was edited or is not lastlook's"
        ) from error
    if schema != SCHEMA:
        raise IntegrityError(
            f"record {entry.seq} of intent {entry.intent_id} is of schema {schema!r}, and this version knows {SCHEMA}: "
            "upgrade lastlook"
        )
    return cast("Mapping[str, Any]", body)


def printable(text: str) -> str:
    """The text with whatever would move a terminal's cursor, or hide, written out: some of it was written by agents."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def moment(at_us: int) -> str:
    """A stored time as ISO 8601, to the second where it is a whole one."""
    return (EPOCH + dt.timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")


def _reader(read: Read) -> str:
    return "agent" if read.origin == "AGENT" else "proposal"


def _demands(record: IntentRecord) -> dict[str, str]:
    """Each premise in words; one that this version cannot read keeps its label."""
    slots = SlotTable()
    found: dict[str, Expr[Any] | None] = {}
    for premise in record.premises:
        try:
            expression = from_json(canonical.decode(premise.condition.encode()))
            compile_expression(expression, slots)
        except (CanonicalError, DeclarationError):
            expression = None
        found[premise.label] = expression
    env = Env(slots, record.arguments, ABSENT if record.actor is None else record.actor)
    return {label: label if expression is None else say(expression, env) for label, expression in found.items()}


_TOLD = ("outcome", "applied", "reason", "attempt", "key", "by", "note", "committed", "recovered", "accepted")


def _step(step: Step, *, reveal: bool) -> dict[str, Any]:
    body = step.body
    tree: dict[str, Any] = {"kind": step.kind, "at": step.at}
    tree |= {name: body[name] for name in _TOLD if name in body}
    for name in ("not_after", "deadline"):
        if body.get(f"{name}_us") is not None:
            tree[name] = moment(body[f"{name}_us"])
    if "outcome" in body:
        tree["changed"] = body.get("changed", ())
        tree["checked"] = [{"premise": each["label"], "holds": each["holds"]} for each in body.get("premises", ())]
        tree["findings"] = [
            dict(zip(("premise", "severity", "holds", "text", "because"), each, strict=True))
            for each in body.get("findings", ())
        ]
        tree["bindings"] = body.get("bindings", {})
        tree["refreshed"] = sorted(body.get("refresh", ()))
    if reveal:
        shown = {name: body[key] for name, key in (("refreshed", "refresh"), ("result", "result")) if key in body}
        tree |= {"revealed": shown} if shown else {}
    return tree
