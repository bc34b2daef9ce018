"""`lastlook pending | explain | verify | reconcile | withdraw`: stored intents, without a program of one's own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.cli.finding import find_intent, opened, places
from lastlook.cli.note import note
from lastlook.cli.story import moment, printable, read_story
from lastlook.errors import Applied, EffectStopped, InFlight, IntegrityError
from lastlook.verdicts import Intent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lastlook.cli.finding import Place
    from lastlook.gate import AsyncGate
    from lastlook.ports import Stored
    from lastlook.verdicts import Verdict

__all__ = ["explain", "pending", "reconcile", "verify", "withdraw"]


def pending(options: Any) -> int:
    """List the open intents and open attempts, one a line, as they are read."""
    where, _ = places(options, store=True, intent="none")
    with opened(where, options.store) as place:
        listed = _Listed(place, options.effect, options.limit)
        if options.json:
            _print_stream({"durable": place.store.durable}, "pending", listed)
            return 0
        for row in listed:
            print(printable(_line(row)))
        if listed.stopped:
            print(f"stopped at {listed.count}: there may be more (--limit)")
        elif not listed.count:
            print(f"no intent of {place.named} is pending" + (f" of {options.effect}" if options.effect else ""))
    return 0


class _Listed:
    """The pending intents, each loaded when it is asked for.

    Attributes:
        count: how many there were so far.
        stopped: the limit was reached before the end.
    """

    def __init__(self, place: Place, effect: str | None, limit: int | None) -> None:
        self._place = place
        self._effect = effect
        self._limit = limit
        self.count = 0
        self.stopped = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        place = self._place
        for intent_id, effect in place.wait(place.store.news(0)).intents:
            if self._effect not in (None, effect):
                continue
            if self.count == self._limit:
                self.stopped = True
                return
            try:
                stored: Stored | None = place.wait(place.store.load(intent_id))
            except IntegrityError as damage:
                self.count += 1
                yield {"intent": intent_id, "damage": str(damage)}
                continue
            if stored is None or stored.row.state.terminal:
                continue  # it ended meanwhile
            self.count += 1
            yield _row(stored)


def _row(stored: Stored) -> dict[str, Any]:
    record, row = stored.record, stored.row
    return {
        "intent": record.intent_id,
        "effect": record.effect,
        "target": record.target,
        "state": row.state.name,
        "attempt": row.attempt,
        "deadline": None if row.deadline_us is None else moment(row.deadline_us),
        "expires": None if record.expires_us is None else moment(record.expires_us),
    }


def _line(row: Mapping[str, Any]) -> str:
    if "damage" in row:
        return f"{row['intent']}  damaged: {row['damage']}"
    line = f"{row['intent']}  {row['state']:7}  {row['effect']} on {row['target']}"
    if row["deadline"] is not None:
        line += f"; attempt {row['attempt']} may be closed after {row['deadline']}"
    return line + (f"; expires {row['expires']}" if row["expires"] is not None else "")


def explain(options: Any) -> int:
    """Print an intent's note."""
    where, given = places(options, store=True, intent="required")
    with opened(where, options.store) as place:
        intent_id = find_intent(place, str(given))
        try:
            place.verify(intent_id)
            story = read_story(place.wait(place.store.journal(intent_id)))
        except IntegrityError as damage:
            print(f"lastlook: {damage}", file=sys.stderr)
            return 1
        if options.json:
            print(_json(story.as_json(reveal=options.reveal)))
        else:
            print(note(story, reveal=options.reveal))
    return 0


def verify(options: Any) -> int:
    """Recompute the chains; print each that is damaged."""
    where, given = places(options, store=True, intent="optional")
    with opened(where, options.store) as place:
        ids: Iterable[str] = [find_intent(place, given)] if given else place.wait(place.store.intents())
        checked = _Verified(place, ids)
        if options.json:
            _print_stream({"durable": place.store.durable, "integrity": "checksum"}, "damaged", checked)
        else:
            for damaged in checked:
                print(printable(f"{damaged['intent']}  {damaged['damage']}"))
            what = f"{checked.found} of {checked.count}" if checked.found else f"none of {checked.count}"
            print(f"{what} intents damaged; checksums show accidents, not a forger who can write to the store")
        return 1 if checked.found else 0


class _Verified:
    """The damaged ones among some intents, as they are found.

    Attributes:
        count: how many were recomputed so far.
        found: how many of them are damaged.
    """

    def __init__(self, place: Place, ids: Iterable[str]) -> None:
        self._place = place
        self._ids = ids
        self.count = 0
        self.found = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for intent_id in self._ids:
            self.count += 1
            try:
                self._place.verify(intent_id)
            except IntegrityError as damage:
                self.found += 1
                yield {"intent": intent_id, "damage": str(damage)}


def reconcile(options: Any) -> int:
    """Resolve what can be resolved, and print what became of each."""
    where, _ = places(options, store=False, intent="none")
    with opened(where, None) as place:
        try:
            verdicts: list[Verdict[Any]] = place.wait(cast("AsyncGate", place.gate).reconcile())  # of either colour
        except IntegrityError as damage:  # all others were seen to
            print(f"lastlook: {damage}", file=sys.stderr)
            return 1
        rows = [_resolved(verdict) for verdict in verdicts]
        unknown = sum(verdict.applied is Applied.UNKNOWN for verdict in verdicts)
        if options.json:
            print(_json({"durable": place.store.durable, "reconciled": rows, "unknown": unknown}))
        else:
            for row in rows:
                print(printable(f"{row['intent']}  {row['applied']:13}  {row['effect']}: {row['text']}"))
            print(f"{len(rows)} looked into, {unknown} still unknown" if rows else "nothing to reconcile")
    return 1 if unknown else 0


def _resolved(verdict: Verdict[Any]) -> dict[str, Any]:
    intent = cast("Intent[Any]", verdict.intent)
    text = "the target had committed it" if verdict.committed else verdict.model_text()
    if verdict.applied is Applied.NOT_ATTEMPTED:
        text = "nothing was applied; it is open again"
    return {
        "intent": intent.id,
        "effect": intent.effect,
        "applied": verdict.applied.name,
        "state": verdict.state.name if verdict.state is not None else None,
        "text": text,
    }


def withdraw(options: Any) -> int:
    """End an open intent."""
    where, given = places(options, store=False, intent="required")
    with opened(where, None) as place:
        intent_id = find_intent(place, str(given))
        intent: Intent[Any] = Intent(intent_id, "")
        reason = None
        try:
            place.wait(cast("AsyncGate", place.gate).withdraw(intent))  # of either colour
        except (EffectStopped, InFlight) as refused:
            reason = str(refused)
        if options.json:
            print(_json({"intent": intent_id, "withdrawn": reason is None, "reason": reason}))
        else:
            print(printable(f"{intent_id}  " + ("withdrawn" if reason is None else f"not withdrawn: {reason}")))
    return 0 if reason is None else 1


# Printing.


def _json(tree: object, *, indent: bool = True) -> str:
    return canonical.dumps(tree, indent=indent).decode()


def _print_stream(head: Mapping[str, Any], name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object whose last member is a list, written as the list is read, one element a line."""
    print(_json(head, indent=False).removesuffix("}"), end=f',"{name}":[')
    comma = "\n"
    for row in rows:
        print(comma + _json(row, indent=False), end="")
        comma = ",\n"
    print("\n]}" if comma != "\n" else "]}")
