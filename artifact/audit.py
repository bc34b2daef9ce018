"""Recompute every published figure of a run from its raw rows, and fail on any difference.

    python artifact/audit.py DIR

DIR is the folder of `lastlook evaluate --out DIR`. The standard library is all that this needs, and nothing of lastlook
is imported: rows are counted here a second time, by other code. It prints one line a figure and ends with 0 if every
figure is what the rows say and every file is the one that was sealed, with 1 on any difference, and with 2 where there
is nothing to audit.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import math
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, str]

METHODS = ("ATR", "FullScan", "NoCheck", "VersionAbort")
TIMES = {"ATR": "atr_ns", "FullScan": "full_scan_ns", "NoCheck": "no_check_ns", "VersionAbort": "version_abort_ns"}
# Two-sided 95 %, by the number of repetitions; beyond them the normal distribution's.
STUDENT_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228}
STUDENT_T |= {12: 2.201, 13: 2.179, 14: 2.160, 15: 2.145, 16: 2.131}
OUTCOMES = ("KEEP", "REFRESH", "REPLAN", "BLOCK")
RELEASES = ("KEEP", "REFRESH")

# What must come of each case, by the paper's five kinds of change in each of its three workloads.
TABLE_2 = {"name": "REFRESH", "limit-90": "KEEP", "defect": "REPLAN", "limit-50": "BLOCK", "refunded": "BLOCK"}
FIFTEEN = {
    ("refund", "note"): "KEEP",
    ("refund", "name"): "REFRESH",
    ("refund", "defect"): "REPLAN",
    ("refund", "limit-50"): "BLOCK",
    ("refund", "refunded"): "BLOCK",
    ("remediation", "note"): "KEEP",
    ("remediation", "title"): "REFRESH",
    ("remediation", "resolved"): "REPLAN",
    ("remediation", "freeze"): "BLOCK",
    ("remediation", "remediated"): "BLOCK",
    ("procurement", "note"): "KEEP",
    ("procurement", "title"): "REFRESH",
    ("procurement", "vendor-suspended"): "REPLAN",
    ("procurement", "cap-300"): "BLOCK",
    ("procurement", "budget-100"): "BLOCK",
}
CELLS = {
    "irrelevant": "KEEP",
    "presentation": "REFRESH",
    "preserving": "KEEP",
    "replanning": "REPLAN",
    "blocking": "BLOCK",
}


class Unfit(Exception):
    """There is nothing to audit, or it is not what it says."""


class Raw:
    """The raw rows of a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []

    def rows(self, kind: str) -> Iterator[Row]:
        """All rows of a kind, file by file: by repetition, then by name."""
        files = sorted((self.folder / "rows").glob(f"{kind}*.csv.gz"), key=_order)
        for file in files:
            try:
                with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
                    reader = csv.DictReader(text)
                    for row in reader:
                        if None in row or None in row.values():
                            raise Unfit(f"{file.name}, line {reader.line_num}: another number of columns")
                        yield row
            except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
                raise Unfit(f"{file.name} cannot be read: {error}") from error

    def expect(self, said: str, row: Row, must: str) -> None:
        """Note where a row's own expectation, or its oracle, is not what the case demands."""
        for column in ("expected", "oracle"):
            if column in row and row[column] != must:
                self.notes.append(f"{said}: {column} is {row[column]} in the rows and must be {must}")


def _order(file: Path) -> tuple[int, int, str]:
    found = re.search(r"-(\d+)", file.name)
    order = ("refund", "remediation", "procurement", "office", "cloud")
    part = next((n for n, word in enumerate(order) if word in file.name), 0)
    return (int(found.group(1)) if found else 0, part, file.name)


# --- Recomputing ------------------------------------------------------------------------------------------------------


def recomputed(raw: Raw) -> tuple[dict[str, Any], str]:
    """The figures and Table 3, from the rows."""
    figures: dict[str, Any] = {}
    detail: dict[str, Any] = {}
    table_2(raw, figures)
    answers(raw, figures, detail)
    latencies(raw, figures, detail)
    closures(raw, figures, detail)
    omission(raw, figures, detail)
    unavailable(raw, figures, detail)
    durable(raw, figures, detail)
    races(raw, figures, detail)
    boundary(raw, figures, detail)
    scaling(raw, figures, detail)
    figures["detail"] = detail
    return figures, table_3(figures)


def table_2(raw: Raw, figures: dict[str, Any]) -> None:
    """Five changes after the refund was proposed."""
    found = list(raw.rows("table2"))
    for row in found:
        raw.expect(f"Table 2, {row['case']}", row, TABLE_2.get(row["case"], "absent"))
        if row["objection"]:
            raw.notes.append(f"Table 2, {row['case']}: {row['objection']}")
    figures["table2"] = [{"case": row["case"], "expected": row["expected"], "got": row["outcome"]} for row in found]


def answers(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """All methods' answers to the fifteen cases."""
    count: dict[str, Counter[str]] = {method: Counter() for method in METHODS}
    wrong: dict[str, dict[str, set[tuple[str, str]]]] = {method: defaultdict(set) for method in METHODS}
    per_case: Counter[tuple[str, str, str]] = Counter()
    for row in raw.rows("traces"):
        method, case = row["method"], (row["workload"], row["case"])
        per_case[(*case, method)] += 1
        if per_case[(*case, method)] == 1 or row["expected"] != row["oracle"]:
            raw.expect("/".join(case), row, FIFTEEN.get(case, "absent"))
        safe, released = row["oracle"] in RELEASES, row["released"] == "1"
        here = count[method]
        here["traces"] += 1
        here["premises"] += int(row["premises"])
        here[outcome_of(row)] += 1
        here["safe" if safe else "unsafe"] += 1
        if safe:
            here["safe_replanned"] += row["outcome"] == "REPLAN"
            here["safe_retained"] += released
        else:
            here["unsafe_released"] += released
        if released is not safe:
            wrong[method]["false_blocks" if safe else "false_allows"].add(case)
        if mismatch(row):
            wrong[method]["unmatched"].add(case)
        else:
            here["matched"] += 1
    cases = {(workload, case) for workload, case, _ in per_case}
    if cases != set(FIFTEEN):
        raw.notes.append(f"the cases are not the fifteen: {sorted(cases ^ set(FIFTEEN))}")
    if len(set(per_case.values())) > 1:
        raw.notes.append("the schedule is not balanced: not every method has every case equally often")
    figures["cases"] = {
        method: {
            "matched": len(cases) - len(wrong[method]["unmatched"]),
            "of": len(cases),
            "false_allows": len(wrong[method]["false_allows"]),
            "false_blocks": len(wrong[method]["false_blocks"]),
        }
        for method in METHODS
    }
    figures["table3"] = {
        method: {
            "unsafe_released_pct": percent(here["unsafe_released"], here["unsafe"]),
            "safe_replanned_pct": percent(here["safe_replanned"], here["safe"]),
            "premises_per_change": share(here["premises"], here["traces"]),
        }
        for method, here in count.items()
    }
    names = ("traces", "unsafe", "unsafe_released", "safe", "safe_replanned", "safe_retained", "premises", "matched")
    detail["methods"] = {
        method: {**{name: here[name] for name in names}, "outcomes": {name: here[name] for name in OUTCOMES}}
        for method, here in count.items()
    }
    figures["traces"] = count["ATR"]["traces"]


def outcome_of(row: Row) -> str:
    """The outcome of an answer, which is one of the four."""
    if row["outcome"] not in OUTCOMES:
        raise Unfit(f"{row['outcome']!r} is no outcome")
    return row["outcome"]


def mismatch(row: Row) -> bool:
    """Whether an answer is not as declared."""
    reasons_differ = row["reasons"] not in ("-", row["expected_reasons"])
    return bool(row["objection"]) or row["outcome"] != row["expected"] or reasons_differ


def latencies(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """In-process validation."""
    times: dict[str, dict[int, list[int]]] = {method: defaultdict(list) for method in METHODS}
    for row in raw.rows("latencies"):
        for method, column in TIMES.items():
            if row[column]:
                times[method][int(row["repetition"])].append(int(row[column]))
    detail["latency"] = {}
    for method in METHODS:
        pooled = sorted(ns for part in times[method].values() for ns in part)
        figures["table3"][method]["p50_us"] = us(percentile(pooled, 50))
        if method in ("ATR", "FullScan"):
            each = [percentile(sorted(times[method][n]), 50) / 1000 for n in sorted(times[method])]
            detail["latency"][method] = {
                **{f"p{of}_us": us(percentile(pooled, of)) for of in (50, 95, 99)},
                "repetitions_p50": spread(each),
            }


def closures(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """What change hints reach."""
    nodes: dict[str, list[int]] = defaultdict(list)
    premises: dict[str, list[int]] = defaultdict(list)
    for row in raw.rows("closures"):
        said, must = f"hint of {row['workload']}/{row['case']}", FIFTEEN.get((row["workload"], row["case"]), "absent")
        raw.expect(said, row, must)
        if row["outcome"] != must:
            raw.notes.append(f"{said}, by {row['capture']}: {row['outcome']}, must be {must}")
        nodes[row["capture"]].append(int(row["nodes"]))
        premises[row["capture"]].append(int(row["premises"]))
    figures["nodes_visited"] = {capture: share(sum(found), len(found)) for capture, found in nodes.items()}
    detail["closures"] = {
        capture: {"most_nodes": max(found), "premises_per_change": share(sum(premises[capture]), len(found))}
        for capture, found in nodes.items()
    }


def omission(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """Unsafe trials, some with the sole critical dependency left out."""
    ways = {"explicit": "explicit_pct", "conservative": "conservative_pct", "index_only": "index_pct"}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in raw.rows("omission"):
        here = found[row["rate"]]
        here["trials"] += 1
        for name in ("omitted", *ways):
            here[name] += int(row[name])
    names = ("trials", "omitted", *ways)
    figures["omission"] = {
        rate: {published: percent(here[way], here["trials"]) for way, published in ways.items()}
        for rate, here in found.items()
    }
    detail["omission"] = {rate: {name: here[name] for name in names} for rate, here in found.items()}
    for rate, here in found.items():
        if (here["explicit"], here["conservative"], here["index_only"]) != (here["omitted"], 0, 0):
            raw.notes.append(f"omission at {rate} %: {dict(here)}: only the omitted ones may be false allows")


def unavailable(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """Validators that do not answer, and the control that does."""
    found = {row["validator"]: (row["outcome"], int(row["released"])) for row in raw.rows("unavailable")}
    failing = [answer for state, answer in found.items() if state != "answering"]
    figures["unavailable_validators"] = {"blocked": failing.count(("BLOCK", 0)), "of": len(failing)}
    detail["unavailable"] = {state: {"outcome": outcome, "released": n} for state, (outcome, n) in found.items()}
    if found.get("answering") != ("KEEP", 1):
        raw.notes.append("the validator that answers did not let the effect through")


def durable(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """The ten durable cells; where they ran, Table 3 has their premises."""
    count: dict[str, Counter[str]] = {method: Counter() for method in METHODS}
    unmatched: dict[str, set[str]] = defaultdict(set)
    cells: Counter[tuple[str, str, str]] = Counter()
    for row in raw.rows("durable"):
        cell = f"{row['pattern']}/{row['change']}"
        raw.expect(cell, row, CELLS.get(row["change"], "absent"))
        cells[row["method"], row["pattern"], row["change"]] += 1
        here = count[row["method"]]
        here["of"] += 1
        here["premises"] += int(row["premises"])
        here[outcome_of(row)] += 1
        safe, released = row["oracle"] in RELEASES, row["released"] == "1"
        here["false_allows"] += released and not safe
        here["false_blocks"] += safe and not released
        if mismatch(row):
            unmatched[row["method"]].add(cell)
        else:
            here["matched"] += 1
    detail["durable"] = {}
    if not cells:
        return
    if len(cells) != len(METHODS) * 2 * len(CELLS) or len(set(cells.values())) > 1:
        raw.notes.append("the durable cells are not ten, or not every method has each equally often")
    figures["durable_cells"] = {
        method: {"matched": count[method]["matched"], "of": count[method]["of"]} for method in METHODS
    }
    for method, here in count.items():
        premises = share(here["premises"], here["of"])
        figures["table3"][method]["premises_per_change"] = premises
        detail["durable"][method] = {
            "premises_per_change": premises,
            "false_allows": here["false_allows"],
            "false_blocks": here["false_blocks"],
            "outcomes": {name: here[name] for name in OUTCOMES},
            "unmatched": sorted(unmatched[method]),
        }


def races(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """Pairs of gates on two connections."""
    found: dict[str, Counter[str]] = {}
    for row in raw.rows("races"):
        here = found.setdefault(row["over"], Counter())
        commits = int(row["commits"])
        here["pairs"] += 1
        here["double"] += commits > 1
        here["zero"] += commits == 0
    names = ("pairs", "double", "zero")
    detail["races"] = {over: {name: here[name] for name in names} for over, here in found.items()}
    if found:
        figures["races"] = {name: sum(here[name] for here in found.values()) for name in names}


def boundary(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """Histories in which the policy changes between the look and the effect."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for row in raw.rows("boundary"):
        here = found.setdefault((row["policy"], row["binding"]), Counter())
        here["trials"] += 1
        here["released"] += row["released"] == "1" and row["stale"] == "1"
        here["rejected"] += (row["applied"], row["outcome"], row["released"]) == ("REJECTED", "BLOCK", "0")
    detail["boundary"] = [
        {"policy": policy, "binding": binding, **{name: here[name] for name in ("trials", "released", "rejected")}}
        for (policy, binding), here in found.items()
    ]
    bound = found.get(("same database", "bound"), Counter())
    figures["binding_boundary"] = {
        "target_only_committed": found.get(("same database", "target only"), Counter())["released"],
        "bound_rejected": bound["rejected"],
        "of": bound["trials"],
    }


def scaling(raw: Raw, figures: dict[str, Any], detail: dict[str, Any]) -> None:
    """Validation by recorded reads: of each repetition the quietest round's median."""
    rounds: dict[tuple[str, str], dict[int, dict[str, list[int]]]] = {}
    for row in raw.rows("scaling"):
        repetitions = rounds.setdefault((row["reads"], row["path"]), {})
        repetitions.setdefault(int(row["repetition"]), {}).setdefault(row["round"], []).append(int(row["ns"]))
    figures["scaling"], detail["scaling"] = {}, {}
    for (reads, path), repetitions in rounds.items():
        each = [min(median(ns) for ns in repetitions[n].values()) / 1000 for n in sorted(repetitions)]
        detail["scaling"].setdefault(reads, {})[path] = spread(each)
        figures["scaling"].setdefault(reads, {})[f"{path}_us"] = round(mean(each), 3)


def table_3(figures: dict[str, Any]) -> str:
    """Table 3 as it is published."""
    lines = ["| Method | Unsafe released (%) | Safe replanned (%) | Premises / change | p50 (us) |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for method in ("NoCheck", "VersionAbort", "FullScan", "ATR"):
        row = figures["table3"][method]
        cells = [method, f"{row['unsafe_released_pct']:.1f}", f"{row['safe_replanned_pct']:.1f}"]
        measured = method in ("FullScan", "ATR")
        cells += [f"{row['premises_per_change']:.1f}", f"{row['p50_us']:.1f}"] if measured else ["-", "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# --- Arithmetic -------------------------------------------------------------------------------------------------------


def percent(part: int, whole: int) -> float:
    """So many of a hundred; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


def share(part: int, whole: int) -> float:
    """The quotient; 0 of nothing."""
    return part / whole if whole else 0.0


def us(nanoseconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(nanoseconds / 1000, 3)


def percentile(ordered: list[int], of: int) -> int:
    """The value that so many per cent of the sorted values stay below."""
    if not ordered:
        raise Unfit("there are no latencies")
    return ordered[min(len(ordered) - 1, len(ordered) * of // 100)]


def spread(each: list[float]) -> dict[str, Any]:
    """Mean of the repetitions, and half its 95 % confidence interval by Student's t."""
    n = len(each)
    half = STUDENT_T.get(n, 1.960) * stdev(each) / math.sqrt(n) if n > 1 else 0.0
    return {"mean_us": round(mean(each), 3), "ci95_us": round(half, 3), "each_us": [round(value, 3) for value in each]}


# --- Comparing --------------------------------------------------------------------------------------------------------


def differences(published: Any, here: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every figure: its place, as published, as recomputed; those that are alike too."""
    if isinstance(published, dict) and isinstance(here, dict):
        for name in dict.fromkeys([*published, *here]):
            place = f"{where}.{name}" if where else name
            yield from differences(published.get(name, "absent"), here.get(name, "absent"), place)
    elif isinstance(published, list) and isinstance(here, list) and len(published) == len(here):
        for n, (old, new) in enumerate(zip(published, here, strict=True)):
            yield from differences(old, new, f"{where}[{n}]")
    else:
        yield where, published, here


def alike(published: Any, here: Any) -> bool:
    """Whether two figures are one: numbers to the last bits of a division, anything else exactly."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (published, here))
    if numbers:
        return math.isclose(published, here, rel_tol=1e-12, abs_tol=1e-12)
    return type(published) is type(here) and bool(published == here)


def broken_seals(folder: Path) -> Iterator[str]:
    """Every file that is not the one whose checksum was written down, or that nobody wrote down."""
    sealed: set[str] = set()
    for line in text_of(folder / "SHA256SUMS").splitlines():
        digest, _, name = line.partition("  ")
        sealed.add(name)
        file = folder / name
        if not file.is_file():
            yield f"{name} is missing"
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            yield f"{name} is not the file that was sealed"
    for file in sorted((folder / "rows").glob("*")):
        if (name := file.relative_to(folder).as_posix()) not in sealed:
            yield f"{name} was not sealed"


def text_of(file: Path) -> str:
    """What a file says."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unfit(f"{file} cannot be read: {error}") from error


def audit(folder: Path) -> int:
    """Print one line a figure; the number of differences."""
    try:
        summary = json.loads(text_of(folder / "summary.json"))
    except ValueError as error:
        raise Unfit(f"{folder / 'summary.json'} is not JSON: {error}") from error
    raw = Raw(folder)
    try:
        figures, table = recomputed(raw)
    except (KeyError, ValueError) as error:
        raise Unfit(f"a row is not as it should be: {type(error).__name__}: {error}") from error
    run = summary.pop("run", None)
    noted = summary.get("detail", {}).pop("disagreements", None)

    wrong = [f"{sentence} (raw rows)" for sentence in raw.notes]
    count = 0
    for place, published, here in differences(summary, figures):
        count += 1
        same = alike(published, here)
        print(f"{place}: {published} {'=' if same else f'DIFFERS: the rows say {here}'}")
        if not same:
            wrong.append(f"{place}: published {published}, the rows say {here}")
    if text_of(folder / "table3.md") != table:
        wrong.append("table3.md is not the Table 3 of these rows")
    if noted != []:
        wrong.append(f"the run itself noted: {noted}")
    if run != json.loads(text_of(folder / "run.json")):
        wrong.append("summary.json and run.json tell of different runs")
    wrong += drawn_otherwise(folder, figures)
    wrong += broken_seals(folder)
    print(f"{count} figures recomputed, {len(wrong)} {'difference' if len(wrong) == 1 else 'differences'}")
    for sentence in wrong:
        print(f"difference: {sentence}", file=sys.stderr)
    return len(wrong)


def drawn_otherwise(folder: Path, figures: dict[str, Any]) -> Iterator[str]:
    """Whether the drawing, where there is one, shows other numbers than the rows give; its labels are text."""
    file = folder / "figure2.svg"
    if not file.is_file():
        return
    shown = Counter(re.findall(r"<text [^>]*>\s*([^<]*?)\s*</text>", text_of(file)))
    labels = Counter(labels_of(figures))
    for label, times in (labels - shown).items():
        yield f"figure2.svg lacks the label {label!r} ({times} times)"


def labels_of(figures: dict[str, Any]) -> Iterator[str]:
    """The numbers that figure 2 shows as text: agreement of each method, and the ends of both curves."""
    for method in ("NoCheck", "VersionAbort", "FullScan", "ATR"):
        if "durable_cells" in figures:
            found = figures["durable_cells"][method]
            yield f"{percent(found['matched'], found['of']):.0f}%"
    reads = sorted(map(int, figures["scaling"]))
    for end in (reads[0], reads[-1]):
        for path in ("hint", "full_scan"):
            yield f"{figures['scaling'][str(end)][f'{path}_us']:.1f}"


def main(argv: list[str]) -> int:
    """Audit the folder that is named."""
    if len(argv) != 1 or argv[0].startswith("-"):
        print("usage: python artifact/audit.py DIR", file=sys.stderr)
        return 2
    try:
        return 1 if audit(Path(argv[0])) else 0
    except Unfit as error:
        print(f"audit: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
