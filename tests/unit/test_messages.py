"""What a newcomer's slips are told: each message names the effect, what is wrong, and what to write instead."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import (
    AsyncGate,
    DeclarationError,
    Gate,
    Memory,
    MemoryPermit,
    arg,
    block_unless,
    replan_unless,
    resource,
)

if TYPE_CHECKING:
    from collections.abc import Callable

sub: Any = resource("subscriptions", arg.sub_id)
plan: Any = resource("plans", sub.plan)
ACTIVE = block_unless(sub.state == "active", "it is not active")


def a_world() -> Memory:
    """A subscription and its plan."""
    return Memory(
        subscriptions={"s-1": {"state": "active", "plan": "basic", "customer_id": "c-1", "note": ""}},
        plans={"basic": {"self_service": True}},
        notes={"c-1": {"text": ""}},
    )


def body(permit: MemoryPermit, sub_id: str, customer_id: str = "c-1") -> None:
    """Cancel a subscription."""
    permit.change("subscriptions", sub_id, state=f"cancelled by {customer_id}")


def cancel(world: Memory | None = None, **given: Any) -> Any:
    """The body as an effect."""
    contract: dict[str, Any] = {"target": sub, "premises": [ACTIVE], "name": "cancel"} | given
    return Gate(world or a_world()).effect(**contract)(body)


# --- Declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"refresh": [sub.notee]},
        {"refresh": [sub.notee["first"]]},
        {"awaits": [block_unless(sub.notee == "x")]},
        {"lane": (sub.notee,)},
        {"lane": (arg.sub_id, resource("plans", sub.notee).self_service)},
        {"target": resource("subscriptions", sub.notee)},
        {"premises": [block_unless(resource("plans", sub.notee).self_service)]},
    ],
    ids=["refresh", "refresh below", "awaits", "lane", "key in a lane", "target", "key in a premise"],
)
def test_misspelt_field_wherever_it_stands(given: dict[str, Any]) -> None:
    """A misspelt field is told with the nearest one, wherever in the declaration it stands."""
    with pytest.raises(
        DeclarationError, match=r"^cancel\(\): 'subscriptions' has no field 'notee': did you mean 'note'\?$"
    ):
        cancel(**given)


def test_misspelt_argument_of_the_target_beside_a_lane() -> None:
    """A declared lane does not hide a misspelt argument in the target's key."""
    with pytest.raises(DeclarationError, match=r"^cancel\(\) has no parameter 'sub_idd': did you mean 'sub_id'\?$"):
        cancel(target=resource("subscriptions", arg.sub_idd), lane=(arg.sub_id,))


def test_parameters_are_listed_as_they_are_declared() -> None:
    """What an effect takes is listed in the order of its signature."""
    with pytest.raises(DeclarationError, match=r"^cancel\(\) has no parameter 'zzz': it takes sub_id, customer_id$"):
        cancel(premises=[block_unless(arg.zzz == "x")])


WRAP = r"wrap it in block_unless\(\.\.\.\) or replan_unless\(\.\.\.\)$"
SLIPS: list[tuple[dict[str, Any], str]] = [
    ({"premises": [ACTIVE, sub.state == "active"]}, r"premises\[1\] is a condition, not a premise: " + WRAP),
    ({"awaits": [sub.state == "active"]}, r"awaits\[0\] is a condition, not a premise: " + WRAP),
    ({"premises": [True]}, r"premises\[0\] is a plain True, not a premise: "),
    ({"premises": [sub]}, r"premises\[0\] is the resource subscriptions\[arg.sub_id\], not a premise: "),
    ({"premises": ACTIVE}, r"premises takes a list, not the premise 'subscriptions.*': write premises=\[\.\.\.\]"),
    ({"awaits": ACTIVE}, r"awaits takes a list, not the premise "),
    ({"premises": sub.state == "active"}, r"premises takes a list, not subscriptions\[arg.sub_id\].state == 'active'"),
    ({"premises": None}, r"premises takes a list, not a NoneType"),
    ({"refresh": sub.note}, r"refresh takes a list, not subscriptions\[arg.sub_id\].note"),
    ({"refresh": "note"}, r"refresh takes a list, not the text 'note'"),
    ({"refresh": [sub]}, r"refresh\[0\] is the resource subscriptions\[arg.sub_id\], not a field: write a field of a"),
    ({"refresh": [sub.note, "note"]}, r"refresh\[1\] is the text 'note', not a field: write a field of a resource"),
    ({"refresh": [ACTIVE]}, r"refresh\[0\] is the premise '.*', not a field: "),
    ({"lane": arg.sub_id}, r"lane takes a list, not arg.sub_id"),
    ({"lane": ("sub_id",)}, r"lane\[0\] is the text 'sub_id', not an expression: write an argument"),
]


@pytest.mark.parametrize(
    ("given", "said"), SLIPS, ids=[f"{n}: {word}" for n, (given, _) in enumerate(SLIPS) for word in given]
)
def test_what_stands_in_the_wrong_place(given: dict[str, Any], said: str) -> None:
    """What belongs elsewhere, or lacks its list, is told by the effect, its place and what to write."""
    with pytest.raises(DeclarationError, match=rf"^cancel\(\): {said}"):
        cancel(**given)


def test_lists_may_be_tuples() -> None:
    """Tuples of premises and of fields are taken as lists are."""
    assert cancel(premises=(ACTIVE,), refresh=(sub.note,))("s-1") is None


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda: sub.state == "active" & plan.self_service, "& binds more tightly than ==: write (a == b) & c"),
        (lambda: sub.state == "active" | plan.self_service, "| binds more tightly than ==: write (a == b) | c"),
        (lambda: plan.self_service & "active" == sub.state, "& binds more tightly than ==: write (a == b) & c"),
        (lambda: sub.seats == sub.paid + 1 & plan.self_service, "& binds more tightly than ==: write (a == b) & c"),
    ],
    ids=["and", "or", "the other way", "a sum"],
)
def test_missing_parentheses(mistake: Callable[[], object], said: str) -> None:
    """A comparison beside & or | without parentheses is told to put them."""
    with pytest.raises(DeclarationError) as raised:
        mistake()
    assert str(raised.value).endswith(said)


def test_refresh_of_a_row_that_evidence_names() -> None:
    """A refresh field whose row is found through evidence is told through which, and what to do."""
    said = (
        r"^cancel\(\) refreshes notes\[subscriptions\[arg\.sub_id\]\.customer_id\]\.text, whose row other evidence "
        r"names: the row of this refresh field is found through subscriptions\[arg\.sub_id\]\.customer_id: take its "
        r"key as an argument \(and check it by a premise\), or use unchanged\(\.\.\.\)$"
    )
    with pytest.raises(DeclarationError, match=said):
        cancel(refresh=[resource("notes", sub.customer_id).text])


# --- Calls ------------------------------------------------------------------------------------------------------------

CALLS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("s-1",), {"custmer_id": "c"}, "cancel() has no parameter 'custmer_id': did you mean 'customer_id'?"),
    (("s-1",), {"zzz": 1}, "cancel() has no parameter 'zzz': it takes sub_id, customer_id"),
    *(
        (("s-1",), {option: None}, f"cancel() has no parameter '{option}': it goes in cancel.options({option}=...)")
        for option in ("key", "expires", "actor", "supersedes")
    ),
    (("s-1",), {"permit": 1}, "cancel() is given its permit by the gate: leave it out of the call"),
    ((), {}, "cancel(): missing a required argument: 'sub_id'"),
    (("s-1", "c", "x"), {}, "cancel(): too many positional arguments"),
]


@pytest.mark.parametrize("through", ["propose", "call", "options"])
@pytest.mark.parametrize(("args", "kwargs", "said"), CALLS)
def test_a_call_that_does_not_fit(through: str, args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    """A call that does not fit the signature is a TypeError that names the effect and what was meant."""
    effect = cancel()
    called = {"propose": effect.propose, "call": effect, "options": effect.options(key="k").propose}[through]
    with pytest.raises(TypeError) as raised:
        called(*args, **kwargs)
    assert str(raised.value) == said


def test_a_parameter_may_have_an_option_s_name() -> None:
    """A parameter called `key` is the effect's own, and the call key goes beside it."""
    world = a_world()

    @Gate(world).effect(target=resource("subscriptions", arg.key), no_preconditions=True)
    def touch(permit: MemoryPermit, key: str) -> str:
        permit.change("subscriptions", key, note="seen")
        return key

    assert touch.options(key="call-1").propose(key="s-1") == touch.options(key="call-1").propose(key="s-1")
    assert touch(key="s-1") == "s-1"


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {"expiers": 1}, "cancel.options() has no option 'expiers': did you mean 'expires'?"),
        ((), {"nope": 1}, "cancel.options() has no option 'nope': it takes key, expires, actor, supersedes"),
        (("call-1",), {}, "cancel.options() takes its options by name: key, expires, actor, supersedes"),
    ],
)
def test_options_that_are_none(args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    """An unknown option is a TypeError that names the effect's options() and what was meant."""
    with pytest.raises(TypeError) as raised:
        cancel().options(*args, **kwargs)
    assert str(raised.value) == said


@pytest.mark.parametrize("asynchronous", [False, True])
def test_functions_of_an_effect_have_names(asynchronous: bool) -> None:
    """`propose` and `options` are named after their effect, documented, and show what they take."""

    async def a_body(permit: MemoryPermit, sub_id: str, customer_id: str = "c-1") -> None:
        permit.no_write()

    gate: Any = AsyncGate(a_world()) if asynchronous else Gate(a_world())
    effect = gate.effect(target=sub, premises=[ACTIVE])(a_body if asynchronous else body)
    for name in ("propose", "options"):
        made = getattr(effect, name)
        assert made.__name__ == name
        assert made.__qualname__ == f"{effect.__qualname__}.{name}"
        assert made.__module__ == __name__
        assert made.__doc__
    assert inspect.signature(effect.propose) == inspect.signature(effect)
    assert list(inspect.signature(effect.options).parameters) == ["key", "expires", "actor", "supersedes"]


# --- Texts ------------------------------------------------------------------------------------------------------------


def test_model_is_told_that_nobody_could_tell() -> None:
    """A reason whose premise is unverifiable says so to the model; one that is false stands as it was written."""
    world = a_world()
    gate = Gate(world)
    premises = [ACTIVE, replan_unless(plan.self_service, "not by oneself"), replan_unless(sub.note != "no")]
    intent = gate.effect(target=sub, premises=premises, name="cancel")(body).propose("s-1")
    world.change("subscriptions", "s-1", state="a secret")
    world.drop("subscriptions", "s-1", "note")
    with world.unreadable("plans"):
        text = gate(intent).model_text()
    assert text == (
        "BLOCK cancel: it is not active; not by oneself (could not be verified); "
        "subscriptions/s-1.note != 'no' cannot be verified: subscriptions/s-1 has no field 'note'"
    )
