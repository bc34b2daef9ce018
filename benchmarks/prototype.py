"""The paper's prototype, read plainly: the yardstick that lastlook is compared with.

"From Version Conflicts to Decision Conflicts" (ATR) describes a compact runtime core in
Python.  This file rebuilds that core from the text alone, with the standard library and
without a single optimisation, so that a speed or selectivity claim about lastlook can be
stated as a ratio to something anyone can run.  It shares no code with lastlook.

Nothing here is meant for production: there is no durability, no lock, no expiry, and one
process owns all state.

    python benchmarks/prototype.py           # outcomes, Table 3, nodes visited
    python benchmarks/prototype.py --json    # the same figures for a program

The exit code is 0 only when ATR and FullScan agree with the oracle on all 15 cases.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from statistics import mean, median
from typing import Any, ClassVar, NamedTuple

# ------------------------------------------------------------------ words of the paper


class Outcome(IntEnum):
    """What a validation asks for.  A larger member dominates a smaller one."""

    KEEP = 0
    REFRESH = 1
    REPLAN = 2
    BLOCK = 3


class Event(Enum):
    """Why a validation runs: an early warning, or the last look before the effect."""

    CHANGE = "change"
    PRE_EFFECT = "pre_effect"


class Applied(Enum):
    """What became of the effect; kept apart from the outcome on purpose."""

    NOT_ATTEMPTED = "not_attempted"
    COMMITTED = "committed"
    REJECTED = "rejected"


class Granularity(Enum):
    """How finely a change is matched with recorded reads, coarsest first."""

    OBJECT = "object"
    FIELD = "field"
    PREDICATE = "predicate"


class Key(NamedTuple):
    """The smallest thing that can change."""

    resource: str
    field: str


class Cell(NamedTuple):
    """A value that never travels without the token it was observed at."""

    value: Any
    token: int


Validator = Callable[[Mapping[Key, Any]], bool]


def value_digest(value: Any) -> str:
    """SHA-256 over sorted JSON, so that equal documents digest alike."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------- records: R, D and I of a trace


@dataclass(frozen=True)
class ReadRecord:
    """One observed field: where, which content, at which token."""

    node: str
    key: Key
    sha256: str
    token: int
    policy: str = "revalidate"


@dataclass(frozen=True)
class Premise:
    """A condition the decision rests on, in a form that can be run again."""

    name: str
    evidence: tuple[Key, ...]
    severity: Outcome
    validator: tuple[str, int]
    policy_critical: bool = False

    def on_failure(self) -> Outcome:
        """The outcome of a false premise; a critical policy raises it to BLOCK."""
        return Outcome.BLOCK if self.policy_critical else self.severity


@dataclass(frozen=True)
class DecisionRecord:
    """A conclusion, the reads it was given, and the premises that justify it."""

    node: str
    conclusion: str
    given: tuple[str, ...]
    premises: tuple[Premise, ...]


@dataclass(frozen=True)
class IntentRecord:
    """The operation that was proposed and has not happened yet."""

    node: str
    operation: str
    arguments: tuple[tuple[str, Any], ...]
    because: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """Everything one validation learned; `binding` holds the tokens to be checked."""

    event: Event
    intent_id: str
    outcome: Outcome
    visited: frozenset[str]
    results: Mapping[str, bool]
    binding: Mapping[Key, int]


# ------------------------------------------------------------- the two ends: read, apply


class Store:
    """A connector over a dictionary; each write of a field moves its token by one."""

    def __init__(self, initial: Mapping[Key, Any]) -> None:
        self._cells: dict[Key, Cell] = {}
        for key, value in initial.items():
            self._cells[key] = Cell(value, 1)

    def observe(self, keys: Iterable[Key]) -> dict[Key, Cell]:
        """Current cells of those keys that exist."""
        cells = self._cells
        return {key: cells[key] for key in keys if key in cells}

    def write(self, key: Key, value: Any) -> None:
        """Another actor changes one field."""
        self._cells[key] = Cell(value, self._cells[key].token + 1)


class Target:
    """The authoritative side: performs an operation only while all tokens still match."""

    def __init__(self, store: Store, enforced: Iterable[str]) -> None:
        self.store = store
        self.enforced = frozenset(enforced)
        self.effects: list[IntentRecord] = []

    def apply_if(self, binding: Mapping[Key, int], intent: IntentRecord) -> Applied:
        """Compare every token, then act; there is no step in between to interrupt."""
        if moved(binding, self.store.observe(binding)):
            return Applied.REJECTED
        self.effects.append(intent)
        return Applied.COMMITTED


def moved(tokens: Mapping[Key, int], cells: Mapping[Key, Cell]) -> set[Key]:
    """The keys whose cell is gone or carries another token than the given one."""
    return {k for k, token in tokens.items() if k not in cells or cells[k].token != token}


# ------------------------------------------------------------------- the recorded trace


@dataclass
class Posting:
    """A reverse index entry: the reads behind a selector, and the premises they concern."""

    reads: set[str] = field(default_factory=set[str])
    premises: set[str] = field(default_factory=set[str])


@dataclass
class Trace:
    """The dependency graph R -> D -> I, with a hash index from changes to its roots.

    Granularity is settled while recording, so validation never asks about it: at object
    and field level an input brings in every premise of the decisions it was given to, at
    predicate level just those that name it, and an input named by no premise and no
    refresh rule leads nowhere.
    """

    granularity: Granularity
    refreshable: frozenset[Key]
    reads: dict[str, ReadRecord] = field(default_factory=dict[str, ReadRecord])
    decisions: dict[str, DecisionRecord] = field(default_factory=dict[str, DecisionRecord])
    premises: dict[str, Premise] = field(default_factory=dict[str, Premise])
    intents: dict[str, IntentRecord] = field(default_factory=dict[str, IntentRecord])
    pending: set[str] = field(default_factory=set[str])
    _edges: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _read_at: dict[Key, ReadRecord] = field(default_factory=dict[Key, ReadRecord])
    _postings: dict[Key | str, Posting] = field(default_factory=dict[Key | str, Posting])

    def record_read(self, record: ReadRecord) -> None:
        """Add a root of the graph and index it."""
        self.reads[record.node] = record
        self._read_at[record.key] = record
        self._edges[record.node] = []
        self._postings.setdefault(self._selector(record.key), Posting()).reads.add(record.node)

    def record_decision(self, record: DecisionRecord) -> None:
        """Link a decision to the inputs that can overturn or refresh it."""
        coarse = self.granularity is not Granularity.PREDICATE
        self.decisions[record.node] = record
        self.premises |= {premise.name: premise for premise in record.premises}
        self._edges[record.node] = []
        for read in (self.reads[node] for node in record.given):
            concerned = {p.name for p in record.premises if coarse or read.key in p.evidence}
            if coarse or concerned or read.key in self.refreshable:
                self._edges[read.node].append(record.node)
                self._postings[self._selector(read.key)].premises |= concerned

    def record_intent(self, record: IntentRecord) -> None:
        """Add a pending action below the decisions it follows from."""
        self.intents[record.node] = record
        self.pending.add(record.node)
        self._edges[record.node] = []
        for node in record.because:
            self._edges[node].append(record.node)

    def locate(self, changed: Iterable[Key]) -> Posting:
        """Index lookup: the reads a change hits and the premises it may falsify."""
        hit = Posting()
        for key in changed:
            posting = self._postings.get(self._selector(key))
            if posting is not None:
                hit.reads |= posting.reads
                hit.premises |= posting.premises
        return hit

    def closure(self, roots: Iterable[str]) -> set[str]:
        """Everything downstream of the roots, the roots included, breadth first."""
        found = set(roots)
        queue = deque(found)
        while queue:
            for child in self._edges[queue.popleft()]:
                if child not in found:
                    found.add(child)
                    queue.append(child)
        return found

    def required(self, intent: IntentRecord) -> Iterator[Premise]:
        """Every premise that the intent needs, in the order it was declared."""
        for node in intent.because:
            yield from self.decisions[node].premises

    def required_tokens(self, intent: IntentRecord) -> dict[Key, int]:
        """What PRE_EFFECT must read again, each key with its recorded token."""
        keys = set(self.refreshable)
        for premise in self.required(intent):
            keys.update(premise.evidence)
        return {key: self._read_at[key].token for key in keys}

    def _selector(self, key: Key) -> Key | str:
        return key.resource if self.granularity is Granularity.OBJECT else key


# ------------------------------------------------------------- ATR and the three baselines


class Runtime:
    """ATR itself: validate what a change reaches, bind what was checked, then apply.

    A baseline overrides `validate`; gate, target and explanations are the same for all.
    """

    name: ClassVar[str] = "ATR"

    def __init__(
        self, trace: Trace, store: Store, target: Target, validators: Mapping[tuple[str, int], Validator]
    ) -> None:
        self.trace = trace
        self.store = store
        self.target = target
        self.validators = validators
        self.explanations: list[str] = []
        self.to_revalidate: list[str] = []

    def validate(self, event: Event, intent_id: str, hint: Iterable[Key] = ()) -> Verdict:
        """Algorithm 1 up to its line 15: nothing is applied and nothing is written."""
        intent = self.trace.intents[intent_id]
        changed = set(hint)
        cells: dict[Key, Cell] = {}
        if event is Event.PRE_EFFECT:
            # A hint may be late or lost; before the effect the tokens themselves decide.
            tokens = self.trace.required_tokens(intent)
            cells = self.store.observe(tokens)
            changed |= moved(tokens, cells)
        hit = self.trace.locate(changed)
        visited = self.trace.closure(hit.reads)
        results: dict[str, bool] = {}
        outcome = Outcome.KEEP
        if intent_id in visited and intent_id in self.trace.pending:
            affected = [p for p in self.trace.required(intent) if p.name in hit.premises]
            outcome = self._check(affected, cells, results)
            outcome = max(outcome, self._refresh(changed))
        bound, binding = self._bind(intent, cells)
        outcome = max(outcome, bound)
        return Verdict(event, intent_id, outcome, frozenset(visited), results, binding)

    def gate(self, intent_id: str, hint: Iterable[Key] = ()) -> tuple[Outcome, Applied]:
        """Algorithm 1 at PRE_EFFECT from end to end."""
        verdict = self.validate(Event.PRE_EFFECT, intent_id, hint)
        applied = Applied.NOT_ATTEMPTED
        if verdict.outcome <= Outcome.REFRESH:
            applied = self.target.apply_if(verdict.binding, self.trace.intents[intent_id])
            if applied is Applied.REJECTED:
                self.to_revalidate.append(intent_id)
        self._explain(verdict, applied)
        return verdict.outcome, applied

    def _check(self, premises: Iterable[Premise], cells: dict[Key, Cell], results: dict[str, bool]) -> Outcome:
        """Run the premises' validators; what has not been observed yet is read first."""
        worst = Outcome.KEEP
        for premise in premises:
            unseen = [key for key in premise.evidence if key not in cells]
            if unseen:
                cells.update(self.store.observe(unseen))
            holds = results[premise.name] = self._holds(premise, cells)
            if not holds:
                worst = max(worst, premise.on_failure())
        return worst

    def _holds(self, premise: Premise, cells: Mapping[Key, Cell]) -> bool:
        """A premise that cannot be evaluated counts as false: its severity then decides."""
        try:
            validator = self.validators[premise.validator]
            return validator({key: cells[key].value for key in premise.evidence}) is True
        except Exception:  # noqa: BLE001 - whatever a validator raises, its premise is unverifiable
            return False

    def _refresh(self, changed: set[Key]) -> Outcome:
        if changed.isdisjoint(self.trace.refreshable):
            return Outcome.KEEP
        return Outcome.REFRESH

    def _bind(self, intent: IntentRecord, cells: Mapping[Key, Cell]) -> tuple[Outcome, dict[Key, int]]:
        """Collect the tokens for the target; BLOCK where it could not check a vital one."""
        outcome = Outcome.KEEP
        binding: dict[Key, int] = {}
        for premise in self.trace.required(intent):
            for key in premise.evidence:
                if key.resource in self.target.enforced:
                    if key in cells:
                        binding[key] = cells[key].token
                elif premise.on_failure() is Outcome.BLOCK:
                    outcome = Outcome.BLOCK
        return outcome, binding

    def _explain(self, verdict: Verdict, applied: Applied) -> None:
        """Append one JSON line; an earlier line is never touched again."""
        line = {
            "event": verdict.event.value,
            "intent": verdict.intent_id,
            "closure": sorted(verdict.visited),
            "premises": verdict.results,
            "validators": [self.trace.premises[name].validator for name in verdict.results],
            "outcome": verdict.outcome.name,
            "tokens": [[key.resource, key.field, t] for key, t in verdict.binding.items()],
            "applied": applied.value,
        }
        self.explanations.append(json.dumps(line, sort_keys=True))


class NoCheck(Runtime):
    """Releases whatever was proposed."""

    name = "NoCheck"

    def validate(self, event: Event, intent_id: str, hint: Iterable[Key] = ()) -> Verdict:
        """KEEP, without a look."""
        return Verdict(event, intent_id, Outcome.KEEP, frozenset(), {}, {})


class VersionAbort(Runtime):
    """Replans whenever any recorded token moved, whatever the field means."""

    name = "VersionAbort"

    def validate(self, event: Event, intent_id: str, hint: Iterable[Key] = ()) -> Verdict:
        """REPLAN if anything that was read has another token now, else KEEP."""
        tokens = {read.key: read.token for read in self.trace.reads.values()}
        stale = moved(tokens, self.store.observe(tokens))
        outcome = Outcome.REPLAN if stale else Outcome.KEEP
        return Verdict(event, intent_id, outcome, frozenset(), {}, {})


class FullScan(Runtime):
    """Goes through all recorded reads and runs every premise; it uses no index."""

    name = "FullScan"

    def validate(self, event: Event, intent_id: str, hint: Iterable[Key] = ()) -> Verdict:
        """The same outcomes as ATR's, at a cost that grows with the number of reads."""
        intent = self.trace.intents[intent_id]
        tokens = {read.key: read.token for read in self.trace.reads.values()}
        cells = self.store.observe(tokens)
        changed = moved(tokens, cells).union(hint)
        visited = frozenset(self.trace.reads).union(intent.because)
        results: dict[str, bool] = {}
        outcome = self._check(self.trace.required(intent), cells, results)
        bound, binding = self._bind(intent, cells)
        outcome = max(outcome, self._refresh(changed), bound)
        return Verdict(event, intent_id, outcome, visited, results, binding)


# ---------------------------------------------------------------------------- scenarios


class Mutation(NamedTuple):
    """One change by another actor between the decision and the effect."""

    name: str
    key: Key
    value: Any
    expected: Outcome


Rule = tuple[Premise, Validator]


@dataclass(frozen=True)
class Scenario:
    """A proposed operation, the state it was decided on, and five ways to disturb it."""

    name: str
    operation: str
    arguments: Mapping[str, Any]
    state: Mapping[Key, Any]
    rules: tuple[Rule, ...]
    refreshable: tuple[Key, ...]
    mutations: tuple[Mutation, ...]


UNRELATED = Key("context:0", "a")


def row(resource: str, /, **columns: Any) -> dict[Key, Any]:
    """The fields of one resource, keyed."""
    return {Key(resource, column): value for column, value in columns.items()}


def rule(name: str, severity: Outcome, test: Validator, *evidence: Key) -> Rule:
    """A premise together with the code that its validator's name and version stand for."""
    return Premise(name, evidence, severity, (name, 1)), test


def equals(severity: Outcome, key: Key, wanted: Any) -> Rule:
    """The field still has the value that the decision relied on."""
    return rule(f"{key.field} is {wanted}", severity, lambda seen: seen[key] == wanted, key)


def one_of(severity: Outcome, key: Key, allowed: frozenset[str]) -> Rule:
    """The field's value is in a fixed set."""
    return rule(f"{key.field} is allowed", severity, lambda seen: seen[key] in allowed, key)


def at_most(severity: Outcome, small: Key, large: Key) -> Rule:
    """One field does not exceed another, possibly of another resource."""
    name = f"{small.field} <= {large.field}"
    return rule(name, severity, lambda seen: seen[small] <= seen[large], small, large)


def refund() -> Scenario:
    """Refund 80 GBP under a delegated limit of 100."""
    order = row(
        "order:1042", amount=80, currency="GBP", customer_name="Ada", defect=True, delivered=True, refunded=False
    )
    policy = row("policy:refund", agent_may_refund=True, limit=100)
    amount, _, customer, defect, delivered, refunded = order
    authority, limit = policy
    return Scenario(
        "refund",
        "issue_refund",
        {"order": "1042", "amount": 80},
        order | policy,
        (
            equals(Outcome.REPLAN, delivered, True),
            equals(Outcome.REPLAN, defect, True),
            equals(Outcome.BLOCK, refunded, False),
            at_most(Outcome.BLOCK, amount, limit),
            equals(Outcome.BLOCK, authority, True),
        ),
        (customer,),
        (
            Mutation("unrelated", UNRELATED, "edited", Outcome.KEEP),
            Mutation("customer-renamed", customer, "Ada Lovelace", Outcome.REFRESH),
            Mutation("defect-withdrawn", defect, False, Outcome.REPLAN),
            Mutation("limit-50", limit, 50, Outcome.BLOCK),
            Mutation("refunded-elsewhere", refunded, True, Outcome.BLOCK),
        ),
    )


def remediation() -> Scenario:
    """Restart a service for an open incident, outside any maintenance freeze."""
    incident = row(
        "incident:77",
        healthy_replicas=3,
        min_replicas=2,
        region="eu-1",
        restarted=False,
        state="open",
        title="checkout is slow",
    )
    policy = row("policy:ops", agent_may_restart=True, freeze=False)
    healthy, needed, _, restarted, state, title = incident
    authority, freeze = policy
    return Scenario(
        "remediation",
        "restart_service",
        {"service": "checkout", "incident": "77"},
        incident | policy,
        (
            equals(Outcome.REPLAN, state, "open"),
            equals(Outcome.BLOCK, restarted, False),
            at_most(Outcome.REPLAN, needed, healthy),
            equals(Outcome.BLOCK, freeze, False),
            equals(Outcome.BLOCK, authority, True),
        ),
        (title,),
        (
            Mutation("unrelated", UNRELATED, "edited", Outcome.KEEP),
            Mutation("title-reworded", title, "checkout p99 above 2 s", Outcome.REFRESH),
            Mutation("resolved", state, "resolved", Outcome.REPLAN),
            Mutation("freeze-begins", freeze, True, Outcome.BLOCK),
            Mutation("restarted-elsewhere", restarted, True, Outcome.BLOCK),
        ),
    )


def procurement() -> Scenario:
    """Order from an approved vendor, within the budget and the auto-approval cap."""
    request = row(
        "request:9", budget_left=900, cost_centre="cc-7", label="monitors", price=400, state="approved", vendor="acme"
    )
    policy = row("policy:purchasing", agent_may_buy=True, auto_cap=500)
    budget, _, label, price, state, vendor = request
    authority, cap = policy
    return Scenario(
        "procurement",
        "place_order",
        {"request": "9", "price": 400},
        request | policy,
        (
            equals(Outcome.REPLAN, state, "approved"),
            one_of(Outcome.REPLAN, vendor, frozenset({"acme", "globex"})),
            at_most(Outcome.BLOCK, price, budget),
            at_most(Outcome.BLOCK, price, cap),
            equals(Outcome.BLOCK, authority, True),
        ),
        (label,),
        (
            Mutation("unrelated", UNRELATED, "edited", Outcome.KEEP),
            Mutation("label-reworded", label, "two monitors", Outcome.REFRESH),
            Mutation("vendor-unapproved", vendor, "initech", Outcome.REPLAN),
            Mutation("cap-300", cap, 300, Outcome.BLOCK),
            Mutation("budget-spent", budget, 100, Outcome.BLOCK),
        ),
    )


SCENARIOS = (refund, remediation, procurement)
METHODS: tuple[type[Runtime], ...] = (NoCheck, VersionAbort, FullScan, Runtime)
CONTEXT_READS = 48

Case = tuple[Scenario, Mutation]


def build(
    scenario: Scenario,
    method: type[Runtime] = Runtime,
    granularity: Granularity = Granularity.PREDICATE,
    context_reads: int = CONTEXT_READS,
) -> tuple[Runtime, str]:
    """Let the agent read, decide and propose; return the runtime and the intent's id."""
    state = dict(scenario.state)
    for number in range(context_reads):
        state[Key(f"context:{number // 2}", "b" if number % 2 else "a")] = "note"
    store = Store(state)
    trace = Trace(granularity, frozenset(scenario.refreshable))
    for number, (key, cell) in enumerate(store.observe(state).items()):
        trace.record_read(ReadRecord(f"read-{number}", key, value_digest(cell.value), cell.token))
    premises = tuple(premise for premise, _ in scenario.rules)
    validators = {premise.validator: test for premise, test in scenario.rules}
    trace.record_decision(DecisionRecord("decision-0", "justified", tuple(trace.reads), premises))
    arguments = tuple(scenario.arguments.items())
    trace.record_intent(IntentRecord("intent-0", scenario.operation, arguments, ("decision-0",)))
    target = Target(store, {key.resource for key in scenario.state})
    return method(trace, store, target, validators), "intent-0"


def cases() -> list[Case]:
    """All 15 pairs of a scenario and one of its mutations."""
    scenarios = [make() for make in SCENARIOS]
    return [(scenario, mutation) for scenario in scenarios for mutation in scenario.mutations]


def mutated(case: Case, method: type[Runtime], **options: Any) -> tuple[Runtime, str]:
    """A fresh trace of the case's scenario, with its mutation already written."""
    scenario, mutation = case
    runtime, intent_id = build(scenario, method, **options)
    runtime.store.write(mutation.key, mutation.value)
    return runtime, intent_id


# ------------------------------------------------------------------------------- figures


def p50_us(event: Event, method: type[Runtime], rounds: int = 200) -> float:
    """Median microseconds of one warmed validation over a shuffled, balanced schedule."""
    jobs: list[tuple[Runtime, str, tuple[Key, ...]]] = []
    for case in cases():
        runtime, intent_id = mutated(case, method)
        jobs.append((runtime, intent_id, (case[1].key,) if event is Event.CHANGE else ()))
    schedule = jobs * rounds
    random.Random(rounds).shuffle(schedule)
    samples: list[int] = []
    gc.collect()
    for runtime, intent_id, hint in jobs * 20 + schedule:
        begin = time.perf_counter_ns()
        runtime.validate(event, intent_id, hint)
        samples.append(time.perf_counter_ns() - begin)
    return median(samples[-len(schedule) :]) / 1000


def evaluate(method: type[Runtime]) -> dict[str, Any]:
    """A method's outcome on each case, and the columns of the paper's Table 3."""
    outcomes: list[dict[str, str]] = []
    evaluated: list[int] = []
    for case in cases():
        scenario, mutation = case
        runtime, intent_id = mutated(case, method)
        evaluated.append(len(runtime.validate(Event.PRE_EFFECT, intent_id).results))
        outcome, applied = runtime.gate(intent_id)
        line = {"scenario": scenario.name, "mutation": mutation.name}
        line |= {"expected": mutation.expected.name, "got": outcome.name, "applied": applied.value}
        outcomes.append(line)
    safe = [line for line in outcomes if line["expected"] in ("KEEP", "REFRESH")]
    unsafe = [line for line in outcomes if line not in safe]
    return {
        "matched": sum(line["expected"] == line["got"] for line in outcomes),
        "unsafe_released_pct": 100 * mean(line["applied"] == "committed" for line in unsafe),
        "safe_replanned_pct": 100 * mean(line["got"] == "REPLAN" for line in safe),
        "premises_per_change": mean(evaluated),
        "p50_pre_effect_us": p50_us(Event.PRE_EFFECT, method),
        "p50_change_us": p50_us(Event.CHANGE, method),
        "outcomes": outcomes,
    }


def nodes_visited(granularity: Granularity) -> float:
    """Mean closure size when each change arrives as a hint; recorded nodes only."""
    sizes: list[int] = []
    for case in cases():
        runtime, intent_id = mutated(case, Runtime, granularity=granularity)
        sizes.append(len(runtime.validate(Event.CHANGE, intent_id, (case[1].key,)).visited))
    return mean(sizes)


def show(methods: Mapping[str, dict[str, Any]], visited: Mapping[str, float]) -> None:
    """Print the report for a reader."""
    print(f"{'scenario':<13}{'mutation':<21}{'oracle':<9}" + "".join(f"{m:<14}" for m in methods))
    for lines in zip(*(figures["outcomes"] for figures in methods.values()), strict=True):
        first = lines[0]
        print(
            f"{first['scenario']:<13}{first['mutation']:<21}{first['expected']:<9}"
            + "".join(f"{line['got']:<14}" for line in lines)
        )
    print(
        f"\n{'method':<14}{'matched':>8}{'unsafe rel. %':>15}{'safe replan %':>15}"
        f"{'premises':>10}{'p50 effect':>12}{'p50 hint':>10}"
    )
    for name, figures in methods.items():
        print(
            f"{name:<14}{figures['matched']:>5}/15{figures['unsafe_released_pct']:>15.1f}"
            f"{figures['safe_replanned_pct']:>15.1f}{figures['premises_per_change']:>10.1f}"
            f"{figures['p50_pre_effect_us']:>12.1f}{figures['p50_change_us']:>10.1f}"
        )
    print("\nnodes visited: " + ", ".join(f"{size:.1f} {name}" for name, size in visited.items()))


def main() -> int:
    """Measure, report, and say by the exit code whether the outcomes are right."""
    parser = argparse.ArgumentParser(description="The ATR paper's prototype, read plainly.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    methods = {method.name: evaluate(method) for method in METHODS}
    visited = {level.value: nodes_visited(level) for level in Granularity}
    if options.json:
        print(json.dumps({"methods": methods, "nodes_visited": visited}))
    else:
        show(methods, visited)
    return 0 if methods["ATR"]["matched"] == methods["FullScan"]["matched"] == 15 else 1


if __name__ == "__main__":
    raise SystemExit(main())
