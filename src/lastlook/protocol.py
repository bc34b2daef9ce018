"""Algorithm 1 of the ATR paper and what surrounds it, as generators that yield commands and are sent their results.

The synchronous driver, the asynchronous driver, the simulator and the interleaving tests all run exactly this code. No
generator yields while it is being closed, and an attempt without an answer needs no write: it *is* the unknown state.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lastlook.commands import Apply, Close, FindRow, Judge, Load, Now, Pause, Read, Transit
from lastlook.errors import Applied, CanonicalError, EffectStopped, InFlight, Outcome, UnknownIntent
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
from lastlook.plan import MAX_WAVES, Evaluation, Look
from lastlook.ports import Append, Attempt, Journal, Stored
from lastlook.records import State, microseconds, place
from lastlook.verdicts import NOTHING_SEEN, Intent, Preview, RecordedView, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastlook.canonical import Value
    from lastlook.commands import Protocol
    from lastlook.events import Event
    from lastlook.plan import Plan
    from lastlook.ports import ApplyResult, Bound, Store
    from lastlook.records import Address, EffectRow

__all__ = [
    "Limits",
    "Scene",
    "assert_outcome",
    "hinted",
    "look_at",
    "preview",
    "reconcile",
    "release",
    "settle",
    "withdraw",
]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Limits:
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
        body: the function that runs an attempt's effect, given the plan and the permit.
        one_engine: whether the plan's target and the store share a transaction.
        remember: takes a newly stored intent among the pending ones.
        active: the intents with an attempt that this gate is making now.
        emit: told what happens, if anybody listens.
    """

    owner: str
    store: Store
    plan: Callable[[Stored], Plan]
    body: Callable[[Plan], Callable[[Any], Any]]
    one_engine: Callable[[Plan], bool]
    remember: Callable[[Any], None]
    limits: Limits = field(default_factory=Limits)
    active: set[str] = field(default_factory=set[str])
    emit: Callable[[Event], None] | None = None


# The last look and the effect, one step.


def release(scene: Scene, intent_id: str) -> Protocol[Verdict[Any]]:
    """Perform the effect of an intent if what justified it still holds: Algorithm 1, under the state machine.

    Load; resolve an open attempt; look at the evidence and the target's row; validate; then refuse, or attempt. A refused
    attempt is validated anew, a bounded number of times.
    """
    rejected: Verdict[Any] | None = None
    rejections = 0
    while True:
        stored = yield from load(intent_id)
        ended = yield from ended_already(scene, stored)
        if ended is AGAIN:
            continue
        if isinstance(ended, Verdict):
            return ended
        if rejected is not None and rejections > scene.limits.revalidations:
            return rejected
        try:
            plan = scene.plan(stored)
        except CanonicalError as drift:
            verdict = yield from _refuse_drifted(stored, str(drift))
        else:
            cells = yield plan.observe
            row = yield FindRow(plan)
            if row is not None and row.committed_at is not None:
                yield from _adopt(scene, stored, row)
                continue
            look = yield from look_at(scene, plan, cells)
            if look.outcome.permits:
                verdict = yield from _attempt(scene, stored, plan, look, row)
            else:
                verdict = yield from _refuse(scene, stored, look, Applied.NOT_ATTEMPTED)
        if verdict is None:
            continue
        if verdict.applied is not Applied.REJECTED:
            return verdict
        rejected = verdict
        rejections += 1


def preview(scene: Scene, intent_id: str) -> Protocol[Preview]:
    """What `release` would decide now, and nothing done about it."""
    stored = yield from load(intent_id)
    if stored.row.state is not State.OPEN and stored.row.state.terminal:
        verdict = _recorded(scene, stored)
        return Preview(verdict.outcome, stored.record.effect, verdict.intent, verdict.view)
    plan = scene.plan(stored)
    look = yield from look_at(scene, plan, (yield plan.observe), trigger="PREVIEW")
    return plan.preview if look is plan.keep else Preview(look.outcome, stored.record.effect, plan.intent, look)


def hinted(scene: Scene, plan: Plan, address: Address, fields: tuple[str, ...]) -> Protocol[Preview]:
    """What a change hint makes of one pending intent (EVENT): the premises it touches, on today's evidence."""
    cells = yield plan.observe
    look = yield from look_at(scene, plan, cells, trigger="EVENT", look=plan.hinted(cells, address, fields))
    return Preview(look.outcome, plan.record.effect, plan.intent, look)


def look_at(
    scene: Scene,
    plan: Plan,
    cells: tuple[Any, ...],
    *,
    trigger: str = "PRE_EFFECT",
    look: Look | None = None,
) -> Protocol[Look]:
    """Validate one look (lines 4-15): diff, run the affected premises, and let the worst answer dominate."""
    if look is None:
        look = plan.look(cells)
    if look is not plan.keep:
        evaluation = look.start((yield Now()) if plan.program.volatile else None)
        if evaluation is not None:
            evaluation.run()
            if evaluation.waiting:
                yield from finish(evaluation)
        look.decide()
    if scene.emit is not None:
        _tell(scene.emit, plan, look, trigger)
    return look


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
            pins = frozenset(pin for index in evaluation.waiting for pin in evaluation.program.checks[index].pins)
            env.judged.update((yield Judge(tuple(env.unjudged.values()), pins)))
        evaluation.run()


# Before the look.


AGAIN = object()
"""Load the intent again: it moved."""


def load(intent_id: str) -> Protocol[Stored]:
    stored = yield Load(intent_id)
    if stored is None:
        message = (
            f"no intent {intent_id!r} in this gate's store: it was proposed at another gate, or the store is not kept"
        )
        raise UnknownIntent(message)
    return stored


def ended_already(scene: Scene, stored: Stored) -> Protocol[Any]:
    """Row 15, 4/9 and 13: a terminal intent's record, an open attempt's resolution, an expiry; None if it is open."""
    row = stored.row
    if row.state.terminal:
        return _recorded(scene, stored)
    if row.state is State.ATTEMPT:
        return (yield from settle(scene, stored))
    if row.expires_us is not None and microseconds((yield Now())) >= row.expires_us:
        yield Transit(transition(stored, "EXPIRED", State.EXPIRED, {"schema": SCHEMA}))
        return AGAIN
    return None


def settle(scene: Scene, stored: Stored) -> Protocol[Any]:
    """Resolve an open attempt: close it at the target first, then journal what the target said.

    A live attempt of another gate, or of another thread of this one, is left alone until its deadline.

    Returns:
        A verdict of IN_PROGRESS or UNKNOWN, or a mark to load again.
    """
    row, record = stored.row, stored.record
    mine = row.owner == scene.owner and record.intent_id not in scene.active
    now = yield Now()
    if not mine and row.deadline_us is not None and microseconds(now) < row.deadline_us:
        return _verdict(stored, Applied.IN_PROGRESS, reason="another attempt on this intent is open")
    plan = scene.plan(stored)
    answer = yield Close(plan.contract, record.intent_id, row.attempt)
    emit(scene, AttemptClosed(record.intent_id, row.attempt, answer.status))
    if answer.status is Applied.COMMITTED:
        body = _last(stored) | {"applied": "COMMITTED", "result": answer.stored, "recovered": True}
        yield Transit(transition(stored, "COMMITTED", State.COMMITTED, body))
    elif answer.status is Applied.NOT_ATTEMPTED:
        yield Transit(transition(stored, "CLOSED", State.OPEN, {"schema": SCHEMA, "attempt": row.attempt}))
    else:
        reason = answer.reason or "the target cannot say what became of the attempt"
        return _verdict(stored, Applied.UNKNOWN, reason=reason)
    return AGAIN


def _adopt(scene: Scene, stored: Stored, row: EffectRow) -> Protocol[None]:
    """The target has a commit that this store does not know of: the store was restored from an older state."""
    body = {"schema": SCHEMA, "outcome": "KEEP", "applied": "COMMITTED", "result": row.result, "recovered": True}
    append = transition(stored, "COMMITTED", State.COMMITTED, body, attempt=row.attempt or stored.row.attempt)
    if (yield Transit(append)).ok:
        emit(scene, StateChanged(stored.record.intent_id, "COMMITTED", State.COMMITTED))


def _refuse_drifted(stored: Stored, why: str) -> Protocol[Verdict[Any] | None]:
    """Stored arguments do not fit today's signature: the intent has to be planned anew."""
    body = {"schema": SCHEMA, "outcome": "REPLAN", "applied": "NOT_ATTEMPTED", "reason": why}
    if not (yield Transit(transition(stored, "VERDICT", State.OPEN, body))).ok:
        return None
    intent: Intent[Any] = Intent(stored.record.intent_id, stored.record.effect)
    return Verdict(
        Outcome.REPLAN,
        Applied.NOT_ATTEMPTED,
        stored.record.effect,
        intent,
        NOTHING_SEEN,
        state=State.OPEN,
        reason=why,
    )


# After the look.


def _refuse(
    scene: Scene, stored: Stored, look: Look, applied: Applied, reason: str = ""
) -> Protocol[Verdict[Any] | None]:
    """Row 2: journal why nothing was released; None if somebody else moved the intent meanwhile."""
    append = transition(stored, "VERDICT", State.OPEN, lambda: _explained(look, applied, reason=reason))
    if not (yield Transit(append)).ok:
        return None
    emit(scene, StateChanged(stored.record.intent_id, "VERDICT", State.OPEN))
    return _answer(stored, look, applied, State.OPEN, reason=reason)


def _attempt(
    scene: Scene, stored: Stored, plan: Plan, look: Look, row: EffectRow | None
) -> Protocol[Verdict[Any] | None]:
    """Lines 16-22: open an attempt, let the target apply it, and journal what it answered."""
    record = stored.record
    number = max(stored.row.attempt, (row.floor if row is not None else 0) - 1) + 1
    attempt = Attempt(
        intent_id=record.intent_id,
        number=number,
        arguments_digest=record.arguments_digest,
        binding=_bound(plan, look),
        not_after=look.valid_until(),
        fresh=look.fresh(),
        body=scene.body(plan),
        encode=plan.contract.arguments.store_result,
    )
    if scene.one_engine(plan):
        checks = _owned(scene, look)
        journal = Journal(scene.store, lambda result: _committed(stored, look, attempt, result, checks))
        return (yield from _apply(scene, stored, look, attempt, journal))
    opened = yield from _open(scene, stored, look, attempt)
    if not isinstance(opened, Append):
        return opened
    scene.active.add(record.intent_id)
    try:
        return (yield from _apply(scene, _after(stored, opened), look, attempt, None))
    finally:
        scene.active.discard(record.intent_id)


def _open(scene: Scene, stored: Stored, look: Look, attempt: Attempt) -> Protocol[Any]:
    """Row 3: ATTEMPT is durable before anything is sent; BLOCK and ATTEMPT exclude each other by the store's own swap."""
    now = yield Now()
    deadline = now + dt.timedelta(seconds=scene.limits.attempt)
    if attempt.not_after is not None:
        deadline = min(deadline, attempt.not_after)
    append = Append(
        intent_id=attempt.intent_id,
        seq=stored.row.seq,
        kind="ATTEMPT",
        state=State.ATTEMPT,
        attempt=attempt.number,
        body=lambda: _explained(look, Applied.IN_PROGRESS, attempt=attempt),
        owner=scene.owner,
        deadline_us=microseconds(deadline),
        checks=_owned(scene, look),
    )
    appended = yield Transit(append)
    if appended.holder is not None:
        return _lane_held(stored, look, appended.holder.intent_id)
    if appended.stale:
        return (yield from _refuse(scene, stored, look, Applied.REJECTED, f"{appended.stale} moved"))
    if not appended.ok:
        return None
    emit(scene, AttemptOpened(attempt.intent_id, attempt.number))
    return append


def _apply(
    scene: Scene, stored: Stored, look: Look, attempt: Attempt, journal: Journal | None
) -> Protocol[Verdict[Any] | None]:
    """The conditional apply (line 18), tried again in place while the target is busy, then its answer journaled."""
    answer = yield Apply(look.plan.contract, attempt, journal)
    waited, pause = 0.0, scene.limits.pause
    while answer.status is Applied.BUSY and waited < scene.limits.patience:
        yield Pause(pause)
        waited += pause
        pause = min(2 * pause, scene.limits.patience - waited) or scene.limits.pause
        answer = yield Apply(look.plan.contract, attempt, journal)
    emit(scene, ApplyAnswered(attempt.intent_id, attempt.number, answer.status))
    if answer.status is Applied.COMMITTED:
        return (yield from _record_commit(scene, stored, look, attempt, answer, journal))
    if answer.status is Applied.UNKNOWN:
        return (yield from _resolve_unknown(scene, stored, look, attempt, answer))
    if answer.lost:
        return None
    if answer.status is Applied.IN_PROGRESS:
        return _lane_held(stored, look, answer.reason)
    kind = "FENCED" if answer.fenced else "VERDICT" if journal is not None else answer.status.name
    append = transition(
        stored,
        kind,
        State.OPEN,
        lambda: _explained(look, answer.status, attempt=attempt, reason=answer.reason),
        attempt=attempt.number,
    )
    if not (yield Transit(append)).ok:
        return None
    return _answer(stored, look, answer.status, State.OPEN, reason=answer.reason, error=answer.error)


def _record_commit(
    scene: Scene, stored: Stored, look: Look, attempt: Attempt, answer: ApplyResult, journal: Journal | None
) -> Protocol[Verdict[Any] | None]:
    """Row 4: once the target has said so, COMMITTED is the truth, even where it cannot be journaled yet."""
    result, error = answer.value, None
    if answer.repeated:
        result = look.plan.contract.arguments.restore_result(answer.stored)
    if journal is None or answer.repeated:
        try:
            appended = yield Transit(_committed(stored, look, attempt, answer.stored))
        except Exception as failure:  # noqa: BLE001 - the effect is committed; a later gate journals it by closing
            error = failure
        else:
            if not appended.ok:
                return None
    emit(scene, StateChanged(attempt.intent_id, "COMMITTED", State.COMMITTED))
    state = State.COMMITTED if error is None else State.ATTEMPT
    return _answer(stored, look, Applied.COMMITTED, state, result=result, error=error)


def _resolve_unknown(scene: Scene, stored: Stored, look: Look, answer: ApplyResult) -> Protocol[Verdict[Any] | None]:
    """Row 8: no answer. Close at the target before anything else; what it cannot tell stays unknown."""
    closed = yield Close(look.plan.contract, attempt.intent_id, attempt.number)
    emit(scene, AttemptClosed(attempt.intent_id, attempt.number, closed.status))
    if closed.status is Applied.COMMITTED:
        yield Transit(_committed(stored, look, attempt, closed.stored))
        return None
    if closed.status is Applied.NOT_ATTEMPTED:
        reason = "no answer came, and the target closed the attempt"
        body: dict[str, Value] = {"schema": SCHEMA, "attempt": attempt.number, "reason": reason}
        if not (yield Transit(transition(stored, "CLOSED", State.OPEN, body, attempt=attempt.number))).ok:
            return None
        return _answer(stored, look, Applied.REJECTED, State.OPEN, reason=reason, error=answer.error)
    reason = answer.reason or "no answer came"
    return _answer(stored, look, Applied.UNKNOWN, State.ATTEMPT, reason=reason, error=answer.error)


# What else is done with an intent.


def withdraw(scene: Scene, intent_id: str) -> Protocol[None]:
    """Row 12: only from OPEN; an overdue attempt is closed first.

    Raises:
        InFlight: an attempt is open, or unknown.
        EffectStopped: it has ended otherwise already; withdrawing twice is no error.
    """
    while True:
        stored = yield from load(intent_id)
        if stored.row.state is State.WITHDRAWN:
            return
        ended = yield from ended_already(scene, stored)
        if ended is AGAIN:
            continue
        if isinstance(ended, Verdict):
            if stored.row.state is State.ATTEMPT:
                message = f"intent {intent_id} has an open attempt, so it cannot be withdrawn: {ended.model_text()}"
                raise InFlight(message)
            message = f"intent {intent_id} is {stored.row.state.name.lower()} already and cannot be withdrawn"
            raise EffectStopped(ended, message)
        if (yield Transit(transition(stored, "WITHDRAWN", State.WITHDRAWN, {"schema": SCHEMA}))).ok:
            emit(scene, StateChanged(intent_id, "WITHDRAWN", State.WITHDRAWN))
            return


def reconcile(scene: Scene, intent_id: str) -> Protocol[Verdict[Any] | None]:
    """Resolve an open attempt, and take over a commit that only the target knows of; None if there was nothing to do.

    Raises:
        UnknownIntent: no such intent.
    """
    stored = yield from load(intent_id)
    if stored.row.state.terminal:
        return None
    if stored.row.state is State.ATTEMPT:
        answer = yield from settle(scene, stored)
        if isinstance(answer, Verdict):
            return answer
        after = yield from load(intent_id)
        return _recorded(scene, after) if after.row.state.terminal else _verdict(after, Applied.NOT_ATTEMPTED)
    row = yield FindRow(scene.plan(stored))
    if row is None or row.committed_at is None:
        return None
    yield from _adopt(scene, stored, row)
    return _recorded(scene, (yield from load(intent_id)))


def assert_outcome(scene: Scene, intent_id: str, *, committed: bool, by: str, note: str) -> Protocol[None]:
    """Row 11: a person says what became of an attempt whose target cannot; recorded as asserted, not as proved.

    Raises:
        InFlight: there is no open attempt, or the target can close it itself.
    """
    stored = yield from load(intent_id)
    if stored.row.state is not State.ATTEMPT:
        message = (
            f"intent {intent_id} is {stored.row.state.name.lower()}: only an open attempt's outcome can be asserted"
        )
        raise InFlight(message)
    answer = yield from settle(scene, stored)
    if not isinstance(answer, Verdict) or answer.applied is not Applied.UNKNOWN:
        message = f"the outcome of intent {intent_id} needs no assertion: call gate(intent), which asks the target"
        raise InFlight(message)
    body: dict[str, Value] = {"schema": SCHEMA, "committed": committed, "by": by, "note": note}
    if committed:
        body = _last(stored) | body | {"applied": "COMMITTED", "result": None}
    state = State.COMMITTED if committed else State.OPEN
    if not (yield Transit(transition(stored, "ASSERTED", state, body))).ok:
        message = f"intent {intent_id} moved while its outcome was being asserted: look at it again"
        raise InFlight(message)
    emit(scene, StateChanged(intent_id, "ASSERTED", state))


# Records and answers.


def transition(
    stored: Stored,
    kind: str,
    state: State,
    body: Mapping[str, Value] | Callable[[], Mapping[str, Value]],
    *,
    attempt: int | None = None,
) -> Append:
    make = body if callable(body) else lambda: body
    number = stored.row.attempt if attempt is None else attempt
    return Append(stored.record.intent_id, stored.row.seq, kind, state, number, make)


def _committed(
    stored: Stored, look: Look, attempt: Attempt, result: Value, checks: tuple[Bound, ...] = ()
) -> Append:
    append = transition(
        stored,
        "COMMITTED",
        State.COMMITTED,
        lambda: _explained(look, Applied.COMMITTED, attempt=attempt) | {"result": result},
        attempt=attempt.number,
    )
    append.checks = checks
    return append


def _bound(plan: Plan, look: Look) -> tuple[Bound, ...]:
    """B(e): what the target is to find as it was looked at; evidence of the store's own is checked by the store."""
    binding = look.binding()
    target = plan.contract.surroundings.target if plan.contract.surroundings is not None else None
    if target is None:
        return ()
    return tuple(bound for bound in binding if target.can_check(bound.address.kind))


def _owned(scene: Scene, look: Look) -> tuple[Bound, ...]:
    """The evidence that the store owns, for the transaction that opens or commits the attempt."""
    owned = scene.store.evidence
    if owned is None:
        return ()
    return tuple(bound for bound in look.binding() if bound.address.kind in owned.kinds)


def _after(stored: Stored, append: Append) -> Stored:
    """The intent as the accepted transition left it."""
    moved = stored.row._replace(
        state=append.state,
        seq=stored.row.seq + 1,
        attempt=append.attempt,
        owner=append.owner,
        deadline_us=append.deadline_us,
    )
    return Stored(stored.record, moved, append.body)


def _explained(look: Look, applied: Applied, *, attempt: Attempt | None = None, reason: str = "") -> dict[str, Value]:
    """The explanation of one validation and of what came of it (line 23)."""
    body: dict[str, Value] = {"schema": SCHEMA, "trigger": "PRE_EFFECT", **look.body(), "applied": applied.name}
    if reason:
        body["reason"] = reason
    if attempt is not None:
        body |= {
            "attempt": attempt.number,
            "key": attempt.key,
            "refresh": dict(attempt.fresh),
            "not_after_us": None if attempt.not_after is None else microseconds(attempt.not_after),
        }
    return body


def _last(stored: Stored) -> dict[str, Value]:
    return dict(stored.last()) if stored.last is not None else {"schema": SCHEMA}


def _answer(
    stored: Stored,
    look: Look,
    applied: Applied,
    state: State,
    *,
    result: Any = None,
    reason: str = "",
    error: BaseException | None = None,
) -> Verdict[Any]:
    record = stored.record
    return Verdict(
        look.outcome,
        applied,
        record.effect,
        Intent(record.intent_id, record.effect),
        look,
        state=state,
        result=result,
        reason=reason,
        error=error,
    )


def _lane_held(stored: Stored, look: Look, holder: str) -> Verdict[Any]:
    reason = f"intent {holder} has an open attempt on the same target, not yet resolved"
    return _answer(stored, look, Applied.IN_PROGRESS, State.OPEN, reason=reason)


def _verdict(stored: Stored, applied: Applied, *, reason: str = "") -> Verdict[Any]:
    """A verdict without a look of its own: the last recorded one stands."""
    body = _last(stored)
    outcome = Outcome[str(body.get("outcome", "KEEP"))]
    record = stored.record
    intent: Intent[Any] = Intent(record.intent_id, record.effect)
    return Verdict(outcome, applied, record.effect, intent, RecordedView(body), state=stored.row.state, reason=reason)


def _recorded(scene: Scene, stored: Stored) -> Verdict[Any]:
    """Row 15: a terminal intent answers with its record; no reads, no apply, no validators."""
    record, state = stored.record, stored.row.state
    body = _last(stored)
    intent: Intent[Any] = Intent(record.intent_id, record.effect)
    if state is not State.COMMITTED:
        return Verdict(Outcome.BLOCK, Applied.NOT_ATTEMPTED, record.effect, intent, NOTHING_SEEN, state=state)
    try:
        result = scene.plan(stored).contract.arguments.restore_result(body.get("result"))
    except (CanonicalError, LookupError):
        result = body.get("result")
    outcome = Outcome[str(body.get("outcome", "KEEP"))]
    return Verdict(outcome, Applied.COMMITTED, record.effect, intent, RecordedView(body), state=state, result=result)


def _tell(emit: Callable[[Event], None], plan: Plan, look: Look, trigger: str) -> None:
    intent_id = plan.record.intent_id
    emit(LookTaken(intent_id, tuple(str(address) for address in plan.addresses)))
    for index, watch in look.differing:
        emit(ReadChanged(intent_id, place(plan.addresses[index], watch.path)))
    for number, result in look.results.items():
        emit(PremiseChecked(intent_id, plan.program.checks[number].label, result if isinstance(result, bool) else None))
    emit(OutcomeDecided(intent_id, look.outcome, trigger))  # type: ignore[arg-type]  # callers pass the literals


def emit(scene: Scene, event: Event) -> None:
    if scene.emit is not None:
        scene.emit(event)

