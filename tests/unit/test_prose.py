"""A premise in words: what it demands, with its rows resolved, and the opposite where it is denied."""

from __future__ import annotations

import itertools
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from drawing import Draw

from lastlook import (
    DeclarationError,
    actor,
    arg,
    before,
    count,
    each,
    every,
    exists,
    fresh,
    holds,
    largest,
    literal,
    lookup,
    none,
    resource,
    rows,
    total,
    unchanged,
)
from lastlook.canonical import ABSENT, freeze
from lastlook.expressions import Env, Expr, SlotTable, call_node, compile_expression
from lastlook.expressions.prose import say

order: Any = resource("orders", arg.order_id)
customer: Any = resource("customers", order.email)


def said(expr: Expr[Any], actor: Any = freeze({"role": "clerk"})) -> str:  # noqa: B008 - frozen
    """The sentence, for order o-1 and an actor who is a clerk."""
    table = SlotTable()
    compile_expression(expr, table)
    arguments: Any = freeze({"order_id": "o-1", "amount": 80})
    return say(expr, Env(table, arguments, actor))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (order.paid, "orders/o-1.paid is true"),
        (~order.paid, "orders/o-1.paid is false"),
        (~~order.paid, "orders/o-1.paid is true"),
        (literal(True) == arg.sure, "True is the argument sure"),
        (order.state == "open", "orders/o-1.state is 'open'"),
        (~(order.state == "open"), "orders/o-1.state is not 'open'"),
        (order.state != "open", "orders/o-1.state is not 'open'"),
        (~(order.state != "open"), "orders/o-1.state is 'open'"),
        (arg.amount < order.left, "the argument amount is less than orders/o-1.left"),
        (~(arg.amount < order.left), "the argument amount is at least orders/o-1.left"),
        (arg.amount <= order.left, "the argument amount is at most orders/o-1.left"),
        (~(arg.amount <= order.left), "the argument amount is more than orders/o-1.left"),
        (arg.amount > order.left, "the argument amount is more than orders/o-1.left"),
        (~(arg.amount >= order.left), "the argument amount is less than orders/o-1.left"),
        (order.state.in_(["a", "b"]), "orders/o-1.state is one of ['a', 'b']"),
        (~order.state.in_(arg.states), "orders/o-1.state is none of the argument states"),
        (order.tags.contains("vip"), "orders/o-1.tags contains 'vip'"),
        (~order.tags.contains("vip"), "orders/o-1.tags does not contain 'vip'"),
        (arg.ids.all_in(order.ids), "everything in the argument ids is in orders/o-1.ids"),
        (~arg.ids.all_in(order.ids), "not everything in the argument ids is in orders/o-1.ids"),
        (order.note.is_null(), "orders/o-1.note is null"),
        (~order.note.is_null(), "orders/o-1.note is not null"),
        (order.a & ~order.b, "orders/o-1.a is true and orders/o-1.b is false"),
        (~(order.a & ~order.b), "orders/o-1.a is false or orders/o-1.b is true"),
        (order.a | order.b, "orders/o-1.a is true or orders/o-1.b is true"),
        (~(order.a | order.b), "orders/o-1.a is false and orders/o-1.b is false"),
        (order.a & (order.b | order.c), "orders/o-1.a is true and (orders/o-1.b is true or orders/o-1.c is true)"),
        (order.a & ~(order.b | order.c), "orders/o-1.a is true and (orders/o-1.b is false and orders/o-1.c is false)"),
        (exists(order), "there is orders/o-1"),
        (~exists(order), "there is no orders/o-1"),
        (exists(order.note), "there is orders/o-1.note"),
        (every(order.lines, each.paid), "for every row of orders/o-1.lines: its paid is true"),
        (~every(order.lines, each.paid), "not for every row of orders/o-1.lines: its paid is true"),
        (none(rows("bookings"), each.seat == arg.seat), "for no row of bookings: its seat is the argument seat"),
        (~none(rows("bookings"), each == 1), "for some row of bookings: the item is 1"),
        (
            every(order.lines, each.a & each.b),
            "for every row of orders/o-1.lines: (its a is true and its b is true)",
        ),
        (
            every(order.lines, resource("stock", each.sku).left > 0),
            "for every row of orders/o-1.lines: stock[each.sku].left is more than 0",
        ),
        (unchanged(order.lines), "orders/o-1.lines is as it was when this was proposed"),
        (~unchanged(order.lines), "orders/o-1.lines is not as it was when this was proposed"),
        (holds(order.paid | order.free), "it is certain that (orders/o-1.paid is true or orders/o-1.free is true)"),
        (~holds(order.paid), "it is not certain that orders/o-1.paid is true"),
        (before(order.until), "it is not later than orders/o-1.until"),
        (fresh(order.at, timedelta(hours=1)), "orders/o-1.at is not longer ago than 1:00:00"),
        (
            call_node("credit", "2", {"floor": 5}, (order.score, arg.amount)),
            "the validator credit (version 2) accepts orders/o-1.score, the argument amount, floor 5",
        ),
        (~call_node("credit", "2", {}, ()), "the validator credit (version 2) does not accept this"),
        (actor["role"] == "clerk", "the actor's role is 'clerk'"),
        (exists(actor), "there is the actor"),
        (order.meta["city"] == "x", "orders/o-1.meta['city'] is 'x'"),
        (lookup(order.fees, order.region, "fast") == 1, "orders/o-1.fees[orders/o-1.region]['fast'] is 1"),
        (order.a + arg.b * 2 - 1 == 3, "((orders/o-1.a + (the argument b * 2)) - 1) is 3"),
        (total(order.lines, "price") == 9, "the total of the price of orders/o-1.lines is 9"),
        (count(rows("orders")) == 0, "the number of orders is 0"),
        (rows("orders") == order.copy, "all orders is orders/o-1.copy"),
        (
            order.lines.where(each.x > 1).count() == 2,
            "the number of those of orders/o-1.lines where its x is more than 1 is 2",
        ),
        (largest(0, order.a) == 1, "the largest of 0, orders/o-1.a is 1"),
        (largest(order.prices) == 1, "the largest of orders/o-1.prices is 1"),
        (order.a.rounded(2) == order.b.as_decimal(2), "orders/o-1.a to 2 places is orders/o-1.b to 2 places"),
        (order.at.as_utc("UTC") == arg.at, "orders/o-1.at in UTC is the argument at"),
        ((order.a == 1) == (order.b == 2), "(orders/o-1.a is 1) is (orders/o-1.b is 2)"),
        (~customer.blocked, "customers[orders/o-1.email].blocked is false"),
        (resource("orders", arg.gone).paid, "orders[arg.gone].paid is true"),
    ],
    ids=itertools.count(),
)
def test_a_premise_reads_as_a_sentence(expr: Expr[bool], text: str) -> None:
    """Every word of the vocabulary, and its opposite, is said in plain English with the row that is meant."""
    assert said(expr) == text


def test_without_an_actor_it_is_said_all_the_same() -> None:
    """A key that an absent actor should give stands as it is declared."""
    assert said(resource("users", actor["id"]).active, actor=ABSENT) == "users[actor['id']].active is true"


def test_whatever_can_be_declared_can_be_said() -> None:
    """A random condition is a sentence of one line with its parentheses in pairs, however it is nested."""
    for seed in range(400):
        try:
            condition = Draw(Random(f"prose {seed}")).condition(3)
        except DeclarationError:
            continue  # keys through more reads than there may be
        text = said(condition)
        assert text, seed
        assert "\n" not in text, seed
        assert text.count("(") == text.count(")"), seed
