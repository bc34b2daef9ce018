"""One connected gate at work: its systems, store, plans and index, and the execution of the protocol's commands."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import datetime as dt
import functools
import os
import threading
import time
import uuid
import weakref
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.commands import Apply, Close, Create, FindRow, Judge, Load, Now, Observe, Pause, Poll, Read, Transit, Weed
from lastlook.contract import Surroundings
from lastlook.drivers import IN_BODY, drive
from lastlook.errors import CanonicalError, DeclarationError, IntegrityError, UnknownEffect
from lastlook.functions import FunctionTarget
from lastlook.index import Index
from lastlook.look import Kept
from lastlook.plan import Plan
from lastlook.protocol import Limits, Scene, release, release_at_once
from lastlook.reading import reader_of
from lastlook.records import Capture, State
from lastlook.store.memory import MemoryStore
from lastlook.store.opening import given_store
from lastlook.validators import REGISTRY, judge, judge_async
from lastlook.verdicts import Preview, Verdict
from lastlook.wanted import wanted_system

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lastlook.arguments import Arguments
    from lastlook.canonical import Value
    from lastlook.commands import Protocol
    from lastlook.contract import Contract
    from lastlook.drivers import Tap
    from lastlook.effects import Declared
    from lastlook.index import Change
    from lastlook.ports import Clock, Engine, Store, Stored, System, Target
    from lastlook.premises import BindingPolicy
    from lastlook.proposals import Proposed
    from lastlook.records import Address, IntentRecord
    from lastlook.validators import Registered

__all__ = ["Runtime", "random_intent_id"]

_OPEN, _PREDICATE = State.OPEN, Capture.PREDICATE
_FEW = 256
"""Of how many pending intents the states are looked up at once whenever one has ended somewhere."""
_IMMUTABLE = frozenset({type(None), bool, int, str, bytes, Decimal, dt.date, dt.datetime, uuid.UUID})


class Runtime:
    """Systems, a store and effects, connected.

    Raises:
        DeclarationError: two systems for one kind, a durable system without a durable store, or a contract that these
            systems cannot hold.
    """

    def __init__(
        self,
        systems: Sequence[System],
        store: Store | Engine | str | None,
        *,
        policy: BindingPolicy,
        clock: Clock,
        capture: Capture,
        tap: Tap,
        limits: Limits,
        asynchronous: bool,
        strict_fields: bool,
    ) -> None:
        self.systems = _by_kind(systems)
        self.store = _store(store, systems, asynchronous=asynchronous)
        self._opened = isinstance(store, str)
        self._shared = self.store.durable
        self._unready = getattr(self.store, "ready", None)
        owned = self.store.evidence
        for kind in owned.kinds if owned is not None else ():
            if kind in self.systems:
                raise DeclarationError(
                    f"two systems answer for {kind!r}: {self.systems[kind].name} and the store; "
                    "give each kind one owner"
                )
        self.tap = tap
        self.clock = clock
        self._policy = policy
        self._capture = capture
        self._strict_fields = strict_fields
        self._asynchronous = asynchronous
        self._lock = threading.RLock()
        self._effects: dict[str, Declared] = {}
        self.contracts: dict[str, Contract] = {}
        self._targets: dict[str, Target] = {}
        self.plans: dict[str, Plan] = {}
        self.index = Index(capture)
        self.named: dict[str, Any] = {}
        self.anonymous: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._caught_up = 0
        self._ended = 0
        for system in systems:
            use_clock = getattr(system, "use_clock", None)
            if use_clock is not None:
                use_clock(clock)
            check_gate = getattr(system, "check_gate", None)
            if check_gate is not None:
                check_gate(self.store, asynchronous=asynchronous)
        self.scene = Scene(
            owner=os.urandom(8).hex(),
            store=self.store,
            plan=self.plan,
            remember=self.remember,
            together=self._together,
            limits=limits,
        )
        handlers: Mapping[type[Any], Callable[[Any], Any]] = {
            Load: self._load,
            Observe: self._observe,
            FindRow: self._find_row,
            Read: self._read,
            Judge: self._judge_async if asynchronous else self._judge,
            Now: self._now,
            Create: self._create,
            Transit: self._transit,
            Poll: self._news,
            Weed: self._weed,
            Apply: self._apply_async if asynchronous else self._apply,
            Close: self._close,
            Pause: self._pause_async if asynchronous else self._pause,
        }
        self.execute = handlers

    # Effects.

    def add(self, declared: Declared, *, own: bool) -> None:
        """Connect an effect; `own` compiles its contract itself, else a copy of it.

        Raises:
            DeclarationError: the contract does not fit these systems.
        """
        contract = declared.contract if own else copy.copy(declared.contract)
        target = self._find_target(declared)
        contract.connect(
            Surroundings(
                self.systems, target if not isinstance(target, FunctionTarget) else None, self.store, self._policy
            ),
            strict_fields=self._strict_fields,
        )
        self._effects[declared.name] = declared
        self.contracts[declared.name] = contract
        self._targets[declared.name] = target
        self._caught_up = 0  # some of this effect may be pending

    def _find_target(self, declared: Declared) -> Target:
        kind = declared.contract.target_kind()
        if kind is None:
            return FunctionTarget(str(declared.contract.target), self.clock)
        system = self.systems.get(kind)
        if system is None:
            declared.contract.refuse_kind(kind, Surroundings(self.systems, None, self.store, self._policy))
        if not hasattr(system, "apply"):
            raise DeclarationError(
                f"{declared.name}() acts on {kind!r}, but {cast('System', system).name!r} applies no effects: "
                "name a target that does"
            )
        return cast("Target", system)

    def _target_of(self, record: IntentRecord) -> Target:
        target = self._targets.get(record.effect)
        if target is None:
            raise UnknownEffect(_undeclared(record))
        return target

    def _body(self, plan: Plan) -> Callable[[Any], Any]:
        declared = self._effects[plan.record.effect]
        arguments = declared.contract.arguments
        stored = plan.record.arguments
        function, name = declared.function, declared.name
        perform: Callable[[Any], Any] = functools.partial(_call_anew, function, arguments, stored)
        if all(type(value) in _IMMUTABLE for value in stored.values()) and not arguments.positional:
            perform = functools.partial(function, **arguments.thaw(stored))
        enter, leave = IN_BODY.set, IN_BODY.reset
        if self._asynchronous:

            async def run_async(permit: Any) -> Any:
                token = enter(name)
                try:
                    return await perform(permit)
                finally:
                    leave(token)

            return run_async

        def run(permit: Any) -> Any:
            token = enter(name)
            try:
                return perform(permit)
            finally:
                leave(token)

        return run

    # The store.

    async def ready(self) -> None:
        """What an awaited store has to be asked before it is first used, and cannot be asked in between."""
        if self._unready is not None:
            await self._unready()
            self._unready = None

    async def aclose(self) -> None:
        """Close the connections of a store that was opened here, from a URL."""
        if self._opened:
            await cast("Any", self.store).aclose()

    # Intents.

    def _together(self, effect: str) -> bool:
        return self._shared and self._targets[effect].shares_engine(self.store)

    def remember(self, proposed: Proposed) -> None:
        """Compile a new intent and put it among the pending ones."""
        record = proposed.record
        with self._lock:
            contract = self.contracts[record.effect]
            plan = self._compile(record, contract, proposed.seen, contract.program)
            self.plans[record.intent_id] = plan
            self.index.add(record)
            if self._caught_up == self.store.created - 1:
                self._caught_up += 1
        if record.supersedes is not None:
            self.forget(record.supersedes)

    def plan(self, stored: Stored) -> Plan:
        """The compiled plan of a stored intent; after a restart it is compiled from its record.

        Raises:
            UnknownEffect: its effect is not declared in this process.
            CanonicalError: its arguments do not fit today's signature, or its premises cannot be read.
        """
        record = stored.record
        found = self.plans.get(record.intent_id)
        if found is not None:
            if found.is_of(record):
                return found
            self.forget(record.intent_id)  # the store was restored, and its history since is another
        contract = self.contracts.get(record.effect)
        if contract is None:
            raise UnknownEffect(_undeclared(record))
        contract.arguments.thaw(record.arguments)  # raises where they do not fit
        program = contract.program
        recorded = [(p.condition, p.severity, p.accepts, p.awaited, p.validators) for p in record.premises]
        today = [(c.condition, c.declared, c.accepts, c.awaited, c.pins) for c in program.checks]
        same = record.contract == contract.digest and recorded == today
        plan = self._compile(record, contract, {}, program if same else contract.merged(record.premises))
        if not stored.row.state.terminal:
            with self._lock:
                self.plans[record.intent_id] = plan
                self.index.add(record)
        return plan

    def _compile(self, record: Any, contract: Contract, seen: Mapping[str, Any], program: Any) -> Plan:
        plan = Plan(record, program, contract, salt=self.store.salt, seen=seen, capture=self._capture)
        plan.reader = self._reader(plan.addresses)
        plan.target = self._targets[record.effect]
        plan.one_engine = plan.target.shares_engine(self.store)
        plan.body = self._body(plan)
        return plan

    def catch_up(self, change: Change) -> Protocol[None]:
        """Put the intents into the index that others proposed, or an earlier life of this process; take ended ones out.

        The index is a cache: what is late here delays hints and decides nothing.
        """
        if self._shared:
            yield from self._poll(change)
            return
        created, ended = self.store.created, self.store.ended
        if created == self._caught_up:
            if ended != self._ended:
                self._drop_ended(change)
            return
        for intent_id in self.store.pending():
            stored = self.store.load(intent_id) if intent_id not in self.plans else None
            if stored is not None:
                with contextlib.suppress(UnknownEffect, CanonicalError):  # not this process's to say anything about
                    self.plan(stored)
        self._drop(tuple(self.plans))
        self._caught_up, self._ended = created, ended

    def _poll(self, change: Change) -> Protocol[None]:
        """As `catch_up`, with a store that other processes write to: what is new, and what this hint reaches."""
        news = yield Poll(self._caught_up)
        for intent_id, effect in news.intents:
            if intent_id not in self.plans and effect in self.contracts:
                with contextlib.suppress(CanonicalError, IntegrityError):  # its own gate will say so
                    stored = yield Load(intent_id)
                    if stored is not None:
                        self.plan(stored)
        self._caught_up = news.mark
        for intent_id in (yield Weed(self.index.posted(change))):
            self.forget(intent_id)

    def _drop_ended(self, change: Change) -> None:
        """Some intents have ended, perhaps at another gate: they go, all of them where it costs little to find them.

        Else only those go that this hint reaches; the others when something reaches them, or with the next proposal.
        """
        ended, plans = self.store.ended, tuple(self.plans)
        if len(plans) <= _FEW:
            self._drop(plans)
            self._ended = ended
        else:
            self._drop(self.index.posted(change))

    def _drop(self, intent_ids: Collection[str]) -> None:
        for intent_id in self.store.gone(intent_ids):
            self.forget(intent_id)

    def forget(self, intent_id: str) -> None:
        """Take an ended intent out of the plans and the index."""
        plan = self.plans.pop(intent_id, None)
        if plan is not None:
            self.index.remove(plan.record)

    def glance(self, intent_id: str) -> Preview | None:
        """The preview of an open intent, if one read and no more is needed for it; None if the protocol must tell.

        What `protocol.preview` does, without its ceremony: the same load, look and decision.
        """
        plan = self.plans.get(intent_id)
        if plan is None or self.tap.active:
            return None
        stored = self.store.load(intent_id)
        if stored is None or stored.row.state is not _OPEN or stored.record.expires_us is not None:
            return None
        if stored.record is not plan.record and not plan.is_of(stored.record):
            return None
        look = plan.judge(plan.reader())
        if type(look) is Kept:
            return look.preview
        return None if look is None else Preview(look.outcome, plan.record.effect, plan.intent, look)

    def release(self, intent_id: str) -> Verdict[Any]:
        """Run `protocol.release` to its end, in one call where that is possible."""
        plan = self.plans.get(intent_id)
        found: Any
        if plan is None or not plan.one_engine or self.tap.active:
            found = release(self.scene, intent_id)
        else:
            found = release_at_once(self.scene, plan)
        verdict: Verdict[Any] = found
        return verdict if type(found) is Verdict else drive(self, found)

    def hinted(self, change: Change) -> list[Preview] | None:
        """The previews of the pending intents that a hint reaches, if one read of each is enough; else None."""
        if self.tap.active or self._shared or self.store.created != self._caught_up:
            return None
        if self.store.ended != self._ended:
            self._drop_ended(change)
        previews: list[Preview] = []
        plans, by_predicate = self.plans, self._capture is _PREDICATE
        for intent_id in self.index.posted(change) if by_predicate else self.index.reached(change):
            plan = plans.get(intent_id)
            if plan is None:
                continue
            if plan.record.expires_us is not None:
                return None
            look = plan.judge_hint(plan.reader(), change)
            if look is None:
                return None
            if look.differing or not by_predicate:
                previews.append(Preview(look.outcome, plan.record.effect, plan.intent, look))
        return previews

    # Commands.

    def _load(self, command: Load) -> Any:
        return self.store.load(command.intent_id)

    def _observe(self, command: Observe) -> Any:
        return command.plan.reader()

    def _find_row(self, command: FindRow) -> Any:
        return self._target_of(command.record).effect_row(command.record.intent_id)

    def _read(self, command: Read) -> Any:
        return self._reader(command.addresses)()

    def _now(self, _: Now) -> dt.datetime:
        return self.clock.now()

    def _create(self, command: Create) -> Any:
        return self.store.create(command.record, self.clock.now(), command.supersedes)

    def _transit(self, command: Transit) -> Any:
        return self.store.append(command.append, self.clock.now())

    def _news(self, command: Poll) -> Any:
        return self.store.news(command.after)

    def _weed(self, command: Weed) -> Any:
        return self.store.gone(command.intent_ids)

    def _apply(self, command: Apply) -> Any:
        return command.plan.target.apply(command.attempt, command.journal)

    def _apply_async(self, command: Apply) -> Any:
        target = command.plan.target
        return getattr(target, "apply_async", target.apply)(command.attempt, command.journal)

    def _close(self, command: Close) -> Any:
        return self._target_of(command.record).close(command.record.intent_id, command.attempt)

    def _pause(self, command: Pause) -> None:
        sleep: Callable[[float], None] = getattr(self.clock, "sleep", time.sleep)
        sleep(command.seconds)

    def _pause_async(self, command: Pause) -> Any:
        sleep = getattr(self.clock, "sleep", None)
        return asyncio.sleep(command.seconds) if sleep is None else sleep(command.seconds)

    def _judge(self, command: Judge) -> dict[str, bool | str]:
        now = self.clock.now()
        answers: dict[str, bool | str] = {}
        for judgement in command.judgements:
            registered = _registered(command, judgement.name, judgement.version)
            if isinstance(registered, str):
                answers[judgement.key] = registered
            elif registered.is_async:
                answers[judgement.key] = f"validator {judgement.name!r} is asynchronous: use AsyncGate"
            else:
                answers[judgement.key] = judge(registered, judgement, now)
        return answers

    async def _judge_async(self, command: Judge) -> dict[str, bool | str]:
        now = self.clock.now()
        answers: dict[str, bool | str] = {}
        for judgement in command.judgements:
            registered = _registered(command, judgement.name, judgement.version)
            if isinstance(registered, str):
                answers[judgement.key] = registered
            else:
                answers[judgement.key] = await judge_async(registered, judgement, now)
        return answers

    # Reading.

    def _reader(self, addresses: Sequence[Address]) -> Callable[[], Any]:
        return reader_of(
            lambda kind: self.systems.get(kind) or self._owned(kind), addresses, asynchronous=self._asynchronous
        )

    def _owned(self, kind: str) -> System | None:
        owned = self.store.evidence
        return owned if owned is not None and kind in owned.kinds else None


def _call_anew(function: Callable[..., Any], arguments: Arguments, stored: Mapping[str, Value], permit: Any) -> Any:
    """Call a body with values of its own, which it may change."""
    return arguments.call(function, permit, arguments.thaw(stored))


def _undeclared(record: IntentRecord) -> str:
    return (
        f"intent {record.intent_id} is for effect {record.effect!r}, which is not declared in this process: "
        "import the module that declares it"
    )


def random_intent_id() -> str:
    """A new random id of 128 bits."""
    return canonical.random_id(os.urandom(16))


def _registered(command: Judge, name: str, version: str) -> Registered | str:
    sources = {pin[3] for pin in command.pins if pin[0] == name and pin[1] == version}
    if len(sources) > 1:
        return f"validator {name!r} version {version!r} was pinned with another source than today's"
    return REGISTRY.find(name, version, sources.pop() if sources else "")


def _by_kind(systems: Sequence[System]) -> dict[str, System]:
    found: dict[str, System] = {}
    for system in systems:
        wanted_system(system, "a gate")
        for kind in system.kinds:
            if kind in found:
                message = (
                    f"two systems answer for {kind!r}: {found[kind].name} and {system.name}; give each kind one owner"
                )
                raise DeclarationError(message)
            found[kind] = system
    return found


def _store(store: Store | Engine | str | None, systems: Sequence[System], *, asynchronous: bool) -> Store:
    if store is not None:
        return given_store(store, asynchronous=asynchronous)
    for system in systems:
        capabilities = getattr(system, "capabilities", None)
        if capabilities is not None and capabilities.durable:
            raise DeclarationError(
                f"{system.name} is durable, but the intents would live in memory and be lost with the process: "
                "give store=engine"
            )
    return MemoryStore()
