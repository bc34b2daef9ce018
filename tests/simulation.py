"""A deterministic simulator: several gates over one store and one world, stepped by hand, with a fault at any command.

One seed gives one schedule: who moves next, what the writer writes, which command crashes, raises, is answered late
or not at all, and when the clock jumps. Every executed command goes through `Shop.execute`, which knows independently
of the library when the effect landed and what was true at that moment, and checks the protocol's promises there:

- nothing commits while one of its premises is false, and an intent commits at most once;
- attempt n commits only while the journal's last word is ATTEMPT(n); in one engine effect and record land together;
- whatever else the last word is (BLOCK, REJECTED, WITHDRAWN, ...), nothing of the intent is committed;
- what a caller was told is true, then and later;
- after recovery journal and target agree, chains verify, no attempt and no lane stay open, and what is right goes out.

Run `python tests/simulation.py FORM SEED` to see one schedule step by step.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import enum
import functools
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast, get_args

from lastlook import (
    STRICT,
    Applied,
    Capture,
    EffectStopped,
    Gate,
    InFlight,
    KeyReused,
    Memory,
    MemoryPermit,
    Outcome,
    Verdict,
    answers,
    arg,
    before,
    block_unless,
    canonical,
    commands,
    lifecycle,
    protocol,
    replan_unless,
    resource,
    validator,
)
from lastlook.commands import Apply, Close, Create, Judge, Load, Now, Observe, Pause, Read, Transit
from lastlook.contract import Contract
from lastlook.drivers import Tap
from lastlook.look import Look
from lastlook.ports import ApplyResult, CloseResult
from lastlook.proposals import Draft, Mode, one_shot, propose
from lastlook.protocol import Limits
from lastlook.records import State, microseconds
from lastlook.runtime import Runtime
from lastlook.store.memory import MemoryStore
from lastlook.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pytest

    from lastlook.commands import Command, Protocol
    from lastlook.contract import Surroundings
    from lastlook.effects import Declared
    from lastlook.ports import Append, Appended, Attempt, Journal, Stored
    from lastlook.records import Observation

__all__ = [
    "AMOUNT",
    "COMMANDS",
    "OVERDUE",
    "PLANTED",
    "Call",
    "Coverage",
    "Failpoint",
    "Fault",
    "Form",
    "Shop",
    "Violation",
    "failpoints",
    "rerun",
    "run",
]

DAY = dt.timedelta(days=1)
OVERDUE = dt.timedelta(seconds=31)
"""Past the deadline of an attempt."""

COMMANDS: tuple[type[Any], ...] = tuple(
    command for command in get_args(commands.Command) if command not in (commands.Poll, commands.Weed)
)
"""What a schedule can fail at; what only hints yield, about a store that others write to, decides nothing."""
DEAD = (State.WITHDRAWN, State.EXPIRED, State.SUPERSEDED)


class Violation(AssertionError):
    """A promise was broken."""


class Fault(Exception):
    """What a failing command raises."""


class Form(enum.Enum):
    """Whether an effect and its record land in one transaction."""

    SEPARATE = "separate"
    ONE_ENGINE = "one-engine"


class Failpoint(enum.Enum):
    """What can go wrong at a command."""

    CRASH_BEFORE = "crash before it"
    CRASH_AFTER = "crash after it, its reply is lost"
    RAISE_BEFORE = "it raises, not executed"
    RAISE_AFTER = "it raises, executed"
    DELAY = "others run before its reply arrives"
    JUMP = "the clock jumps past every attempt's deadline"
    UNSENT = "no answer, nothing was sent"
    LATE = "no answer, it arrives later"
    LOST = "no answer, it was executed"
    TWICE = "executed, and once more later"
    CRASH_LATE = "crash after sending, it arrives later"
    BUSY = "the target is busy"
    UNREADABLE = "a kind of evidence cannot be read"


_COMMON = (
    Failpoint.CRASH_BEFORE,
    Failpoint.CRASH_AFTER,
    Failpoint.RAISE_BEFORE,
    Failpoint.RAISE_AFTER,
    Failpoint.DELAY,
    Failpoint.JUMP,
)
_APPLY = (
    Failpoint.UNSENT,
    Failpoint.LATE,
    Failpoint.LOST,
    Failpoint.TWICE,
    Failpoint.CRASH_LATE,
    Failpoint.BUSY,
    Failpoint.BUSY,
)
_FAULTS: dict[type[Any], tuple[Failpoint, ...]] = {
    **dict.fromkeys(COMMANDS, _COMMON),
    Apply: _COMMON + _APPLY,
    Close: (*_COMMON, Failpoint.UNSENT, Failpoint.LOST),
    Observe: (*_COMMON, Failpoint.UNREADABLE),
    Read: (*_COMMON, Failpoint.UNREADABLE),
}
_WEIGHT: dict[type[Any], int] = {Apply: 5, Close: 4, Pause: 12, Judge: 2, Create: 2}
"""How much likelier a fault is at a rare command."""


def failpoints(form: Form) -> set[tuple[Form, str, Failpoint]]:
    """Every failpoint of a form: each command with everything that can go wrong at it."""
    return {(form, command.__name__, fault) for command, faults in _FAULTS.items() for fault in faults}


@dataclass
class Coverage:
    """How often each failpoint was hit, and what came of the calls."""

    hits: Counter[tuple[Form, str, Failpoint]] = field(default_factory=Counter[tuple[Form, str, Failpoint]])
    seen: Counter[str] = field(default_factory=Counter[str])


# The effects, and the world that they act on. `pay` leaves its evidence as it was, so only the protocol makes it happen
# at most once; `refund` moves its own evidence; `claim` has a key from evidence, a validator and a deadline.

_TEMPLATE = Gate()
_order = resource("orders", arg.order_id)
_everywhere = resource("policies", "everywhere")
_regional = resource("policies", _order.region)


@validator("simulation/within", version="1")
def _within(amount: int, limit: int) -> bool:
    return amount <= limit


def _paid(permit: MemoryPermit, order_id: str, amount: int) -> str:
    order = permit.row("orders", order_id)
    if order is None or order["jammed"] is not False:
        message = "the printer is jammed"
        raise Fault(message)
    earlier = permit.row("payments", permit.key)
    times = cast("int", earlier["times"]) if earlier is not None else 0
    permit.change("payments", permit.key, order=order_id, amount=amount, times=times + 1)
    return permit.key


@_TEMPLATE.effect(
    target=_order,
    refresh=[_order.name],
    premises=[block_unless(~_order.frozen), replan_unless(_order.ready), block_unless(arg.amount <= _everywhere.limit)],
)
def pay(permit: MemoryPermit, order_id: str, amount: int) -> str:
    """Pays, and leaves a payment row behind that says how often."""
    return _paid(permit, order_id, amount)


@_TEMPLATE.effect(
    target=_order,
    refresh=[_order.name],
    premises=[
        block_unless(~_order.refunded),
        block_unless(~_order.frozen),
        replan_unless(_order.ready),
        block_unless(arg.amount <= _everywhere.limit),
    ],
)
def refund(permit: MemoryPermit, order_id: str, amount: int) -> str:
    """As `pay`, and makes its own premise false."""
    permit.change("orders", order_id, refunded=True)
    return _paid(permit, order_id, amount)


@_TEMPLATE.effect(
    target=_order,
    refresh=[_order.name],
    premises=[
        block_unless(~_order.frozen),
        replan_unless(_order.ready),
        block_unless(_within(arg.amount, _regional.limit)),
        block_unless(before(_order.until)),
    ],
)
def claim(permit: MemoryPermit, order_id: str, amount: int) -> str:
    """As `pay`, under a policy that the order names, judged by a validator, until a moment that the order names."""
    return _paid(permit, order_id, amount)


AMOUNT = 80


def _world(until: dt.datetime) -> Memory:
    order = {
        "frozen": False,
        "ready": True,
        "refunded": False,
        "jammed": False,
        "region": "uk",
        "name": "a",
        "note": 0,
        "until": until,
    }
    limits = {"everywhere": {"limit": 100}, "uk": {"limit": 100}, "eu": {"limit": 100}}
    return Memory(orders={"o-1": order, "o-2": order}, policies=limits, payments={})


def _compiled(effect: Any) -> Declared:
    """An effect whose contract is compiled once; connecting it to another world then only points it there."""
    declared = cast("Declared", effect.declared[0])
    contract = declared.contract

    def connect(surroundings: Surroundings, *, strict_fields: bool = True) -> None:
        if contract.surroundings is None:
            Contract.connect(contract, surroundings, strict_fields=strict_fields)
        contract.surroundings = surroundings

    vars(contract)["connect"] = connect
    return declared


_DECLARED = {name: _compiled(effect) for name, effect in (("pay", pay), ("refund", refund), ("claim", claim))}


@dataclass(frozen=True)
class Commit:
    """An effect that landed: by which attempt, and under which key."""

    command: Apply
    number: int
    key: str


class Shop:
    """One world, one store, one clock, and any number of gates over them; every promise is checked as commands run."""

    def __init__(self, form: Form, effect: str = "pay", *, until: dt.timedelta = DAY) -> None:
        self.form = form
        self.effect = effect
        self.clock = FakeClock()
        self.world = _world(self.clock.now() + until).options(separate=form is Form.SEPARATE)
        self.store = MemoryStore()
        self.orders: dict[str, str] = {}
        self.commits: dict[str, Commit] = {}
        self.seen: Counter[str] = Counter()
        self._denied: list[Apply] = []
        self._ended: dict[str, State] = {}
        self._gates = 0
        self._readers: dict[tuple[str, str], Callable[[], Any]] = {}

    @classmethod
    def of(cls, other: Shop, store: MemoryStore) -> Shop:
        """The same world and clock and another store, nothing happened yet."""
        shop = cls.__new__(cls)
        vars(shop).update(vars(other), store=store, orders=dict(other.orders), commits={}, seen=Counter())
        shop._denied, shop._ended, shop._gates = [], {}, 0
        return shop

    # Gates and intents.

    def gate(self) -> Runtime:
        """A fresh gate: another owner, nothing compiled."""
        self._gates += 1
        runtime = Runtime(
            [self.world],
            self.store,
            policy=STRICT,
            clock=self.clock,
            capture=Capture.PREDICATE,
            tap=Tap(),
            limits=Limits(),
            asynchronous=False,
            strict_fields=True,
        )
        runtime.scene.owner = f"gate-{self._gates}"
        runtime.add(_DECLARED[self.effect], own=True)
        return runtime

    def draft(
        self, runtime: Runtime, order_id: str, mode: Mode, *, number: int, keyed: bool = False, **more: Any
    ) -> Draft:
        """A proposal of the shop's effect; the number makes its id."""
        contract = runtime.contracts[self.effect]
        arguments = contract.arguments.freeze(contract.arguments.bind((order_id,), {"amount": AMOUNT}))
        intent_id = canonical.random_id(number.to_bytes(16, "big"))
        self.orders.setdefault(intent_id, order_id)
        return Draft(intent_id, contract, arguments, None, mode, keyed=keyed, **more)

    def propose(self, runtime: Runtime, order_id: str, *, number: int) -> str:
        """Propose without faults; gives the intent's id."""
        draft = self.draft(runtime, order_id, Mode.PROVE, number=number)
        return cast("str", self.drive(runtime, propose(runtime.scene, draft)).record.intent_id)

    def drive(self, runtime: Runtime, run: Protocol[Any]) -> Any:
        """Run a protocol to its end without faults, observed."""
        call = Call(self, runtime, "recovery", run)
        while not call.done:
            call.step()
        if call.error is not None:
            raise call.error
        return call.value

    def outage(self) -> None:
        """All processes are gone: what is left of the store are its bytes."""
        self.store = self.store.reopened()

    # What is true.

    def justified(self, order_id: str) -> bool:
        """The business rule, read off the rows: whether the effect may happen now."""
        order = self._row_of("orders", order_id)
        if order is None or order.get("frozen") is not False or order.get("ready") is not True:
            return False
        if self.effect == "refund" and order.get("refunded") is not False:
            return False
        policy = self._row_of("policies", cast("str", order["region"]) if self.effect == "claim" else "everywhere")
        limit = None if policy is None else policy.get("limit")
        if type(limit) is not int or limit < AMOUNT:
            return False
        return self.effect != "claim" or self.clock.now() <= cast("dt.datetime", order["until"])

    def payments(self, key: str) -> int:
        """How often the effect landed under a key."""
        row = self._row_of("payments", key)
        return 0 if row is None else cast("int", row["times"])

    def _row_of(self, kind: str, key: str) -> Mapping[str, Any] | None:
        """A row as it is; its address is worked out once."""
        read = self._readers.get((kind, key))
        if read is None:
            read = self._readers[kind, key] = self.world.reader([self.world.address(kind, key)])
        value = cast("Observation", read()[0]).value
        return None if value is canonical.ABSENT else cast("Mapping[str, Any]", value)

    # Running, observed.

    def execute(self, runtime: Runtime, command: Command) -> Any:
        """Execute a command as a gate's driver does, and check what holds at every moment.

        Raises:
            Violation: a promise was broken.
        """
        if isinstance(command, Apply):
            return self._apply(runtime, command)
        reply = runtime.execute[type(command)](command)
        if isinstance(command, Transit | Create | Close):
            self.check()
        return reply

    def _apply(self, runtime: Runtime, command: Apply) -> ApplyResult:
        attempt = command.attempt
        intent_id, key = attempt.intent_id, attempt.key
        justified = self.justified(self.orders[intent_id])
        row, times = self._row(intent_id), self.payments(key)
        answer = cast("ApplyResult", runtime.execute[Apply](command))
        landed = self.payments(key) - times
        if landed:
            _expect(landed == 1, "the body landed {} times in one apply", landed)
            _expect(justified, "attempt {} committed on a false premise", attempt.number)
            _expect(intent_id not in self.commits, "the intent committed twice: now by attempt {}", attempt.number)
            _expect(not any(command is denied for denied in self._denied), "an attempt committed that was denied")
            if self.form is Form.SEPARATE:
                holds = row.state is State.ATTEMPT and row.attempt == attempt.number
                _expect(
                    holds, "attempt {} committed while the last word is {}({})", attempt.number, row.state, row.attempt
                )
            self.commits[intent_id] = Commit(command, attempt.number, key)
        _expect(
            answer.status is not Applied.COMMITTED or intent_id in self.commits,
            "the target says COMMITTED and nothing landed",
        )
        _expect(
            not landed or answer.status is Applied.COMMITTED, "the effect landed and the target says {}", answer.status
        )
        self.seen[f"apply {answer.status.name}{' fenced' if answer.floor else ''}"] += 1
        self.check()
        return answer

    def _row(self, intent_id: str) -> Any:
        stored = self.store.load(intent_id)
        if stored is None:
            message = f"{intent_id} is not in the store"
            raise Violation(message)
        return stored.row

    def check(self) -> None:
        """What holds at every moment: the journal's last word and the world, and one attempt per lane."""
        lanes: set[str] = set()
        for intent_id in self.orders:
            stored = self.store.load(intent_id)
            commit = self.commits.get(intent_id)
            if stored is None:
                _expect(commit is None, "an intent committed that is not in the store")
                continue
            row = stored.row
            ended = self._ended.setdefault(intent_id, row.state) if row.state.terminal else self._ended.get(intent_id)
            _expect(ended is None or ended is row.state, "it had ended as {}, and moved to {}", ended, row.state)
            if row.state is State.ATTEMPT:
                _expect(self.form is Form.SEPARATE, "an attempt was opened apart from its effect")
                _expect(stored.record.lane not in lanes, "two open attempts on one lane")
                lanes.add(stored.record.lane)
            if commit is None:
                _expect(row.state is not State.COMMITTED, "the journal says COMMITTED and nothing landed")
            else:
                known = row.state in (State.ATTEMPT, State.COMMITTED)
                _expect(known, "the effect landed and the last word is {}", row.state)
                _expect(row.attempt == commit.number, "attempt {} landed, {} is recorded", commit.number, row.attempt)

    def settled(self, *, verified: bool = False) -> None:
        """What holds after recovery: nothing is left open, journal and target agree, and to the word if `verified`."""
        self.check()
        for intent_id in self.orders:
            if self.store.load(intent_id) is None:
                continue
            row, commit, effect = self._row(intent_id), self.commits.get(intent_id), self.world.effects.get(intent_id)
            _expect(row.state is not State.ATTEMPT, "an attempt is still open after recovery")
            _expect(
                (row.state is State.COMMITTED) == (commit is not None), "the last word {} is not the world's", row.state
            )
            marked = effect is not None and effect["committed_at"] is not None
            _expect(marked == (commit is not None), "the target's row is not the world's")
            if commit is not None:
                _expect(effect is not None and effect["attempt"] == commit.number, "the target names another attempt")
            if not verified:
                continue
            self.store.verify(intent_id)
            if commit is not None:
                last = self.store.journal(intent_id)[-1]
                body = cast("Mapping[str, Any]", canonical.decode(last.body))
                _expect(last.kind == "COMMITTED", "the last record is {}", last.kind)
                _expect(body["result"] == commit.key, "the journal has another result")

    # What callers were told.

    def deny(self, commands: Sequence[Apply]) -> None:
        """A caller was told that none of its attempts landed: it stays so."""
        for commit in self.commits.values():
            _expect(not any(commit.command is each for each in commands), "a caller was told that its commit was none")
        self._denied.extend(commands)

    def told(self, call: Call, verdict: Verdict[Any]) -> None:
        """Check what a verdict says against the world.

        Raises:
            Violation: it does not tell the truth.
        """
        self.seen[f"verdict {verdict.outcome.name} {verdict.applied.name}"] += 1
        intent = verdict.intent
        _expect(intent is not None, "a verdict without its intent")
        intent_id = cast("Any", intent).id
        row, commit = self._row(intent_id), self.commits.get(intent_id)
        if verdict.committed:
            _expect(commit is not None, "a caller was told COMMITTED and nothing landed")
            _expect(verdict.result() == cast("Commit", commit).key, "a caller was given another result")
            _expect(verdict.outcome.permits, "{} committed", verdict.outcome)
            _expect((verdict.state is State.COMMITTED) != (verdict.error is not None), "the state hides an error")
        elif verdict.applied is not Applied.UNKNOWN:
            self.deny(call.applied)
        if verdict.applied is Applied.FAILED:
            _expect(isinstance(verdict.error, Fault), "the body's own error was lost: {!r}", verdict.error)
        if verdict.state is not None and verdict.state.terminal:
            _expect(row.state is verdict.state, "a caller was told {}, the store says {}", verdict.state, row.state)
        if verdict.state is State.ATTEMPT:
            _expect(self.form is Form.SEPARATE, "a caller was told of an open attempt, and there is none")


def _expect(holds: bool, message: str, *parts: object) -> None:
    if not holds:
        raise Violation(message.format(*parts))


class Call:
    """One call at a gate: its protocol, stepped command by command."""

    __slots__ = ("answered", "applied", "command", "done", "error", "name", "run", "runtime", "shop", "since", "value")

    def __init__(self, shop: Shop, runtime: Runtime, name: str, run: Protocol[Any]) -> None:
        self.shop = shop
        self.runtime = runtime
        self.name = name
        self.run = run
        self.command: Command | None = None
        self.answered: tuple[Any, Exception | None] | None = None
        self.applied: list[Apply] = []
        self.since = 0
        self.done = False
        self.value: Any = None
        self.error: Exception | None = None
        self._advance(lambda: next(run))

    def execute(self) -> Any:
        """Execute the pending command; gives the reply, or raises what it raised."""
        return self.shop.execute(self.runtime, cast("Command", self.command))

    def answer(self, reply: Any, error: Exception | None = None) -> None:
        """Have a reply ready, to be delivered."""
        self.answered = (reply, error)

    def deliver(self) -> None:
        """Give the protocol what was answered."""
        reply, error = cast("tuple[Any, Exception | None]", self.answered)
        self.answered = None
        self._advance((lambda: self.run.send(reply)) if error is None else (lambda: self.run.throw(error)))

    def step(self) -> None:
        """Execute the pending command and deliver its reply, as one step."""
        self.answer(self.execute())
        self.deliver()

    def abandon(self) -> None:
        """The call's process or thread is gone: nothing more is asked and nothing answered."""
        self.run.close()
        self.done = True

    def _advance(self, move: Callable[[], Command]) -> None:
        try:
            self.command = move()
        except StopIteration as stop:
            self.done = True
            self.value = stop.value
            if isinstance(stop.value, Verdict):
                self.shop.told(self, stop.value)
        except (Fault, InFlight, EffectStopped, KeyReused) as error:
            self.done = True
            self.error = error
        else:
            if isinstance(self.command, Apply):
                self.applied.append(self.command)


# The simulation.


@dataclass
class _Process:
    runtime: Runtime | None


@dataclass
class _Worker:
    name: str
    process: _Process
    jobs: list[str]
    call: Call | None = None


class _Simulation:
    MAX_STEPS = 600

    def __init__(self, seed: int, form: Form, coverage: Coverage, trace: Callable[[str], None] | None) -> None:
        self.rng = rng = random.Random(f"{form.value} {seed}")
        self.form = form
        self.coverage = coverage
        self.trace = trace
        soon = dt.timedelta(seconds=20)
        self.shop = Shop(form, rng.choice(("pay", "pay", "refund", "claim")), until=rng.choice((DAY, soon)))
        self.shop.seen = coverage.seen
        self.rate = rng.choice((0.0, 0.04, 0.08, 0.12, 0.2, 0.4))
        self.faults = rng.randint(1, 6)
        self.zombies: list[tuple[Runtime, Apply]] = []
        self.held: list[contextlib.ExitStack] = []
        self.steps = 0
        self.numbers = 0
        first = self.shop.gate()
        self.intents = [
            self.shop.propose(first, order_id, number=self._number())
            for order_id in rng.choice((["o-1"], ["o-1"], ["o-1", "o-1"], ["o-1", "o-2"]))
        ]
        self.called = 0
        processes = [_Process(first), _Process(self.shop.gate())]
        jobs = [["gate"] * rng.choice((1, 1, 2)) for _ in range(rng.choice((1, 2, 2)))]
        jobs.extend([job] for job in rng.choice(_OTHERS))
        self.workers = [
            _Worker(f"worker {number}", rng.choice(processes) if number else processes[0], each)
            for number, each in enumerate(jobs)
        ]
        self.writes = [rng.choice(_WRITES) for _ in range(rng.randint(0, 5))]
        self.outages = int(rng.random() < 0.06)

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    # The schedule.

    def run(self) -> None:
        while True:
            moves = list(self._moves())
            if not moves:
                break
            self.steps += 1
            _expect(self.steps < self.MAX_STEPS, "the gates get nowhere")
            self.rng.choice(moves)()
        self._recover()

    def _moves(self) -> Iterator[Callable[[], None]]:
        for worker in self.workers:
            if worker.call is not None:
                yield functools.partial(self._step, worker)
            elif worker.jobs:
                yield functools.partial(self._start, worker)
        if self.writes:
            yield self._write
        if self.zombies and self.rng.random() < 0.5:
            yield self._arrive
        if self.outages and self.steps > 3 and any(worker.call is not None for worker in self.workers):
            yield self._outage

    def _start(self, worker: _Worker) -> None:
        shop, rng = self.shop, self.rng
        if worker.process.runtime is None:
            worker.process.runtime = shop.gate()
            self._tell("{}: a fresh process, {}", worker.name, worker.process.runtime.scene.owner)
            return
        runtime, job = worker.process.runtime, worker.jobs.pop()
        scene, intent_id = runtime.scene, self.intents[0 if rng.random() < 0.6 else -1]
        run: Protocol[Any]
        if job == "gate":
            run = protocol.release(scene, intent_id)
        elif job == "withdraw":
            run = lifecycle.withdraw(scene, intent_id)
        elif job == "reconcile":
            run = lifecycle.reconcile(scene, intent_id)
        elif job == "call":
            self.called = self.called or self._number()
            run = one_shot(scene, shop.draft(runtime, "o-1", Mode.ONE_SHOT, number=self.called, keyed=True))
        elif job == "one-shot":
            run = one_shot(scene, shop.draft(runtime, "o-1", Mode.ONE_SHOT, number=self._number()))
        else:
            mode = rng.choice((Mode.PROVE, Mode.RECORD))
            expires = rng.choice((None, dt.timedelta(seconds=20)))
            draft = shop.draft(
                runtime,
                shop.orders[intent_id],
                mode,
                number=self._number(),
                supersedes=intent_id if job == "supersede" else None,
                expires=expires,
            )
            run = propose(scene, draft)
            if job == "propose":
                run = self._then_released(runtime, run)
        worker.call = Call(shop, runtime, job, run)
        self._tell("{}: {} {} at {}", worker.name, job, intent_id[:6], scene.owner)
        self._ended(worker)

    def _then_released(self, runtime: Runtime, proposal: Protocol[Any]) -> Protocol[Any]:
        proposed = yield from proposal
        return (yield from protocol.release(runtime.scene, proposed.record.intent_id))

    def _step(self, worker: _Worker) -> None:
        call = cast("Call", worker.call)
        if call.answered is not None:
            if self.steps > call.since + 1:
                self._hit(call, Failpoint.DELAY)
            call.deliver()
            self._ended(worker)
            return
        command = cast("Command", call.command)
        fault = self._draw(command)
        self._tell("{}: {}{}", worker.name, type(command).__name__, "" if fault is None else f" -- {fault.value}")
        if fault is not None and fault is not Failpoint.DELAY:
            self._hit(call, fault)
        if self._fail(worker, call, command, fault):
            return
        if call.answered is None:
            self._execute(call)
        if fault is Failpoint.TWICE:
            self.zombies.append((call.runtime, cast("Apply", command)))
        if fault is Failpoint.DELAY:
            call.since = self.steps
            return
        call.deliver()
        self._ended(worker)

    def _draw(self, command: Command) -> Failpoint | None:
        if self.rng.random() < 0.2:
            return Failpoint.DELAY
        if not self.faults or self.rng.random() >= self.rate * _WEIGHT.get(type(command), 1):
            return None
        self.faults -= 1
        return self.rng.choice(_FAULTS[type(command)])

    def _hit(self, call: Call, fault: Failpoint) -> None:
        self.coverage.hits[self.form, type(call.command).__name__, fault] += 1

    def _execute(self, call: Call) -> None:
        try:
            call.answer(call.execute())
        except Fault as error:
            call.answer(None, error)

    def _fail(self, worker: _Worker, call: Call, command: Command, fault: Failpoint | None) -> bool:
        """Let a fault happen; True if nothing is left to deliver."""
        if fault in (Failpoint.CRASH_BEFORE, Failpoint.CRASH_AFTER, Failpoint.CRASH_LATE):
            if fault is Failpoint.CRASH_AFTER:
                self._execute(call)
            if fault is Failpoint.CRASH_LATE:
                self._send_late(call, command)
            self._crash(worker)
            return True
        if fault in (Failpoint.RAISE_BEFORE, Failpoint.RAISE_AFTER):
            if fault is Failpoint.RAISE_AFTER:
                self._execute(call)
            call.answer(None, Fault("connection reset"))
        elif fault is Failpoint.JUMP:
            self.shop.clock.advance(OVERDUE)
        elif fault is Failpoint.BUSY:
            call.answer(ApplyResult(Applied.BUSY, reason="the lock was not free in time"))
        elif fault is Failpoint.UNREADABLE:
            with self.shop.world.unreadable(self.rng.choice(("orders", "policies"))):
                self._execute(call)
        elif fault in (Failpoint.UNSENT, Failpoint.LATE, Failpoint.LOST):
            if fault is Failpoint.LOST:
                self._execute(call)
            if fault is Failpoint.LATE:
                self._send_late(call, command)
            unknown = ApplyResult(Applied.UNKNOWN) if isinstance(command, Apply) else CloseResult(Applied.UNKNOWN)
            call.answer(unknown)
        return False

    def _send_late(self, call: Call, command: Command) -> None:
        self.zombies.append((call.runtime, cast("Apply", command)))
        if self.rng.random() < 0.5:
            self.shop.clock.advance(OVERDUE)

    def _crash(self, worker: _Worker) -> None:
        """The process dies, with all that runs in it; or only this call is interrupted."""
        call = cast("Call", worker.call)
        if self.rng.random() < 0.3:
            self._end(worker, call)
        else:
            self._kill(worker.process)

    def _kill(self, process: _Process) -> None:
        for each in self.workers:
            if each.process is process and each.call is not None:
                self._end(each, each.call)
        process.runtime = None

    def _end(self, worker: _Worker, call: Call) -> None:
        call.abandon()
        worker.call = None
        if call.name in ("gate", "call") and self.rng.random() < 0.6:
            worker.jobs.append(call.name)

    def _ended(self, worker: _Worker) -> None:
        call = cast("Call", worker.call)
        if not call.done:
            return
        worker.call = None
        value = call.value if isinstance(call.value, Verdict | None) else type(call.value).__name__
        self._tell("{}: {} gave {!r}", worker.name, call.name, value if call.error is None else call.error)
        self._promised(call)
        if isinstance(call.error, Fault) and self.faults and self.rng.random() < 0.5:
            worker.jobs.append(call.name)

    def _promised(self, call: Call) -> None:
        """What the other operations tell their callers."""
        if call.name == "withdraw" and call.error is None:
            self.shop.seen["withdrawn"] += 1
        if call.name == "one-shot" and isinstance(call.value, Verdict):
            verdict = call.value
            stored = self.shop.store.load(cast("Any", verdict.intent).id)
            if not verdict.committed and verdict.applied is not Applied.UNKNOWN:
                state = None if stored is None else stored.row.state
                _expect(state in DEAD, "a stopped call without a key left its intent {}", state)
        if call.name in ("supersede", "propose") and call.error is None:
            self.shop.seen[call.name] += 1

    # What others do.

    def _write(self) -> None:
        write = self.writes.pop()
        self._tell("writer: {}", write)
        self._do(write)

    def _do(self, write: str) -> None:
        world, rng = self.shop.world, self.rng
        order = rng.choice(("o-1", "o-1", "o-2"))
        policy = "everywhere" if self.shop.effect != "claim" else rng.choice(("uk", "eu"))
        verb, _, number = write.partition(" ")
        if verb == "limit":
            world.change("policies", policy, limit=int(number))
        elif verb == "remove":
            world.delete("policies", policy)
        elif verb == "drop":
            world.drop("policies", policy, "limit")
        elif verb in ("name", "region"):
            world.change("orders", order, **{verb: number})
        elif verb == "until":
            world.change("orders", order, until=self.shop.clock.now() + dt.timedelta(seconds=int(number)))
        elif verb == "lock":
            stack = contextlib.ExitStack()
            stack.enter_context(world.lock(*rng.choice((("orders", order), ("policies", policy)))))
            self.held.append(stack)
            self.writes.insert(rng.randint(0, len(self.writes)), "unlock")
        elif verb == "unlock":
            self.held.pop().close()
        elif verb == "jump":
            self.shop.clock.advance(OVERDUE)
        else:
            world.change("orders", order, **{verb: number == "yes"})

    def _arrive(self) -> None:
        runtime, command = self.zombies.pop(self.rng.randrange(len(self.zombies)))
        self._tell("network: attempt {} arrives", command.attempt.number)
        answer = self.shop.execute(runtime, command)
        self.shop.seen[f"late {answer.status.name}{' fenced' if answer.floor else ''}"] += 1

    def _outage(self) -> None:
        self._tell("outage")
        self.outages -= 1
        for worker in self.workers:
            self._kill(worker.process)
        if self.form is Form.ONE_ENGINE:
            self.zombies.clear()  # what was under way was under way in the database that went down
        self.shop.outage()
        self.shop.check()
        self.shop.seen["outage"] += 1

    # Afterwards.

    def _recover(self) -> None:
        """Faults are over. Whatever happened, everything is resolved, agrees, and goes on."""
        shop, rng = self.shop, self.rng
        self._tell("recovery")
        for stack in self.held:
            stack.close()
        shop.clock.advance(dt.timedelta(hours=1))
        if rng.random() < 0.1 and self.form is Form.SEPARATE:
            shop.outage()
        runtime = shop.gate()
        for intent_id in list(shop.store.pending()):
            shop.drive(runtime, lifecycle.reconcile(runtime.scene, intent_id))
        shop.settled()
        while self.zombies and rng.random() < 0.5:
            self._arrive()
        shop.settled()
        self._restore()
        if rng.random() < 0.2:
            shop.propose(runtime, "o-1", number=self._number())
        for intent_id in list(shop.store.pending()):
            justified = shop.justified(shop.orders[intent_id])
            verdict = shop.drive(runtime, protocol.release(runtime.scene, intent_id))
            self._tell("recovery: {!r}", verdict)
            expired = verdict.state is State.EXPIRED
            _expect(expired or verdict.committed == justified, "recovered, and {!r} where {}", verdict, justified)
            _expect(justified or verdict.outcome is Outcome.BLOCK, "recovered, and {!r} where not", verdict)
        while self.zombies:
            self._arrive()
        shop.settled(verified=True)
        self.coverage.seen["schedules"] += 1
        self.coverage.seen["steps"] += self.steps
        self.coverage.seen["commits"] += len(shop.commits)

    def _restore(self) -> None:
        world = self.shop.world
        fine: dict[str, Any] = {"frozen": False, "ready": True, "refunded": False, "jammed": False}
        for order in dict.fromkeys(self.shop.orders.values()):
            world.change("orders", order, **fine, until=self.shop.clock.now() + DAY)
        for policy in ("everywhere",) if self.shop.effect != "claim" else ("uk", "eu"):
            world.change("policies", policy, limit=100)

    def _tell(self, message: str, *parts: object) -> None:
        if self.trace is not None:
            self.trace(f"{self.steps:4} {message.format(*parts)}")


_OTHERS = (
    (),
    ("withdraw",),
    ("withdraw",),
    ("reconcile",),
    ("supersede",),
    ("call", "call"),
    ("one-shot", "propose"),
    ("withdraw", "reconcile", "supersede", "call"),
)
"""What is done in one schedule beside the rivals at the gate."""
_WRITES = (
    *("limit 50", "limit 50", "limit 50", "limit 100", "limit 100", "limit 90"),
    *("remove", "drop", "name b", "note yes", "region eu", "region uk", "until -1", "until 40"),
    *("frozen yes", "frozen no", "ready no", "ready yes", "jammed yes", "jammed no", "lock", "lock", "jump"),
)


# Planted mistakes: each takes one mechanism away; the first four are those that the formal model was tried with.


def _no_floor(patch: pytest.MonkeyPatch) -> None:
    """The target forgets that an attempt was closed."""

    def close(self: Memory, intent_id: str, _: int, /) -> CloseResult:
        row = self.effect_row(intent_id)
        if row is not None and row.committed_at is not None:
            return CloseResult(Applied.COMMITTED, row.result)
        return CloseResult(Applied.NOT_ATTEMPTED)

    patch.setattr(Memory, "close", close)


def _steal_first(patch: pytest.MonkeyPatch) -> None:
    """A taker-over journals first and closes at the target afterwards."""

    def settle(scene: protocol.Scene, stored: Stored) -> Protocol[Any]:
        row, record = stored.row, stored.record
        if row.owner != scene.owner and microseconds((yield Now())) < (row.deadline_us or 0):
            return answers.last_verdict(stored, Applied.IN_PROGRESS)
        body = {"schema": 1, "attempt": row.attempt}
        if (yield Transit(answers.transition(stored, "CLOSED", State.OPEN, body))).ok:
            yield Close(record, row.attempt)
        return protocol.AGAIN

    patch.setattr(protocol, "settle", settle)
    patch.setattr(lifecycle, "settle", settle)


def _with(attempt: Attempt, **changes: object) -> Attempt:
    """A copy of an attempt with something changed."""
    changed = copy.copy(attempt)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _no_swap(patch: pytest.MonkeyPatch) -> None:
    """The store takes a transition whatever happened since its writer looked."""
    write = MemoryStore.append

    def append(self: MemoryStore, append: Append, at: dt.datetime, /, on: Any = None) -> Appended:
        stored = self.load(append.intent_id)
        if stored is not None:
            append.seq = stored.row.seq
        return write(self, append, at)

    patch.setattr(MemoryStore, "append", append)


def _withdraw_any(patch: pytest.MonkeyPatch) -> None:
    """An intent is withdrawn while it is being attempted."""

    def withdraw(_: protocol.Scene, intent_id: str) -> Protocol[None]:
        while not (stored := (yield Load(intent_id))).row.state.terminal:
            yield Transit(answers.transition(stored, "WITHDRAWN", State.WITHDRAWN, {"schema": 1}))

    patch.setattr(lifecycle, "withdraw", withdraw)


def _unbound(patch: pytest.MonkeyPatch) -> None:
    """The target does not compare what was looked at."""
    apply = Memory.apply

    def unbound(self: Memory, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        return apply(self, _with(attempt, binding=()), journal)

    patch.setattr(Memory, "apply", unbound)


def _no_deadline(patch: pytest.MonkeyPatch) -> None:
    """The target does not look at its clock."""
    apply = Memory.apply

    def late(self: Memory, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        return apply(self, _with(attempt, not_after=None), journal)

    patch.setattr(Memory, "apply", late)


def _rejected_unknown(patch: pytest.MonkeyPatch) -> None:
    """No answer is taken for a refusal."""

    def resolve(_: Any, stored: Stored, look: Any, attempt: Attempt, __: Any) -> Protocol[Any]:
        body = {"schema": 1, "attempt": attempt.number}
        yield Transit(answers.transition(stored, "REJECTED", State.OPEN, body, attempt=attempt.number))
        return answers.answer(stored, look, Applied.REJECTED, State.OPEN)

    patch.setattr(protocol, "_resolve_unknown", resolve)


def _no_tombstone(patch: pytest.MonkeyPatch) -> None:
    """The target forgets that an intent has committed."""
    apply = Memory.apply

    def forgetful(self: Memory, attempt: Attempt, journal: Journal | None, /) -> ApplyResult:
        vars(self)["_effects"].pop(attempt.intent_id, None)
        return apply(self, attempt, journal)

    patch.setattr(Memory, "apply", forgetful)


def _lane_kept(patch: pytest.MonkeyPatch) -> None:
    """The store never frees a lane."""
    write = MemoryStore.append

    def append(self: MemoryStore, append: Append, at: dt.datetime, /, on: Any = None) -> Appended:
        held = dict(vars(self)["_lanes"])
        appended = write(self, append, at)
        vars(self)["_lanes"].update(held)
        return appended

    patch.setattr(MemoryStore, "append", append)


def _always_keep(patch: pytest.MonkeyPatch) -> None:
    """Every look decides KEEP, whatever its premises say."""
    decide = Look.decide

    def keep(self: Look) -> None:
        decide(self)
        self.outcome = Outcome.KEEP

    patch.setattr(Look, "decide", keep)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no floor": _no_floor,
    "steal first": _steal_first,
    "no swap": _no_swap,
    "withdraw any": _withdraw_any,
    "unbound": _unbound,
    "no deadline": _no_deadline,
    "rejected unknown": _rejected_unknown,
    "no tombstone": _no_tombstone,
    "lane kept": _lane_kept,
    "always keep": _always_keep,
}


def run(seed: int, form: Form, coverage: Coverage | None = None, trace: Callable[[str], None] | None = None) -> None:
    """Run the schedule of a seed.

    Raises:
        Violation: a promise was broken; the message is all there is, `rerun` tells the schedule.
    """
    _Simulation(seed, form, coverage or Coverage(), trace).run()


def rerun(seed: int, form: Form) -> str:
    """A failing schedule step by step, under the command that runs it again."""
    lines = [f"seed {seed}, {form.value}; run again: python tests/simulation.py {form.value} {seed}"]
    try:
        run(seed, form, trace=lines.append)
    except Exception as error:  # noqa: BLE001 - told, whatever it is
        lines.append(f"{type(error).__name__}: {error}")
    else:
        lines.append("every promise was kept")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(rerun(int(sys.argv[2]), Form(sys.argv[1])) + "\n")
