"""What the protocol writes and answers: transitions, explanations, verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.errors import Applied, CanonicalError, Outcome
from lastlook.ports import Append, Stored
from lastlook.records import SCHEMA, State, microseconds
from lastlook.verdicts import NOTHING_SEEN, Intent, RecordedView, Verdict

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

    from lastlook.canonical import Value
    from lastlook.look import Look
    from lastlook.plan import Plan
    from lastlook.ports import Appended, Attempt, Store
    from lastlook.records import IntentRecord

__all__ = [
    "Commit",
    "FirstCommit",
    "after",
    "answer",
    "drifted",
    "expired",
    "explained",
    "lane_held",
    "last_verdict",
    "last_word",
    "recorded",
    "transition",
]

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_COMMITTED = Applied.COMMITTED
_DONE = State.COMMITTED


def transition(
    stored: Stored,
    kind: str,
    state: State,
    body: Mapping[str, Value] | Callable[[], Mapping[str, Value]],
    *,
    attempt: int | None = None,
) -> Append:
    """A change of state from what was loaded."""
    make = body if callable(body) else lambda: body
    number = stored.row.attempt if attempt is None else attempt
    proposal = None if stored.unsaved is None else (stored.record, stored.unsaved)
    return Append(stored.record.intent_id, stored.row.seq, kind, state, number, make, proposal=proposal)


class Commit(Append):
    """The end of an attempt whose target acknowledged the effect; it explains itself when its record is read."""

    __slots__ = ("_attempt", "_look", "_result", "_store")

    kind = "COMMITTED"
    state = _DONE
    owner = None
    deadline_us = None
    proposal = None

    def __init__(self, store: Store, stored: Stored, look: Look, attempt: Attempt, result: Value = None) -> None:
        self.intent_id = attempt.intent_id
        self.seq = stored.row.seq
        self.attempt = attempt.number
        self.checks = ()
        self._store = store
        self._look = look
        self._attempt = attempt
        self._result = result

    def begin(self, on: Any, /) -> bool:
        """Lock the intent in the target's open transaction."""
        return self._store.lock(self.intent_id, self.seq, on)

    def commit(self, stored: Value, at: dt.datetime, /, on: Any = None) -> Appended:
        """Make the transition in the target's transaction."""
        self._result = stored
        return self._store.append(self, at, on)

    def record(self) -> Mapping[str, Value]:
        """The explanation of the attempt, and the stored result."""
        return explained(self._look, _COMMITTED, attempt=self._attempt) | {"result": self._result}


class FirstCommit(Commit):
    """As `Commit`, of an intent that goes to the store in this very transaction."""

    __slots__ = ("_stored",)

    def __init__(self, store: Store, stored: Stored, look: Look, attempt: Attempt) -> None:
        super().__init__(store, stored, look, attempt)
        self._stored = stored

    def begin(self, on: Any, /) -> bool:
        """Store the proposal; False if its id was taken meanwhile."""
        stored = self._stored
        return self._store.create(stored.record, cast("dt.datetime", stored.unsaved), None, on).ok


def after(stored: Stored, append: Append) -> Stored:
    """The intent as an accepted transition left it."""
    row = stored.row._replace(
        state=append.state,
        seq=stored.row.seq + 1,
        attempt=append.attempt,
        owner=append.owner,
        deadline_us=append.deadline_us,
    )
    return Stored(stored.record, row, append.record)


def explained(look: Look, applied: Applied, *, attempt: Attempt | None = None, reason: str = "") -> dict[str, Value]:
    """The explanation of one validation and of what came of it (line 23)."""
    body: dict[str, Value] = {"schema": SCHEMA, "trigger": "PRE_EFFECT", **look.body(), "applied": applied.name}
    if reason:
        body["reason"] = reason
    if attempt is not None:
        body |= {
            "attempt": attempt.number,
            "key": attempt.key,
            "refresh": {name: _recordable(value) for name, value in attempt.fresh.items()},
            "not_after_us": None if attempt.not_after is None else microseconds(attempt.not_after),
        }
    return body


def _recordable(value: Value) -> Value:
    """A refreshed value as it is recorded: what has no exact form, such as a float shown to people, by its digest."""
    try:
        canonical.encode(value)
    except CanonicalError:
        return canonical.fingerprint(value)
    return value


def last_word(stored: Stored) -> dict[str, Value]:
    """The body of the intent's last record; nothing but the schema where there is only the proposal."""
    return dict(stored.last()) if stored.last is not None else {"schema": SCHEMA}


def answer(
    stored: Stored,
    look: Look,
    applied: Applied,
    state: State,
    *,
    result: Any = None,
    reason: str = "",
    error: BaseException | None = None,
) -> Verdict[Any]:
    """The verdict of a validation that was made now."""
    return Verdict(
        look.outcome,
        applied,
        stored.record.effect,
        look.plan.intent,
        look,
        state=state,
        result=result,
        reason=reason,
        error=error,
    )


def lane_held(stored: Stored, look: Look, holder: str) -> Verdict[Any]:
    """Another intent has an open attempt on what this one acts on."""
    reason = (
        f"intent {holder} has an open attempt on the same target, not yet resolved: "
        f"call gate(gate.intent({holder!r})) or gate.reconcile()"
    )
    return answer(stored, look, Applied.IN_PROGRESS, State.OPEN, reason=reason)


def last_verdict(stored: Stored, applied: Applied, *, reason: str = "") -> Verdict[Any]:
    """A verdict without a look of its own: the last recorded one stands."""
    body, record = last_word(stored), stored.record
    outcome = Outcome[str(body.get("outcome", "KEEP"))]
    intent: Intent[Any] = Intent(record.intent_id, record.effect)
    view = RecordedView(body, record.differences)
    return Verdict(outcome, applied, record.effect, intent, view, state=stored.row.state, reason=reason)


def drifted(stored: Stored, why: str) -> RecordedView:
    """What is seen of an intent whose stored arguments do not fit today's signature: it has to be planned anew."""
    finding = (f"the arguments of {stored.record.effect}()", "REPLAN", None, why, "")
    return _unseen(stored.record, "REPLAN", finding)


def expired(record: IntentRecord) -> RecordedView:
    """What is seen of an intent whose time is over."""
    finding = (f"the expiry of {record.effect}()", "BLOCK", None, "the intent has expired", "")
    return _unseen(record, "BLOCK", finding)


def _unseen(record: IntentRecord, outcome: str, finding: tuple[Value, ...]) -> RecordedView:
    body: dict[str, Value] = {"schema": SCHEMA, "outcome": outcome, "applied": "NOT_ATTEMPTED", "findings": (finding,)}
    return RecordedView(body, record.differences)


def recorded(stored: Stored, plan: Callable[[Stored], Plan]) -> Verdict[Any]:
    """A terminal intent answers with its record; no reads, no apply, no validators."""
    record, state = stored.record, stored.row.state
    intent: Intent[Any] = Intent(record.intent_id, record.effect)
    body = last_word(stored)
    if state is not _DONE:
        by = body.get("by") if state is State.SUPERSEDED else None
        reason = f"the intent was superseded by intent {by!s}" if by is not None else ""
        return Verdict(
            Outcome.BLOCK, Applied.NOT_ATTEMPTED, record.effect, intent, NOTHING_SEEN, state=state, reason=reason
        )
    try:
        result = plan(stored).contract.arguments.restore_result(body.get("result"))
    except (CanonicalError, LookupError):
        result = body.get("result")  # the effect is not declared here any more, or was changed: the stored value stands
    outcome = Outcome[str(body.get("outcome", "KEEP"))]
    view = RecordedView(body, record.differences)
    return Verdict(outcome, _COMMITTED, record.effect, intent, view, state=state, result=result)
