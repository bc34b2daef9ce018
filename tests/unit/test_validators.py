"""Validators: registered, pinned by name, version, parameters and source, and true only where they say True in time."""

from __future__ import annotations

import asyncio
import datetime as dt
import importlib.util
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import pytest
from systems import AsyncShop, Shop, checked

from lastlook import (
    DeclarationError,
    EffectBlocked,
    Outcome,
    arg,
    before,
    block_unless,
    each,
    every,
    holds,
    replan_unless,
    resource,
    validator,
)
from lastlook.canonical import decode
from lastlook.testing import FakeClock, events, without_validator
from lastlook.validators import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

# Of unknown type, so that what checkers would report can be written here.
order: Any = resource("orders", arg.order_id)
policy: Any = resource("policies", "refund")
SHORT = dt.timedelta(milliseconds=20)


@pytest.fixture(autouse=True)
def registry() -> Generator[None]:
    """Forget the validators of each test."""
    known = dict(REGISTRY._known)
    yield
    REGISTRY._known.clear()
    REGISTRY._known.update(known)
    REGISTRY.generation += 1


def register(function: Callable[..., Any], *, version: str = "1", **options: Any) -> Any:
    """The function as a validator called `rule`."""
    return validator("rule", version=version, **options)(function)


def within(amount: int, limit: int) -> bool:
    """Whether an amount is within a limit."""
    return amount <= limit


def strictly_within(amount: int, limit: int) -> bool:
    """Whether an amount is below a limit."""
    return amount < limit


def shop_with(*premises: Any, **options: Any) -> Shop:
    """A shop with these premises."""
    return Shop(premises=list(premises), **options)


def judged(shop: Shop) -> tuple[Outcome, list[bool | None]]:
    """The outcome of a fresh intent, and what was found of its premises."""
    verdict = shop.gate.preview(shop.gate.transaction().propose(shop.refund, "o-1", amount=80))
    return verdict.outcome, [finding.holds for finding in verdict.findings]


# --- A rule in Python -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "outcome", "found"), [(80, Outcome.KEEP, []), (79, Outcome.BLOCK, [False])])
def test_a_validator_decides(limit: int, outcome: Outcome, found: list[bool | None]) -> None:
    """A validator's True and False are those of its premise."""
    rule = register(within)
    shop = shop_with(block_unless(rule(arg.amount, policy.limit), "over the limit"))
    shop.world.change("policies", "refund", limit=limit)
    assert judged(shop) == (outcome, found)


def test_it_runs_where_its_evidence_moved_and_nowhere_else() -> None:
    """A proven validator premise is skipped while its evidence stands, and runs once when it has moved."""
    calls: list[tuple[int, int]] = []

    def rule(amount: int, limit: int) -> bool:
        calls.append((amount, limit))
        return amount <= limit

    shop = shop_with(block_unless(register(rule)(arg.amount, policy.limit)))
    intent = shop.refund.propose("o-1", amount=80)
    assert calls == [(80, 100)]
    shop.world.change("orders", "o-1", defect=False)
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    assert calls == [(80, 100)]
    shop.world.change("policies", "refund", limit=90)
    assert shop.gate(intent).committed
    assert calls == [(80, 100), (80, 90)]


def test_equal_calls_are_one() -> None:
    """In one validation equal calls of a validator are made once, by however many premises."""
    calls: list[int] = []

    def rule(amount: int, *, least: int = 0) -> bool:
        calls.append(amount)
        return amount >= least

    valid = register(rule)
    shop = shop_with(
        block_unless(valid(arg.amount)),
        replan_unless(valid(arg.amount) & order.delivered),
        block_unless(valid(arg.amount, least=1)),
    )
    shop.refund.propose("o-1", amount=80)
    assert calls == [80, 80], "one for each set of parameters"


def test_parameters_are_constants() -> None:
    """Parameters are given by keyword, are constants, and are pinned; evidence is given by position."""

    def rule(amount: int, *, limits: Any) -> bool:
        return amount in limits

    valid = register(rule)
    shop = shop_with(block_unless(valid(arg.amount, limits=[80, 90])))
    assert judged(shop) == (Outcome.KEEP, [])
    with pytest.raises(DeclarationError, match="got an expression as parameter 'limits': pass evidence by position"):
        valid(arg.amount, limits=policy.limits)
    for wrong in (0.5, object(), before(order.until)):
        with pytest.raises((DeclarationError, ValueError)):
            valid(arg.amount, limits=wrong)
    with pytest.raises(DeclarationError):
        valid(order)
    with pytest.raises(DeclarationError):
        valid(before(order.until))
    assert judged(shop_with(block_unless(valid(80, limits=[80])))) == (Outcome.KEEP, []), "constants by position too"


def test_values_are_frozen() -> None:
    """A validator cannot write into the evidence that it judges."""

    def rule(lines: Any) -> bool:
        lines[0]["price"] = 0
        return True

    shop = shop_with(block_unless(register(rule)(order.lines)))
    shop.world.change("orders", "o-1", lines=[{"price": 7}])
    assert judged(shop) == (Outcome.BLOCK, [None])
    assert (shop.world.row("orders", "o-1") or {})["lines"] == ({"price": 7},)


def test_within_logic() -> None:
    """A validator's answer is a condition like any other: under ~, &, | and row by row."""
    valid = register(within)
    shop = shop_with(
        block_unless(~valid(arg.amount, 79)),
        block_unless(valid(arg.amount, 79) | order.delivered),
        block_unless(every(order.lines, valid(each.price, arg.amount))),
    )
    shop.world.change("orders", "o-1", lines=[{"price": 1}, {"price": 80}])
    assert judged(shop) == (Outcome.KEEP, [])
    shop.world.change("orders", "o-1", lines=[{"price": 1}, {"price": 81}])
    assert judged(shop) == (Outcome.BLOCK, [False])
    shop.world.change("orders", "o-1", lines=[{"price": 1}, {}])
    assert judged(shop) == (Outcome.BLOCK, [None])


def test_unverifiable_evidence_is_not_asked_about() -> None:
    """Where the evidence of a call is missing or has no exact value, nobody is called."""
    calls: list[object] = []

    def rule(value: object) -> bool:
        calls.append(value)
        return True

    for value in (0.5, dt.datetime(2026, 1, 1), None):  # noqa: DTZ001 - the point
        shop = shop_with(block_unless(register(rule)(order.x)))
        if value is not None:
            shop.world.change("orders", "o-1", x=value)
        assert judged(shop) == (Outcome.BLOCK, [None])
    assert calls == []


def test_the_record_names_validators() -> None:
    """Each validation record names the validators and versions that judged, with their pins."""
    rule = register(within, version="7")
    shop = shop_with(block_unless(rule(arg.amount, policy.limit)))
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("policies", "refund", limit=50)
    shop.gate(intent)
    proposed, said = (cast("Any", decode(entry.body)) for entry in shop.store.journal(intent.id))
    (pin,) = said["premises"][0]["validators"]
    assert pin[:2] == ("rule", "7")
    assert proposed["premises"][0]["validators"] == (pin,)


# --- Answers that are none --------------------------------------------------------------------------------------------

ERRORS = [
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    AssertionError,
    RecursionError,
    TimeoutError,
    StopIteration,
    MemoryError,
]
ANSWERS: dict[str, Any] = {
    "one": 1,
    "text": "true",
    "false as text": "false",
    "null": None,
    "list": [True],
    "zero": 0,
    "outcome": Outcome.KEEP,
}


@pytest.mark.parametrize(
    ("coroutine", "asynchronous"),
    [(False, False), (False, True), (True, True)],
    ids=["function", "function at an async gate", "coroutine function"],
)
@pytest.mark.parametrize("error", ERRORS)
def test_raising(error: type[Exception], coroutine: bool, asynchronous: bool) -> None:
    """Whatever a validator raises leaves its premise unverifiable, and its text out of what is told."""

    def rule(_: object) -> bool:
        raise error("canary-91")

    async def later(_: object) -> bool:
        raise error("canary-91")

    premise = block_unless(register(later if coroutine else rule)(order.defect))
    verdict = preview(premise, asynchronous=asynchronous)
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])
    text = verdict.explain()
    assert "canary-91" not in text
    assert "validator 'rule'" in text


def preview(*premises: Any, asynchronous: bool) -> Any:
    """What either gate says of a fresh intent."""
    if not asynchronous:
        shop = shop_with(*premises)
        return shop.gate.preview(shop.gate.transaction().propose(shop.refund, "o-1", amount=80))

    async def main() -> Any:
        shop = AsyncShop(premises=list(premises))
        return await shop.gate.preview(await shop.gate.transaction().propose(shop.refund, "o-1", amount=80))

    return asyncio.run(main())


@pytest.mark.parametrize("asynchronous", [False, True], ids=["gate", "async gate"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_wrong_types(answer: object, asynchronous: bool) -> None:
    """Only True and False are answers, of a function and of a coroutine function."""

    def rule(_: object) -> Any:
        return answer

    async def later(_: object) -> Any:
        return answer

    for function, version in ((rule, "1"), (later, "2")) if asynchronous else ((rule, "1"),):
        premise = block_unless(register(function, version=version)(order.defect))
        verdict = preview(premise, asynchronous=asynchronous)
        assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])
        assert "not True or False" in verdict.explain()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["gate", "async gate"])
def test_a_coroutine_nobody_awaits(asynchronous: bool) -> None:
    """A function that hands out a coroutine has not answered, and leaves none behind."""

    async def inner() -> bool:
        return True

    def rule(_: object) -> Any:
        return inner()

    verdict = preview(block_unless(register(rule)(order.defect)), asynchronous=asynchronous)
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])
    assert "returned coroutine" in verdict.explain()


def test_an_asynchronous_validator_at_a_gate() -> None:
    """A coroutine function has no loop at a synchronous gate: unverifiable, with the way out."""

    async def rule(_: object) -> bool:
        return True

    shop = shop_with(block_unless(register(rule)(order.defect)))
    with pytest.raises(EffectBlocked, match="is asynchronous: use AsyncGate"):
        shop.refund.propose("o-1", amount=80)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_go_through(error: type[BaseException]) -> None:
    """An interrupt inside of a validator ends the gate, with nothing done."""
    armed: list[bool] = []

    def rule(_: object) -> bool:
        if armed:
            raise error
        return True

    shop = shop_with(block_unless(register(rule)(order.defect)))
    intent = shop.refund.propose("o-1", amount=80)
    shop.world.change("orders", "o-1", defect=7)
    armed.append(True)
    with pytest.raises(error):
        shop.gate(intent)
    assert shop.ran == []
    armed.clear()
    assert shop.gate(intent).committed


def test_cancelled_within_a_validator() -> None:
    """A caller that is cancelled while a validator is awaited has done nothing."""

    async def main() -> None:
        asked, never = asyncio.Event(), asyncio.Event()
        slow: list[bool] = []

        async def rule(_: object) -> bool:
            if slow:
                asked.set()
                await never.wait()
            return True

        shop = AsyncShop(premises=[block_unless(register(rule)(order.defect))])
        intent = await shop.refund.propose("o-1", amount=80)
        shop.world.change("orders", "o-1", defect=7)
        slow.append(True)
        caller = asyncio.create_task(_await(shop.gate(intent)))
        await asked.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        slow.clear()
        assert shop.ran == []
        assert (await shop.gate(intent)).committed

    asyncio.run(main())


async def _await(awaitable: Any) -> Any:
    return await awaitable


# --- Time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True], ids=["gate", "async gate"])
def test_a_slow_function(asynchronous: bool) -> None:
    """A function that takes longer than its timeout has not answered; what it says afterwards is not heard."""
    release, done = threading.Event(), threading.Event()

    def rule(_: object) -> bool:
        release.wait()
        done.set()
        return True

    try:
        verdict = preview(block_unless(register(rule, timeout=SHORT)(order.defect)), asynchronous=asynchronous)
    finally:
        release.set()
    assert done.wait(10), "it could not be stopped, and ran on"
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])
    assert "took longer than 0.02 s" in verdict.explain()


def test_a_slow_coroutine() -> None:
    """A coroutine function that takes longer than its timeout is cancelled, and has not answered."""
    cancelled: list[bool] = []

    async def rule(_: object) -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return True

    verdict = preview(block_unless(register(rule, timeout=SHORT)(order.defect)), asynchronous=True)
    assert (verdict.outcome, cancelled) == (Outcome.BLOCK, [True, True]), "when proposed, and when looked at"
    assert "took longer than 0.02 s" in verdict.explain()


def test_a_function_does_not_hold_up_the_loop() -> None:
    """While a function is running in its thread, the event loop goes on."""

    async def main() -> None:
        loop, asked, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def rule(_: object) -> bool:
            loop.call_soon_threadsafe(asked.set)
            return release.wait(10)

        async def beside() -> None:
            await asked.wait()
            release.set()

        shop = AsyncShop(premises=[block_unless(register(rule)(order.defect))])
        _, intent = await asyncio.gather(beside(), shop.refund.propose("o-1", amount=80))
        assert (await shop.gate(intent)).committed

    asyncio.run(main())


def test_an_asynchronous_validator() -> None:
    """A coroutine function is awaited at an asynchronous gate, and answers there."""

    async def rule(amount: int, limit: int) -> bool:
        await asyncio.sleep(0)
        return amount <= limit

    premise = block_unless(register(rule)(arg.amount, policy.limit))
    assert preview(premise, asynchronous=True).outcome is Outcome.KEEP


def test_a_validator_that_reads_the_clock() -> None:
    """A validator that says so is given the gate's moment, aware, and runs at every gate although nothing changed."""
    clock, seen = FakeClock(), list[dt.datetime]()
    end = clock.now() + dt.timedelta(hours=1)

    def rule(defect: bool, *, now: dt.datetime) -> bool:
        seen.append(now)
        return defect and now < end

    shop = shop_with(block_unless(register(rule, reads_clock=True)(order.defect)), clock=clock)
    intent = shop.refund.propose("o-1", amount=80)
    with events(shop.gate) as found:
        assert shop.gate.preview(intent).outcome is Outcome.KEEP
    assert len(checked(found)) == 1
    clock.advance(dt.timedelta(hours=1))
    verdict = shop.gate(intent)
    assert (verdict.outcome, verdict.changed, shop.ran) == (Outcome.BLOCK, (), [])
    assert seen == [end - dt.timedelta(hours=1)] * 2 + [end]


def test_the_clock_is_not_given_to_others() -> None:
    """A validator that does not say so gets no moment."""

    def rule(defect: bool, *, now: dt.datetime) -> bool:
        return defect

    assert judged(shop_with(block_unless(register(rule)(order.defect)))) == (Outcome.BLOCK, [None])


# --- Registration -----------------------------------------------------------------------------------------------------


def test_other_source_needs_another_version() -> None:
    """One name and version is one source: the same again is fine, another is refused."""
    register(within)
    register(within)
    with pytest.raises(DeclarationError, match="already registered with other source: give the new one a new version"):
        register(strictly_within)
    register(strictly_within, version="2")


def test_a_validator_has_to_be_there() -> None:
    """A premise over a validator that is not registered is refused where it is declared."""
    rule = register(within)
    with (
        without_validator("rule", "1"),
        pytest.raises(DeclarationError, match="validator 'rule' version '1' is not reg"),
    ):
        shop_with(block_unless(rule(arg.amount, policy.limit)))


def test_source_is_pinned() -> None:
    """A premise is judged by the source that it was recorded with: under other source of the same version by nobody."""
    rule = register(within)
    shop = shop_with(replan_unless(rule(arg.amount, policy.limit)))
    intent = shop.refund.propose("o-1", amount=80)
    with without_validator("rule", "1"):
        register(strictly_within)
        verdict = shop.gate(intent)
        assert (verdict.outcome, verdict.committed) == (Outcome.REPLAN, False)
        assert [finding.holds for finding in verdict.findings] == [None]
        assert "has other source than when the premise was recorded" in verdict.explain()
    assert shop.gate(intent).committed


@pytest.mark.parametrize("restarted", [False, True])
def test_missing_is_never_skipped(restarted: bool) -> None:
    """A premise whose validator is gone runs although nothing changed, and cannot be verified."""
    rule = register(within)
    shop = shop_with(block_unless(rule(arg.amount, policy.limit)))
    intent = shop.refund.propose("o-1", amount=80)
    later = shop.again(shop.store.reopened()) if restarted else shop
    with without_validator("rule", "1"):
        verdict = later.gate(intent)
    assert (verdict.outcome, [finding.holds for finding in verdict.findings]) == (Outcome.BLOCK, [None])
    assert "is not registered in this process" in verdict.explain()
    with events(later.gate) as found:
        assert later.gate(intent).committed
    assert checked(found) == []


@pytest.mark.parametrize("judges", [[], ["1"], ["0"]])
def test_upgrades(judges: list[str]) -> None:
    """A newer version judges older premises where it says so; they then always run."""
    calls: list[str] = []

    def newer(amount: int, limit: int) -> bool:
        calls.append("newer")
        return amount < limit

    rule = register(within)
    shop = shop_with(block_unless(rule(arg.amount, policy.limit)))
    intent = shop.refund.propose("o-1", amount=80)
    register(newer, version="2", judges=judges)
    assert shop.gate.preview(intent).outcome is Outcome.KEEP
    assert calls == [], "the pinned one is there"
    with without_validator("rule", "1"):
        for limit, kept in ((100, True), (80, False), (81, True)):
            shop.world.change("policies", "refund", limit=limit)
            outcome = shop.gate.preview(intent).outcome
            assert outcome is (Outcome.KEEP if kept and judges == ["1"] else Outcome.BLOCK)
    assert calls == (["newer"] * 3 if judges == ["1"] else [])


def test_holds_turns_unverifiable_into_false() -> None:
    """Under `holds` a validator that is gone is false, and no crash."""
    rule = register(within)
    shop = shop_with(block_unless(holds(rule(arg.amount, policy.limit)) | order.delivered))
    intent = shop.refund.propose("o-1", amount=80)
    with without_validator("rule", "1"):
        assert shop.gate.preview(intent).outcome is Outcome.KEEP
        shop.world.change("orders", "o-1", delivered=False)
        assert shop.gate.preview(intent).outcome is Outcome.BLOCK


def test_without_source() -> None:
    """Where there is no source to read, a revision stands for it."""
    namespace: dict[str, Any] = {}
    code = compile("rule = lambda amount, limit: amount <= limit", "<no file>", "exec")
    function = FunctionType(next(c for c in code.co_consts if hasattr(c, "co_name")), namespace)
    with pytest.raises(DeclarationError, match="has no source to pin: give it revision="):
        register(function)
    rule = register(function, revision="r1")
    with pytest.raises(DeclarationError, match="already registered with other source"):
        register(function, revision="r2")
    assert judged(shop_with(block_unless(rule(arg.amount, policy.limit)))) == (Outcome.KEEP, [])


SOURCE = "def rule(amount, limit):\n    # a comment\n    return amount <= limit\n"


def source_digest(path: Path, text: bytes, *, within_class: bool = False) -> str:
    """The digest that a validator of this source is pinned by."""
    path.write_bytes(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = module.Holder.rule if within_class else module.rule
    register(function, version=path.stem)
    registered = REGISTRY.current("rule", path.stem)
    assert registered is not None
    return registered.source


def test_the_digest_of_a_source(tmp_path: Path) -> None:
    """Line endings and indentation do not matter to a pin; every character of the text does."""
    plain = source_digest(tmp_path / "plain.py", SOURCE.encode())
    windows = source_digest(tmp_path / "windows.py", SOURCE.replace("\n", "\r\n").encode())
    indented = "class Holder:\n" + "".join(f"    {line}\n" for line in SOURCE.splitlines())
    held = source_digest(tmp_path / "held.py", indented.encode(), within_class=True)
    assert plain == windows == held
    for n, text in enumerate([SOURCE.replace("<=", "<"), SOURCE.replace("a comment", "another"), SOURCE + "# after"]):
        digest = source_digest(tmp_path / f"other{n}.py", text.encode())
        assert (digest == plain) is (n == 2), "what stands behind the function is not its source"


def test_a_validator_keeps_its_name() -> None:
    """What is put into premises is named and documented as the function is."""
    rule = register(within)
    assert (rule.__name__, rule.__doc__) == ("within", within.__doc__)
    assert repr(rule(arg.amount, 3)) == "rule@1(arg.amount, 3)"
