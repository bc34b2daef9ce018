"""Reading the neutral case format: what a line means, and what is wrong with one that means nothing."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastlook.canonical import ABSENT, MAX_BYTES, freeze
from lastlook.errors import Outcome
from lastlook_scenarios.cases import WORDS, Case, Node, Problem, Write, read_cases, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOAN: dict[str, Any] = {
    "case_id": "loan/1",
    "source": "library",
    "task_id": "1",
    "operation": "renew_loan",
    "arguments": {"weeks": 2},
    "actor": {"reader_id": "reader-7"},
    "resources": {"loans": {"loan-1": {"reader": "reader-7", "fine": 2.50, "claims": ["c-1", {"paid": True}]}}},
    "world": {"loans": {"loan-2": {"reader": "reader-8"}}},
    "premises": [
        {
            "expr": ["eq", ["field", "loans", "loan-1", "reader"], ["actor", "reader_id"]],
            "severity": "BLOCK",
            "why": "own",
        }
    ],
    "refresh_fields": [["loans", "loan-1", "note"]],
    "target": ["loans", "loan-1"],
    "change": {
        "kind": "invalidating",
        "label": "fine",
        "by_tool": [],
        "writes": [{"system": "loans", "key": "loan-1", "path": ["fine"], "before": 2.5, "after": 3}],
    },
    "expected": {"outcome": "KEEP", "release": True},
    "oracle": {"errors": False},
}


def read(path: Path, *lines: object, raw: bytes = b"") -> list[Case | Problem]:
    """What stands in a file of these lines."""
    path.write_bytes(raw or "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode())
    return list(read_cases(str(path)))


def changed(edit: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The well-formed case after an edit."""
    case = copy.deepcopy(LOAN)
    edit(case)
    return case


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test's cases stand."""
    return tmp_path / "cases.jsonl"


def test_a_line_is_a_case(file: Path) -> None:
    """Every field arrives, numbers by their text, and a constant becomes a `lit`."""
    (case,) = read(file, LOAN)
    assert isinstance(case, Case)
    assert (case.case_id, case.operation, case.target) == ("loan/1", "renew_loan", ("loans", "loan-1"))
    assert (dict(case.arguments), dict(case.actor)) == ({"weeks": 2}, {"reader_id": "reader-7"})
    assert case.resources["loans"]["loan-1"]["fine"] == Decimal("2.5")
    assert case.world["loans"]["loan-2"] == {"reader": "reader-8"}
    assert case.refresh_fields == (("loans", "loan-1", "note"),)
    assert case.writes == (Write("loans", "loan-1", ("fine",), 3),)
    assert (case.outcome, case.release) == (Outcome.KEEP, True)
    (premise,) = case.premises
    assert (premise.severity, premise.why) == (Outcome.BLOCK, "own")
    key, name = Node("lit", given="loan-1"), Node("lit", given="reader")
    actor = Node("actor", (Node("lit", given="reader_id"),))
    assert premise.condition == Node("eq", (Node("field", (key, name), "loans"), actor))


def test_what_a_case_may_leave_out(file: Path) -> None:
    """Provenance, world, refresh fields, reasons and what stood there before are not needed."""

    def bare(case: dict[str, Any]) -> None:
        for name in ("source", "task_id", "world", "refresh_fields", "oracle"):
            del case[name]
        del case["premises"][0]["why"], case["change"]["label"], case["change"]["by_tool"]
        del case["change"]["writes"][0]["before"]

    (case,) = read(file, changed(bare))
    assert isinstance(case, Case)
    assert (case.world, case.refresh_fields, case.premises[0].why) == ({}, (), "")


def test_before_and_after(file: Path) -> None:
    """Before the change there are the rows read and those of the world; after it, the writes were made in order."""
    writes = [
        {"system": "loans", "key": "loan-1", "path": ["claims", 1, "paid"], "before": True, "after": False},
        {"system": "loans", "key": "loan-1", "path": ["claims", 0], "before": "c-1", "after": {"$absent": True}},
        {"system": "loans", "key": "loan-1", "path": ["claims", 1], "before": {"$absent": True}, "after": "c-3"},
        {"system": "loans", "key": "loan-1", "path": ["fine"], "before": 2.50, "after": {"$absent": True}},
        {"system": "loans", "key": "loan-1", "path": ["note"], "before": {"$absent": True}, "after": None},
        {"system": "loans", "key": "loan-2", "path": [], "before": {"reader": "reader-8"}, "after": {"$absent": True}},
        {"system": "holds", "key": "hold-1", "path": [], "before": {"$absent": True}, "after": {"for": "loan-1"}},
    ]
    (case,) = read(file, changed(lambda case: case["change"].update(writes=writes)))
    assert isinstance(case, Case)
    assert case.before() == {"loans": {**case.resources["loans"], **case.world["loans"]}}
    assert case.after() == {
        "loans": {"loan-1": {"reader": "reader-7", "claims": ({"paid": False}, "c-3"), "note": None}},
        "holds": {"hold-1": {"for": "loan-1"}},
    }
    assert case.resources["loans"]["loan-1"]["fine"] == Decimal("2.5"), "what was read stays as it was"


MALFORMED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no field": (lambda c: c.pop("expected"), "no field 'expected'"),
    "unknown field": (lambda c: c.update(premisses=[]), "unknown field 'premisses': did you mean 'premises'?"),
    "empty id": (lambda c: c.update(case_id=""), "case_id: empty text"),
    "id of two lines": (lambda c: c.update(case_id="a\nb"), "case_id: 'a\\nb' does not print as one line"),
    "id is a number": (lambda c: c.update(case_id=7), "case_id: the number 7 where text belongs"),
    "task is a number": (lambda c: c.update(task_id=7), "task_id: the number 7 where text belongs"),
    "operation is null": (lambda c: c.update(operation=None), "operation: null where text belongs"),
    "arguments are a list": (lambda c: c.update(arguments=[]), "arguments: a list where a map belongs"),
    "actor is text": (lambda c: c.update(actor="reader-7"), "actor: text where a map belongs"),
    "oracle is a list": (lambda c: c.update(oracle=[]), "oracle: a list where a map belongs"),
    "rows are a list": (lambda c: c["resources"].update(loans=[]), "resources.loans: a list where a map belongs"),
    "a row is text": (
        lambda c: c["resources"]["loans"].update({"loan-1": "x"}),
        "resources.loans['loan-1']: text where a map belongs",
    ),
    "a key that names nothing": (lambda c: c["resources"]["loans"].update({"a\u200bb": {}}), "zero-width character"),
    "read and unread": (
        lambda c: c["world"]["loans"].update({"loan-1": {}}),
        "world.loans['loan-1']: a row that was read stands under resources only",
    ),
    "premises are a map": (lambda c: c.update(premises={}), "premises: a map where a list belongs"),
    "no severity": (lambda c: c["premises"][0].pop("severity"), "premises[0]: no field 'severity'"),
    "unknown severity": (
        lambda c: c["premises"][0].update(severity="BLOK"),
        "premises[0].severity: unknown word 'BLOK': did you mean 'BLOCK'?; known are REPLAN, BLOCK",
    ),
    "keep as severity": (lambda c: c["premises"][0].update(severity="KEEP"), "unknown word 'KEEP'"),
    "reason is null": (lambda c: c["premises"][0].update(why=None), "premises[0].why: null where text belongs"),
    "prefix is text": (lambda c: c.update(refresh_fields=["loans"]), "refresh_fields[0]: text where a list belongs"),
    "empty prefix": (lambda c: c.update(refresh_fields=[[]]), "refresh_fields[0]: an empty list"),
    "prefix by number": (lambda c: c.update(refresh_fields=[["loans", 1]]), "refresh_fields[0][1]: the number 1"),
    "prefix by a negative index": (
        lambda c: c.update(refresh_fields=[["loans", "loan-1", "claims", -1]]),
        "refresh_fields[0][3]: the number -1 where a name or an index from 0 on belongs",
    ),
    "target of three": (lambda c: c["target"].append("x"), "target: 3 parts where a system and a key belong"),
    "no kind": (lambda c: c["change"].pop("kind"), "change: no field 'kind'"),
    "none that writes": (lambda c: c["change"].update(kind="none"), "change.writes: kind 'none' says that nothing"),
    "edit is a list": (lambda c: c["change"].update(by_edit=[]), "change.by_edit: a list where text belongs"),
    "unknown outcome": (lambda c: c.update(expected={"outcome": "STOP", "release": False}), "unknown word 'STOP'"),
    "release is text": (
        lambda c: c["expected"].update(release="yes"),
        "expected.release: text where true or false belongs",
    ),
    "release of a stop": (
        lambda c: c["expected"].update(outcome="BLOCK"),
        "expected: BLOCK with release true: KEEP and REFRESH alone release",
    ),
    "write without after": (lambda c: c["change"]["writes"][0].pop("after"), "change.writes[0]: no field 'after'"),
    "write of another past": (
        lambda c: c["change"]["writes"][0].update(before=2.51),
        "change.writes[0].before: not what the row holds before this write",
    ),
    "write of true for one": (
        lambda c: c["change"]["writes"][0].update(path=["claims", 1, "paid"], before=1),
        "change.writes[0].before: not what the row holds before this write",
    ),
    "write into no row": (
        lambda c: c["change"]["writes"][0].update(key="loan-9", before={"$absent": True}),
        "change.writes[0]: a write into what is not there",
    ),
    "write beyond the end": (
        lambda c: c["change"]["writes"][0].update(path=["claims", 3], before={"$absent": True}),
        "change.writes[0]: a write into a list that has no place 3",
    ),
    "write below text": (
        lambda c: c["change"]["writes"][0].update(path=["reader", "x"], before={"$absent": True}),
        "change.writes[0]: a write into text that has no place 'x'",
    ),
    "row replaced by a list": (
        lambda c: c["change"]["writes"][0].update(path=[], before=LOAN["resources"]["loans"]["loan-1"], after=[]),
        "change.writes[0].after: a list where a whole row or its absence belongs",
    ),
    "write by true": (
        lambda c: c["change"]["writes"][0].update(path=[True]),
        "change.writes[0].path[0]: true or false where a name or an index from 0 on belongs",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_wrong_with_a_case(file: Path, name: str) -> None:
    """A line that breaks the format is told by file, line and place, and the others are read."""
    edit, what = MALFORMED[name]
    other = changed(lambda case: case.update(case_id="loan/2"))
    first, problem, last = read(file, other, changed(edit), changed(lambda case: case.update(case_id="loan/3")))
    assert isinstance(first, Case)
    assert isinstance(last, Case)
    assert isinstance(problem, Problem)
    assert str(problem).startswith(f"{file}:2: ")
    assert what in problem.what


EXPRESSIONS: dict[str, tuple[object, str]] = {
    "a map": ({"eq": 1}, "expr: a map where an expression belongs: write a constant map as ['lit', ...]"),
    "an empty list": ([], "expr: a list that begins with no word"),
    "a list of numbers": (["in", 1, [1, 2]], "expr[2]: a list that begins with no word"),
    "an unknown word": (["eqq", 1, 1], "expr[0]: unknown word 'eqq': did you mean 'eq'?"),
    "an unknown word below": (["not", ["xor", True, True]], "expr[1][0]: unknown word 'xor'"),
    "it outside": (["eq", ["it", "x"], 1], "expr[1]: 'it' outside of 'where', 'every' and 'none'"),
    "it in the list itself": (["every", ["it"], True], "expr[1]: 'it' outside"),
    "a system by number": (["present", ["field", 1, "k", "x"]], "expr[1][1]: the number 1 where text belongs"),
    "a system by expression": (["present", ["rows", ["arg", "s"]]], "expr[1][1]: a list where text belongs"),
    "a key by number": (["present", ["field", "loans", 1, "x"]], "expr[1][2]: the number 1 where text belongs"),
    "an empty key": (["present", ["field", "loans", "", "x"]], "expr[1][2]: empty text"),
    "a field by index": (["present", ["field", "loans", "k", 0]], "expr[1][3]: the number 0 where text belongs"),
    "a field by expression": (
        ["present", ["field", "loans", "k", ["arg", "x"]]],
        "expr[1][3]: an expression where 'field' takes a name that is known beforehand",
    ),
    "pluck by expression": (["present", ["pluck", ["arg", "l"], ["arg", "x"]]], "where 'pluck' takes a name"),
    "a whole row": (["eq", ["field", "loans", "k"], 1], "expr[1]: a row as a whole stands only under 'present'"),
    "a negative index": (["present", ["arg", "l", -1]], "expr[1][2]: the number -1"),
    "a fractional index": (["present", ["arg", "l", 1.0]], "expr[1][2]: the number 1.0"),
    "true as an index": (["present", ["get", ["arg", "l"], True]], "expr[1][2]: true or false where a name"),
    "null as a step": (["present", ["get", ["arg", "l"], None]], "expr[1][2]: null where a name"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_is_wrong_with_an_expression(file: Path, name: str) -> None:
    """A malformed expression is told by its place in the case."""
    expression, what = EXPRESSIONS[name]
    (problem,) = read(file, changed(lambda case: case["premises"][0].update(expr=expression)))
    assert isinstance(problem, Problem)
    assert problem.what.startswith("premises[0].expr")
    assert what in problem.what


@pytest.mark.parametrize(
    ("word", "fewest", "most"),
    [
        *((word, 1, None) for word in ("and", "or", "add", "mul", "max")),
        *((word, 1, 1) for word in ("not", "present", "absent", "sum", "len", "lit", "rows")),
        *(
            (word, 2, 2)
            for word in ("eq", "ne", "lt", "le", "gt", "ge", "in", "not_in", "within", "where", "every", "none")
        ),
        *((word, 2, None) for word in ("sub", "pluck", "get", "field")),
        *((word, 0, None) for word in ("arg", "actor", "it")),
    ],
)
def test_how_many_operands_a_word_takes(file: Path, word: str, fewest: int, most: int | None) -> None:
    """One operand too few or too many is refused, and nothing in between."""

    def problem(operands: int) -> str:
        expression = ["none", ["arg"], ["present", [word, *["x"] * operands]]]
        (found,) = read(file, changed(lambda case: case["premises"][0].update(expr=expression)))
        return found.what if isinstance(found, Problem) else ""

    for operands in range(5):
        refused = operands < fewest or (most is not None and operands > most)
        assert (f"'{word}' takes" in problem(operands)) is refused, (word, operands)
    assert word in WORDS


LINES: dict[str, tuple[bytes, str]] = {
    "no json": (b"case", "malformed text at column 1 in a json document"),
    "cut short": (b'{"case_id": ', "malformed text at column 12"),
    "not utf-8": (b'{"case_id": "\xff"}', "invalid utf-8"),
    "utf-16": ('{"case_id": "x"}'.encode("utf-16"), "invalid utf-8"),
    "twice the same field": (b'{"case_id": "x", "case_id": "y"}', "a duplicate key"),
    "not a number": (b'{"case_id": NaN}', "'NaN', which is no number"),
    "too deep": (b"[" * 40 + b"]" * 40, "more than 32 levels"),
    "a number too long": (b'{"case_id": %s}' % (b"9" * 50), "out of bounds"),
    "no object": (b"[1, 2]", "a list where a map belongs"),
    "too long": (b'{"case_id": "%s"}' % (b"x" * (3 * MAX_BYTES)), f"more than {MAX_BYTES} bytes in one line"),
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_no_json(file: Path, name: str) -> None:
    """A line that cannot be read is told, and the line after it has its own number."""
    line, what = LINES[name]
    problem, case, second = read(file, raw=b"\n".join([line, json.dumps(LOAN).encode(), b"{}"]))
    assert isinstance(problem, Problem)
    assert isinstance(second, Problem)
    assert (problem.line, second.line) == (1, 3)
    assert what in problem.what
    assert isinstance(case, Case)


def test_marks_blank_lines_and_line_ends_do_not_matter(file: Path) -> None:
    """A byte order mark, CRLF and blank lines are no part of a case; the numbers count every line."""
    lines = [b"\xef\xbb\xbf" + json.dumps(LOAN).encode(), b"", b"  \t", b"{}", b""]
    case, problem = read(file, raw=b"\r\n".join(lines))
    assert isinstance(case, Case)
    assert isinstance(problem, Problem)
    assert str(problem).startswith(f"{file}:4: ")


def test_one_id_is_one_case(file: Path) -> None:
    """A second case of the same id is refused with the line of the first."""
    first, problem = read(file, LOAN, LOAN)
    assert isinstance(first, Case)
    assert isinstance(problem, Problem)
    assert str(problem) == f"{file}:2: case_id: 'loan/1' is the case of line 1 too"


def test_files_without_cases(tmp_path: Path, file: Path) -> None:
    """A missing, an empty and a blank file and a directory are told, not raised."""
    assert [str(found) for found in read_cases(str(file))] == [f"{file}: no such file or directory"]
    assert [str(found) for found in read_cases(str(tmp_path))] == [f"{tmp_path}: is a directory"]
    assert [str(found) for found in read(file)] == [f"{file}: no cases in it"]
    assert [str(found) for found in read(file, raw=b"\r\n \n")] == [f"{file}: no cases in it"]


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The document with the value at that place."""
    if not place:
        return value
    result = copy.copy(document)
    result[place[0]] = replaced(document[place[0]], place[1:], value)
    return result


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path that leads to a value of the document, itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, item in inner for place in places(item, (*path, name)))]


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([1.5, "", "x", "\ud7ff", "loans", "loan-1", "eq", "field", "lit", "it", "pluck", "$absent"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "$absent", "expr"]), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(place=st.sampled_from(places(LOAN)), value=JSON)
def test_any_value_anywhere_is_a_case_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], value: Any
) -> None:
    """Whatever stands at any place of a case, reading ends in a case or in a problem of that line."""
    file = tmp_path_factory.mktemp("any") / "cases.jsonl"
    (found,) = read(file, json.dumps(replaced(LOAN, place, value)))
    assert isinstance(found, Case) or found.line == 1


@given(value=JSON, path=st.lists(st.sampled_from(["x", "expr", 0, 1, 2]), max_size=3), after=JSON)
def test_what_is_written_is_there(value: Any, path: list[str | int], after: Any) -> None:
    """After a write its value stands at its path, the rest is as before, and undoing it gives the first value back."""
    frozen, place = freeze(value), tuple(path)
    try:
        before, now = written(frozen, place, freeze(after))
    except LookupError:
        return
    assert written(now, place, ABSENT)[0] == freeze(after)
    assert written(now, place, before)[1] == frozen
