"""What else is done with an intent: withdrawn, reconciled with its target, its unknown outcome asserted by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lastlook.answers import last_verdict, last_word, recorded, transition
from lastlook.commands import FindRow, Poll, Transit
from lastlook.errors import Applied, EffectStopped, InFlight, UnknownEffect
from lastlook.events import StateChanged
from lastlook.protocol import AGAIN, adopt, emit, ended_already, load, settle
from lastlook.records import SCHEMA, State
from lastlook.wanted import wanted, wanted_text

if TYPE_CHECKING:
    from lastlook.canonical import Value
    from lastlook.commands import Protocol
    from lastlook.protocol import Scene
    from lastlook.verdicts import Verdict

__all__ = ["assert_outcome", "not_open", "pending", "reconcile", "withdraw"]


def pending() -> Protocol[tuple[tuple[str, str], ...]]:
    """The intents that are OPEN or in ATTEMPT, id and effect, oldest first."""
    return (yield Poll(0)).intents  # type: ignore[no-any-return]  # News


def withdraw(scene: Scene, intent_id: str) -> Protocol[None]:
    """End an intent, only from OPEN (row 12); an overdue attempt is closed first, and withdrawing twice is no error.

    Raises:
        InFlight: an attempt is open, or unknown.
        EffectStopped: it has ended otherwise already.
    """
    while True:
        stored = yield from load(intent_id)
        if stored.row.state is State.WITHDRAWN:
            return
        ended = yield from ended_already(scene, stored)
        if ended is AGAIN:
            continue
        if ended is not None:
            raise not_open(stored.row.state, ended, intent_id, "withdrawn")
        if (yield Transit(transition(stored, "WITHDRAWN", State.WITHDRAWN, {"schema": SCHEMA}))).ok:
            emit(scene, StateChanged, intent_id, "WITHDRAWN", State.WITHDRAWN)
            return


def not_open(state: State, ended: Verdict[Any], intent_id: str, what: str) -> InFlight | EffectStopped:
    """Why an intent that is not open cannot be withdrawn or superseded."""
    if state is State.ATTEMPT:
        return InFlight(f"intent {intent_id} has an open attempt, so it cannot be {what}: {ended.model_text()}")
    return EffectStopped(ended, f"intent {intent_id} is {state.name.lower()} already and cannot be {what}")


def reconcile(scene: Scene, intent_id: str) -> Protocol[Verdict[Any] | None]:
    """Resolve an open attempt, and take over a commit that only the target knows of; None if there was nothing to do.

    Raises:
        UnknownIntent: no such intent.
    """
    stored = yield from load(intent_id)
    if stored.row.state.terminal:
        return None
    if stored.row.state is State.ATTEMPT:
        try:
            settled = yield from settle(scene, stored)
        except UnknownEffect as undeclared:
            return last_verdict(stored, Applied.UNKNOWN, reason=str(undeclared))
        if settled is not AGAIN:
            unsettled: Verdict[Any] = settled
            return unsettled
        moved = yield from load(intent_id)
        return recorded(moved, scene.plan) if moved.row.state.terminal else last_verdict(moved, Applied.NOT_ATTEMPTED)
    try:
        row = yield FindRow(stored.record)
    except UnknownEffect:
        return None  # a process that declares the effect will find what there is to find
    if row is None or row.committed_at is None:
        return None
    yield from adopt(scene, stored, row)
    return recorded((yield from load(intent_id)), scene.plan)


def assert_outcome(scene: Scene, intent_id: str, *, committed: bool, by: str, note: str) -> Protocol[None]:
    """A person says what became of an attempt whose target cannot (row 11); recorded as asserted, not as proved.

    Raises:
        InFlight: there is no open attempt, or the target can close it itself.
        DeclarationError: nobody is named, or there is no note.
    """
    wanted(committed, bool, "assert_outcome(committed=...)", "give True or False")
    by = wanted_text(by, "assert_outcome(by=...)", "name the person who found out")
    note = wanted_text(note, "assert_outcome(note=...)", "write how it was found out")
    stored = yield from load(intent_id)
    if stored.row.state is not State.ATTEMPT:
        state = stored.row.state.name.lower()
        raise InFlight(f"intent {intent_id} is {state}: only an open attempt's outcome can be asserted")
    settled = yield from settle(scene, stored)
    if settled is AGAIN or settled.applied is not Applied.UNKNOWN:
        raise InFlight(
            f"the outcome of intent {intent_id} needs no assertion: call gate(intent), which asks the target"
        )
    asserted: dict[str, Value] = {"committed": committed, "by": by, "note": note}
    body = last_word(stored) | asserted | {"applied": "COMMITTED" if committed else "NOT_ATTEMPTED"}
    if committed:
        body["result"] = None
    state_ = State.COMMITTED if committed else State.OPEN
    if not (yield Transit(transition(stored, "ASSERTED", state_, body))).ok:
        raise InFlight(f"intent {intent_id} moved while its outcome was being asserted: look at it again")
    emit(scene, StateChanged, intent_id, "ASSERTED", state_)
