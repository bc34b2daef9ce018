"""Every example of the README and of the documentation runs and prints what its page says; none is passed over.

A page is one program: its `python` blocks in order, in one namespace, each line at its line of the page, run in an
empty folder with warnings as errors. A block that begins with a comment such as `# tool.py` is that file there, too.
What a block prints stands in the `output` block that follows it, where `...` stands for anything; a block without one
prints nothing, so that an example of an error catches it and shows it. Then the `console` blocks' commands run there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lastlook_scenarios.cases import WORDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RUN, PRINTED, TYPED, INSTALL, PLAIN = "python", "output", "console", "sh", "text"
KINDS = {RUN, PRINTED, TYPED, INSTALL, PLAIN}
INSTALLS = {
    "pip install -e .",
    'pip install -e ".[eval]" && lastlook evaluate',
    'pip install -e ".[dev]" && pytest',
}
"""What `sh` blocks may show: it needs a package index and minutes, and CI does it; every other command runs here."""

FENCE = re.compile(r"^(`{3,}|~{3,})\s*(.*?)\s*$")
FILE = re.compile(r"^# (\w+\.py)$")
MARK = "\x1e"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what it is, the line of its opening fence (from 1), and its lines."""

    kind: str
    line: int
    lines: list[str]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page.

    Raises:
        ValueError: a fence that is indented, of an unknown kind, or not closed; output of nothing.
    """
    found: list[Block] = []
    fence, last = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        opened = FENCE.match(line)
        if fence:
            if line.rstrip() == fence:
                fence = ""
            else:
                found[-1].lines.append(line)
        elif opened:
            fence, kind = opened.groups()
            if kind not in KINDS:
                raise ValueError(f"line {number}: a block of kind {kind!r}, which nothing checks")
            if kind == PRINTED and not (found and found[-1].kind == RUN):
                raise ValueError(f"line {number}: output that no python block before it prints")
            found.append(Block(kind, number, []))
            last = number
        elif line.lstrip().startswith(("```", "~~~")):
            raise ValueError(f"line {number}: an indented fence, which nothing checks")
    if fence:
        raise ValueError(f"line {last}: a fence that is not closed")
    return found


def program(found: list[Block], prelude: str = "") -> str:
    """The page's python blocks as one program, each line where it stands on the page, with a mark before each block."""
    lines: list[str] = []
    for block in found:
        if block.kind == RUN:
            lines += [""] * (block.line - 1 - len(lines))
            lines += [f"print({MARK!r}, flush=True)", *block.lines]
    if lines and prelude:
        lines[0] = prelude
    return "\n".join(lines) + "\n"


def expectations(found: list[Block]) -> list[tuple[int, str]]:
    """For each python block its line and what it prints."""
    following = [*found[1:], Block(PLAIN, 0, [])]
    return [
        (block.line, "\n".join(after.lines) if after.kind == PRINTED else "")
        for block, after in zip(found, following, strict=False)
        if block.kind == RUN
    ]


def commands(block: Block) -> list[tuple[str, int, str]]:
    """The commands of a console block, each with its exit status and what it prints; `$ echo $?` shows the status."""
    found: list[tuple[str, int, str]] = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append((line[2:], 0, ""))
        else:
            command, status, printed = found[-1]
            found[-1] = (command, status, f"{printed}\n{line}" if printed else line)
    for index in reversed(range(len(found))):
        command, _, printed = found[index]
        if command == "echo $?":
            before = found[index - 1]
            found[index - 1 : index + 1] = [(before[0], int(printed), before[2])]
    return found


def matches(expected: str, got: str) -> bool:
    """Whether the text is the expected one, in which `...` stands for anything; ends of lines do not count."""
    pattern = ".*".join(map(re.escape, "\n".join(map(str.rstrip, expected.strip().splitlines())).split("...")))
    return re.fullmatch(pattern, "\n".join(map(str.rstrip, got.strip().splitlines())), re.DOTALL) is not None


def name_of(page: Path) -> str:
    """The page as the repository names it."""
    return page.relative_to(ROOT).as_posix()


def run(arguments: list[str], folder: Path, *, errors: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder, in this environment, in plain text."""
    settings = {"COLUMNS": "200", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
    return subprocess.run(
        arguments,
        cwd=folder,
        env={**os.environ, **settings},
        check=False,
        stdout=subprocess.PIPE,
        stderr=errors,
        encoding="utf-8",
        timeout=120,
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_of_the_page_run(page: Path, tmp_path: Path) -> None:
    """Every block of the page runs and prints exactly what the page says, and every command ends as it says."""
    found = blocks(page.read_text("utf-8"))
    for block in found:
        file = FILE.match(block.lines[0]) if block.kind == RUN and block.lines else None
        if file:
            (tmp_path / file[1]).write_text("\n".join(block.lines) + "\n", encoding="utf-8")
    # A docstring's example takes the public names as imported.
    prelude = "from lastlook import *" if page.parent.name == "reference" else ""
    (tmp_path / "page_of_examples.py").write_text(program(found, prelude), encoding="utf-8")
    ran = run([sys.executable, "-W", "error", "page_of_examples.py"], tmp_path)
    assert ran.returncode == 0, f"{name_of(page)}, lines as on the page:\n{ran.stderr}"
    printed = ran.stdout.split(f"{MARK}\n")[1:]
    expected = expectations(found)
    assert len(printed) == len(expected)
    for (line, wanted), got in zip(expected, printed, strict=True):
        assert matches(wanted, got), f"{name_of(page)}:{line} prints\n{got}\ninstead of\n{wanted}"
    for block in found:
        if block.kind == INSTALL:
            assert set(block.lines) <= INSTALLS, f"{name_of(page)}:{block.line}: nothing runs this"
        for command, status, wanted in commands(block) if block.kind == TYPED else []:
            program_name, *arguments = command.split()
            assert program_name == "lastlook", f"{name_of(page)}:{block.line}: nothing runs {command!r}"
            lastlook = str(Path(sys.executable).with_name("lastlook"))
            done = run([lastlook, *arguments], tmp_path, errors=subprocess.STDOUT)  # as they come on a terminal
            where = f"{name_of(page)}:{block.line}: {command}"
            assert done.returncode == status, f"{where} ends with {done.returncode}:\n{done.stdout}"
            assert matches(wanted, done.stdout), f"{where} prints\n{done.stdout}\ninstead of\n{wanted}"


def test_there_are_examples_where_they_belong() -> None:
    """The README, the quickstart and every how-to page have examples that run."""
    needing = [page for page in PAGES if page.name in {"README.md", "quickstart.md"} or page.parent.name == "how-to"]
    assert len(needing) > 10
    assert [name_of(page) for page in needing if not any(b.kind == RUN for b in blocks(page.read_text("utf-8")))] == []


def test_replay_page_explains_the_whole_vocabulary() -> None:
    """Every word of the case format's expressions stands, as one is written, on the page about them."""
    text = (ROOT / "docs" / "how-to" / "replay.md").read_text("utf-8")
    assert [word for word in WORDS if f'["{word}",' not in text] == []


def test_readme_shows_the_commands_that_set_everything_up() -> None:
    """The README has both commands that take a fresh clone to the evaluation and to the tests, verbatim."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert 'pip install -e ".[eval]" && lastlook evaluate' in text
    assert 'pip install -e ".[dev]" && pytest' in text


def test_reference_is_up_to_date() -> None:
    """The committed reference is what the signatures and docstrings of the public names give."""
    done = run([sys.executable, "docs/build_reference.py", "--check"], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# --- Links ------------------------------------------------------------------------------------------------------------

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def prose(text: str) -> str:
    """The page without its fenced blocks and code spans."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines():
        opened = FENCE.match(line)
        if fence:
            fence = "" if line.rstrip() == fence else fence
        elif opened:
            fence = opened[1]
        else:
            kept.append(re.sub(r"`[^`]*`", "", line))
    return "\n".join(kept)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as they are made on the web."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        earlier = found.count(slug)
        found.append(slug)
        if earlier:
            found.append(f"{slug}-{earlier}")
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_the_page_lead_somewhere(page: Path) -> None:
    """Every relative link of the page names a file that is there, and a heading that it has."""
    broken: list[str] = []
    for link in LINK.findall(prose(page.read_text("utf-8"))):
        if link.startswith(("https://", "http://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.is_file() or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            broken.append(link)
    assert broken == []


def test_every_page_can_be_reached() -> None:
    """From the README, links lead to every page of the documentation."""
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            links = LINK.findall(prose(page.read_text("utf-8")))
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link]
    assert [name_of(page) for page in PAGES if page not in reached] == []


# --- The checks themselves --------------------------------------------------------------------------------------------

SAMPLE = """# Title

```python
# tool.py
a = 1
```

```python
print(a, "x" * 3)
```

```output
1 ...
```

```console
$ lastlook show tool
lastlook: no gate
$ echo $?
2
```
"""


def test_program_of_a_sample() -> None:
    """A page's program has each line of code where the page has it, and marks before each block."""
    lines = program(blocks(SAMPLE)).splitlines()
    page = SAMPLE.splitlines()
    assert [number for number, line in enumerate(lines) if line == f"print({MARK!r}, flush=True)"] == [2, 7]
    assert all(lines[number] == page[number] for number in (3, 4, 8))
    assert expectations(blocks(SAMPLE)) == [(3, ""), (8, "1 ...")]


def test_commands_of_a_sample() -> None:
    """A console block gives each command with the text and the exit status that it shows."""
    (block,) = [block for block in blocks(SAMPLE) if block.kind == TYPED]
    assert commands(block) == [("lastlook show tool", 2, "lastlook: no gate")]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("```\na\n```", "kind ''"),
        ("```python no-run\na\n```", "kind 'python no-run'"),
        ("- a\n  ```python\n  a\n  ```", "indented"),
        ("```python\na", "not closed"),
        ("```output\na\n```", "output that no python block"),
    ],
)
def test_no_block_is_passed_over(text: str, what: str) -> None:
    """A block that nothing would check is an error, whatever it calls itself."""
    with pytest.raises(ValueError, match=what):
        blocks(text)


def test_matching_of_a_sample() -> None:
    """Dots stand for anything, everything else for itself."""
    assert matches("a ... c\nd", "a b\nb c\nd\n")
    assert matches("a", "a  \n")
    assert not matches("a", "a b")
    assert not matches("a (b)", "a b")
    assert not matches("", "a")
