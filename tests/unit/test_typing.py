"""The file that the type checkers read has to be whole: what they find in it is their own run's to say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import lastlook

FILE = Path(__file__).resolve().parents[1] / "typing" / "api.py"
PLANTED = re.compile(r"# (type|pyright): ignore\[[\w, -]+\]$")


def test_the_whole_face_is_used() -> None:
    """Every public name stands in the file beyond its import, so that a change of its type is seen."""
    names = [node.id for node in ast.walk(ast.parse(FILE.read_text())) if isinstance(node, ast.Name)]
    assert set(lastlook.__all__) - set(names) == set()


def test_every_mistake_is_planted_by_name() -> None:
    """In the functions of mistakes every statement is one, and says what the checkers call it."""
    text = FILE.read_text()
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("# --- Mistakes"))
    bare = [
        lines[node.lineno - 1]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Expr, ast.Assign)) and node.lineno > start
        if not isinstance(node.value, ast.Constant)  # the bodies of effects that are refused
        if not PLANTED.search(lines[node.lineno - 1]) and "assert_type(" not in lines[node.lineno - 1]
    ]
    assert bare == []
    assert len([line for line in lines[start:] if PLANTED.search(line)]) > 60
