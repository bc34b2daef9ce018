"""`Gate` and `AsyncGate`: two thin drivers of one protocol, and where effects are declared."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

from lastlook import canonical, lifecycle, protocol
from lastlook.arguments import Arguments
from lastlook.canonical import freeze
from lastlook.contract import Contract
from lastlook.drivers import Tap, drive, drive_async, in_body, refuse_nesting
from lastlook.effects import AsyncEffect, Declared, Effect, Options, make_effect
from lastlook.errors import Applied, DeclarationError, IntegrityError, UnknownIntent
from lastlook.events import ClosureComputed
from lastlook.expressions import Ref
from lastlook.index import Change
from lastlook.ports import UTC
from lastlook.premises import STRICT, BindingPolicy
from lastlook.proposals import Draft, Mode, one_shot, propose
from lastlook.protocol import Limits
from lastlook.records import Capture
from lastlook.runtime import Runtime, random_intent_id
from lastlook.transactions import Evidence, Ledger, read_evidence
from lastlook.verdicts import Intent, Preview, Verdict
from lastlook.wanted import mistaken, wanted, wanted_clock, wanted_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping, Sequence

    from lastlook.commands import Protocol
    from lastlook.expressions import Clause, Expr
    from lastlook.ports import Clock, Engine, Store, System
    from lastlook.premises import Premise

__all__ = ["AsyncGate", "AsyncTransaction", "Gate", "Transaction"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

# An enum's member costs a look-up by name each time, at nearly the price of a premise.
_FAILED = Applied.FAILED


class _GateBase:
    """What both gates share: effects, systems, and the preparation of each protocol."""

    _asynchronous = False

    def __init__(
        self,
        /,
        *systems: System,
        store: Store | Engine | str | None = None,
        policy: BindingPolicy = STRICT,
        clock: Clock = UTC,
        capture: Capture = Capture.PREDICATE,
    ) -> None:
        self._policy = wanted(policy, BindingPolicy, "Gate(policy=...)", "give a BindingPolicy(...)")
        self._clock = wanted_clock(clock, "Gate(clock=...)")
        self._capture = wanted(capture, Capture, "Gate(capture=...)", "give a Capture, such as Capture.PREDICATE")
        self._limits = Limits()
        self._effects: dict[str, Declared] = {}
        self._tap = Tap()
        self._connected: Runtime | None = None
        self._overrides: list[Runtime] = []
        if systems or store is not None:
            self.connect(*systems, store=store)

    def connect(self, /, *systems: System, store: Store | Engine | str | None = None) -> None:
        """Connect a gate that was made at import; all checks of what was declared run here.

        Raises:
            DeclarationError: it is connected already, two systems answer for one kind, a durable system has no durable
                store, or a declared effect could never be released on these systems.
        """
        if self._connected is not None:
            message = "this gate is connected already: make another gate, or use gate.override(...) in a test"
            raise DeclarationError(message)
        runtime = self._runtime_of(systems, store, strict_fields=True)
        for declared in self._effects.values():
            runtime.add(declared, own=True)
        self._connected = runtime

    @contextlib.contextmanager
    def override(self, /, *systems: System) -> Generator[None]:
        """Put other systems in place of the connected ones, with a fresh memory store, nothing remembered; for tests.

        Intents about a durable system are stored with its own engine, in tables that `install()` makes.

        Raises:
            DeclarationError: a declared effect could never be released on these systems.
        """
        runtime = self._runtime_of(systems, _own_engine(systems), strict_fields=False)
        for declared in self._effects.values():
            runtime.add(declared, own=self._connected is None and not self._overrides)
        self._overrides.append(runtime)
        try:
            yield
        finally:
            self._overrides.remove(runtime)

    @property
    def contracts(self) -> dict[str, Contract]:
        """The declared effects' contracts by name."""
        return {name: declared.contract for name, declared in self._effects.items()}

    @property
    def integrity(self) -> str:
        """How records are protected: `checksum` finds accidents, not an attacker who can write to the store."""
        return "checksum"

    def _installers(self) -> list[Callable[[], Any]]:
        """What creates what the store and the systems need."""
        runtime = self._runtime()
        parts = (runtime.store, *dict.fromkeys(runtime.systems.values()))
        return [part.install for part in cast("Sequence[Any]", parts) if hasattr(part, "install")]

    # Declaring.

    def _declare(
        self,
        function: Callable[..., Any],
        *,
        target: Ref | type[Any] | str,
        premises: Sequence[Premise],
        refresh: Sequence[Expr[Any] | Clause],
        awaits: Sequence[Premise],
        name: str | None,
        irreversible: bool,
        lane: Sequence[Expr[Any] | Clause],
        no_preconditions: bool,
    ) -> Any:
        chosen: str = getattr(function, "__name__", None) or type(function).__name__
        if name is not None:
            chosen = wanted_text(name, f"{chosen}(): name", "give the name by which intents find the effect again")
        if not isinstance(cast("object", target), (Ref, str)):
            way = "give a resource, such as resource('orders', arg.order_id), or a name together with lane=(...)"
            raise mistaken(f"{chosen}(): target", target, way)
        wanted(irreversible, bool, f"{chosen}(): irreversible", "give True or False")
        wanted(no_preconditions, bool, f"{chosen}(): no_preconditions", "give True or False")
        arguments = Arguments(function, chosen)
        if inspect.iscoroutinefunction(function) is not self._asynchronous:
            message = (
                f"{chosen}() is not a coroutine function, and AsyncGate takes only `async def`: use Gate"
                if self._asynchronous
                else f"{chosen}() is a coroutine function, and Gate cannot await it: use AsyncGate"
            )
            raise DeclarationError(message)
        if chosen in self._effects:
            message = (
                f"this gate has an effect {chosen!r} already: intents find their effect by its name, so give name=..."
            )
            raise DeclarationError(message)
        if isinstance(target, str) and not lane:
            raise DeclarationError(
                f"{chosen}() acts on {target!r}, which has no key for attempts to exclude each other on: "
                "give lane=(arg....,)"
            )
        if no_preconditions and not self._policy.allows_no_preconditions:
            raise DeclarationError(
                f"{chosen}() is declared with no_preconditions=True, which this gate's policy does not allow: "
                "declare premises"
            )
        contract = Contract(
            name=chosen,
            arguments=arguments,
            target=cast("Ref | str", target),  # what `row()` gives is a resource, and to a type checker a mapped class
            premises=premises,
            refresh=cast("Sequence[Expr[Any]]", refresh),
            awaits=awaits,
            lane=cast("Sequence[Expr[Any]]", lane),
            irreversible=irreversible,
            no_preconditions=no_preconditions,
        )
        declared = Declared(chosen, contract, function)
        for runtime in filter(None, (self._connected, *self._overrides)):
            runtime.add(declared, own=runtime is (self._connected or self._overrides[0]))
        self._effects[chosen] = declared
        return make_effect(cast("Any", self), declared, Options())

    # Preparing.

    def _runtime_of(
        self, systems: Sequence[System], store: Store | Engine | str | None, *, strict_fields: bool
    ) -> Runtime:
        return Runtime(
            systems,
            store,
            policy=self._policy,
            clock=self._clock,
            capture=self._capture,
            tap=self._tap,
            limits=self._limits,
            asynchronous=self._asynchronous,
            strict_fields=strict_fields,
        )

    def _runtime(self) -> Runtime:
        if in_body() is not None:
            refuse_nesting()
        if self._overrides:
            return self._overrides[-1]
        if self._connected is None:
            message = (
                "this gate has no systems yet: call gate.connect(...) at start-up, or gate.override(...) in a test"
            )
            raise DeclarationError(message)
        return self._connected

    def _draft(
        self,
        runtime: Runtime,
        declared: Declared,
        options: Options,
        mode: Mode,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        ledger: Ledger | None = None,
    ) -> Draft:
        contract = runtime.contracts[declared.name]
        arguments = contract.arguments.freeze(contract.arguments.bind(args, kwargs))
        if options.key is None:
            intent_id = random_intent_id()
        else:
            intent_id = canonical.intent_id(canonical.encode((runtime.store.namespace, declared.name, options.key)))
        return Draft(
            intent_id=intent_id,
            contract=contract,
            arguments=arguments,
            actor=options.actor,
            mode=mode,
            keyed=options.key is not None,
            expires=options.expires,
            supersedes=options.supersedes,
            transaction=ledger.id if ledger is not None else None,
            reads=ledger.reads if ledger is not None else (),
            decisions=ledger.decisions if ledger is not None else (),
        )

    def _answered(self, runtime: Runtime, verdict: Verdict[Any]) -> Verdict[Any]:
        """Take an ended intent out of what is pending; a body's own error is raised on."""
        state, intent = verdict.state, verdict.intent
        if intent is not None and state is not None and state.terminal:
            runtime.forget(intent.id)
        if verdict.applied is _FAILED and verdict.error is not None:
            raise verdict.error
        return verdict

    def _affected(self, runtime: Runtime, change: Change) -> Protocol[list[Preview]]:
        """Follow a hint through the index, and say of each intent it reaches what its gate would say (EVENT)."""
        yield from runtime.catch_up(change)
        if self._tap.listeners:
            closure = runtime.index.closure(change)
            nodes = tuple("/".join(node) for node in closure.nodes)
            self._tap.emit(ClosureComputed(repr(change), nodes, closure.intents))
        previews: list[Preview] = []
        for intent_id in runtime.index.reached(change):
            plan = runtime.plans.get(intent_id)
            if plan is not None:
                previews.append((yield from protocol.hinted(runtime.scene, plan, change)))
        return previews

    def _transaction(self, transaction_id: str | None, make: Callable[[Any, Ledger, Runtime], Any]) -> Any:
        """A new transaction, or the one of that id: a named one lives as long as its systems, another as its holder.

        It belongs to the systems that are connected now, or stand in their place now: it crosses no override.
        """
        runtime = self._runtime()
        known: MutableMapping[str, Any] = runtime.anonymous
        if transaction_id is None:
            chosen = random_intent_id()
        else:
            chosen = wanted_text(transaction_id, "gate.transaction(...)", "give the transaction's id, or nothing")
            found = runtime.named.get(chosen) or known.get(chosen)
            if found is not None:
                return found
            known = runtime.named
        transaction = known[chosen] = make(self, Ledger(chosen, runtime.store), runtime)
        return transaction

    def _same(self, runtime: Runtime) -> Runtime:
        """The systems of a transaction, which must still be the gate's."""
        if self._runtime() is not runtime:
            raise DeclarationError(
                "this transaction was begun on other systems, inside or outside of gate.override(...), and its reads "
                "say nothing of these: begin another by gate.transaction()"
            )
        return runtime

    def _own(self, effect: Any) -> tuple[Declared, Options]:
        """What an effect of this gate was made with."""
        declared, options = getattr(effect, "declared", (None, None))
        if not isinstance(declared, Declared):
            raise mistaken("transaction.propose(...)", effect, "give it a function that this gate's @effect made")
        if self._effects.get(declared.name) is not declared:
            raise DeclarationError(
                f"transaction.propose(...) got {declared.name}() of another gate: propose it from a transaction of "
                "the gate that declares it"
            )
        return declared, cast("Options", options)


def _handle(stored: Any, intent_id: str, effect: str | None = None) -> Intent[Any]:
    if stored is None or (effect is not None and stored.record.effect != effect):
        of = f" of effect {effect!r}" if effect is not None else ""
        message = f"no intent {intent_id!r}{of} in this gate's store"
        raise UnknownIntent(message)
    return Intent(stored.record.intent_id, stored.record.effect)


def _own_engine(systems: Sequence[Any]) -> Engine | None:
    """The engine of the first system that has a durable one."""
    for system in systems:
        if hasattr(system, "engine") and system.capabilities.durable:
            return cast("Engine", system.engine)
    return None


def _handles(pending: Iterable[tuple[str, str]]) -> list[Intent[Any]]:
    return [Intent(intent_id, effect) for intent_id, effect in pending]


async def _loaded(runtime: Runtime, intent_id: str) -> Any:
    found: Any = runtime.store.load(intent_id)
    return await found if inspect.isawaitable(found) else found


class _Sweep:
    """Goes through many intents, and is not stopped by one whose record is not what was written."""

    def __init__(self) -> None:
        self.found: list[Verdict[Any] | None] = []
        self._failure: IntegrityError | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, IntegrityError):
            return False
        self._failure = self._failure or error
        return True

    def verdicts(self) -> list[Verdict[Any]]:
        """What was found; the first failure is raised."""
        if self._failure is not None:
            raise self._failure
        return [verdict for verdict in self.found if verdict is not None]


def _id(intent: Any) -> str:
    if not isinstance(intent, Intent):
        message = f"a gate takes an intent, not {type(intent).__name__}: propose one, or find it by gate.intent(id)"
        raise DeclarationError(message)
    return intent.id


def _id_text(intent_id: object) -> str:
    return wanted_text(intent_id, "intent(id)", "give an intent's id, as intent.id tells it")


def _refuse_hint(change: object) -> NoReturn:
    raise mistaken("gate.affected(...)", change, "give it a Change(kind, key), with the fields if they are known")


class Gate(_GateBase):
    """Takes the last look before an effect, and releases it only bound to what was looked at.

    Args:
        systems: where evidence is read and effects are applied; none to connect later.
        store: where intents live: the application's SQLAlchemy engine, the URL of a SQLite file, or a store; None for
            memory, which is refused with a durable system.
        policy: marks more evidence critical.
        clock: for deadlines and expiry.
        capture: how finely a change selects premises.

    Raises:
        DeclarationError: see `connect`.
    """

    def effect(
        self,
        *,
        target: Ref | type[Any] | str,
        premises: Sequence[Premise] = (),
        refresh: Sequence[Expr[Any] | Clause] = (),
        awaits: Sequence[Premise] = (),
        name: str | None = None,
        irreversible: bool = False,
        lane: Sequence[Expr[Any] | Clause] = (),
        no_preconditions: bool = False,
    ) -> Callable[[Callable[Concatenate[Any, _P], _R]], Effect[_P, _R]]:
        """Declare a function as an effect: what it acts on, and what must still hold when it is released.

        Args:
            target: the resource that it acts on; or a name, with `lane`, for a function that no system applies.
            premises: what must hold, when proposed and when released.
            refresh: fields that are presentation only: a change there is REFRESH.
            awaits: premises that may turn true later, such as an approval: judged only at the gate.
            name: how intents find it again after a restart; the function's own name if not given.
            irreversible: also the evidence of REPLAN premises must be bound or held.
            lane: what attempts exclude each other on, if not the target's key.
            no_preconditions: it may always go out.

        Raises:
            DeclarationError: any mistake that can be found before the first effect.
        """

        def decorate(function: Callable[Concatenate[Any, _P], _R]) -> Effect[_P, _R]:
            return cast(
                "Effect[_P, _R]",
                self._declare(
                    function,
                    target=target,
                    premises=premises,
                    refresh=refresh,
                    awaits=awaits,
                    name=name,
                    irreversible=irreversible,
                    lane=lane,
                    no_preconditions=no_preconditions,
                ),
            )

        return decorate

    def __call__(self, intent: Intent[_R], /) -> Verdict[_R]:
        """Performs the effect, if what justified it still holds: the last look and the effect in one step.

        Never raises for an outcome; the verdict tells. Only a body's own exception comes through, when it has failed
        for certain.

        Raises:
            UnknownIntent: it is not in this gate's store.
            UnknownEffect: its effect is not declared in this process.
        """
        intent_id, runtime = _id(intent), self._runtime()
        return self._answered(runtime, runtime.release(intent_id))

    def preview(self, intent: Intent[Any], /) -> Preview:
        """What `gate(intent)` would decide now; it authorises nothing."""
        runtime = self._runtime()
        unchanged = runtime.glance(_id(intent))
        if unchanged is not None:
            return unchanged
        return cast("Preview", drive(runtime, protocol.preview(runtime.scene, intent.id)))

    def transaction(self, transaction_id: str | None = None, /) -> Transaction:
        """A new transaction, or the one of that id if it is at hand."""
        return cast("Transaction", self._transaction(transaction_id, Transaction))

    def affected(self, change: Change, /) -> list[Preview]:
        """The pending intents that a change hint reaches, and what their gates would say; it decides nothing."""
        runtime = self._runtime()
        if type(change) is not Change:
            _refuse_hint(change)
        previews = runtime.hinted(change)
        if previews is not None:
            return previews
        return cast("list[Preview]", drive(runtime, self._affected(runtime, change)))

    def install(self) -> None:
        """Create what the store and the systems need, such as tables; nothing to do for those in memory.

        Raises:
            StoreError: the database cannot be used, or holds a store of a newer version.
        """
        for install in self._installers():
            install()

    def intent(self, intent_id: str, /) -> Intent[Any]:
        """The handle of a stored intent.

        Raises:
            UnknownIntent: there is none of that id.
        """
        return _handle(self._runtime().store.load(_id_text(intent_id)), intent_id)

    def pending(self) -> list[Intent[Any]]:
        """The intents that are open, or in an open attempt, oldest first."""
        return _handles(drive(self._runtime(), lifecycle.pending()))

    def withdraw(self, intent: Intent[Any], /) -> None:
        """End an open intent, so that it can never be released.

        Raises:
            InFlight: an attempt is open.
            EffectStopped: it ended otherwise before.
        """
        runtime = self._runtime()
        drive(runtime, lifecycle.withdraw(runtime.scene, _id(intent)))
        runtime.forget(intent.id)

    def reconcile(self) -> list[Verdict[Any]]:
        """Resolve open attempts of dead owners, and take over commits that only the target knows of.

        Raises:
            IntegrityError: a record is not what was written; after all other intents were seen to.
        """
        runtime, sweep = self._runtime(), _Sweep()
        for name, _ in drive(runtime, lifecycle.pending()):
            with sweep:
                sweep.found.append(drive(runtime, lifecycle.reconcile(runtime.scene, name)))
        return [self._answered(runtime, verdict) for verdict in sweep.verdicts()]

    def assert_outcome(self, intent: Intent[Any], /, *, committed: bool, by: str, note: str) -> None:
        """Say, as a named person, what became of an attempt whose target cannot tell.

        Raises:
            InFlight: nothing is unknown.
        """
        runtime = self._runtime()
        drive(runtime, lifecycle.assert_outcome(runtime.scene, _id(intent), committed=committed, by=by, note=note))
        if committed:
            runtime.forget(intent.id)

    # What effects call.

    def _call(self, declared: Declared, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """Propose and release; for decorated functions."""
        runtime = self._runtime()
        draft = self._draft(runtime, declared, options, Mode.ONE_SHOT, args, kwargs)
        return self._answered(runtime, drive(runtime, one_shot(runtime.scene, draft))).result()

    def _propose(self, declared: Declared, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """Propose; for decorated functions."""
        runtime = self._runtime()
        draft = self._draft(runtime, declared, options, Mode.PROVE, args, kwargs)
        record = drive(runtime, propose(runtime.scene, draft)).record
        return cast("Any", Intent(record.intent_id, record.effect))

    def _find(self, declared: Declared, intent_id: str, /) -> Any:
        """The handle of a stored intent; for decorated functions."""
        return _handle(self._runtime().store.load(_id_text(intent_id)), intent_id, declared.name)


class Transaction:
    """What an agent read and decided, before it proposes.

    Attributes:
        id: to find it again by `gate.transaction(id)`.
    """

    __slots__ = ("__weakref__", "_gate", "_ledger", "_runtime", "id")

    def __init__(self, gate: Gate, ledger: Ledger, runtime: Runtime) -> None:
        self._gate = gate
        self._ledger = ledger
        self._runtime = runtime
        self.id = ledger.id

    def read(self, what: Ref | Expr[Any] | Clause | type[Any], /, **arguments: Any) -> Evidence:
        """Read a resource, a field or all rows of a kind, and record it; `arguments` stand for `arg.` in its key.

        Raises:
            LastlookError: it could not be read.
        """
        runtime = self._gate._same(self._runtime)  # noqa: SLF001 - its own gate
        frozen = {name: freeze(value, path=name) for name, value in arguments.items()}
        return cast("Evidence", drive(runtime, read_evidence(self._ledger, cast("Any", what), frozen)))

    def decide(self, text: str, /, *, rests_on: Sequence[Evidence] = ()) -> None:
        """Record a conclusion; a read that it rests on and that no premise names is a conservative dependency."""
        self._ledger.decide(text, rests_on)

    def propose(self, effect: Effect[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> Intent[_R]:
        """Store an intent with everything read and decided so far; premises that are not true now run at the gate."""
        gate = self._gate
        runtime = gate._same(self._runtime)  # noqa: SLF001 - its own gate
        declared, options = gate._own(effect)  # noqa: SLF001 - its own gate
        draft = gate._draft(runtime, declared, options, Mode.RECORD, args, kwargs, self._ledger)  # noqa: SLF001
        record = drive(runtime, propose(runtime.scene, draft)).record
        return Intent(record.intent_id, record.effect)


class AsyncGate(_GateBase):
    """As `Gate`, for asyncio: async bodies, and everything that reads or releases is awaited.

    From the moment an effect is applied, a cancellation of the caller no longer reaches it: its outcome is journaled.
    """

    _asynchronous = True

    def __init__(
        self,
        /,
        *systems: System,
        store: Store | Engine | str | None = None,
        policy: BindingPolicy = STRICT,
        clock: Clock = UTC,
        capture: Capture = Capture.PREDICATE,
    ) -> None:
        super().__init__(*systems, store=store, policy=policy, clock=clock, capture=capture)
        self._tasks: set[asyncio.Task[Any]] = set()

    def effect(
        self,
        *,
        target: Ref | type[Any] | str,
        premises: Sequence[Premise] = (),
        refresh: Sequence[Expr[Any] | Clause] = (),
        awaits: Sequence[Premise] = (),
        name: str | None = None,
        irreversible: bool = False,
        lane: Sequence[Expr[Any] | Clause] = (),
        no_preconditions: bool = False,
    ) -> Callable[[Callable[Concatenate[Any, _P], Awaitable[_R]]], AsyncEffect[_P, _R]]:
        """Declare a coroutine function as an effect; as `Gate.effect`."""

        def decorate(function: Callable[Concatenate[Any, _P], Awaitable[_R]]) -> AsyncEffect[_P, _R]:
            return cast(
                "AsyncEffect[_P, _R]",
                self._declare(
                    function,
                    target=target,
                    premises=premises,
                    refresh=refresh,
                    awaits=awaits,
                    name=name,
                    irreversible=irreversible,
                    lane=lane,
                    no_preconditions=no_preconditions,
                ),
            )

        return decorate

    async def __call__(self, intent: Intent[_R], /) -> Verdict[_R]:
        """Performs the effect, if what justified it still holds: the last look and the effect in one step."""
        intent_id, runtime = _id(intent), await self._ready()
        verdict = await drive_async(runtime, protocol.release(runtime.scene, intent_id), self._shielded)
        return self._answered(runtime, verdict)

    async def preview(self, intent: Intent[Any], /) -> Preview:
        """What `gate(intent)` would decide now; it authorises nothing."""
        runtime = await self._ready()
        return cast("Preview", await drive_async(runtime, protocol.preview(runtime.scene, _id(intent))))

    def transaction(self, transaction_id: str | None = None, /) -> AsyncTransaction:
        """A new transaction, or the one of that id if it is at hand."""
        return cast("AsyncTransaction", self._transaction(transaction_id, AsyncTransaction))

    async def affected(self, change: Change, /) -> list[Preview]:
        """The pending intents that a change hint reaches, and what their gates would say; it decides nothing."""
        runtime = await self._ready()
        if type(change) is not Change:
            _refuse_hint(change)
        return cast("list[Preview]", await drive_async(runtime, self._affected(runtime, change)))

    async def install(self) -> None:
        """Create what the store and the systems need, such as tables; nothing to do for those in memory."""
        for install in self._installers():
            made = install()
            if inspect.isawaitable(made):
                await made

    async def intent(self, intent_id: str, /) -> Intent[Any]:
        """The handle of a stored intent.

        Raises:
            UnknownIntent: there is none of that id.
        """
        return _handle(await _loaded(await self._ready(), _id_text(intent_id)), intent_id)

    async def pending(self) -> list[Intent[Any]]:
        """The intents that are open, or in an open attempt, oldest first."""
        return _handles(await drive_async(await self._ready(), lifecycle.pending()))

    async def withdraw(self, intent: Intent[Any], /) -> None:
        """End an open intent, so that it can never be released."""
        runtime = await self._ready()
        await drive_async(runtime, lifecycle.withdraw(runtime.scene, _id(intent)))
        runtime.forget(intent.id)

    async def reconcile(self) -> list[Verdict[Any]]:
        """Resolve open attempts of dead owners, and take over commits that only the target knows of."""
        runtime, sweep = await self._ready(), _Sweep()
        for name, _ in await drive_async(runtime, lifecycle.pending()):
            with sweep:
                sweep.found.append(await drive_async(runtime, lifecycle.reconcile(runtime.scene, name)))
        return [self._answered(runtime, verdict) for verdict in sweep.verdicts()]

    async def assert_outcome(self, intent: Intent[Any], /, *, committed: bool, by: str, note: str) -> None:
        """Say, as a named person, what became of an attempt whose target cannot tell."""
        runtime = await self._ready()
        asserted = lifecycle.assert_outcome(runtime.scene, _id(intent), committed=committed, by=by, note=note)
        await drive_async(runtime, asserted)
        if committed:
            runtime.forget(intent.id)

    async def aclose(self) -> None:
        """Wait for the effects that are being applied, whoever started them; close a store that was given as a URL."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        if self._connected is not None:
            await self._connected.aclose()

    # What effects call.

    async def _call(
        self, declared: Declared, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Any:
        """Propose and release; for decorated functions."""
        runtime = await self._ready()
        draft = self._draft(runtime, declared, options, Mode.ONE_SHOT, args, kwargs)
        verdict = await drive_async(runtime, one_shot(runtime.scene, draft), self._shielded)
        return self._answered(runtime, verdict).result()

    async def _propose(
        self, declared: Declared, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Any:
        """Propose; for decorated functions."""
        runtime = await self._ready()
        draft = self._draft(runtime, declared, options, Mode.PROVE, args, kwargs)
        record = (await drive_async(runtime, propose(runtime.scene, draft))).record
        return cast("Any", Intent(record.intent_id, record.effect))

    async def _find(self, declared: Declared, intent_id: str, /) -> Any:
        """The handle of a stored intent; for decorated functions."""
        return _handle(await _loaded(await self._ready(), _id_text(intent_id)), intent_id, declared.name)

    async def _ready(self) -> Runtime:
        runtime = self._runtime()
        await runtime.ready()
        return runtime

    def _shielded(self, rest: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(rest)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class AsyncTransaction:
    """As `Transaction`, awaited.

    Attributes:
        id: to find it again by `gate.transaction(id)`.
    """

    __slots__ = ("__weakref__", "_gate", "_ledger", "_runtime", "id")

    def __init__(self, gate: AsyncGate, ledger: Ledger, runtime: Runtime) -> None:
        self._gate = gate
        self._ledger = ledger
        self._runtime = runtime
        self.id = ledger.id

    async def read(self, what: Ref | Expr[Any] | Clause | type[Any], /, **arguments: Any) -> Evidence:
        """Read a resource, a field or all rows of a kind, and record it."""
        runtime = self._gate._same(self._runtime)  # noqa: SLF001 - its own gate
        await runtime.ready()
        frozen = {name: freeze(value, path=name) for name, value in arguments.items()}
        return cast("Evidence", await drive_async(runtime, read_evidence(self._ledger, cast("Any", what), frozen)))

    def decide(self, text: str, /, *, rests_on: Sequence[Evidence] = ()) -> None:
        """Record a conclusion; a read that it rests on and that no premise names is a conservative dependency."""
        self._ledger.decide(text, rests_on)

    async def propose(self, effect: AsyncEffect[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> Intent[_R]:
        """Store an intent with everything read and decided so far; premises that are not true now run at the gate."""
        gate = self._gate
        runtime = gate._same(self._runtime)  # noqa: SLF001 - its own gate
        await runtime.ready()
        declared, options = gate._own(effect)  # noqa: SLF001 - its own gate
        draft = gate._draft(runtime, declared, options, Mode.RECORD, args, kwargs, self._ledger)  # noqa: SLF001
        record = (await drive_async(runtime, propose(runtime.scene, draft))).record
        return Intent(record.intent_id, record.effect)
