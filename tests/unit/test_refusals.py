"""What must not slip through beside the premises: keys, edges, bindings, records and writes that belong elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import (
    Applied,
    AsyncGate,
    BindingPolicy,
    Change,
    DeclarationError,
    Gate,
    Grade,
    IntegrityError,
    KeyReused,
    Memory,
    MemoryPermit,
    MemoryStore,
    Outcome,
    actor,
    arg,
    block_unless,
    exists,
    holds,
    replan_unless,
    resource,
    validator,
)
from lastlook.ports import Capabilities
from lastlook.records import Address, Observation, Token
from lastlook.testing import interpose
from lastlook.validators import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastlook.premises import Premise

ORDER = resource("orders", arg.order_id)
OK = block_unless(ORDER.ok)


def deploy(
    *systems: Memory,
    premises: Sequence[Premise] = (OK,),
    store: MemoryStore | None = None,
    critical: frozenset[str] = frozenset(),
    irreversible: bool = False,
) -> tuple[Gate, Any]:
    """A gate, and an effect that marks an order as done."""
    gate = Gate(*systems, store=store, policy=BindingPolicy(critical=critical))

    @gate.effect(target=ORDER, premises=premises, irreversible=irreversible)
    def act(permit: MemoryPermit, order_id: str) -> str:
        permit.change("orders", order_id, done=True)
        return "done"

    return gate, act


def orders(**more: Any) -> Memory:
    """A system with one order and whatever else."""
    return Memory(orders={"a": {"ok": True, "amount": 1}}, **more)


@pytest.mark.parametrize("write", ["change", "replace", "delete"])
def test_a_query_cannot_be_written(write: str) -> None:
    """A body that writes to a query is refused before anything is journaled or written."""
    memory = orders().options(queries={"spend": lambda _: 1})
    gate = Gate(memory)

    @gate.effect(target=ORDER, premises=[OK])
    def act(permit: MemoryPermit, order_id: str) -> None:
        permit.change("orders", order_id, done=True)
        if write == "change":
            permit.change("spend", "x", value=2)
        elif write == "replace":
            permit.replace("spend", "x", {"value": 2})
        else:
            permit.delete("spend", "x")

    intent = act.propose("a")
    with pytest.raises(DeclarationError, match="'spend' is a query"):
        gate(intent)
    assert len(gate.pending()) == 1
    assert not memory.effects
    assert "done" not in (memory.row("orders", "a") or {})
    with pytest.raises(DeclarationError, match="'spend' is a query"):
        memory.change("spend", "x", value=2)


def test_a_call_key_is_its_actors() -> None:
    """A call key that one actor used does not release that actor's intent for another."""
    may = block_unless(resource("users", actor["user_id"]).may)
    memory = orders(users={"clerk": {"may": True}, "guest": {"may": False}})
    _, act = deploy(memory, premises=[OK, may])
    act.options(key="k", actor={"user_id": "clerk"}).propose("a")
    for other in ({"user_id": "guest"}, None):
        with pytest.raises(KeyReused, match="for another actor"):
            act.options(key="k", actor=other)("a")
    assert not memory.effects
    assert act.options(key="k", actor={"user_id": "clerk"})("a") == "done"


def test_a_call_key_keeps_what_it_supersedes() -> None:
    """A repeated call that now supersedes another intent is refused, instead of leaving both to go out."""
    gate, act = deploy(orders())
    old = act.propose("a")
    act.options(key="k").propose("a")
    with pytest.raises(KeyReused, match="without superseding"):
        act.options(key="k", supersedes=old).propose("a")
    new = act.options(key="n", supersedes=old).propose("a")
    with pytest.raises(KeyReused, match="used to supersede"):
        act.options(key="n").propose("a")
    assert act.options(key="n", supersedes=old).propose("a").id == new.id
    assert gate(new).committed


def test_a_superseded_intent_is_hinted_no_more() -> None:
    """A change hint reaches the intent that took another's place, and not the one that has ended."""
    gate, act = deploy(orders())
    old = act.propose("a")
    new = act.options(supersedes=old).propose("a")
    assert [preview.intent for preview in gate.affected(Change("orders", "a", "ok"))] == [new]


def test_evidence_stays_in_its_transaction() -> None:
    """A decision cannot rest on another transaction's evidence, which has the numbers of other reads here."""
    gate, _ = deploy(orders())
    first, second = gate.transaction(), gate.transaction()
    evidence = first.read(resource("orders", "a").amount)
    second.read(resource("orders", "a").ok)
    with pytest.raises(DeclarationError, match="evidence of another transaction"):
        second.decide("because", rests_on=[evidence])
    first.decide("because", rests_on=[evidence])


@pytest.mark.parametrize(
    ("premise", "irreversible", "outcome"),
    [
        (exists(ORDER), False, Outcome.REPLAN),
        (exists(ORDER), True, Outcome.BLOCK),
        (ORDER.ok, False, Outcome.REPLAN),
        (ORDER.amount > 0, True, Outcome.KEEP),
    ],
    ids=["presence", "presence, irreversible", "another field", "that field"],
)
def test_a_premise_about_presence_names_no_field(premise: Any, irreversible: bool, outcome: Outcome) -> None:
    """What a decision rests on is left to premises only where one names that very field."""
    memory = orders()
    gate, act = deploy(memory, premises=[block_unless(premise)], irreversible=irreversible)
    transaction = gate.transaction()
    transaction.decide("because", rests_on=[transaction.read(resource("orders", "a").amount)])
    intent = transaction.propose(act, "a")
    memory.change("orders", "a", amount=99)
    assert gate(intent).outcome is outcome


def test_a_premise_about_a_part_does_not_speak_for_the_whole() -> None:
    """A premise on one item of a map leaves a conservative edge to a decision that rests on the whole map."""
    memory = Memory(orders={"a": {"ok": True, "meta": {"city": "x", "street": "y"}}})
    gate, act = deploy(memory, premises=[block_unless(ORDER.meta["city"] == "x")])
    transaction = gate.transaction()
    transaction.decide("because", rests_on=[transaction.read(resource("orders", "a").meta)])
    intent = transaction.propose(act, "a")
    memory.change("orders", "a", meta={"city": "x", "street": "z"})
    assert gate(intent).outcome is Outcome.REPLAN


@pytest.mark.parametrize("how", ["critical", "irreversible"])
def test_an_edge_that_must_be_bound(how: str) -> None:
    """A critical or irreversible conservative edge that no target can check blocks, and says so, before it moves."""
    memory, other = orders(), Memory(x={"1": {"v": 1}})
    critical = frozenset({"x"}) if how == "critical" else frozenset[str]()
    gate, act = deploy(memory, other, critical=critical, irreversible=how == "irreversible")
    transaction = gate.transaction()
    transaction.decide("because", rests_on=[transaction.read(resource("x", "1").v)])
    verdict = gate(transaction.propose(act, "a"))
    assert (verdict.outcome, verdict.applied) == (Outcome.BLOCK, Applied.NOT_ATTEMPTED)
    assert verdict.bindings["rests on x/1.v"] is Grade.UNBOUND
    assert any("nothing can hold it still" in finding.text for finding in verdict.findings)


@pytest.mark.parametrize("separate", [False, True])
def test_a_row_of_other_arguments_is_not_adopted(separate: bool) -> None:
    """A commit of other arguments under the same id is never told as this intent's."""
    memory = orders().options(separate=separate)
    first, second = MemoryStore(), MemoryStore()
    second.namespace = first.namespace

    def desk(store: MemoryStore) -> tuple[Gate, Any]:
        gate = Gate(memory, store=store)

        @gate.effect(target=ORDER, premises=[OK])
        def pay(permit: MemoryPermit, order_id: str, amount: int) -> str:
            permit.change("orders", order_id, ok=amount < 100)
            return f"paid {amount}"

        return gate, pay

    _, pay = desk(first)
    assert pay.options(key="k")("a", 100) == "paid 100"
    gate, pay = desk(second)
    intent = gate.transaction().propose(pay.options(key="k"), "a", 60)
    with pytest.raises(IntegrityError, match="of other arguments"):
        gate(intent)


def test_drift_does_not_release_what_can_no_longer_be_bound() -> None:
    """A recorded blocking premise whose evidence another system holds today blocks, whatever today's contract says."""
    limit = block_unless(resource("policies", "p").limit > 1)
    store = MemoryStore()
    _, act = deploy(orders(policies={"p": {"limit": 9}}), premises=[OK, limit], store=store)
    intent = act.propose("a")
    policies = Memory(policies={"p": {"limit": 9}})
    gate, _ = deploy(orders(), policies, store=store)
    with interpose(gate, lambda: policies.change("policies", "p", limit=1)):
        verdict = gate(intent)
    assert verdict.outcome is Outcome.BLOCK
    assert verdict.bindings[limit.label] is Grade.UNBOUND


def test_two_sources_of_one_version() -> None:
    """Where a recorded premise pins another source than today's of the same version, neither is judged by chance."""
    for number in range(8):
        name = f"drifting-{number}"

        def right(_: object) -> bool:
            return True

        store, memory = MemoryStore(), orders()
        old = validator(name, version="1", revision="old")(right)
        _, act = deploy(memory, premises=[replan_unless(old(ORDER.ok))], store=store)
        intent = act.propose("a")
        REGISTRY.remove(name, "1")
        new = validator(name, version="1", revision="new")(right)
        gate, _ = deploy(memory, premises=[block_unless(new(ORDER.ok))], store=store)
        assert not gate(intent).committed


class Plain(Memory):
    """A target that cannot check whether a row is absent."""

    @property
    def capabilities(self) -> Capabilities:
        """Neither absence nor whole collections."""
        return Capabilities(durable=False, rolls_back=True, closes=True, checks_absence=False, checks_collections=False)


@pytest.mark.parametrize(
    "condition",
    [
        ~exists(resource("refunds", arg.order_id)),
        ~exists(resource("refunds", arg.order_id).id),
        ~holds(resource("refunds", arg.order_id).done),
        exists(resource("refunds", arg.order_id)) | ORDER.ok,
    ],
    ids=["row", "field", "holds", "or"],
)
def test_absence_at_a_target_that_cannot_check_it(condition: Any) -> None:
    """However a premise asks for absence, a target that cannot check absence is refused when it is declared."""
    memory = Plain(orders={"a": {"ok": True}}, refunds={}).options(fields={"refunds": ["id", "done"]})
    with pytest.raises(DeclarationError, match="asks for absence"):
        deploy(memory, premises=[block_unless(condition)])


class Weak(Memory):
    """A target that gives one kind tokens which it cannot compare."""

    def reader(self, addresses: Sequence[Address], /) -> Any:
        """As the memory's own, with those tokens."""
        read = super().reader(addresses)

        def weakened() -> tuple[Any, ...]:
            return tuple(
                Observation(cell.value, Token("weak", cell.token.namespace, cell.token.value))
                if address.kind == "w" and isinstance(cell, Observation)
                else cell
                for address, cell in zip(addresses, read(), strict=True)
            )

        return weakened

    def can_check_token(self, token: Token, /) -> bool:
        """All but those."""
        return token.kind != "weak" and super().can_check_token(token)


def test_a_token_that_cannot_be_checked_is_not_called_bound() -> None:
    """Evidence whose token the target cannot compare is named UNBOUND and left out of the binding."""
    memory = Weak(orders={"a": {"ok": True}}, w={"1": {"v": True}})
    premise = replan_unless(resource("w", "1").v)
    gate, act = deploy(memory, premises=[OK, premise])
    verdict = gate(act.propose("a"))
    assert verdict.committed
    assert verdict.bindings == {OK.label: Grade.BOUND, premise.label: Grade.UNBOUND}


def test_another_actors_write_during_an_awaited_body() -> None:
    """A row that an awaited body read or changed is not put back over another actor's write to it."""
    memory = orders(accounts={"1": {"balance": 1, "owner": "desk"}})
    gate = AsyncGate(memory)
    tries: list[int] = []

    @gate.effect(target=ORDER, premises=[OK])
    async def act(permit: MemoryPermit, order_id: str) -> None:
        permit.change("accounts", "1", balance=2)
        permit.change("orders", order_id, done=True)
        tries.append(1)
        if len(tries) == 1:
            memory.change("accounts", "1", owner="bank")

    async def main() -> None:
        verdict = await gate(await act.propose("a"))
        assert verdict.committed

    asyncio.run(main())
    assert len(tries) == 2
    assert memory.row("accounts", "1") == {"balance": 2, "owner": "bank"}


def test_a_result_that_no_store_can_take() -> None:
    """A result whose conversion fails, in whatever way, leaves nothing behind where it can be undone."""

    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    memory = orders()
    gate = Gate(memory)

    @gate.effect(target=ORDER, premises=[OK])
    def act(permit: MemoryPermit, order_id: str) -> Any:
        permit.change("orders", order_id, done=True)
        return Odd()

    with pytest.raises(Exception, match=r".") as raised:
        gate(act.propose("a"))
    assert not isinstance(raised.value, KeyboardInterrupt)
    assert not memory.effects
