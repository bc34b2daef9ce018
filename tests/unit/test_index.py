"""The index of pending intents, as many of them come and go."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from systems import Shop

from lastlook import Capture, Change
from lastlook.index import Index

if TYPE_CHECKING:
    from lastlook.records import IntentRecord

LIMIT = Change("policies", "refund", "limit")


def one_record() -> IntentRecord:
    """The record of a refund."""
    shop = Shop()
    stored = shop.store.load(shop.refund.propose("o-1", amount=80).id)
    assert stored is not None
    return stored.record


@pytest.mark.parametrize("capture", Capture)
def test_ended_intents_are_cleared_away(capture: Capture) -> None:
    """However many intents end, the index reaches the pending ones only, and does not grow with the ended ones."""
    record, index = one_record(), Index(capture)
    rounds = [[dataclasses.replace(record, intent_id=f"i-{turn}-{n}") for n in range(600)] for turn in range(4)]
    for records in rounds:
        for each in records:
            index.add(each)
        for each in records[1:]:
            index.remove(each)
    kept = [records[0].intent_id for records in rounds]
    assert index.reached(LIMIT) == kept
    assert index.closure(LIMIT).intents == tuple(kept)
    assert len(list(index.posted(LIMIT))) < 1500  # of 2400 that were posted


def test_an_intent_that_comes_back_is_not_cleared_away() -> None:
    """An intent that was taken out and put in again is reached, whatever is cleared away for others."""
    record, index = one_record(), Index(Capture.PREDICATE)
    first = dataclasses.replace(record, intent_id="first")
    index.add(first)
    index.remove(first)
    index.add(first)
    for n in range(1100):
        each = dataclasses.replace(record, intent_id=f"i-{n}")
        index.add(each)
        index.remove(each)
    assert index.reached(LIMIT) == ["first"]


def test_an_intent_is_taken_out_once() -> None:
    """Taking out what is not there, or losing edges that are lost already, changes nothing."""
    record, index = one_record(), Index(Capture.PREDICATE)
    index.remove(record)
    index.add(record)
    index.forget_edges(record)
    index.forget_edges(record)
    assert index.reached(LIMIT) == []
    index.add(dataclasses.replace(record, intent_id="other"))
    assert index.reached(LIMIT) == ["other"]
