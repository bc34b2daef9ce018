"""Raw rows: what every single trial came to, as the evaluation writes it and as anybody can count it again.

Every published figure is computed from these rows and from nothing else. A file holds rows of one kind under a header
line: CSV, compressed, with nothing of the time or the place in it, so that the same rows are the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar, cast, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

__all__ = [
    "NO_REASONS",
    "BoundaryRow",
    "ClosureRow",
    "DurableRow",
    "LatencyRow",
    "OmissionRow",
    "RaceRow",
    "RawRow",
    "RowError",
    "ScalingRow",
    "Table2Row",
    "TraceRow",
    "UnavailableRow",
    "read",
    "reasons_text",
    "write",
]

NO_REASONS: Final = "-"
"""Stands where a method gives no reasons at all."""


class RowError(ValueError):
    """A file does not hold rows of the kind that its name says."""


class Table2Row(NamedTuple):
    """One change of the paper's Table 2 after the 80 GBP refund was proposed.

    Attributes:
        oracle: what the business rules say.
        objection: what is wrong with the answer in itself; empty if nothing.
    """

    case: str
    expected: str
    oracle: str
    outcome: str
    objection: str


class TraceRow(NamedTuple):
    """One method's answer to one change. A trace is four rows on end, one a method; the traces stand in their order.

    Attributes:
        oracle: what the business rules say.
        reasons: the rules found broken, sorted, with `; ` between; `NO_REASONS` from a method that gives none.
        premises: how many were evaluated.
        released: 1 if the effect took place.
        objection: what is wrong with the answer in itself; empty if nothing.
    """

    repetition: int
    workload: str
    case: str
    expected: str
    expected_reasons: str
    oracle: str
    method: str
    outcome: str
    reasons: str
    premises: int
    released: int
    objection: str


class LatencyRow(NamedTuple):
    """Nanoseconds of each method's validation of one trace; the traces are those of the file of answers, in its order.

    The two methods whose time the paper does not give are timed in every tenth trace.
    """

    repetition: int
    workload: str
    no_check_ns: int | None
    version_abort_ns: int | None
    full_scan_ns: int
    atr_ns: int


class ClosureRow(NamedTuple):
    """What the hint of one change reached."""

    capture: str
    workload: str
    case: str
    expected: str
    outcome: str
    nodes: int
    premises: int


class OmissionRow(NamedTuple):
    """One unsafe trial, run in three ways; 1 in a way's column is a false allow.

    The trials of a rate stand in their order.

    Attributes:
        rate: how many per cent of the trials were drawn.
        omitted: 1 if this trial was drawn.
        explicit: the declaration lacked the premise, and the decision did not rest on the read.
        conservative: the declaration lacked the premise, and the decision rested on the read.
        index_only: the premise was declared, and only the index had lost the intent's edges.
    """

    repetition: int
    workload: str
    rate: int
    omitted: int
    explicit: int
    conservative: int
    index_only: int


class UnavailableRow(NamedTuple):
    """What the gate made of a block-critical premise whose validator was in some state."""

    validator: str
    outcome: str
    released: int


class BoundaryRow(NamedTuple):
    """One history: validate, let the policy change, then attempt the effect.

    Attributes:
        policy: where the policy row lies, seen from the target.
        binding: what the target checks.
        applied: what it answered to the first attempt.
        stale: 1 if the policy as it is forbids the effect.
        released: 1 if the effect took place.
    """

    policy: str
    binding: str
    trial: int
    applied: str
    outcome: str
    stale: int
    released: int


class ScalingRow(NamedTuple):
    """Nanoseconds of one validation with so many recorded reads."""

    repetition: int
    round: int
    reads: int
    path: str
    ns: int


class DurableRow(NamedTuple):
    """One method's answer after checkpoint, close, another actor's change, and a fresh process; as `TraceRow`."""

    trial: int
    pattern: str
    change: str
    expected: str
    expected_reasons: str
    oracle: str
    method: str
    outcome: str
    reasons: str
    premises: int
    released: int
    objection: str


class RaceRow(NamedTuple):
    """One pair of gates, released at a barrier.

    Attributes:
        over: what they race for: one `intent`, or two intents of one `lane`.
        first: what became of the first gate's attempt.
        second: what became of the second gate's attempt.
        commits: how many effects are in the target.
    """

    repetition: int
    over: str
    pair: int
    first: str
    second: str
    commits: int


RawRow: TypeAlias = (
    Table2Row
    | TraceRow
    | LatencyRow
    | ClosureRow
    | OmissionRow
    | UnavailableRow
    | BoundaryRow
    | ScalingRow
    | DurableRow
    | RaceRow
)

_R = TypeVar("_R", bound=RawRow)


def reasons_text(reasons: Iterable[str] | None) -> str:
    """Reasons as a row has them."""
    return NO_REASONS if reasons is None else "; ".join(sorted(reasons))


def write(file: Path, kind: type[RawRow], rows: Iterable[RawRow]) -> int:
    """Write a whole file or none: it gets its name when its last byte is on the disk. Returns the number of rows."""
    part = file.with_name(f"{file.name}.part")
    count = 0
    with part.open("wb") as raw:
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=9, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
        ):
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(kind._fields)
            for row in rows:
                writer.writerow(row)
                count += 1
        raw.flush()
        os.fsync(raw.fileno())
    part.replace(file)
    return count


def read(file: Path, kind: type[_R]) -> Iterator[_R]:
    """The rows of a file.

    Raises:
        RowError: it is not a file of such rows.
    """
    types = [get_type_hints(kind)[name] for name in kind._fields]
    numbers = [index for index, found in enumerate(types) if found is not str]
    optional = {index for index, found in enumerate(types) if found not in (int, str)}
    make = cast("Callable[[list[str | int | None]], _R]", kind._make)
    wanted = list(kind._fields)
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
            lines = csv.reader(text)
            if (header := next(lines, None)) != wanted:
                raise RowError(f"{file}: the header is {header}, and not {wanted}")
            for line in lines:
                values: list[str | int | None] = list(line)
                for index in numbers:
                    values[index] = None if index in optional and not line[index] else int(line[index])
                yield make(values)
    except (OSError, EOFError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, RowError):
            raise
        raise RowError(f"{file}: not rows of {kind.__name__}: {error}") from error
