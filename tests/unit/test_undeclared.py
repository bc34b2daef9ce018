"""No value that nobody declared public stands in any text: the paper's workloads, with a mark in every value."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from lastlook import EffectStopped, Gate, Intent, Memory, MemoryStore, Preview, Verdict, resource
from lastlook.cli.note import note
from lastlook.cli.story import read_story
from lastlook.testing import FakeClock, interpose
from lastlook_scenarios.contracts import declare
from lastlook_scenarios.workloads import WORKLOADS, rows

if TYPE_CHECKING:
    from lastlook_scenarios.workloads import Case, Workload

MARKED = 800_000_000
MARK = re.compile(r"mark of|8000000\d\d|on record \d")
CASES = [pytest.param(each, case, id=f"{each.name}-{case.name}") for each in WORKLOADS for case in each.cases]
COMPARED = {"state", "vendor_status"}
"""Fields that premises compare with a constant, which stands in texts because the declaration says it."""


def marked(value: Any, name: str = "") -> Any:
    """The value with a mark that nothing else has; what is true or false may be told."""
    if isinstance(value, bool) or name in COMPARED:
        return value
    return MARKED + value if isinstance(value, int) else f"mark of {value}"


class Bench:
    """One workload, marked, on a gate whose target is another engine than its store."""

    def __init__(self, workload: Workload, *, public: tuple[str, ...] = (), compared: bool = True) -> None:
        self.workload = workload
        keys = {key for table in rows(workload).values() for key in table}
        self.rows = {
            kind: {
                key: {name: marked(value, name if compared else "") for name, value in row.items()}
                for key, row in table.items()
            }
            for kind, table in rows(workload).items()
        }
        self.arguments = {name: value if value in keys else marked(value) for name, value in workload.arguments.items()}
        self.world = Memory(**self.rows)
        self.world.options(separate=True, public=public)
        self.store = MemoryStore()
        self.clock = FakeClock()
        self.gate = Gate(self.world, store=self.store, clock=self.clock)
        self.effect = declare(self.gate, workload).options(actor={"role": "mark of a role"})
        self.told: list[str] = []

    def tell(self, seen: Any) -> None:
        """Take in everything that there is to read of a verdict, a preview or a stop."""
        if isinstance(seen, EffectStopped):
            self.told += [str(seen), repr(seen), seen.model_text]
            seen = seen.verdict
        texts = (*seen.changed, *seen.checked, *seen.bindings)
        self.told += [seen.explain(), repr(seen), *texts, *map(repr, seen.findings)]
        if isinstance(seen, Verdict):
            self.told.append(seen.model_text())

    def journal(self, intent: Intent[Any]) -> None:
        """Take in the note, the story as JSON, and the representations of what is stored."""
        stored, entries = self.store.load(intent.id), self.store.journal(intent.id)
        story = read_story(entries)
        self.told += [
            note(story),
            json.dumps(story.as_json(reveal=False)),
            repr(stored),
            repr(stored and stored.record),
        ]
        self.told += map(repr, entries)

    def propose(self) -> Intent[str]:
        """Read everything on record, decide, and propose."""
        transaction = self.gate.transaction()
        reads = [transaction.read(resource(kind, key)) for kind, table in self.rows.items() for key in table]
        transaction.decide(f"{self.workload.name} is due", rests_on=reads[:3])
        return transaction.propose(self.effect, **self.arguments)

    def change(self, case: Case) -> None:
        """Another actor's write, marked."""
        change = case.change
        self.world.change(change.kind, change.key, **{change.field: marked(change.value)})


@pytest.mark.parametrize(("workload", "case"), CASES)
@pytest.mark.parametrize("compared", [False, True])
def test_no_undeclared_value_stands_in_any_text(workload: Workload, case: Case, *, compared: bool) -> None:
    """Previews, verdicts, stops, notes and their JSON tell what happened in every case, and no value that was found."""
    bench = Bench(workload, compared=compared)
    intent = bench.propose()
    bench.change(case)
    bench.tell(bench.gate.preview(intent))
    bench.tell(bench.gate(intent))
    bench.journal(intent)
    bench.tell(bench.gate(intent))  # read back
    for given in (bench.effect.propose, bench.effect):
        try:
            found: Any = given(**bench.arguments)
        except EffectStopped as stop:
            bench.tell(stop)
        else:
            assert isinstance(found, (str, Intent))
    second = bench.propose()
    with interpose(bench.gate, lambda: bench.change(case)), bench.world.unreadable("policies"):
        bench.tell(bench.gate(second))
    with bench.world.lock(*workload.target):
        bench.tell(bench.gate(second))
    for intent_id in bench.store.intents():
        bench.journal(bench.gate.intent(intent_id))
    text = "\n".join(bench.told)
    assert not MARK.search(text), MARK.search(text)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_marks_are_where_they_would_be_seen(workload: Workload) -> None:
    """With every field public, or everything revealed, the same texts do show marks: the search can fail."""
    bench = Bench(workload)
    public = tuple(f"{kind}.{name}" for kind, table in bench.rows.items() for row in table.values() for name in row)
    open_bench = Bench(workload, public=public, compared=False)
    intent = open_bench.propose()
    for kind, key in (workload.target, workload.policy):
        found = open_bench.world.row(kind, key) or {}
        open_bench.world.change(kind, key, **{name: 1 for name, value in found.items() if type(value) is int})
    preview = open_bench.gate.preview(intent)
    assert isinstance(preview, Preview)
    assert MARK.search(preview.explain(reveal=True))
    assert MARK.search(note(read_story(open_bench.store.journal(intent.id)), reveal=True))
