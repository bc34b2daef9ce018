"""Gates that crash, stall, repeat themselves and lose replies, over thousands of seeded schedules."""

from __future__ import annotations

import os

import pytest
from simulation import PLANTED, Coverage, Form, Shop, Violation, failpoints, rerun, run

from lastlook import protocol
from lastlook.records import State

SCHEDULES = int(os.environ.get("LASTLOOK_SCHEDULES", "10000"))
"""Schedules of each form."""
FIRST = int(os.environ.get("LASTLOOK_FIRST_SEED", "0"))


@pytest.mark.slow
@pytest.mark.parametrize("form", Form, ids=lambda form: form.value)
def test_every_promise_is_kept_on_every_schedule(form: Form) -> None:
    """No schedule breaks a promise of the protocol, and together they hit every failpoint."""
    coverage = Coverage()
    for seed in range(FIRST, FIRST + SCHEDULES):
        try:
            run(seed, form, coverage)
        except Exception:  # noqa: BLE001 - whatever went wrong, the schedule is what one needs to see
            pytest.fail(rerun(seed, form))
    missed = failpoints(form) - set(coverage.hits)
    assert not missed, f"never hit: {sorted((command, fault.name) for _, command, fault in missed)}"
    happened = {"apply COMMITTED", "apply REJECTED", "apply REJECTED fenced", "apply BUSY", "apply FAILED"}
    happened |= {"late COMMITTED", "late REJECTED fenced", "withdrawn", "supersede", "propose", "outage"}
    happened |= {"verdict KEEP COMMITTED", "verdict REFRESH COMMITTED", "verdict REPLAN NOT_ATTEMPTED"}
    happened |= {"verdict BLOCK NOT_ATTEMPTED", "verdict KEEP FAILED", "verdict KEEP UNKNOWN"}
    assert happened <= set(coverage.seen), f"never happened: {sorted(happened - set(coverage.seen))}"


@pytest.mark.parametrize("form", Form, ids=lambda form: form.value)
def test_a_seed_is_a_schedule(form: Form) -> None:
    """The same seed plays the same schedule to the word, another one another."""
    played = [rerun(seed, form) for seed in range(40)]
    assert played == [rerun(seed, form) for seed in range(40)]
    assert len({text.partition("\n")[2] for text in played}) == len(played)


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mistake_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take any one mechanism away, and some schedule among the first few thousand breaks a promise."""
    PLANTED[planted](monkeypatch)

    def play() -> None:
        for seed in range(3000):
            run(seed, Form.SEPARATE)

    with pytest.raises(Violation):
        play()


def test_a_failure_tells_how_to_run_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of a failing schedule names its seed, the command, and the promise that was broken."""
    PLANTED["always keep"](monkeypatch)
    for seed in range(200):
        text = rerun(seed, Form.SEPARATE)
        if "Violation" in text:
            break
    else:
        pytest.fail("the planted mistake was not found")
    first, *_, last = text.splitlines()
    assert first == f"seed {seed}, separate; run again: python tests/simulation.py separate {seed}"
    assert last.startswith("Violation: ")


@pytest.mark.parametrize("effect", ["pay", "refund", "claim"])
@pytest.mark.parametrize("steps", range(14))
def test_a_restored_store_adopts_what_the_target_did(effect: str, steps: int) -> None:
    """A store restored from before an attempt, wherever its gate had come to: the effect happens once, and is known."""
    shop = Shop(Form.SEPARATE, effect)
    gate = shop.gate()
    intent_id = shop.propose(gate, "o-1", number=1)
    backup = shop.store.reopened()
    run_ = protocol.release(gate.scene, intent_id)
    command = next(run_)
    for _ in range(steps):
        try:
            command = run_.send(shop.execute(gate, command))
        except StopIteration:
            break
    run_.close()
    shop.store = backup
    fresh = shop.gate()
    verdict = shop.drive(fresh, protocol.release(fresh.scene, intent_id))
    assert verdict.committed
    stored = shop.store.load(intent_id)
    assert stored is not None
    assert stored.row.state is State.COMMITTED
    shop.settled(verified=True)
