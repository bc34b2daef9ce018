"""Algorithm 1 of the ATR paper and what surrounds it, as generators that yield commands and are sent their results.

The synchronous driver, the asynchronous driver, the simulator and the interleaving tests all run exactly this code. No
generator yields while it is being closed, and an attempt without an answer needs no write: it *is* the unknown state.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lastlook.answers import (
    Commit,
    FirstCommit,
    after,
    answer,
    drifted,
    expired,
    explained,
    lane_held,
    last_verdict,
    last_word,
    recorded,
    transition,
)
from lastlook.commands import Apply, Close, FindRow, Judge, Load, Now, Pause, Read, Transit
from lastlook.errors import Applied, CanonicalError, IntegrityError, Outcome, StoreBusy, UnknownEffect, UnknownIntent
from lastlook.evaluation import MAX_WAVES, Evaluation
from lastlook.events import (
    ApplyAnswered,
    AttemptClosed,
    AttemptOpened,
    LookTaken,
    OutcomeDecided,
    PremiseChecked,
    ReadChanged,
    StateChanged,
)
from lastlook.frozen import Frozen
from lastlook.look import Kept
from lastlook.ports import Append, ApplyResult, Attempt, CloseResult
from lastlook.records import EPOCH, SCHEMA, EffectRow, State, microseconds, place
from lastlook.verdicts import Intent, Preview, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook.canonical import Value
    from lastlook.commands import Protocol
    from lastlook.events import Event
    from lastlook.index import Change
    from lastlook.look import Look
    from lastlook.plan import Plan
    from lastlook.ports import Journal, Store, Stored
    from lastlook.records import IntentRecord

__all__ = [
    "AGAIN",
    "Limits",
    "Scene",
    "Taken",
    "adopt",
    "emit",
    "ended_already",
    "finish",
    "hinted",
    "load",
    "preview",
    "release",
    "release_at_once",
    "settle",
    "tell",
    "validate",
]


class Limits(Frozen):
    """Bounds of a release; times in seconds.

    Attributes:
        revalidations: how often a refused attempt is validated anew before the gate stops.
        attempt: an attempt's deadline, after which anybody may close it.
        patience: how long a busy target is tried again in place.
        pause: the first wait for a busy target; it doubles.
    """

    revalidations: int = 3
    attempt: float = 30.0
    patience: float = 5.0
    pause: float = 0.01


@dataclass(slots=True)
class Scene:
    """What the protocol knows of its gate.

    Attributes:
        owner: names this gate in the attempts that it opens.
        plan: compiles a stored intent, or finds the compiled one; raises CanonicalError where the contract drifted.
        remember: takes a newly stored intent among the pending ones.
        together: whether an effect's first transition can take its proposal with it, in its target's transaction.
        active: the attempts, by intent and number, that this gate is making now; one entry for each thread that is,
            so that none takes another's away.
        emit: told what happens, if anybody listens.
    """

    owner: str
    store: Store
    plan: Callable[[Stored], Plan]
    remember: Callable[[Any], None]
    together: Callable[[str], bool]
    limits: Limits = field(default_factory=Limits)
    active: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    emit: Callable[[Event], None] | None = None


class Taken(Exception):
    """The id of an intent that was still to be stored is another's: look at that one."""


AGAIN = object()
"""Load the intent again: it moved."""

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_BUSY = Applied.BUSY
_COMMITTED = Applied.COMMITTED
_IN_PROGRESS = Applied.IN_PROGRESS
_NOT_ATTEMPTED = Applied.NOT_ATTEMPTED
_REJECTED = Applied.REJECTED
_UNKNOWN = Applied.UNKNOWN
_OPEN = State.OPEN
_IN_ATTEMPT = State.ATTEMPT
_DONE = State.COMMITTED
_ANSWERS = frozenset({_BUSY, _COMMITTED, Applied.FAILED, _IN_PROGRESS, _REJECTED, _UNKNOWN})


# The last look and the effect, one step.


def release(
    scene: Scene, intent_id: str, *, rejected: Verdict[Any] | None = None, first: Stored | None = None
) -> Protocol[Verdict[Any]]:
    """Perform the effect of an intent if what justified it still holds: Algorithm 1, under the state machine.

    Load; resolve an open attempt; look at the evidence and the target's row; validate; then refuse, or attempt. A
    refused attempt is validated anew, a bounded number of times.

    Args:
        scene: what the protocol knows of its gate.
        intent_id: names the intent.
        rejected: the verdict of an attempt that was refused just before.
        first: an intent that is not stored yet; it is, together with its first transition.

    Raises:
        Taken: another intent has the id of `first`, or nothing was stored because somebody was quicker.
    """
    rejections = 0 if rejected is None else 1
    unsaved = first
    while True:
        if unsaved is not None:
            stored, unsaved = unsaved, None
        else:
            found = yield Load(intent_id)
            if first is not None and (found is None or found.record != first.record):
                raise Taken
            stored = found or _unknown(intent_id)
        if stored.row.state is not _OPEN or stored.record.expires_us is not None:
            ended = yield from ended_already(scene, stored)
            if ended is AGAIN:
                continue
            if ended is not None:
                return ended  # type: ignore[no-any-return]  # a verdict
        if rejected is not None and rejections > scene.limits.revalidations:
            return rejected
        try:
            plan = scene.plan(stored)
        except CanonicalError as drift:
            verdict = yield from _refuse_drifted(stored, str(drift))
        else:
            look = plan.look((yield plan.observe))
            verdict = yield from _decide(scene, stored, look)
        if verdict is None:
            continue
        if verdict.applied is not _REJECTED:
            return verdict
        rejected = verdict
        rejections += 1


def release_at_once(scene: Scene, plan: Plan) -> Verdict[Any] | Protocol[Verdict[Any]]:
    """`release` in one call, where nothing is in its way: an open intent, nothing changed, one engine, a commit.

    The same steps in the same order, for a driver that awaits nothing and at whose commands nobody steps in.

    Returns:
        The verdict; or, where something is in its way, the protocol from there on.
    """
    intent_id = plan.record.intent_id
    stored = scene.store.load(intent_id)
    if stored is None or stored.row.state is not _OPEN or plan.record.expires_us is not None:
        return release(scene, intent_id)
    if stored.record is not plan.record and not plan.is_of(stored.record):
        return release(scene, intent_id)
    look = plan.look(plan.reader())
    if type(look) is not Kept or not look.outcome.permits:
        return _from_there(scene, intent_id, _decide(scene, stored, look))
    attempt = _attempt(stored, look, None)
    journal = Commit(scene.store, stored, look, attempt)
    if scene.store.evidence is not None:
        journal.checks = look.owned()
    try:
        said = plan.target.apply(attempt, journal)
    except Exception as error:  # noqa: BLE001 - whatever a target raises is no answer
        said = error
    if type(said) is ApplyResult and said.status is _COMMITTED and not said.repeated:
        return Verdict(look.outcome, _COMMITTED, plan.record.effect, plan.intent, look, _DONE, said.value)
    return _from_there(scene, intent_id, _answered(scene, stored, look, attempt, journal, said))


def _from_there(scene: Scene, intent_id: str, steps: Protocol[Verdict[Any] | None]) -> Protocol[Verdict[Any]]:
    """The rest of one validation, and whatever has to follow it."""
    verdict = yield from steps
    if verdict is None or verdict.applied is _REJECTED:
        return (yield from release(scene, intent_id, rejected=verdict))
    return verdict


def preview(scene: Scene, intent_id: str) -> Protocol[Preview]:
    """What `release` would decide now, and nothing done about it."""
    stored = (yield Load(intent_id)) or _unknown(intent_id)
    if stored.row.state.terminal:
        verdict = recorded(stored, scene.plan)
        return Preview(verdict.outcome, stored.record.effect, verdict.intent, verdict.view)
    try:
        plan = scene.plan(stored)
    except CanonicalError as drift:
        intent: Intent[Any] = Intent(intent_id, stored.record.effect)
        return Preview(Outcome.REPLAN, stored.record.effect, intent, drifted(stored, str(drift)))
    if plan.record.expires_us is not None and microseconds((yield Now())) >= plan.record.expires_us:
        return Preview(Outcome.BLOCK, plan.record.effect, plan.intent, expired(plan.record))
    look = plan.look((yield plan.observe))
    if type(look) is not Kept:
        yield from validate(look)
    if scene.emit is not None:
        tell(scene.emit, look, "PREVIEW")
    return look.preview if type(look) is Kept else Preview(look.outcome, stored.record.effect, plan.intent, look)


def hinted(scene: Scene, plan: Plan, change: Change) -> Protocol[Preview]:
    """What a change hint makes of one pending intent (EVENT): the premises it touches, on today's evidence."""
    if plan.record.expires_us is not None and microseconds((yield Now())) >= plan.record.expires_us:
        return Preview(Outcome.BLOCK, plan.record.effect, plan.intent, expired(plan.record))
    look = plan.hinted((yield plan.observe), change)
    yield from validate(look)
    if scene.emit is not None:
        tell(scene.emit, look, "EVENT")
    return Preview(look.outcome, plan.record.effect, plan.intent, look)


def validate(look: Look) -> Protocol[None]:
    """Run the affected premises (lines 7-13), and let the worst answer dominate (lines 14-15)."""
    if look.start((yield Now()) if look.program.volatile else None):
        yield from finish(look)
    look.decide()


def finish(evaluation: Evaluation) -> Protocol[None]:
    """Run what waits (lines 8-13), reading and judging what it turned out to need, wave by wave."""
    waves = 0
    while evaluation.waiting:
        env = evaluation.env
        if env.missing:
            waves += 1
            if waves > MAX_WAVES:
                evaluation.give_up(f"its evidence leads through more than {MAX_WAVES} further reads")
                return
            addresses = tuple(env.missing.values())
            evaluation.observe(addresses, (yield Read(addresses)))
        if env.unjudged:
            pins = frozenset(pin for check in evaluation.program.checks for pin in check.pins)
            env.answered((yield Judge(tuple(env.unjudged.values()), pins)))
        env.settled()
        evaluation.run()


# Before the look.


def load(intent_id: str) -> Protocol[Stored]:
    """The stored intent.

    Raises:
        UnknownIntent: there is none of that id in this store.
    """
    return (yield Load(intent_id)) or _unknown(intent_id)


def _unknown(intent_id: str) -> Stored:
    raise UnknownIntent(
        f"no intent {intent_id!r} in this gate's store: it was proposed at another gate, or the store is not kept"
    )


def ended_already(scene: Scene, stored: Stored) -> Protocol[Any]:
    """A terminal intent's record, an open attempt's resolution, an expiry (rows 15, 4/9, 13); None if it is open."""
    row = stored.row
    if row.state.terminal:
        return recorded(stored, scene.plan)
    if row.state is _IN_ATTEMPT:
        return (yield from settle(scene, stored))
    expires_us = stored.record.expires_us
    if expires_us is not None and microseconds((yield Now())) >= expires_us:
        yield Transit(transition(stored, "EXPIRED", State.EXPIRED, {"schema": SCHEMA}))
        return AGAIN
    return None


def settle(scene: Scene, stored: Stored) -> Protocol[Any]:
    """Resolve an open attempt: close it at the target first, then journal what the target said (rows 4 and 9).

    A live attempt of another gate, or of another thread of this one, is left alone until its deadline.

    Returns:
        A verdict of IN_PROGRESS or UNKNOWN, or AGAIN.
    """
    row, record = stored.row, stored.record
    dead = row.owner == scene.owner and (record.intent_id, row.attempt) not in scene.active
    now = yield Now()
    if not dead and row.deadline_us is not None and microseconds(now) < row.deadline_us:
        return last_verdict(stored, _IN_PROGRESS, reason="another attempt on this intent is open")
    closed = yield from _closed(record, row.attempt)
    emit(scene, AttemptClosed, record.intent_id, row.attempt, closed.status)
    if closed.status is _COMMITTED:
        body = last_word(stored) | {"applied": "COMMITTED", "result": closed.stored, "recovered": True}
        yield Transit(transition(stored, "COMMITTED", _DONE, body))
    elif closed.status is _NOT_ATTEMPTED:
        body = last_word(stored) | {"applied": "NOT_ATTEMPTED", "attempt": row.attempt}
        yield Transit(transition(stored, "CLOSED", _OPEN, body))
    else:
        reason = closed.reason or "the target cannot say what became of the attempt"
        return last_verdict(stored, _UNKNOWN, reason=reason)
    return AGAIN


def adopt(scene: Scene, stored: Stored, row: EffectRow) -> Protocol[None]:
    """The target has a commit that this store does not know of: the store was restored from an older state.

    Raises:
        IntegrityError: that commit is of other arguments, so it is not this intent's.
    """
    body: dict[str, Value] = {
        "schema": SCHEMA,
        "outcome": "KEEP",
        "applied": "COMMITTED",
        "result": row.result,
        "recovered": True,
    }
    if row.args_digest != stored.record.arguments_digest:
        raise IntegrityError(_foreign_row(stored.record))
    append = transition(stored, "COMMITTED", _DONE, body, attempt=row.attempt or stored.row.attempt)
    if (yield Transit(append)).ok:
        emit(scene, StateChanged, stored.record.intent_id, "COMMITTED", _DONE)


def _refuse_drifted(stored: Stored, why: str) -> Protocol[Verdict[Any] | None]:
    """Stored arguments do not fit today's signature: the intent has to be planned anew."""
    view = drifted(stored, why)
    if not (yield Transit(transition(stored, "VERDICT", _OPEN, view.body))).ok:
        return None
    record = stored.record
    intent: Intent[Any] = Intent(record.intent_id, record.effect)
    return Verdict(Outcome.REPLAN, _NOT_ATTEMPTED, record.effect, intent, view, state=_OPEN, reason=why)


# After the look.


def _refuse(
    scene: Scene, stored: Stored, look: Look, applied: Applied, reason: str = ""
) -> Protocol[Verdict[Any] | None]:
    """Journal why nothing was released (row 2); None if somebody else moved the intent meanwhile."""
    append = transition(stored, "VERDICT", _OPEN, lambda: explained(look, applied, reason=reason))
    try:
        if not (yield Transit(append)).ok:
            return None
    except StoreBusy as busy:
        return answer(stored, look, _BUSY, _OPEN, reason=str(busy), error=busy)
    emit(scene, StateChanged, stored.record.intent_id, "VERDICT", _OPEN)
    return answer(stored, look, applied, _OPEN, reason=reason)


def _decide(scene: Scene, stored: Stored, look: Look) -> Protocol[Verdict[Any] | None]:
    """Validate a look (lines 7-15), then refuse or attempt (lines 16-23); None if the intent has moved meanwhile."""
    plan = look.plan
    if type(look) is not Kept:
        yield from validate(look)
    if scene.emit is not None:
        tell(scene.emit, look, "PRE_EFFECT")
    permits = look.outcome.permits
    # One engine with the store: its row is in the same transaction, and only a refusal could be wrong about it.
    row = None if plan.one_engine and permits else (yield from _find_row(plan.record))
    if row is not None and row.committed_at is not None:
        yield from adopt(scene, stored, row)
        return None
    if not permits:
        return (yield from _refuse(scene, stored, look, _NOT_ATTEMPTED))
    attempt = _attempt(stored, look, row)
    if not plan.one_engine:
        return (yield from _attempt_apart(scene, stored, look, attempt))
    return (yield from _apply(scene, stored, look, attempt, _journal(scene, stored, look, attempt)))


def _attempt(stored: Stored, look: Look, row: EffectRow | None) -> Attempt:
    """Lines 16-17: the attempt, bound to exactly what was looked at."""
    plan, record = look.plan, stored.record
    number = stored.row.attempt + 1
    if row is not None and row.floor > number:
        number = row.floor
    not_after = _not_after(look) if plan.program.volatile or record.expires_us is not None else None
    return Attempt(
        record.intent_id,
        number,
        record.arguments_digest,
        look.binding(),
        not_after,
        look,
        plan.body,
        plan.contract.arguments.store_result,
    )


def _journal(scene: Scene, stored: Stored, look: Look, attempt: Attempt) -> Commit:
    """What the target is to record in its own transaction, where that is the store's as well."""
    journal = (Commit if stored.unsaved is None else FirstCommit)(scene.store, stored, look, attempt)
    if scene.store.evidence is not None:
        journal.checks = look.owned()
    return journal


def _attempt_apart(scene: Scene, stored: Stored, look: Look, attempt: Attempt) -> Protocol[Verdict[Any] | None]:
    """Where no transaction holds both store and target: ATTEMPT first, and the answer after it."""
    # Marked before it is recorded, so that no other thread of this gate can take it for a dead one.
    mark = (attempt.intent_id, attempt.number)
    scene.active.append(mark)
    try:
        opened: Append | Verdict[Any] | None = yield from _open(scene, stored, look, attempt)
        if not isinstance(opened, Append):
            return opened
        return (yield from _apply(scene, after(stored, opened), look, attempt, None))
    finally:
        scene.active.remove(mark)


def _not_after(look: Look) -> dt.datetime | None:
    """The last moment of the permission: a premise's deadline, or the intent's expiry."""
    until, expires_us = look.valid_until(), look.plan.record.expires_us
    if expires_us is None:
        return until
    last = EPOCH + dt.timedelta(microseconds=expires_us - 1)
    return last if until is None else min(until, last)


def _open(scene: Scene, stored: Stored, look: Look, attempt: Attempt) -> Protocol[Any]:
    """ATTEMPT is durable before anything is sent (row 3); BLOCK and ATTEMPT exclude each other by the store's swap."""
    deadline = (yield Now()) + dt.timedelta(seconds=scene.limits.attempt)
    if attempt.not_after is not None:
        deadline = min(deadline, attempt.not_after)
    append = Append(
        intent_id=attempt.intent_id,
        seq=stored.row.seq,
        kind="ATTEMPT",
        state=_IN_ATTEMPT,
        attempt=attempt.number,
        body=lambda: explained(look, _IN_PROGRESS, attempt=attempt) | {"deadline_us": microseconds(deadline)},
        owner=scene.owner,
        deadline_us=microseconds(deadline),
        checks=look.owned(),
    )
    try:
        appended = yield Transit(append)
    except StoreBusy as busy:
        return answer(stored, look, _BUSY, _OPEN, reason=str(busy), error=busy)
    if appended.holder is not None:
        return lane_held(stored, look, appended.holder)
    if appended.stale:
        return (yield from _refuse(scene, stored, look, _REJECTED, look.told(f"{appended.stale} moved")))
    if not appended.ok:
        return None
    emit(scene, AttemptOpened, attempt.intent_id, attempt.number)
    return append


def _apply(
    scene: Scene, stored: Stored, look: Look, attempt: Attempt, journal: Journal | None
) -> Protocol[Verdict[Any] | None]:
    """The conditional apply (line 18)."""
    said: object
    try:
        said = yield Apply(look.plan, attempt, journal)
    except Exception as error:  # noqa: BLE001 - whatever a target raises is no answer
        said = error
    return (yield from _answered(scene, stored, look, attempt, journal, said))


def _answered(
    scene: Scene, stored: Stored, look: Look, attempt: Attempt, journal: Journal | None, said: object
) -> Protocol[Verdict[Any] | None]:
    """What the target answered (line 18), journaled; a busy one is asked again in place."""
    said = yield from _patiently(scene, look, attempt, journal, said)
    emit(scene, ApplyAnswered, attempt.intent_id, attempt.number, said.status)
    if said.status is _COMMITTED:
        if journal is not None and not said.repeated:
            emit(scene, StateChanged, attempt.intent_id, "COMMITTED", _DONE)
            return answer(stored, look, _COMMITTED, _DONE, result=said.value)
        return (yield from _record_commit(scene, stored, look, attempt, said))
    if said.status is _UNKNOWN:
        return (yield from _resolve_unknown(scene, stored, look, attempt, said))
    if said.lost:
        return None
    if said.status is _IN_PROGRESS:
        return lane_held(stored, look, said.reason)
    kind = "FENCED" if said.floor else "VERDICT" if journal is not None else said.status.name
    state, error = _OPEN, said.error
    try:
        if not (yield Transit(_refused(stored, look, attempt, said, kind))).ok:
            return None
    except StoreBusy as busy:  # nothing was applied, whatever becomes of the record; an open attempt is closed later
        state, error = stored.row.state, error or busy
    return answer(stored, look, said.status, state, reason=look.told(said.reason), error=error)


def _refused(stored: Stored, look: Look, attempt: Attempt, said: ApplyResult, kind: str) -> Append:
    """The end of an attempt that applied nothing; a fence tells of attempts that this store has forgotten."""
    number = max(attempt.number, said.floor - 1)

    def body() -> dict[str, Value]:
        return explained(look, said.status, attempt=attempt, reason=look.told(said.reason))

    return transition(stored, kind, _OPEN, body, attempt=number)


def _patiently(scene: Scene, look: Look, attempt: Attempt, journal: Journal | None, said: Any) -> Protocol[ApplyResult]:
    """Try a busy target again in place, with longer and longer pauses, for as long as the patience lasts (row 7)."""
    waited, pause = 0.0, scene.limits.pause
    understood = _understood(said)
    while understood.status is _BUSY and waited < scene.limits.patience:
        yield Pause(pause)
        waited += pause
        pause = min(2 * pause, max(scene.limits.patience - waited, scene.limits.pause))
        try:
            understood = _understood((yield Apply(look.plan, attempt, journal)))
        except Exception as error:  # noqa: BLE001 - whatever a target raises is no answer
            understood = _understood(error)
    return understood


def _understood(said: object) -> ApplyResult:
    """What a target said of an attempt; where it raised, or said nothing that counts, nobody knows how far it came."""
    if isinstance(said, ApplyResult) and said.status in _ANSWERS:
        return said
    if isinstance(said, Exception):
        return ApplyResult(_UNKNOWN, error=said, reason=f"the target raised {type(said).__name__}")
    return ApplyResult(_UNKNOWN, reason=f"the target answered with {type(said).__name__}, which says nothing")


def _closed(record: IntentRecord, number: int) -> Protocol[CloseResult]:
    """What the target says of an attempt that is to be closed; anything else than its word leaves it unknown."""
    try:
        said = yield Close(record, number)
    except UnknownEffect:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a target raises is no answer
        return CloseResult(_UNKNOWN, reason=f"the target raised {type(error).__name__}")
    if isinstance(said, CloseResult) and said.status in (_COMMITTED, _NOT_ATTEMPTED):
        if said.status is _COMMITTED:
            row = yield from _find_row(record)
            if row is not None and row.args_digest != record.arguments_digest:
                return CloseResult(_UNKNOWN, reason=_foreign_row(record))
        return said
    reason = said.reason if isinstance(said, CloseResult) else f"the target answered with {type(said).__name__}"
    return CloseResult(_UNKNOWN, reason=reason)


def _foreign_row(record: IntentRecord) -> str:
    return f"the target row of intent {record.intent_id} is of other arguments: do not release it, and find out why"


def _find_row(record: IntentRecord) -> Protocol[EffectRow | None]:
    """The target's own row of an intent; one that cannot be read is none, since the apply checks it again."""
    try:
        row = yield FindRow(record)
    except Exception:  # noqa: BLE001 - whatever a target raises, it has shown no row
        return None
    return row if isinstance(row, EffectRow) else None


def _record_commit(
    scene: Scene, stored: Stored, look: Look, attempt: Attempt, said: ApplyResult
) -> Protocol[Verdict[Any] | None]:
    """Once the target has said so, COMMITTED is the truth, even where it cannot be journaled yet (row 4)."""
    result, error = said.value, None
    if said.repeated:
        result = look.plan.contract.arguments.restore_result(said.stored)
    try:
        appended = yield Transit(Commit(scene.store, stored, look, attempt, said.stored))
    except Exception as failure:  # noqa: BLE001 - the effect is committed; a later gate journals it by closing
        error = failure
    else:
        if not appended.ok:
            return None
        emit(scene, StateChanged, attempt.intent_id, "COMMITTED", _DONE)
    state = _DONE if error is None else stored.row.state
    return answer(stored, look, _COMMITTED, state, result=result, error=error)


def _resolve_unknown(
    scene: Scene, stored: Stored, look: Look, attempt: Attempt, said: ApplyResult
) -> Protocol[Verdict[Any] | None]:
    """No answer (row 8): close at the target before anything else; what it cannot tell stays unknown."""
    closed = yield from _closed(look.plan.record, attempt.number)
    emit(scene, AttemptClosed, attempt.intent_id, attempt.number, closed.status)
    if closed.status is _COMMITTED:
        try:
            yield Transit(Commit(scene.store, stored, look, attempt, closed.stored))
        except Exception as failure:  # noqa: BLE001 - as in `_record_commit`
            result = look.plan.contract.arguments.restore_result(closed.stored)
            return answer(stored, look, _COMMITTED, stored.row.state, result=result, error=failure)
        return None
    if closed.status is _NOT_ATTEMPTED:
        reason = "no answer came, and the target closed the attempt"

        def body() -> dict[str, Value]:
            return explained(look, _REJECTED, attempt=attempt, reason=reason)

        if not (yield Transit(transition(stored, "CLOSED", _OPEN, body, attempt=attempt.number))).ok:
            return None
        return answer(stored, look, _REJECTED, _OPEN, reason=reason, error=said.error)
    moved = (yield Load(attempt.intent_id)) if look.plan.one_engine else None
    if moved is not None and moved.row.seq != stored.row.seq:
        return None  # the lost reply was that of a commit, which the store itself knows
    reason = look.told("; ".join(filter(None, (said.reason, closed.reason)))) or "no answer came"
    return answer(stored, look, _UNKNOWN, stored.row.state, reason=reason, error=said.error)


# Telling.


def tell(listen: Callable[[Event], None], look: Look, trigger: str) -> None:
    """Tell what a validation looked at, found changed, ran and decided."""
    plan = look.plan
    intent_id = plan.record.intent_id
    listen(LookTaken(intent_id, tuple(str(address) for address in plan.addresses)))
    for index, watch in look.differing:
        listen(ReadChanged(intent_id, place(plan.addresses[index], watch.path)))
    for number, result in look.results.items():
        listen(
            PremiseChecked(intent_id, plan.program.checks[number].label, result if isinstance(result, bool) else None)
        )
    listen(OutcomeDecided(intent_id, look.outcome, trigger))  # type: ignore[arg-type]  # callers pass the literals


def emit(scene: Scene, make: Callable[..., Event], *parts: Any) -> None:
    """Tell whoever listens; an event is made only then."""
    if scene.emit is not None:
        scene.emit(make(*parts))
