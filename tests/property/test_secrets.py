"""Random effects over rows that lead to each other by secret keys: no text tells a secret, whatever goes wrong."""

from __future__ import annotations

import functools
import json
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from drawing import FIELDS, KINDS, LETTERS, NAMES, Draw

from lastlook import (
    DeclarationError,
    EffectStopped,
    Gate,
    LastlookError,
    Memory,
    MemoryStore,
    Verdict,
    arg,
    block_unless,
    replan_unless,
    resource,
)
from lastlook.cli.note import note
from lastlook.cli.story import read_story
from lastlook.testing import FakeClock, interpose

if TYPE_CHECKING:
    from lastlook.premises import Premise

SECRET = "secret"


class SecretDraw(Draw):
    """Draws worlds in which every text is secret, keys of rows that were read among them; what is declared is not."""

    def arguments(self) -> dict[str, Any]:
        """Those that keys are made of are given in the open, and so not secret."""
        given = super().arguments()
        wanted = [f"{SECRET} {name}" for name in given["wanted"]]
        return given | {"name": f"{SECRET} {given['name']}", "wanted": wanted}

    def rows(self, kind: str) -> dict[Any, Any]:
        """A row under each key that is given, and under each that only a secret leads to."""
        found: dict[Any, Any] = {}
        for letter in (*LETTERS, *(f"{SECRET} {letter}" for letter in LETTERS)):
            for key in [(letter,)] if KINDS[kind] == 1 else [(letter, 1), (letter, 2)]:
                if self.odds(0.85):
                    found[key] = self.row()
        return found

    def _typed(self, name: str) -> Any:
        match name:
            case "ref":
                return f"{SECRET} {self.one_of(LETTERS)}"
            case "name":
                return f"{SECRET} {self.one_of(NAMES)}"
            case "tags":
                return [f"{SECRET} {self.one_of(NAMES)}" for _ in range(self.number(0, 3))]
            case _:
                return super()._typed(name)


def act(permit: Any, target: str, key: str, name: str, amount: int, wanted: list[str]) -> str:
    """The effect: it marks a row."""
    permit.change("orders", target, done=True)
    return name


def an_effect(draw: SecretDraw, gate: Gate) -> Any:
    """An effect with random premises; its target is at times a row that another leads to."""
    premises: dict[str, Premise] = {}
    for _ in range(draw.number(1, 4)):
        try:
            premise = draw.one_of([block_unless, replan_unless])(draw.condition(3))
        except DeclarationError:
            continue
        premises.setdefault(premise.label, premise)
    order = resource("orders", arg["target"])
    target = resource(draw.one_of(["orders", *draw.kinds]), order["ref"]) if draw.odds(0.2) else order
    refresh = [draw.place(draw.one_of(FIELDS), 0, row=False)]
    return gate.effect(target=target, premises=list(premises.values()), refresh=refresh, name="act")(act)


def texts_of(found: Verdict[Any] | EffectStopped) -> list[str]:
    """All that people and models read of it."""
    texts = [str(found), repr(found)]
    if isinstance(found, EffectStopped):
        texts.append(found.model_text)
        found = found.verdict
    return [*texts, found.explain(), found.model_text(), *found.changed, *found.bindings, *map(repr, found.findings)]


@pytest.mark.parametrize("half", range(2))
def test_no_text_tells_a_secret(half: int) -> None:
    """Verdicts, stops, previews, notes and JSON name rows by keys that were given, or by where they lie."""
    told = hidden = 0
    for seed in range(half * 150, half * 150 + 150):
        draw = SecretDraw(Random(f"secrets {seed}"))
        world = Memory(**{kind: draw.rows(kind) for kind in draw.kinds})
        separate = draw.odds(0.5)
        world.options(separate=separate, fields={kind: [*FIELDS, "done", "seen"] for kind in draw.kinds})
        store = MemoryStore()
        gate = Gate(world, store=store, clock=FakeClock())
        try:
            effect = an_effect(draw, gate).options(actor={"role": f"{SECRET} role"})
        except DeclarationError:
            continue  # a kind twice, a derived refresh: not this test's subject
        given = draw.arguments()
        texts: list[str] = []
        transaction = gate.transaction()
        for _ in range(draw.number(0, 4)):
            try:
                read = transaction.read(draw.ref(2), **given)
            except LastlookError as error:
                texts.append(str(error))
            else:
                transaction.decide("so it is", rests_on=[read])
        _change(draw, world)
        intents = []
        record: Any = functools.partial(cast("Any", transaction.propose), effect)
        proposals = (effect.propose, record, effect)
        for propose in proposals:
            try:
                intents.append(propose(**given))
            except EffectStopped as stop:
                texts += texts_of(stop)
        for intent in intents:
            if isinstance(intent, str):
                continue
            _change(draw, world)
            texts.append(gate.preview(intent).explain())
            with interpose(gate, lambda: _change(draw, world)):  # noqa: B023 - at once
                texts += texts_of(gate(intent))
            with world.unreadable(draw.one_of(draw.kinds)):
                texts += texts_of(gate(intent))
        for intent_id in store.intents():
            story, stored = read_story(store.journal(intent_id)), store.load(intent_id)
            assert stored is not None
            texts += [note(story), json.dumps(story.as_json(reveal=False)), repr(stored), stored.record.target]
            hidden += any(read.named is not None for read in stored.record.reads)
        leaked = [text for text in texts if SECRET in text]
        assert not leaked, f"seed {seed}: {leaked[0]}"
        told += len(texts)
    assert told > 1_000
    assert hidden > 30, "the worlds no longer lead through secret keys"


def _change(draw: SecretDraw, world: Memory) -> None:
    """Others write, rename and delete."""
    for _ in range(draw.number(0, 3)):
        kind = draw.one_of(draw.kinds)
        key: Any = draw.one_of([*LETTERS, *(f"{SECRET} {letter}" for letter in LETTERS)])
        key = key if KINDS[kind] == 1 else (key, draw.number(1, 2))
        if draw.odds(0.15):
            world.delete(kind, key)
        else:
            name = draw.one_of([*FIELDS, "seen"])
            world.change(kind, key, **{name: draw.value(name) if name != "seen" else draw.number(0, 9)})
