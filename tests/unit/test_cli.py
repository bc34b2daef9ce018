"""The commands over stored intents: what they print, as text and as JSON, and the status that they end with."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from systems import Crash

import lastlook
from lastlook import Applied, State
from lastlook.cli import main
from lastlook.commands import Apply
from lastlook.testing import failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = """
from lastlook import UNBOUND, AsyncGate, Gate, Memory, arg, block_unless, replan_unless, resource

world = Memory(
    orders={{f"o-{{n}}": {{"delivered": True, "refunded": False}} for n in range(40)}},
    policies={{"refund": {{"limit": 100}}}},
)
world.options(separate=True)
gate = {gate}(world, store={store!r})
unconnected = Gate()
order, policy = resource("orders", arg.order_id), resource("policies", "refund")


@gate.effect(target=order, premises=[replan_unless(order.delivered), block_unless(~order.refunded, "already refunded"),
    block_unless(arg.amount <= policy.limit, "over the limit")])
{async_}def refund(permit, order_id: str, amount: int) -> str:
    permit.change("orders", order_id, refunded=True)
    return order_id


@gate.effect(target="mailbox", lane=(arg.to,), premises=[block_unless(policy.limit > 1, accept=UNBOUND("a mere note"))])
{async_}def mail(permit, to: str) -> None:
    raise ConnectionError
"""
NAMES = (f"shop_of_the_cli_{number}" for number in itertools.count())


class Desk:
    """A module with a gate of one colour on a store in a file, and the commands run on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], *, colour: str, durable: bool = True) -> None:
        self.capsys = capsys
        self.folder = folder
        self.name = next(NAMES)
        self.url = f"sqlite:///{folder / self.name}.db"
        self.file = folder / f"{self.name}.db"
        text = MODULE.format(
            gate=colour, async_="async " * (colour == "AsyncGate"), store=self.url if durable else None
        )
        (folder / f"{self.name}.py").write_text(text, "utf-8")
        self.where = f"{self.name}:gate"
        self.module: Any = importlib.import_module(self.name)
        self.gate: Any = self.module.gate
        self.runner = asyncio.Runner()
        if durable:
            self.do(self.gate.install())

    def do(self, answer: Any) -> Any:
        """What a gate of either colour gave."""
        return self.runner.run(_awaited(answer)) if inspect.isawaitable(answer) else answer

    def propose(self, number: int = 0, amount: int = 80) -> Any:
        """An intent to refund an order."""
        return self.do(self.module.refund.propose(f"o-{number}", amount=amount))

    def release(self, intent: Any) -> Any:
        """Its verdict."""
        return self.do(self.gate(intent))

    def die(self, intent: Any) -> None:
        """Lose the gate between the open attempt and its apply."""

        def crash(_: object) -> None:
            raise Crash

        with failpoint(self.gate, Apply, before=crash), contextlib.suppress(Crash):
            self.release(intent)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """The status of a command, and what it printed; engines are left to its own loop."""
        self.close()
        try:
            status = main(arguments)
        except SystemExit as end:
            status = int(str(end.code))
        captured = self.capsys.readouterr()
        assert "Traceback" not in captured.err
        return status, captured.out, captured.err

    def json(self, *arguments: str) -> tuple[int, Any]:
        """The status, and the tree that was printed."""
        status, out, _ = self.run(*arguments, "--json")
        return status, json.loads(out)

    def sql(self, statement: str, *values: object) -> None:
        """What somebody else does to the store's file."""
        with contextlib.closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(statement, values)

    def close(self) -> None:
        """Give back the connections of this loop."""
        dispose = getattr(getattr(self.gate._runtime().store, "engine", None), "dispose", None)
        if dispose is not None:
            self.do(dispose())


async def _awaited(answer: Any) -> Any:
    return await answer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the modules lie: the folder that the command is run from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture(params=["Gate", "AsyncGate"])
def desk(request: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    """A desk of either colour."""
    made = Desk(folder, capsys, colour=request.param)
    with made.runner:
        yield made
        made.close()


@pytest.fixture
def sync_desk(folder: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    """A desk where the colour makes no difference."""
    made = Desk(folder, capsys, colour="Gate")
    with made.runner:
        yield made
        made.close()


# --- pending ----------------------------------------------------------------------------------------------------------


def test_pending_lists_what_is_open(desk: Desk) -> None:
    """Open intents and open attempts, oldest first, one a line; ended ones are not among them."""
    first, second, third = (desk.propose(number) for number in range(3))
    assert desk.release(second).committed
    desk.die(third)
    status, out, err = desk.run("pending", desk.where)
    lines = out.splitlines()
    assert (status, err, len(lines)) == (0, "", 2)
    assert lines[0] == f"{first.id}  OPEN     refund on orders/o-0"
    assert re.fullmatch(rf"{third.id}  ATTEMPT  refund on orders/o-2; attempt 1 may be closed after \S+Z", lines[1])
    assert desk.run("pending", "--store", desk.url)[1] == out


def test_pending_as_json(desk: Desk) -> None:
    """One document, whose list has all that the lines have."""
    intent = desk.propose()
    row = {"intent": intent.id, "effect": "refund", "target": "orders/o-0", "state": "OPEN", "attempt": 0}
    status, tree = desk.json("pending", desk.where)
    assert (status, tree) == (0, {"durable": True, "pending": [row | {"deadline": None, "expires": None}]})
    assert desk.json("pending", "--store", desk.url) == (0, tree)
    desk.do(desk.gate.withdraw(intent))
    assert desk.json("pending", desk.where) == (0, {"durable": True, "pending": []})


def test_pending_of_one_effect_and_no_more_than_so_many(desk: Desk) -> None:
    """`--effect` leaves out the others, and `--limit` says where it stopped, and only then."""
    desk.do(desk.module.mail.propose(to="a colleague"))
    ids = [desk.propose(number).id for number in range(5)]
    status, out, _ = desk.run("pending", desk.where, "--effect", "refund", "--limit", "3")
    lines = out.splitlines()
    assert (status, [line.split()[0] for line in lines[:-1]]) == (0, ids[:3])
    assert lines[-1] == "stopped at 3: there may be more (--limit)"
    assert len(desk.run("pending", desk.where, "--effect", "mail", "--limit", "3")[1].splitlines()) == 1
    assert "stopped" not in desk.run("pending", desk.where, "--limit", "6")[1]
    status, out, _ = desk.run("pending", desk.where, "--effect", "none")
    assert (status, out) == (0, f"no intent of {desk.where} is pending of none\n")


def test_pending_of_nothing(desk: Desk) -> None:
    """An empty store is said to be empty, and that is well."""
    assert desk.run("pending", desk.where) == (0, f"no intent of {desk.where} is pending\n", "")


def test_pending_prints_as_it_reads(sync_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line is out before the last intent is read, however many there are."""
    for number in range(10):
        sync_desk.propose(number)
    store, printed = sync_desk.gate._runtime().store, []
    load = store.load

    def counted(intent_id: str) -> Any:
        printed.append(len(sync_desk.capsys.readouterr().out.splitlines()))
        return load(intent_id)

    monkeypatch.setattr(store, "load", counted)
    sync_desk.run("pending", sync_desk.where)
    assert printed == [0] + [1] * 9


def test_pending_reads_no_more_than_it_prints(sync_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit, and of one effect, only what is printed is loaded, however many wait."""
    for number in range(20):
        sync_desk.propose(number)
        sync_desk.module.mail.propose(to=f"colleague {number}")
    store, loaded = sync_desk.gate._runtime().store, []
    load = store.load

    def counted(intent_id: str) -> Any:
        loaded.append(intent_id)
        return load(intent_id)

    monkeypatch.setattr(store, "load", counted)
    sync_desk.run("pending", sync_desk.where, "--effect", "mail", "--limit", "3")
    assert len(loaded) == 3


def test_pending_passes_over_what_ended_meanwhile(sync_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An intent that ends between the listing and its turn is not told as pending."""
    first, second = sync_desk.propose(0), sync_desk.propose(1)
    store = sync_desk.gate._runtime().store
    load = store.load
    monkeypatch.setattr(store, "load", lambda name: None if name == first.id else load(name))
    assert sync_desk.run("pending", sync_desk.where)[1].split()[0] == second.id


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_takes_an_id_or_its_beginning(desk: Desk) -> None:
    """The whole id, at least six characters of it, and upper case from a copied line all find the intent."""
    intent = desk.propose()
    assert desk.release(intent).committed
    status, out, _ = desk.run("explain", desk.where, intent.id)
    assert (status, out.splitlines()[0]) == (0, f"refund, intent {intent.id}: committed")
    for given in (intent.id[:6], intent.id[:20].upper(), f" {intent.id}"):
        assert desk.run("explain", desk.where, given) == (0, out, "")
    assert desk.run("explain", "--store", desk.url, intent.id[:8]) == (0, out, "")
    assert desk.run("explain", intent.id, "--store", desk.url) == (0, out, "")
    assert "amount 80" in desk.run("explain", desk.where, "--reveal", intent.id)[1]


def test_explain_as_json(desk: Desk) -> None:
    """The same story as a tree; values only where they are asked for."""
    intent = desk.propose()
    desk.release(intent)
    status, tree = desk.json("explain", desk.where, intent.id)
    assert (status, tree["state"], [step["kind"] for step in tree["steps"]]) == (
        0,
        "COMMITTED",
        ["ATTEMPT", "COMMITTED"],
    )
    assert "revealed" not in tree
    _, tree = desk.json("explain", desk.where, intent.id, "--reveal")
    assert tree["revealed"] == {"arguments": {"amount": 80, "order_id": "o-0"}, "actor": None}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("abcde", "'abcde' is too short to name an intent: give 6 characters of its id or more"),
        ("abcdef", "'abcdef' is the beginning of several ids: abcdef1, abcdef2"),
        (
            "many-of",
            "is the beginning of several ids: many-of-0, many-of-1, many-of-2, many-of-3, many-of-4, and others",
        ),
        ("nothing", "has an id that begins with 'nothing'"),
        ("a" * 26, f"has an id that begins with '{'a' * 26}'"),
        ("'; drop table", 'has an id that begins with "\'; drop table"'),
    ],
)
def test_an_id_that_names_not_one_intent_is_a_mistake(desk: Desk, given: str, message: str) -> None:
    """Too short, shared or unknown: each is told for what it is, with the candidates."""
    store, intent = desk.gate._runtime().store, desk.propose()
    stored = desk.do(store.load(intent.id))
    for name in ("abcdef1", "abcdef2", *(f"many-of-{number}" for number in range(7))):
        desk.do(store.create(stored.record.but(intent_id=name, lane=name), desk.gate._clock.now(), None))
    status, out, err = desk.run("explain", desk.where, given)
    assert (status, out) == (2, "")
    assert message in err


def fresh(folder: Path, *arguments: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """What the command prints in a process of its own, run from a folder."""
    script = "import sys; from lastlook.cli import main; raise SystemExit(main(sys.argv[1:]))"
    package = str(Path(lastlook.__file__).parents[1])
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([package, *(str(Path(part).resolve()) for part in sys.path if part)])
    }
    env["PYTHONIOENCODING"] = encoding
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_a_fresh_process_without_the_module_explains(sync_desk: Desk, tmp_path: Path) -> None:
    """The store alone tells the story, word for word, wherever the command is run."""
    intent = sync_desk.propose()
    sync_desk.release(intent)
    _, out, _ = sync_desk.run("explain", sync_desk.where, intent.id)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run = fresh(elsewhere, "explain", "--store", sync_desk.url, intent.id)
    assert (run.returncode, run.stdout, run.stderr) == (0, out, "")


@pytest.mark.parametrize("colour", ["Gate", "AsyncGate"])
def test_a_fresh_process_with_the_module_ends(colour: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command imports the module from where it is run, and ends; no connection keeps the process."""
    desk = Desk(folder, capsys, colour=colour)
    with desk.runner:
        intent = desk.propose()
        desk.close()
    run = fresh(folder, "withdraw", desk.where, intent.id[:9])
    assert (run.returncode, run.stdout, run.stderr) == (0, f"{intent.id}  withdrawn\n", "")


# --- A store in memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["Gate", "AsyncGate"])
def test_a_store_in_memory_is_said_to_be_one(colour: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command says that nothing of another process can be there, and still shows what there is."""
    desk = Desk(folder, capsys, colour=colour, durable=False)
    with desk.runner:
        intent = desk.propose()
        for arguments in (("pending",), ("explain", intent.id), ("verify",), ("reconcile",), ("withdraw", intent.id)):
            name, *rest = arguments
            status, out, err = desk.run(name, desk.where, *rest)
            assert status == 0
            assert out
            assert err.startswith(
                f"lastlook: {desk.where} keeps its intents in memory, so there is nothing to show but"
            )
        assert desk.json("pending", desk.where) == (0, {"durable": False, "pending": []})
        status, _, err = desk.run("explain", desk.where, "another process'")
        assert status == 2
        assert "keeps its intents in memory" in err


# --- verify -----------------------------------------------------------------------------------------------------------


def test_verify_finds_what_was_edited(desk: Desk) -> None:
    """Whole chains are well; one edited byte is found, named, and ends the command with 1; the others stay well."""
    intents = [desk.propose(number) for number in range(3)]
    desk.release(intents[1])
    said = "checksums show accidents, not a forger who can write to the store"
    assert desk.run("verify", desk.where) == (0, f"none of 3 intents damaged; {said}\n", "")
    assert desk.json("verify", "--store", desk.url) == (0, {"durable": True, "integrity": "checksum", "damaged": []})
    desk.sql(
        "UPDATE lastlook_journal SET body = replace(body, 'KEEP', 'keep') WHERE intent_id = ? AND seq = 2",
        intents[1].id,
    )
    status, out, _ = desk.run("verify", desk.where)
    assert status == 1
    assert out.splitlines()[0].startswith(
        f"{intents[1].id}  record 2 of intent {intents[1].id} is not what was written"
    )
    assert out.splitlines()[1] == f"1 of 3 intents damaged; {said}"
    status, tree = desk.json("verify", "--store", desk.url)
    assert (status, [row["intent"] for row in tree["damaged"]]) == (1, [intents[1].id])
    assert desk.run("verify", desk.where, intents[0].id[:7])[0] == 0
    assert desk.run("verify", desk.where, intents[1].id[:7])[0] == 1
    status, out, err = desk.run("explain", desk.where, intents[1].id)
    assert (status, out) == (1, "")
    assert "is not what was written" in err


def test_a_damaged_intent_hides_no_other(desk: Desk) -> None:
    """`pending` names the damaged one among the others, and `reconcile` sees to them before it says so."""
    intents = [desk.propose(number) for number in range(3)]
    for intent in intents:
        desk.die(intent)
    desk.sql("UPDATE lastlook_intent SET attempt = 'x' WHERE intent_id = ?", intents[1].id)
    desk.sql("UPDATE lastlook_intent SET deadline_us = 1 WHERE intent_id <> ?", intents[1].id)
    status, out, _ = desk.run("pending", desk.where, "--limit", "2")
    assert (status, len(out.splitlines())) == (0, 3)
    assert f"{intents[1].id}  damaged: the row of intent" in out
    assert "damage" in desk.json("pending", desk.where)[1]["pending"][1]
    status, _, err = desk.run("reconcile", desk.where)
    assert status == 1
    assert "is not what was written" in err
    assert [line.split()[1] for line in desk.run("pending", desk.where)[1].splitlines()] == ["OPEN", "damaged:", "OPEN"]


# --- reconcile --------------------------------------------------------------------------------------------------------


def test_reconcile_resolves_what_the_target_can_tell(desk: Desk) -> None:
    """A dead attempt is closed, and a commit that was not journaled is taken over; then nothing is left to do."""
    dead, done = desk.propose(0), desk.propose(1)
    desk.die(dead)

    def lose(*_: object) -> None:
        raise Crash

    with failpoint(desk.gate, Apply, after=lose), contextlib.suppress(Crash):
        desk.release(done)
    desk.sql("UPDATE lastlook_intent SET owner = 'a dead one', deadline_us = 1")
    status, tree = desk.json("reconcile", desk.where)
    assert (status, tree["durable"], tree["unknown"]) == (0, True, 0)
    assert [(row["intent"], row["applied"], row["state"], row["text"]) for row in tree["reconciled"]] == [
        (dead.id, "NOT_ATTEMPTED", "OPEN", "nothing was applied; it is open again"),
        (done.id, "COMMITTED", "COMMITTED", "the target had committed it"),
    ]
    assert desk.run("reconcile", desk.where) == (0, "nothing to reconcile\n", "")


def test_reconcile_ends_with_1_where_something_stays_unknown(desk: Desk) -> None:
    """What nobody can tell is named, counted, and ends the command with 1, as text and as JSON."""
    intent = desk.do(desk.module.mail.propose(to="a colleague"))
    assert desk.release(intent).applied is Applied.UNKNOWN
    status, out, _ = desk.run("reconcile", desk.where)
    assert status == 1
    assert out.startswith(f"{intent.id}  UNKNOWN        mail: mail may have happened")
    assert out.endswith("1 looked into, 1 still unknown\n")
    status, tree = desk.json("reconcile", desk.where)
    assert (status, tree["unknown"], tree["reconciled"][0]["state"]) == (1, 1, "ATTEMPT")


# --- withdraw ---------------------------------------------------------------------------------------------------------


def test_withdraw_ends_an_open_intent(desk: Desk) -> None:
    """An open intent is withdrawn, and withdrawing it twice is no error."""
    intent = desk.propose()
    assert desk.run("withdraw", desk.where, intent.id[:8]) == (0, f"{intent.id}  withdrawn\n", "")
    assert desk.json("withdraw", desk.where, intent.id) == (
        0,
        {"intent": intent.id, "withdrawn": True, "reason": None},
    )
    assert desk.release(intent).state is State.WITHDRAWN


def test_withdraw_of_what_cannot_be_withdrawn(desk: Desk) -> None:
    """A committed intent and one in an unknown attempt are left alone, told why, and end the command with 1."""
    done = desk.propose()
    desk.release(done)
    status, out, _ = desk.run("withdraw", desk.where, done.id)
    assert status == 1
    assert out == f"{done.id}  not withdrawn: intent {done.id} is committed already and cannot be withdrawn\n"
    unknown = desk.do(desk.module.mail.propose(to="a colleague"))
    desk.release(unknown)
    status, tree = desk.json("withdraw", desk.where, unknown.id)
    assert (status, tree["withdrawn"]) == (1, False)
    assert f"intent {unknown.id} has an open attempt, so it cannot be withdrawn" in tree["reason"]


# --- Mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pending"], "no gate named: write MODULE:GATE, such as shop.refunds:gate, or --store URL"),
        (["reconcile"], "no gate named: write MODULE:GATE, such as shop.refunds:gate\n"),
        (["show"], "no gate named: write MODULE:GATE, such as shop.refunds:gate\n"),
        (["explain", "WHERE"], "no intent named: give its id, or the first 6 characters of it"),
        (["withdraw", "WHERE"], "no intent named"),
        (["explain", "--store", "URL"], "no intent named"),
        (["pending", "WHERE", "--store", "URL"], "name one place: MODULE:GATE or --store URL, not both"),
        (["explain", "WHERE", "abcdefg", "--store", "URL"], "name one place: MODULE:GATE or --store URL, not both"),
        (["pending", "WHERE", "abcdefg"], "too many names: there is no place for 'abcdefg'"),
        (["explain", "WHERE", "abcdefg", "--json", "more", "yet"], "there is no place for 'more', 'yet'"),
        (["pending", "--store", "URL", "abcdefg"], "too many names: there is no place for 'abcdefg'"),
        (["pending", "no-gate"], "'no-gate' names no gate: write MODULE:GATE"),
        (["pending", "nowhere_at_all:gate"], "no module 'nowhere_at_all'"),
        (["pending", "NAME:gates"], "has no gate 'gates': it has gate, unconnected"),
        (["pending", "NAME:unconnected"], "this gate has no systems yet: call gate.connect(...)"),
        (["pending", "--store", "sqlite:///nowhere/at/all.db"], "there is no store in nowhere/at/all.db"),
        (["pending", "--store", "nonsense"], "no URL of an installed database driver"),
        (["pending", "--store", "sqlite://"], "SQLite database in memory"),
        (["verify", "--store", "URL", "abcdefg"], "no intent of this store has an id that begins with 'abcdefg'"),
        (["pending", "WHERE", "--limit", "0"], "'0' is no number from 1 up"),
        (["pending", "WHERE", "--limit", "²"], "'²' is no number from 1 up"),
        (["pending", "WHERE", "--lots"], "unrecognized arguments: --lots"),
        (["withdraw", "WHERE", "--store", "URL"], "unrecognized arguments: --store"),
        (["erase", "WHERE"], "invalid choice: 'erase'"),
        ([], "the following arguments are required: COMMAND"),
    ],
    ids=itertools.count(),
)
def test_a_mistake_in_the_use_is_told_and_ends_with_2(sync_desk: Desk, arguments: list[str], message: str) -> None:
    """Whatever was left out, doubled or misspelt is named on standard error, and nothing is printed."""
    stands = {"WHERE": sync_desk.where, "URL": sync_desk.url, "NAME:gates": f"{sync_desk.name}:gates"}
    stands["NAME:unconnected"] = f"{sync_desk.name}:unconnected"
    status, out, err = sync_desk.run(*[stands.get(text, text) for text in arguments])
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("name", ["show", "pending", "explain", "verify", "reconcile", "withdraw"])
def test_every_command_tells_its_use(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its help says what it does, how it is written, and shows an example."""
    with pytest.raises(SystemExit, match=r"^0$"):
        main([name, "--help"])
    out = capsys.readouterr().out
    assert out.startswith(f"usage: lastlook {name} ")
    assert f"example: lastlook {name} " in out


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The commands stand with what each is for."""
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    out = capsys.readouterr().out
    for name in ("evaluate", "replay", "show", "pending", "explain", "verify", "reconcile", "withdraw"):
        assert re.search(rf"^    {name}\s", out, re.MULTILINE)


def test_show_prints_a_gate_of_either_colour(desk: Desk) -> None:
    """The declared effects, as text and as JSON."""
    status, out, _ = desk.run("show", desk.where)
    assert (status, out.splitlines()[0]) == (
        0,
        "mail(to: str) acts on 'mailbox'",
    )
    _, tree = desk.json("show", desk.where)
    assert [effect["effect"] for effect in tree["effects"]] == ["mail", "refund"]


def test_a_terminal_without_the_letter_gets_it_written_out(sync_desk: Desk, folder: Path) -> None:
    """A stream that cannot say a letter is no reason for a traceback."""
    intent = sync_desk.do(sync_desk.module.mail.propose(to="Zo\u00eb \u6f22"))
    sync_desk.close()
    run = fresh(folder, "explain", sync_desk.where, intent.id, "--reveal", encoding="ascii")
    assert (run.returncode, run.stderr) == (0, "")
    assert "to 'Zo\\xeb \\u6f22'" in run.stdout
