"""Propose: read, validate, and store why an action is justified, with the proof that a later look may rely on."""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.answers import transition
from lastlook.arguments import MAX_ARGUMENTS
from lastlook.canonical import ABSENT
from lastlook.commands import Create, Judge, Load, Now, Read
from lastlook.errors import (
    Applied,
    CanonicalError,
    DeclarationError,
    EffectStopped,
    KeyReused,
    Outcome,
    StoreBusy,
    UnknownIntent,
)
from lastlook.evaluation import Evaluation, findings_of, hidden_names
from lastlook.events import IntentProposed, ProposalRefused
from lastlook.expressions import Env, Pending, Unverifiable, hidden_name
from lastlook.frozen import Frozen
from lastlook.lifecycle import not_open, withdraw
from lastlook.ports import IntentRow, Stored
from lastlook.protocol import AGAIN, Taken, emit, ended_already, finish, load, release
from lastlook.records import (
    SCHEMA,
    Address,
    Decision,
    Finding,
    Grade,
    IntentRecord,
    Observation,
    PremiseRecord,
    State,
    at,
    microseconds,
)
from lastlook.records import Read as ReadRecord
from lastlook.verdicts import NOTHING_SEEN, Verdict, stop_for

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook.commands import Protocol
    from lastlook.contract import Contract
    from lastlook.ports import Append
    from lastlook.protocol import Scene
    from lastlook.records import Path

__all__ = ["Draft", "Mode", "Proposed", "one_shot", "propose"]


class Mode(enum.Enum):
    """What happens to a premise that is not true when an effect is proposed."""

    PROVE = "prove"
    """`effect.propose`: nothing is stored, and the stop is raised."""
    RECORD = "record"
    """`transaction.propose`: the intent is stored, and the premise runs at the gate."""
    ONE_SHOT = "one-shot"
    """`effect(...)`: nothing is validated now, everything at the gate that follows."""


class Draft(Frozen, hidden=("arguments", "actor")):
    """An intent that is to be proposed.

    Attributes:
        keyed: the id comes from a call key, so that an intent may be there already.
        reads: what the agent read in its transaction.
        observed: the agent's observations by identity.
    """

    intent_id: str
    contract: Contract
    arguments: Mapping[str, Value]
    actor: Mapping[str, Value] | None
    mode: Mode
    keyed: bool = False
    expires: dt.timedelta | None = None
    supersedes: str | None = None
    transaction: str | None = None
    reads: tuple[ReadRecord, ...] = ()
    decisions: tuple[Decision, ...] = ()


class Proposed(Frozen, hidden=("seen",)):
    """A stored intent, and the observations that its proof was made on; none for one that was there before.

    Attributes:
        unsaved: when it was proposed, if it is to be stored with its first transition.
    """

    record: IntentRecord
    seen: Mapping[str, Observation]
    existed: bool
    unsaved: dt.datetime | None = None


def propose(scene: Scene, draft: Draft, *, unsaved: bool = False) -> Protocol[Proposed]:
    """Read all evidence in one batch and, where keys come from evidence, in waves; validate; store the proof.

    Args:
        scene: what the protocol knows of its gate.
        draft: what is proposed.
        unsaved: leave it to its first transition to store the intent, in one transaction.

    Raises:
        EffectStopped: a premise is untrue (mode PROVE), or the target cannot be named; nothing was stored.
        KeyReused: the call key was used with other arguments, or its intent is dead.
        InFlight: the intent to supersede has an open attempt.
    """
    digest = canonical.digest(draft.arguments, kind="arguments", salt=b"")
    if draft.keyed:
        stored = yield Load(draft.intent_id)
        if stored is not None:
            return _existing(stored, draft, digest)
    program = draft.contract.program
    env = Env(program.slots, draft.arguments, ABSENT if draft.actor is None else draft.actor, capturing=True)
    # An awaited premise is not judged now: what it finds is not used, and its validators are not asked.
    run = [n for n, check in enumerate(program.checks) if not (check.awaited and check.pins)]
    run = [] if draft.mode is Mode.ONE_SHOT else run
    evaluation = Evaluation(program, env, run)
    yield from _look(draft, evaluation)
    if draft.mode is Mode.PROVE:
        _refuse_untrue(scene, draft, evaluation)
    if draft.mode is not Mode.ONE_SHOT:
        for capture in (capture for check in program.checks for capture in check.captures):
            yield from _capture(capture, evaluation)
    key = yield from _key_parts(draft, program.target, evaluation)
    lane = (yield from _key_parts(draft, program.lane, evaluation)) if program.lane else None
    now = yield Now()
    record = _record(scene, draft, evaluation, digest, key, lane, now)
    while not unsaved:
        superseded = (yield from _superseded(scene, draft, record)) if draft.supersedes is not None else None
        created = yield Create(record, superseded)
        if created.existing is not None:
            return _existing(created.existing, draft, digest)
        if created.ok:
            break
    if scene.emit is not None:
        unproven = tuple(premise.label for premise in record.premises if not premise.proven)
        scene.emit(IntentProposed(record.intent_id, record.effect, unproven))
    proposed = Proposed(record, env.observations, existed=False, unsaved=now if unsaved else None)
    scene.remember(proposed)
    return proposed


def one_shot(scene: Scene, draft: Draft) -> Protocol[Verdict[Any]]:
    """Propose and release. Without a call key nobody can hold the intent, so a definite stop withdraws it.

    Otherwise a sweep over pending intents could release later what its caller was told had not happened. Where store
    and target have one engine, the proposal is stored in the transaction of the effect, or of the refusal.
    """
    together = draft.supersedes is None and scene.together(draft.contract.name)
    proposed = yield from propose(scene, draft, unsaved=together)
    if proposed.unsaved is not None:
        row = IntentRow(State.OPEN, 0, 0, None, None)
        try:
            verdict = yield from release(
                scene, proposed.record.intent_id, first=Stored(proposed.record, row, None, proposed.unsaved)
            )
        except Taken:
            proposed = yield from propose(scene, draft)
            verdict = yield from release(scene, proposed.record.intent_id)
        else:
            yield from _saved(proposed, verdict)
    else:
        verdict = yield from release(scene, proposed.record.intent_id)
    if not draft.keyed and verdict.state is State.OPEN:
        try:
            yield from withdraw(scene, proposed.record.intent_id)
        except StoreBusy as busy:
            verdict.error = verdict.error or busy
            busy.add_note(f"intent {proposed.record.intent_id} stays pending: withdraw it when the store is free")
            return verdict
        except UnknownIntent:
            pass  # the store was locked all the time: there is nothing that could be released later
        except EffectStopped:
            return (yield from release(scene, proposed.record.intent_id))  # somebody's sweep released it meanwhile
        verdict.state = State.WITHDRAWN
    return verdict


def _saved(proposed: Proposed, verdict: Verdict[Any]) -> Protocol[None]:
    """See to it that an intent is stored whose release came to no transition, as where its lane was held."""
    if verdict.committed or isinstance(verdict.error, StoreBusy) or (yield Load(proposed.record.intent_id)) is not None:
        return
    try:
        yield Create(proposed.record, None)
    except StoreBusy as busy:
        verdict.error = verdict.error or busy


def _look(draft: Draft, evaluation: Evaluation) -> Protocol[None]:
    """One batch of everything that is named without evidence, and of what the agent read; then the premises.

    A refresh field names its row without evidence, so that it is in the batch too.
    """
    env, program = evaluation.env, evaluation.program
    if draft.mode is not Mode.ONE_SHOT:
        addresses: dict[str, Address] = {read.address.identity: read.address for read in draft.reads}
        for slot, derived in enumerate(program.slots.derived):
            if not derived:
                try:
                    address = env.address(slot)
                except Unverifiable:
                    continue  # its premises say so when they run
                addresses[address.identity] = address
        if addresses:
            batch = tuple(addresses.values())
            evaluation.observe(batch, (yield Read(batch)))
    if any(program.checks[number].analysis.clock for number in evaluation.waiting):
        env.now = yield Now()
    evaluation.run()
    yield from finish(evaluation)


def _capture(capture: Callable[[Env], Any], evaluation: Evaluation) -> Protocol[None]:
    """Keep what `unchanged` will hold the world to, also where nobody has judged the premise that says so.

    A premise may be awaited, or range over rows of which there are none yet. What has no value now is not kept: it
    cannot be unchanged later.
    """
    env = evaluation.env
    while True:
        env.settled()
        try:
            capture(env)
        except Pending:
            if env.missing:
                addresses = tuple(env.missing.values())
                evaluation.observe(addresses, (yield Read(addresses)))
            if env.unjudged:
                pins = frozenset(pin for check in evaluation.program.checks for pin in check.pins)
                env.answered((yield Judge(tuple(env.unjudged.values()), pins)))
        except Unverifiable:
            return
        else:
            return


def _key_parts(draft: Draft, parts: Sequence[Any], evaluation: Evaluation) -> Protocol[tuple[Value, ...]]:
    """The values of key expressions; what cannot be named cannot be acted upon."""
    env = evaluation.env
    values: list[Value] = []
    for part in parts:
        while True:
            env.settled()
            try:
                values.append(part(env))
                break
            except Pending:
                addresses = tuple(env.missing.values())
                evaluation.observe(addresses, (yield Read(addresses)))
            except Unverifiable as unverifiable:
                raise _unnamed(draft, unverifiable.reason) from unverifiable
    key = tuple(values)
    try:
        canonical.identity("key", key)
    except CanonicalError as error:
        raise _unnamed(draft, "a part of its key is nothing that names a row") from error
    return key


def _unnamed(draft: Draft, why: str) -> EffectStopped:
    reason = f"what it acts on cannot be named: {why}; nothing was stored"
    return _stop(draft, Outcome.BLOCK, NOTHING_SEEN, reason)


def _existing(stored: Stored, draft: Draft, digest: str) -> Proposed:
    """Row 1, the same call again: the same arguments, actor and intent to supersede mean the same intent."""
    record, state = stored.record, stored.row.state
    if record.arguments_digest != digest:
        raise KeyReused(
            f"the call key of intent {record.intent_id} was used with other arguments of {record.effect}(): "
            "a new action needs a new key"
        )
    if not canonical.same(_or_absent(record.actor), _or_absent(draft.actor)):
        raise KeyReused(
            f"the call key of intent {record.intent_id} was used for another actor: one actor's call cannot release "
            "what another one's premises allowed, so a new action needs a new key"
        )
    if record.supersedes != draft.supersedes:
        raise KeyReused(
            f"the call key of intent {record.intent_id} was used without superseding {draft.supersedes}: "
            "a new action needs a new key"
            if draft.supersedes is not None
            else f"the call key of intent {record.intent_id} was used to supersede {record.supersedes}: "
            "repeat the call as it was, or take a new key"
        )
    if state in (State.WITHDRAWN, State.EXPIRED, State.SUPERSEDED):
        raise KeyReused(
            f"the call key belongs to intent {record.intent_id}, which is {state.name.lower()}: "
            "a new action needs a new key"
        )
    return Proposed(record, {}, existed=True)


def _or_absent(actor: Mapping[str, Value] | None) -> Value | Any:
    return ABSENT if actor is None else actor


def _superseded(scene: Scene, draft: Draft, record: IntentRecord) -> Protocol[Append]:
    """Row 14: the end of the intent that this one replaces, on the same lane, and only from OPEN."""
    old_id = cast("str", draft.supersedes)
    while True:
        old = yield from load(old_id)
        ended = yield from ended_already(scene, old)
        if ended is not AGAIN:
            break
    if ended is not None:
        raise not_open(old.row.state, ended, old_id, "superseded")
    if old.record.lane != record.lane:
        raise DeclarationError(
            f"intent {old_id} acts on another target than the one that should supersede it: withdraw it instead"
        )
    return transition(old, "SUPERSEDED", State.SUPERSEDED, {"schema": SCHEMA, "by": record.intent_id})


# The refusal.


class _ProposalView:
    """What a refused proposal found."""

    changed: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    accepted: Mapping[str, str] = MappingProxyType({})

    def __init__(self, draft: Draft, evaluation: Evaluation) -> None:
        self._contract = draft.contract
        self._evaluation = evaluation

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self._findings(reveal=False)

    def reveal(self) -> tuple[Finding, ...]:
        return self._findings(reveal=True)

    def _findings(self, *, reveal: bool) -> tuple[Finding, ...]:
        awaited = {check.label for check in self._evaluation.program.checks if check.awaited}
        found = findings_of(self._evaluation, self._contract.is_public, reveal=reveal)
        return tuple(finding for finding in found if finding.premise not in awaited)

    @property
    def checked(self) -> tuple[str, ...]:
        checks = self._evaluation.program.checks
        return tuple(checks[number].label for number in self._evaluation.results if not checks[number].awaited)

    @property
    def bindings(self) -> Mapping[str, Grade]:
        return self._contract.bindings()


def _refuse_untrue(scene: Scene, draft: Draft, evaluation: Evaluation) -> None:
    # INVARIANT: an intent of `effect.propose` has only premises that were proved on its own observations.
    checks = evaluation.program.checks
    untrue = [n for n, result in evaluation.results.items() if result is not True and not checks[n].awaited]
    if not untrue:
        return
    outcome = max(checks[number].severity for number in untrue)
    labels = tuple(checks[number].label for number in untrue)
    emit(scene, ProposalRefused, draft.contract.name, outcome, labels)
    raise _stop(draft, outcome, _ProposalView(draft, evaluation), "already so when proposed: nothing was stored")


def _stop(draft: Draft, outcome: Outcome, view: Any, reason: str) -> EffectStopped:
    name = draft.contract.name
    return stop_for(Verdict(outcome, Applied.NOT_ATTEMPTED, name, None, view, state=None, reason=reason))


# The record.


def _record(
    scene: Scene,
    draft: Draft,
    evaluation: Evaluation,
    digest: str,
    key: tuple[Value, ...],
    lane: tuple[Value, ...] | None,
    now: dt.datetime,
) -> IntentRecord:
    contract, env = draft.contract, evaluation.env
    reads = _Reads(draft.reads, scene.store.salt, hidden_names(evaluation, contract.is_public))
    premises = tuple(
        PremiseRecord(
            label=check.label,
            condition=check.condition,
            severity=check.declared,
            because=check.because,
            accepts=check.accepts,
            awaited=check.awaited,
            proven=evaluation.results.get(number) is True and not check.awaited,
            evidence=tuple(
                dict.fromkeys(
                    reads.index(address, path, observation)
                    for address, path in _evidence(evaluation, number)
                    if (observation := env.observations.get(address.identity)) is not None
                )
            ),
            validators=check.pins,
        )
        for number, check in enumerate(evaluation.program.checks)
    )
    refresh = tuple(
        reads.index(address, rule.path, observation)
        for rule in evaluation.program.refresh
        if (address := env.addresses[rule.slot]) is not None
        and (observation := env.observations.get(address.identity)) is not None
    )
    captured = env.captured if draft.mode is not Mode.ONE_SHOT else {}
    canonical.encode(captured, limit=MAX_ARGUMENTS)
    kind = contract.target_kind()
    target = contract.target
    if not isinstance(target, str):
        target = hidden_name(target, env, contract.is_public) or str(Address(cast("str", kind), key))
    lane_identity = (
        canonical.identity("lane", lane) if lane is not None else canonical.identity(contract.name, (kind or "", *key))
    )
    return IntentRecord(
        intent_id=draft.intent_id,
        effect=contract.name,
        arguments=draft.arguments,
        arguments_digest=digest,
        actor=draft.actor,
        target=target,
        lane=lane_identity,
        premises=premises,
        reads=reads.records(),
        refresh=refresh,
        decisions=draft.decisions,
        captured=captured,
        differences=reads.differences(env.observations),
        contract=contract.digest,
        expires_us=None if draft.expires is None else _expiry(now, draft.expires),
        supersedes=draft.supersedes,
        transaction=draft.transaction or draft.intent_id,
        one_shot=draft.mode is Mode.ONE_SHOT,
    )


def _expiry(now: dt.datetime, span: dt.timedelta) -> int:
    try:
        return microseconds(now + span)
    except OverflowError:
        raise DeclarationError(
            f"options(expires=...) ends after the year 9999 where it is {span} from now: give a shorter span, or none"
        ) from None


def _evidence(evaluation: Evaluation, number: int) -> list[tuple[Address, Path]]:
    """X(p): what a premise names, judged or not, and what it was found to rest on where keys come from evidence."""
    named = [
        (address, path)
        for slot, path in evaluation.program.checks[number].evidence
        if not evaluation.program.slots.derived[slot] and (address := evaluation.env.addresses[slot]) is not None
    ]
    return list(dict.fromkeys((*named, *evaluation.touched.get(number, ()))))


class _Reads:
    """The reads of one proposal: the agent's first, then those of the proof that say anything more."""

    def __init__(self, agent: tuple[ReadRecord, ...], salt: bytes, names: Mapping[Address, str]) -> None:
        self._salt = salt
        self._names = names
        self._reads = [read.but(named=names[read.address]) if read.address in names else read for read in agent]
        self._agent = len(agent)
        self._index = {(read.address.identity, read.path): number for number, read in enumerate(agent)}

    def index(self, address: Address, path: Path, observation: Observation) -> int:
        """The number of a read of the proof; an equal one of the agent's stands for it."""
        number = self._index.get((address.identity, path))
        if number is not None and number >= self._agent:
            return number
        digest = canonical.fingerprint(at(observation.value, path), salt=self._salt)
        if number is not None:
            read = self._reads[number]
            if read.digest == digest and read.token == observation.token:
                return number
        named = self._names.get(address)
        self._reads.append(ReadRecord(address, path, digest, observation.token, "PROPOSE", named))
        self._index[(address.identity, path)] = len(self._reads) - 1
        return len(self._reads) - 1

    def differences(self, observations: Mapping[str, Observation]) -> tuple[str, ...]:
        """The places that the agent read otherwise than they were when the intent was proposed."""
        found: list[str] = []
        for read in self._reads[: self._agent]:
            observation = observations.get(read.address.identity)
            if observation is None or observation.token == read.token:
                continue
            if canonical.fingerprint(at(observation.value, read.path), salt=self._salt) != read.digest:
                found.append(read.place)
        return tuple(found)

    def records(self) -> tuple[ReadRecord, ...]:
        return tuple(self._reads)
