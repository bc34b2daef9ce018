"""The replayer: own cases for every word, two readings of the format against each other, and the command."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import Applied, Outcome
from lastlook.canonical import ABSENT, freeze
from lastlook.expressions import Env, Pending, SlotTable, Unverifiable, compile_expression
from lastlook.records import Observation, Token
from lastlook_scenarios import cases
from lastlook_scenarios.cases import WORDS, Case, Node, read_cases
from lastlook_scenarios.conditions import Conditions
from lastlook_scenarios.plain import PlainEvaluator, UnverifiableError, full_scan
from lastlook_scenarios.replay import METHODS, Judged, Replay, atr, main

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lastlook.canonical import Value
    from lastlook_scenarios.cases import Tables

OWN = Path(__file__).parent.parent / "data" / "vocabulary.jsonl"


@cache
def own() -> tuple[Case, ...]:
    """The cases of this project, each about the word that its id begins with."""
    found = tuple(read_cases(str(OWN)))
    assert [str(item) for item in found if not isinstance(item, Case)] == []
    return tuple(item for item in found if isinstance(item, Case))


def named(case_id: str) -> Case:
    """The own case of that id."""
    return next(case for case in own() if case.case_id == case_id)


def nodes(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for operand in node.operands:
        yield from nodes(operand)


def words(case: Case) -> set[str]:
    """The words in a case's premises; a constant counts where it is written `lit` or stands alone."""
    return {node.word for premise in case.premises for node in nodes(premise.condition)}


# --- The own cases ----------------------------------------------------------------------------------------------------


def test_every_word_has_cases_of_its_own() -> None:
    """Three or more cases are about each word and use it; some hold and some do not."""
    about = Counter(case.case_id.partition("/")[0] for case in own())
    assert set(about) == {*WORDS, "outcome"}
    for word in WORDS:
        mine = [case for case in own() if case.case_id.startswith(f"{word}/")]
        assert len(mine) >= 3, word
        assert all(word in words(case) for case in mine), word
        assert {case.release for case in mine} == {True, False}, word


def test_every_method_that_is_exact_agrees_with_every_own_case() -> None:
    """FullScan and ATR give the expected outcome, and ATR's effect is committed exactly where it may be."""
    replay = Replay()
    for case in own():
        replay.add(case)
    assert [str(disagreement) for disagreement in replay.disagreements] == []
    assert replay.tallies["ATR"].agree == replay.tallies["FullScan"].agree == len(own())


def test_the_command_takes_a_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--system sqlite` replays the same lines through tables, with the same counts; another system is refused."""
    few = tmp_path / "few.jsonl"
    few.write_text("".join(OWN.read_text("utf-8").splitlines(keepends=True)[::40]), "utf-8")
    printed: list[str] = []
    for system in ("memory", "sqlite"):
        assert main([str(few), "--system", system]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert main([str(few), "--system", "papyrus"]) == 2


@pytest.mark.slow
def test_on_sqlite_the_gate_agrees_with_every_own_case() -> None:
    """With rows as documents in tables, read through `Sql`, each outcome and each effect is the expected one."""
    replay = Replay("sqlite")
    for case in own():
        replay.add(case)
    assert [str(disagreement) for disagreement in replay.disagreements] == []
    assert replay.tallies["ATR"].agree == len(own())


class PlainSet(PlainEvaluator):
    """`within` without counting."""

    def within(self, a: Sequence[Value], b: Sequence[Value]) -> bool:
        """Whether each element of one is somewhere in the other."""
        return all(super(PlainSet, self).within([item], b) for item in a)


class Unrounded(PlainEvaluator):
    """No two places."""

    def rounded(self, number: Decimal) -> Decimal:
        """The number as it is."""
        return number


class Untyped(PlainEvaluator):
    """`eq` and `ne` as Python compares."""

    def equal(self, a: Value, b: Value) -> bool:
        """Whether Python takes them for equal: True and 1, but not "1" and 1."""
        return a == b


class MissingIsFalse(PlainEvaluator):
    """What cannot be found is false; `present` and `absent` still tell."""

    def at(self, value: Value, path: Sequence[Node], it: Value) -> Value:
        """False where there is nothing."""
        try:
            return super().at(value, path, it)
        except UnverifiableError:
            return False

    def row(self, node: Node, it: Value) -> Value:
        """A row, mostly with the fields of all kinds."""
        """An empty row where there is none."""
        try:
            return super().row(node, it)
        except UnverifiableError:
            return {}

    def present(self, node: Node, it: Value) -> bool:
        """As it should be."""
        return PlainEvaluator(self._tables, self._arguments, self._actor).present(node, it)


class NotMissingIsTrue(PlainEvaluator):
    """`not` of what cannot be verified is true."""

    def negated(self, node: Node, it: Value) -> bool:
        """The contrary of whether it holds."""
        return not self.holds(node, it)


@pytest.mark.parametrize("broken", [PlainSet, Unrounded, Untyped, MissingIsFalse, NotMissingIsTrue])
def test_a_broken_evaluator_is_noticed(broken: type[PlainEvaluator]) -> None:
    """Each of five slips that are easily made releases what must not go out, in some own case of the kind."""
    wrong = [case for case in own() if full_scan(case, broken) is not case.outcome]
    assert len(wrong) >= 2
    if broken is not Unrounded:  # rounding moves a sum either way
        assert all(
            not case.release and full_scan(case, broken).permits for case in wrong if broken is not MissingIsFalse
        )
        assert any(not case.release and full_scan(case, broken).permits for case in wrong)


PAIRS = [
    ("and", "or"),
    ("present", "absent"),
    ("eq", "ne"),
    ("lt", "le"),
    ("gt", "ge"),
    ("in", "not_in"),
    ("add", "sub"),
]
SUBSTITUTES = {
    **dict(PAIRS),
    **{after: before for before, after in PAIRS},
    "within": "eq",
    "mul": "add",
    "max": "add",
    "every": "none",
    "none": "every",
}


@pytest.mark.parametrize("word", SUBSTITUTES)
def test_a_word_taken_for_another_is_noticed(word: str) -> None:
    """An evaluator that confuses a word with a similar one fails a case that is about the word."""

    class Confused(PlainEvaluator):
        def value(self, node: Node, it: Value) -> Value:
            taken = SUBSTITUTES[word] if node.word == word else node.word
            return super().value(Node(taken, node.operands, node.given), it)

    assert fails_in(word, Confused)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_is_not_known_is_noticed(word: str) -> None:
    """An evaluator to which a word is unverifiable, or true, fails a case that is about the word."""

    class Ignorant(PlainEvaluator):
        def value(self, node: Node, it: Value) -> Value:
            if node.word == word:
                raise UnverifiableError
            return super().value(node, it)

    class Credulous(PlainEvaluator):
        def holds(self, node: Node, it: Value = None) -> bool:
            return word in {inner.word for inner in nodes(node)} or super().holds(node, it)

    assert fails_in(word, Ignorant)
    assert fails_in(word, Credulous)


def fails_in(word: str, evaluator: type[PlainEvaluator]) -> list[str]:
    """The cases about the word in which the evaluator is wrong."""
    mine = [case for case in own() if case.case_id.startswith(f"{word}/")]
    return [case.case_id for case in mine if full_scan(case, evaluator) is not case.outcome]


# --- The methods ------------------------------------------------------------------------------------------------------


def test_rows_come_from_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every premise's evaluation replaced by true, the gate releases each unsafe case."""
    unsafe = [case for case in own() if not case.release]
    assert not any(atr(case).released for case in unsafe)
    monkeypatch.setattr("lastlook.contract.declared.compile_expression", lambda _expression, _slots: lambda _env: True)
    assert [case.case_id for case in unsafe if not atr(case).released] == []


def test_the_gate_commits_and_says_why() -> None:
    """A release is a committed effect; a stop names the premise's reason, or the evidence where none was given."""
    assert atr(named("eq/nine-and-nine-point-zero")) == Judged(Outcome.KEEP, released=True, why="every premise holds")
    assert atr(named("outcome/refresh")).outcome is Outcome.REFRESH
    assert atr(named("le/above")) == Judged(Outcome.BLOCK, released=False, why="above")


def test_a_write_that_is_not_committed_is_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that permits, with an effect that did not land, is told as such and agrees with nothing."""
    unknown = SimpleNamespace(outcome=Outcome.KEEP, committed=False, applied=Applied.UNKNOWN, findings=())
    monkeypatch.setattr("lastlook_scenarios.replay._release", lambda *_: unknown)
    case = named("eq/nine-and-nine-point-zero")
    assert atr(case) == Judged(Outcome.KEEP, released=False, why="the write is UNKNOWN")
    replay = Replay()
    replay.add(case)
    assert replay.tallies["ATR"].agree == 0
    assert [disagreement.method for disagreement in replay.disagreements] == ["ATR"]


def test_version_abort_sees_the_rows_that_were_read() -> None:
    """A version check replans when a row that was read is written, harmlessly or not, and never for an unread row."""
    for case_id, outcome in {
        "eq/nine-and-nine-point-zero": Outcome.REPLAN,
        "outcome/an-unrelated-row": Outcome.KEEP,
        "every/one-fails-in-a-row-nobody-read": Outcome.KEEP,
        "none/wrong-from-the-start": Outcome.KEEP,
        "field/the-row-is-deleted-and-comes-back": Outcome.REPLAN,
    }.items():
        assert METHODS["VersionAbort"](named(case_id)) == Judged(outcome, outcome.permits), case_id


def test_no_check_lets_everything_out() -> None:
    """NoCheck keeps whatever happened."""
    assert {METHODS["NoCheck"](case) for case in own()} == {Judged(Outcome.KEEP, released=True)}


# --- Two readings of the format ---------------------------------------------------------------------------------------

TEXTS = ("a", "b", "c")
FIELDS = ("flag", "number", "text", "list", "map")
SYSTEMS = ("bins", "stock")
NUMBERS: tuple[Any, ...] = (0, 1, 2, 3, Decimal("1.0"), Decimal("0.125"), Decimal("0.135"), Decimal("2.50"))
ATOMS: tuple[Any, ...] = (None, True, False, *NUMBERS, *TEXTS, "1", "")


class Draw:
    """Random rows and expressions, mostly of the types that belong where they stand."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, *choices: Any) -> Any:
        """One of these."""
        return self.random.choice(choices)

    def happens(self, share: float) -> bool:
        """Yes, in this share of all draws."""
        return self.random.random() < share

    def value(self, depth: int) -> Any:
        """Any value at all."""
        if depth and self.happens(0.3):
            if self.happens(0.5):
                return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
            return {self.some(*FIELDS, *TEXTS): self.value(depth - 1) for _ in range(self.random.randrange(4))}
        return self.some(*ATOMS)

    def proper(self, kind: str) -> Any:
        """A value of the kind."""
        size = range(self.random.randrange(4))
        match kind:
            case "flag":
                return self.happens(0.5)
            case "number":
                return self.some(*NUMBERS)
            case "text":
                return self.some(*TEXTS)
            case "list":
                element = self.some("number", "text", "map")
                return [self.proper(element) for _ in size]
            case _:
                return {self.some(*FIELDS, *TEXTS): self.value(1) for _ in size}

    def row(self) -> dict[str, Any]:
        """A row, mostly with the fields of all kinds."""
        kinds = [kind for kind in FIELDS if self.happens(0.85)]
        return {kind: self.proper(kind) if self.happens(0.85) else self.value(2) for kind in kinds}

    def tables(self) -> dict[str, dict[str, Any]]:
        """Two systems of up to three rows each."""
        return {system: {key: self.row() for key in TEXTS if self.happens(0.75)} for system in SYSTEMS}

    def derived(self, kind: str, depth: int, otherwise: Any, *, inside: bool) -> Any:
        """An expression of the kind that is no constant, or else the constant."""
        given = self.expression(kind, depth, inside=inside) if depth >= 0 else None
        return given if isinstance(given, list) and given[0] != "lit" else otherwise

    def steps(self, depth: int, *, inside: bool) -> list[Any]:
        """The rest of a path, now and then with a derived step."""
        steps: list[Any] = []
        while self.happens(0.2):
            step = self.some(*FIELDS, *TEXTS, 0, 1, 2)
            kind = self.some("text", "number")
            steps.append(self.derived(kind, depth - 1, step, inside=inside) if self.happens(0.25) else step)
        return steps

    def place(self, kind: str, depth: int, *, inside: bool) -> Any:
        """Evidence, an argument or the actor."""
        name = kind if self.happens(0.85) else self.some(*FIELDS)
        root = self.some("field", "field", "field", "arg", "actor", *(["it"] * 4 if inside else []))
        if root == "it" and self.happens(0.3):
            return ["it"]
        steps = [name, *self.steps(depth, inside=inside)]
        if root != "field":
            return [root, *steps]
        key = self.some(*TEXTS)
        if self.happens(0.3):
            key = self.derived("text", min(depth, 2) - 1, key, inside=inside)
        return ["field", self.some(*SYSTEMS), key, *steps]

    def constant(self, kind: str) -> Any:
        """A constant, mostly of the kind."""
        value = self.proper(kind) if self.happens(0.9) else self.value(2)
        return ["lit", value] if isinstance(value, (list, dict)) or self.happens(0.2) else value

    def expression(self, kind: str, depth: int, *, inside: bool = False) -> Any:
        """An expression, mostly of the kind."""
        if self.happens(0.06):
            kind = self.some(*FIELDS)
        if depth <= 0:
            return self.place(kind, 0, inside=inside) if self.happens(0.6) else self.constant(kind)
        if self.happens(0.25):
            return self.place(kind, depth, inside=inside)

        def operands(*kinds: str) -> list[Any]:
            return [self.expression(each, depth - 1, inside=inside) for each in kinds]

        def criterion() -> Any:
            return self.expression("flag", depth - 1, inside=True)

        some = self.random.randrange(1, 4)
        match kind:
            case "flag":
                like = self.some(*FIELDS, "number")
                return self.some(
                    [self.some("and", "or"), *operands(*["flag"] * some)],
                    ["not", *operands("flag")],
                    [self.some("present", "absent"), *operands(like)],
                    [self.some("present", "absent"), ["field", self.some(*SYSTEMS), self.some(*TEXTS)]],
                    [self.some("eq", "ne"), *operands(like, like)],
                    [self.some("lt", "le", "gt", "ge"), *operands(*["number" if self.happens(0.7) else "text"] * 2)],
                    [self.some("in", "not_in"), *operands(self.some("text", "number"), "list")],
                    ["within", *operands("list", "list")],
                    [self.some("every", "none"), *operands("list"), criterion()],
                )
            case "number":
                return self.some(
                    [self.some("add", "mul"), *operands(*["number"] * some)],
                    [self.some("sub", "max"), *operands("number", *["number"] * some)],
                    [self.some("sum", "len", "max"), *operands("list")],
                )
            case "list" if self.happens(0.8):
                return self.some(
                    ["pluck", *operands("list"), *self.random.choices((*FIELDS, 0), k=self.some(1, 1, 2))],
                    ["where", *operands("list"), criterion()],
                    ["rows", self.some(*SYSTEMS)],
                )
            case _:
                table = self.some("map", "list")
                kind, step = ("text", self.some(*TEXTS)) if table == "map" else ("number", self.some(0, 1, 2))
                return ["get", *operands(table), self.derived(kind, depth - 1, step, inside=inside)]

    def write(self, tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """One change of a row, made in the tables too."""
        system, key = self.some(*SYSTEMS), self.some(*TEXTS)
        row = tables[system].get(key)
        path: list[Any] = [] if row is None or self.happens(0.2) else [self.some(*FIELDS)]
        if path and row and isinstance(row.get(path[0]), list) and row[path[0]] and self.happens(0.5):
            path.append(self.random.randrange(len(row[path[0]])))
        after = {"$absent": True} if self.happens(0.3) else self.value(2) if path else self.row()
        _, now = cases.written(ABSENT if row is None else freeze(row), tuple(path), cases._absent(freeze(after)))
        if now is ABSENT:
            tables[system].pop(key, None)
        else:
            tables[system][key] = now
        return {"system": system, "key": key, "path": path, "after": after}


def judged(node: Node, tables: Tables, arguments: Value, actor: Mapping[str, Value]) -> Value:
    """What lastlook's expression says over these rows: true, false or why it is unverifiable."""
    slots = SlotTable()
    run = compile_expression(Conditions().condition(node), slots)
    env = Env(slots, {"document": arguments}, actor)
    for _ in range(4):
        try:
            value = run(env)
        except Unverifiable as unverifiable:
            return unverifiable.reason
        except Pending:
            for identity, address in env.missing.items():
                table = tables[address.kind]
                rows = tuple(table[key] for key in sorted(table))
                row = (
                    table.get(str(address.key[0]), ABSENT)
                    if address.key and isinstance(address.key[0], str)
                    else ABSENT
                )
                env.observations[identity] = Observation(row if address.key else rows, Token("counter", "test", 1))
            env.missing.clear()
        else:
            return value if isinstance(value, bool) else "no truth value"
    return "too many waves"


def plainly(node: Node, tables: Tables, arguments: Any, actor: Any) -> Value:
    """What the plain evaluator says."""
    try:
        value = PlainEvaluator(tables, arguments, actor).value(node, None)
    except UnverifiableError:
        return "unverifiable"
    return value if isinstance(value, bool) else "no truth value"


@pytest.mark.parametrize("block", range(8))
def test_both_readings_agree_on_random_expressions(block: int) -> None:
    """The plain evaluation and that of lastlook agree on random expressions: true, false, unverifiable."""
    met: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for seed in range(block * 1000, block * 1000 + 1000):
        draw = Draw(seed)
        tables: Any = freeze(draw.tables())
        arguments: Any = freeze(draw.row())
        actor: Any = freeze(draw.row())
        given = draw.expression("flag", 2 + seed % 2)
        node = cases._node(freeze(given), "expr")
        expected, got = plainly(node, tables, arguments, actor), judged(node, tables, arguments, actor)
        exactly = expected if isinstance(expected, bool) else "unverifiable"
        assert (got if isinstance(got, bool) else "unverifiable") == exactly, (seed, given, got)
        met[str(exactly)] += 1
        used.update({inner.word for inner in nodes(node)})
    assert min(met[outcome] for outcome in ("True", "False", "unverifiable")) > 50
    assert set(used) == set(WORDS)


@pytest.mark.parametrize("block", range(4))
def test_both_readings_agree_through_the_gate(block: int, tmp_path: Path) -> None:
    """FullScan and the whole gate give one outcome for random rows read and unread, changes and refresh prefixes."""
    file = tmp_path / "random.jsonl"
    lines = [random_case(seed) for seed in range(block * 100, block * 100 + 100)]
    file.write_text("\n".join(json.dumps(line, default=float) for line in lines), encoding="utf-8")
    met: Counter[Outcome] = Counter()
    for case in read_cases(str(file)):
        assert isinstance(case, Case)
        expected, got = full_scan(case), atr(case)
        assert (got.outcome, got.released) == (expected, expected.permits), (case.case_id, got)
        met[expected] += 1
    assert min(met[outcome] for outcome in Outcome) >= 3


def random_case(seed: int) -> dict[str, Any]:
    """A random case; what it expects is not known."""
    draw = Draw(seed)
    tables = draw.tables()
    unread = {system: {key: row for key, row in table.items() if draw.happens(0.3)} for system, table in tables.items()}
    read = {
        system: {key: row for key, row in table.items() if key not in unread[system]}
        for system, table in tables.items()
    }
    arguments, actor = draw.row(), draw.row()
    known: Any = (freeze(tables), freeze(arguments), freeze(actor))
    premises: list[dict[str, Any]] = []
    while len(premises) < 2:
        given = draw.expression("flag", 2)
        holds = plainly(cases._node(freeze(given), "expr"), *known) is True
        if holds or draw.happens(0.02):
            premises.append({"expr": given, "severity": draw.some("REPLAN", "BLOCK")})
    prefixes = [
        [draw.some(*SYSTEMS), draw.some(*TEXTS), draw.some(*FIELDS), 0][: draw.random.randrange(1, 5)] for _ in range(2)
    ]
    writes = [draw.write(tables) for _ in range(draw.random.randrange(4))]
    return {
        "case_id": str(seed),
        "operation": "act",
        "arguments": arguments,
        "actor": actor,
        "resources": read,
        "world": unread,
        "premises": premises,
        "refresh_fields": prefixes,
        "target": ["bins", "a"],
        "change": {"kind": "random", "writes": writes},
        "expected": {"outcome": "KEEP", "release": True},
    }


# --- The command ------------------------------------------------------------------------------------------------------


def line(case_id: str, **changes: Any) -> str:
    """A line of an own case under another id, with changes."""
    with OWN.open(encoding="utf-8") as file:
        first = json.loads(file.readline())
    return json.dumps({**first, "case_id": case_id, **changes})


def test_all_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The own cases end with 0, a row for every method and the counts as JSON."""
    counts = tmp_path / "counts.json"
    assert main([str(OWN), "--json", str(counts)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(counts.read_text(encoding="utf-8"))
    unsafe = sum(not case.release for case in own())
    safe = len(own()) - unsafe
    assert found["cases"] == len(own())
    assert list(found["methods"]) == sorted(METHODS)
    assert found["methods"]["ATR"] == {"agree": len(own()), "unsafe_released": 0, "unnecessary_aborts": 0}
    assert found["methods"]["FullScan"] == found["methods"]["ATR"]
    keeps = sum(case.outcome is Outcome.KEEP for case in own())
    assert found["methods"]["NoCheck"] == {"agree": keeps, "unsafe_released": unsafe, "unnecessary_aborts": 0}
    assert 0 < found["methods"]["VersionAbort"]["unsafe_released"] < unsafe
    assert (found["disagreements"], found["malformed"]) == ([], 0)
    heading, *rows = out.splitlines()
    assert heading.split() == ["method", "cases", "agree", "unsafe", "released", "unnecessary", "aborts"]
    assert [row.split()[0] for row in rows] == list(METHODS)
    assert rows[0].split() == ["NoCheck", f"{len(own())}", f"{keeps}", f"{unsafe}/{unsafe}", f"0/{safe}"]


def test_a_disagreement_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A case whose expectation is another ends with 1 and stands there with what was expected, what came, and why."""
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join([line("right"), line("wrong", expected={"outcome": "BLOCK", "release": False})]))
    assert main([str(file), "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["methods"]["ATR"] == {"agree": 1, "unsafe_released": 1, "unnecessary_aborts": 0}
    assert [(each["case_id"], each["method"]) for each in found["disagreements"]] == [
        ("wrong", "FullScan"),
        ("wrong", "ATR"),
    ]
    assert main([str(file)]) == 1
    assert "wrong: ATR: expected BLOCK, got KEEP: every premise holds" in capsys.readouterr().out.splitlines()


def test_malformed_lines_are_told_and_the_rest_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Malformed lines end with 2, each named on standard error, a disagreement beside them still listed."""
    file = tmp_path / "cases.jsonl"
    wrong = line("wrong", expected={"outcome": "BLOCK", "release": False})
    file.write_text("\n".join(["{", line("right"), line("odd", target=7), wrong]))
    assert main([str(file)]) == 2
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert first.startswith(f"{file}:1: malformed text at column 2")
    assert second == f"{file}:3: target: the number 7 where a list belongs"
    assert "wrong: ATR: expected BLOCK, got KEEP: every premise holds" in out
    assert re.search(r"^ATR +2 +1 ", out, re.MULTILINE)


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"\xff\xfe"])
def test_files_that_hold_no_case(tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is missing, empty, blank or binary ends with 2 and a line that names it, and no table of zeros."""
    file = tmp_path / "cases.jsonl"
    if content is not None:
        file.write_bytes(content)
    assert main([str(file)]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"{file}:")
    assert len(err.splitlines()) == 1
    assert out == ""


def test_a_wrong_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing and unknown arguments and a place that cannot be written end with 2, help with 0."""
    assert main([]) == 2
    assert main([str(OWN), "--jsn", "x"]) == 2
    assert main(["--help"]) == 0
    assert "CASES.jsonl" in capsys.readouterr().out
    file = tmp_path / "cases.jsonl"
    file.write_text(line("right"))
    assert main([str(file), "--json", str(tmp_path / "no" / "counts.json")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_what_lastlook_cannot_declare_is_a_disagreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A premise that follows more keys than lastlook does is listed with the reason, and its write is not released."""
    chain: Any = "x"
    for _ in range(5):
        chain = ["field", "stock", chain, "next"]
    file = tmp_path / "cases.jsonl"
    premises = [{"expr": ["absent", chain], "severity": "BLOCK"}]
    file.write_text(line("far", premises=premises))
    assert main([str(file)]) == 1
    assert "far: ATR: expected KEEP, got no answer: DeclarationError: " in capsys.readouterr().out


if "LASTLOOK_CASES" in os.environ:

    @pytest.mark.parametrize("system", ["memory", "sqlite"])
    def test_a_given_corpus_agrees(system: str, capsys: pytest.CaptureFixture[str]) -> None:
        """FullScan and ATR agree with every case of the file that LASTLOOK_CASES names, wherever its rows are."""
        assert main([os.environ["LASTLOOK_CASES"], "--system", system]) == 0
        assert "ATR" in capsys.readouterr().out
