"""The public gate against a tiny model: proposals, changes, releases, withdrawals, crashes, recoveries in any order."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
)

from lastlook import (
    Applied,
    EffectStopped,
    Gate,
    InFlight,
    Intent,
    KeyReused,
    Memory,
    MemoryPermit,
    Outcome,
    Verdict,
    arg,
    block_unless,
    canonical,
    replan_unless,
    resource,
)
from lastlook.commands import Apply, Close, FindRow, Load, Now, Observe, Transit
from lastlook.records import State
from lastlook.store.memory import MemoryStore
from lastlook.testing import FakeClock, failpoint, interpose

if TYPE_CHECKING:
    from lastlook.effects import Effect

ORDERS = ("o-1", "o-2")
LIMITS = (40, 80, 100)
ATTEMPT = dt.timedelta(seconds=30)
ENDED = {State.WITHDRAWN, State.EXPIRED, State.SUPERSEDED}


class Crash(BaseException):
    """The process is gone."""


class Jam(Exception):
    """The body fails."""


@dataclass
class Known:
    """What the model knows of an intent."""

    order: str
    amount: int
    name: str
    expires: dt.datetime | None
    state: State = State.OPEN
    result: str | None = None
    owner: Gate | None = None
    deadline: dt.datetime | None = None


def declare(gate: Gate) -> Effect[[str, int], str]:
    """The effect: it pays, leaves its evidence alone, and tells under which key."""
    order, policy = resource("orders", arg.order_id), resource("policies", "payments")

    @gate.effect(
        target=order,
        refresh=[order.name],
        premises=[
            block_unless(~order.frozen),
            replan_unless(order.ready),
            block_unless(arg.amount <= policy.limit),
        ],
    )
    def pay(permit: MemoryPermit, order_id: str, amount: int) -> str:
        row = permit.row("orders", order_id)
        if row is not None and row["jammed"] is True:
            raise Jam
        paid = permit.row("payments", permit.key)
        times = 1 if paid is None else cast("int", paid["times"]) + 1
        permit.change("payments", permit.key, times=times)
        return permit.key

    return pay


changes = st.one_of(
    st.tuples(st.just("policies"), st.just("payments"), st.just("limit"), st.sampled_from(LIMITS)),
    st.tuples(st.just("orders"), st.sampled_from(ORDERS), st.sampled_from(("frozen", "jammed")), st.booleans()),
    st.tuples(st.just("orders"), st.sampled_from(ORDERS), st.just("ready"), st.booleans()),
    st.tuples(st.just("orders"), st.sampled_from(ORDERS), st.just("name"), st.sampled_from(("a", "b"))),
)


class Machine(RuleBasedStateMachine):
    """One world, one store, a gate after another."""

    intents: Bundle[Intent[str]] = Bundle("intents")
    separate = True

    def __init__(self) -> None:
        super().__init__()
        order = {"frozen": False, "ready": True, "jammed": False, "name": "a"}
        self.world = Memory(
            orders=dict.fromkeys(ORDERS, order), policies={"payments": {"limit": 100}}, payments={}
        ).options(separate=self.separate)
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.known: dict[str, Known] = {}
        self.keys: dict[str, str] = {}
        self._open()

    def _open(self) -> None:
        self.gate = Gate(self.world, store=self.store, clock=self.clock)
        self.pay = declare(self.gate)

    # What the model says.

    def _outcome(self, known: Known) -> Outcome:
        """The business rule, on the rows as they are."""
        order = cast("Any", self.world.row("orders", known.order))
        limit = cast("Any", self.world.row("policies", "payments"))["limit"]
        if order["frozen"] or known.amount > limit:
            return Outcome.BLOCK
        if not order["ready"]:
            return Outcome.REPLAN
        return Outcome.KEEP if order["name"] == known.name else Outcome.REFRESH

    def _jammed(self, known: Known) -> bool:
        return cast("Any", self.world.row("orders", known.order))["jammed"] is True

    def _held(self, intent_id: str) -> bool:
        """Whether another intent has an open attempt on the same order."""
        order = self.known[intent_id].order
        return any(
            known.state is State.ATTEMPT and known.order == order
            for name, known in self.known.items()
            if name != intent_id
        )

    def _payment(self, intent_id: str) -> str | None:
        """The key under which an intent has paid, if it has."""
        keys = [canonical.idempotency_key(intent_id, number) for number in range(1, 40)]
        found = [key for key in keys if self.world.row("payments", key) is not None]
        assert len(found) <= 1, "an intent paid twice"
        return found[0] if found else None

    def _resolved(self, intent_id: str) -> bool:
        """Let the model do what every operation does first: resolve an open attempt, expire; False if in the way."""
        return self._resolve(intent_id, self.known[intent_id])

    def _resolve(self, intent_id: str, known: Known) -> bool:
        if known.state is State.ATTEMPT:
            assert known.deadline is not None
            if known.owner is not self.gate and self.clock.now() < known.deadline:
                return False
            known.result = self._payment(intent_id)
            known.state = State.OPEN if known.result is None else State.COMMITTED
        if known.state is State.OPEN and known.expires is not None and self.clock.now() >= known.expires:
            known.state = State.EXPIRED
        return True

    # What happens.

    @rule(
        target=intents,
        order=st.sampled_from(ORDERS),
        amount=st.sampled_from((50, 90)),
        key=st.none() | st.sampled_from(("call-1", "call-2")),
        expires=st.none() | st.sampled_from((dt.timedelta(seconds=20), dt.timedelta(minutes=2))),
    )
    def propose(self, order: str, amount: int, key: str | None, expires: dt.timedelta | None) -> Any:
        """A justified action is recorded, another one refused and leaves nothing; a call key means one intent."""
        row = cast("Any", self.world.row("orders", order))
        until = None if expires is None else self.clock.now() + expires
        new = Known(order, amount, row["name"], until)
        before = len(self.gate.pending())
        propose = self.pay.options(key=key, expires=expires).propose
        old = self.known.get(self.keys.get(key or "", ""))
        if old is not None and ((old.order, old.amount) != (order, amount) or old.state in ENDED):
            with pytest.raises(KeyReused):
                propose(order, amount)
            return multiple()
        if old is None and not self._outcome(new).permits:
            with pytest.raises(EffectStopped) as stopped:
                propose(order, amount)
            assert stopped.value.verdict.outcome is self._outcome(new)
            assert len(self.gate.pending()) == before, "a refused proposal left an intent behind"
            return multiple()
        intent = propose(order, amount)
        if old is not None:
            assert intent.id == self.keys[key or ""], "the same call became another intent"
            return multiple()
        assert intent.id not in self.known
        self.known[intent.id] = new
        if key is not None:
            self.keys[key] = intent.id
        return intent

    @rule(change=changes)
    def change(self, change: tuple[str, str, str, Any]) -> None:
        """Somebody else writes."""
        self._write(change)

    def _write(self, change: tuple[str, str, str, Any]) -> None:
        kind, key, field, value = change
        self.world.change(kind, key, **{field: value})

    @rule(intent=intents)
    def release(self, intent: Intent[str]) -> None:
        """The gate releases exactly what is justified now, once, and says so."""
        self._released(intent, self._gated(intent))

    @rule(intent=intents, change=changes)
    def race(self, intent: Intent[str], change: tuple[str, str, str, Any]) -> None:
        """A change between look and effect counts as if it had come before the look."""
        known = replace(self.known[intent.id])
        reached = self._resolve(intent.id, known) and known.state is State.OPEN and self._outcome(known).permits
        if reached and not (self.separate and self._held(intent.id)):
            with interpose(self.gate, lambda: self._write(change)):
                verdict = self._gated(intent)
            self._released(intent, verdict)

    def _gated(self, intent: Intent[str]) -> Verdict[str] | None:
        """What the gate said; None if the body failed."""
        try:
            return self.gate(intent)
        except Jam:
            return None

    def _released(self, intent: Intent[str], verdict: Verdict[str] | None) -> None:
        known = self.known[intent.id]
        free = self._resolved(intent.id)
        outcome = self._outcome(known)
        if not free:
            assert verdict is not None
            assert verdict.applied is Applied.IN_PROGRESS
        elif known.state in ENDED:
            assert verdict is not None
            assert (verdict.outcome, verdict.applied) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED)
            assert verdict.state is known.state
        elif known.state is State.COMMITTED:
            assert verdict is not None
            assert verdict.committed
            assert verdict.result() == known.result
        elif not outcome.permits:
            assert verdict is not None
            assert (verdict.outcome, verdict.applied) == (outcome, Applied.NOT_ATTEMPTED)
            assert verdict.state is State.OPEN
        elif self.separate and self._held(intent.id):
            assert verdict is not None
            assert verdict.applied is Applied.IN_PROGRESS
        elif self._jammed(known):
            assert verdict is None, "the body failed and the gate said something else"
        else:
            assert verdict is not None
            assert (verdict.outcome, verdict.applied) == (outcome, Applied.COMMITTED)
            known.state, known.result = State.COMMITTED, self._payment(intent.id)
            assert known.result is not None, "the gate said COMMITTED and nothing was paid"
            assert verdict.result() == known.result

    @rule(intent=intents)
    def withdraw(self, intent: Intent[str]) -> None:
        """Only an open intent can be withdrawn; afterwards it never pays."""
        known = self.known[intent.id]
        if not self._resolved(intent.id):
            with pytest.raises(InFlight):
                self.gate.withdraw(intent)
        elif known.state not in (State.OPEN, State.WITHDRAWN):
            with pytest.raises(EffectStopped):
                self.gate.withdraw(intent)
        else:
            self.gate.withdraw(intent)
            known.state = State.WITHDRAWN

    @rule(target=intents, intent=intents, amount=st.sampled_from((50, 90)))
    def supersede(self, intent: Intent[str], amount: int) -> Any:
        """A new plan takes the place of an open intent, in one step; of nothing else."""
        known = self.known[intent.id]
        new = Known(known.order, amount, cast("Any", self.world.row("orders", known.order))["name"], None)
        propose = self.pay.options(supersedes=intent).propose
        if not self._outcome(new).permits:
            with pytest.raises(EffectStopped):
                propose(known.order, amount)
            return multiple()
        if not self._resolved(intent.id):
            with pytest.raises(InFlight):
                propose(known.order, amount)
            return multiple()
        if known.state is not State.OPEN:
            with pytest.raises(EffectStopped):
                propose(known.order, amount)
            return multiple()
        successor = propose(known.order, amount)
        known.state = State.SUPERSEDED
        self.known[successor.id] = new
        return successor

    @rule(
        intent=intents,
        command=st.sampled_from((Load, Observe, FindRow, Now, Transit, Transit, Apply, Apply, Close)),
        nth=st.integers(1, 2),
        after=st.booleans(),
    )
    def crash(self, intent: Intent[str], command: type[Any], nth: int, after: bool) -> None:
        """A crash at any command leaves the intent open, in an attempt or committed; what has landed was justified."""
        known = self.known[intent.id]
        hits = 0

        def strike(*_: object) -> Any:
            nonlocal hits
            hits += 1
            if hits == nth:
                raise Crash
            return _[-1]

        paid = self._payment(intent.id)
        permitted = self._outcome(known).permits and not self._jammed(known)
        points = {"after": strike} if after else {"before": strike}
        crashed = False
        try:
            with failpoint(self.gate, command, **points):
                verdict = self._gated(intent)
        except Crash:
            crashed = True
        else:
            self._released(intent, verdict)
        if crashed:
            note(f"crashed at {command.__name__}")
            self._look_after(intent.id, paid=paid, permitted=permitted)

    def _look_after(self, intent_id: str, *, paid: str | None, permitted: bool) -> None:
        """Take in how a crash left things, as far as it may have."""
        known, before = self.known[intent_id], self.known[intent_id].state
        now = self._payment(intent_id)
        assert paid is None or now == paid
        landed = now is not None and paid is None
        assert permitted or not landed, "what was not justified landed"
        row = self._row(intent_id)
        assert self.separate or row.state is not State.ATTEMPT
        if before not in (State.OPEN, State.ATTEMPT):
            assert row.state is before, "a crash moved an ended intent"
        if row.state is State.EXPIRED:
            assert known.expires is not None
            assert self.clock.now() >= known.expires
        else:
            assert row.state in (State.OPEN, State.ATTEMPT, State.COMMITTED, before)
        if landed:
            assert row.state in (State.ATTEMPT, State.COMMITTED), "it landed, and the journal does not say so"
        known.state = row.state
        if row.state is State.COMMITTED:
            known.result = now
        if row.state is State.ATTEMPT and (before is not State.ATTEMPT or row.owner != known.owner):
            known.owner, known.deadline = self.gate, self.clock.now() + ATTEMPT

    def _row(self, intent_id: str) -> Any:
        stored = self.store.load(intent_id)
        assert stored is not None
        return stored.row

    @rule(reopen=st.booleans())
    def restart(self, reopen: bool) -> None:
        """A fresh process finds the same intents, also from their bytes alone."""
        if reopen:
            self.store = self.store.reopened()
        self._open()

    @rule()
    def reconcile(self) -> None:
        """Every overdue or orphaned attempt is resolved; a live one of another process is left alone."""
        self.gate.reconcile()
        for intent_id, known in self.known.items():
            if known.state is State.ATTEMPT:
                expires, known.expires = known.expires, None  # an expiry is noticed by who loads it next
                self._resolved(intent_id)
                known.expires = expires

    @rule(span=st.sampled_from((dt.timedelta(seconds=10), dt.timedelta(seconds=31), dt.timedelta(minutes=5))))
    def wait(self, span: dt.timedelta) -> None:
        """Time passes: attempts become overdue, intents expire."""
        self.clock.advance(span)

    # What always holds.

    @invariant()
    def journal_and_world_agree(self) -> None:
        """The store's state is the model's, and the committed and perhaps the unresolved intents have paid, once."""
        for intent_id, known in self.known.items():
            assert self._row(intent_id).state is known.state
            paid = self._payment(intent_id)
            if paid is not None:
                row = self.world.row("payments", paid)
                assert row is not None
                assert row["times"] == 1, "a payment landed twice"
            if known.state is State.COMMITTED:
                assert paid is not None
                assert paid == known.result
            elif known.state is not State.ATTEMPT:
                assert paid is None, f"{known.state.name}, and it has paid"

    def teardown(self) -> None:
        """After a last recovery nothing is in between, and every chain verifies."""
        self.clock.advance(dt.timedelta(hours=1))
        self._open()
        self.reconcile()
        self.journal_and_world_agree()
        for intent_id, known in self.known.items():
            assert known.state is not State.ATTEMPT
            self.store.verify(intent_id)


class OneEngine(Machine):
    """The same, effect and record in one transaction."""

    separate = False


PROFILE = settings(max_examples=300, stateful_step_count=30, deadline=None, print_blob=True)
TestSeparate = Machine.TestCase
TestSeparate.settings = PROFILE
TestOneEngine = OneEngine.TestCase
TestOneEngine.settings = PROFILE
