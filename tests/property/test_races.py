"""5,000 pairs of gates on two connections race for one intent or for one remainder; the rows tell who landed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest
import racers
from quick import quick_folder

if TYPE_CHECKING:
    from pathlib import Path

_PAIRS = 2500


def _raced(folder: Path, *, same: bool) -> list[tuple[int, int, str, str]]:
    """Of each pair: how many payments landed, what remains, and what both racers were told."""
    file = folder / "races.db"
    url = f"sqlite:///{file}"
    accounts = [f"a-{number}" for number in range(_PAIRS)]
    pairs = racers.made(url, accounts, same=same)
    context = get_context("spawn")
    barrier = context.Barrier(2)
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    processes = [
        context.Process(target=racers.race, args=(url, barrier, mine, sending), daemon=True)
        for mine, (_, sending) in zip(zip(*pairs, strict=True), pipes, strict=True)
    ]
    for process, (_, sending) in zip(processes, pipes, strict=True):
        process.start()
        sending.close()  # so that a racer that died is the end of the pipe
    told = [receiving.recv() for receiving, _ in pipes]
    for process in processes:
        process.join()
    with closing(sqlite3.connect(file)) as connection:
        paid = Counter(account for (account,) in connection.execute("SELECT account FROM payments"))
        remaining = dict(connection.execute("SELECT id, remaining FROM accounts"))
    return [
        (paid[account], remaining[account], first, second)
        for account, first, second in zip(accounts, *told, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("over", ["intent", "remainder"])
def test_of_two_racers_exactly_one_lands(over: str) -> None:
    """Of two gates on one intent, or of two intents on a remainder for one: 0 land twice, 0 not at all, 0 overdrawn."""
    with quick_folder() as folder:
        found = _raced(folder, same=over == "intent")
    assert len(found) == _PAIRS
    for number, (paid, remaining, first, second) in enumerate(found):
        what = f"pair {number} over one {over}: {paid} payments, {remaining} left, told {first} and {second}"
        assert (paid, remaining) == (1, racers.REMAINING - racers.AMOUNT), what
        assert "COMMITTED" in (first, second), what
        if over == "remainder":
            assert (first, second).count("COMMITTED") == 1, what
