"""Proposing while others propose the same, or what is to be replaced moves; and what a refused proposal tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from systems import LIMIT, Shop

from lastlook import EffectBlocked, KeyReused
from lastlook.commands import Create, Transit
from lastlook.testing import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lastlook import Gate


def meanwhile(gate: Gate, act: Callable[[], object]) -> AbstractContextManager[None]:
    """Let another gate act once, just before this gate stores a proposal."""
    pending = [act]

    def once(_: object) -> None:
        if pending:
            pending.pop()()

    return failpoint(gate, Create, before=once)


def test_two_gates_propose_under_one_call_key() -> None:
    """Of two proposals under one call key, one is stored, and both callers hold it."""
    shop = Shop()
    other = shop.again()
    found: list[Any] = []
    with meanwhile(shop.gate, lambda: found.append(other.refund.options(key="c-1").propose("o-1", amount=80))):
        intent = shop.refund.options(key="c-1").propose("o-1", amount=80)
    assert [intent] == found
    assert list(shop.store.pending()) == [intent.id]


def test_another_action_under_a_call_key_taken_meanwhile() -> None:
    """A call key that another action took while this one was being proposed is refused, and nothing else is stored."""
    shop = Shop()
    other = shop.again()
    with (
        meanwhile(shop.gate, lambda: other.refund.options(key="c-1").propose("o-1", amount=70)),
        pytest.raises(KeyReused, match="with other arguments"),
    ):
        shop.refund.options(key="c-1").propose("o-1", amount=80)
    assert len(list(shop.store.pending())) == 1


def test_what_is_to_be_superseded_moves_meanwhile() -> None:
    """A replacement waits for no record of another gate: it is tried again on what the old intent then says."""
    shop = Shop()
    other = shop.again()
    old = shop.refund.propose("o-1", amount=80)

    def refuse() -> None:
        shop.world.change("policies", "refund", limit=1)
        assert not other.gate(other.gate.intent(old.id)).committed
        shop.world.change("policies", "refund", limit=100)

    with meanwhile(shop.gate, refuse):
        new = shop.refund.options(supersedes=old).propose("o-1", amount=70)
    assert [entry.kind for entry in shop.store.journal(old.id)] == ["PROPOSED", "VERDICT", "SUPERSEDED"]
    assert list(shop.store.pending()) == [new.id]


def test_a_refused_proposal_reveals_on_request() -> None:
    """A refused proposal hides values that were not declared public, and shows them to a person who asks."""
    shop = Shop()
    with pytest.raises(EffectBlocked) as stop:
        shop.refund.propose("o-1", amount=180)
    verdict = stop.value.verdict
    assert (verdict.checked[-1], verdict.state) == (LIMIT, None)
    assert "100" not in verdict.explain()
    assert "100" in verdict.explain(reveal=True)
    assert verdict.bindings[LIMIT].name == "BOUND"


def test_a_call_that_somebody_else_released() -> None:
    """A refused call whose intent a sweep released before it could be withdrawn answers with that commit."""
    shop = Shop()
    other = shop.again()
    shop.world.change("policies", "refund", limit=1)

    def sweep(command: Transit) -> None:
        if command.append.kind == "WITHDRAWN":
            shop.world.change("policies", "refund", limit=100)
            other.gate(other.gate.intent(command.append.intent_id))

    with failpoint(shop.gate, Transit, before=sweep):
        assert shop.refund("o-1", amount=80) == "refunded o-1"
    assert shop.ran == [80]
    assert list(shop.store.pending()) == []
