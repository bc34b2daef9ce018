"""An intent's story as the note that a colleague would leave: plain sentences, in the order in which it happened."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from lastlook.cli.story import moment, printable
from lastlook.errors import Outcome
from lastlook.expressions import render_value
from lastlook.records import NAMES, Grade, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lastlook.cli.story import Step, Story
    from lastlook.records import PremiseRecord, Read

__all__ = ["note"]

_WIDTH = 100
_SHOWN = 12
"""How many places a sentence names; the others are counted, and all stand in the JSON form."""
_REVEAL = "--reveal shows"
_GRADES = {
    Grade.BOUND: "the target itself compared it, in one step with the effect",
    Grade.HELD: "its owner kept it locked while the effect was made",
    Grade.RECORDED: "the store that owns it compared it when the attempt was opened",
    Grade.UNBOUND: "only looked at, and nothing compared it afterwards",
}
_OUTCOMES = {
    "KEEP": "KEEP: what justified the effect still held",
    "REFRESH": "REFRESH: the justification still held, and what is only shown was read anew",
    "REPLAN": "REPLAN: as planned, the effect was no longer justified",
    "BLOCK": "BLOCK: the effect must not happen like this",
}


def note(story: Story, *, reveal: bool = False) -> str:
    """The whole note; `reveal` adds the values that the journal has."""
    parts = [
        [printable(f"{story.record.effect}, intent {story.record.intent_id}: {_standing(story)}")],
        ["What was to happen", *_paragraphs([_purpose(story, reveal=reveal)])],
        ["What it rested on", *_paragraphs(_grounds(story))],
    ]
    happened: list[str] = []
    for number, step in enumerate(story.steps):
        before = story.steps[number - 1] if number else None
        happened.append(_told(story, step, before, reveal=reveal))
    if happened:
        parts.append(["What happened", "\n\n".join(_paragraphs(happened))])
    parts.append(["What became of it", *_paragraphs([_end(story, reveal=reveal)])])
    return "\n\n".join("\n".join(part) for part in parts)


def _paragraphs(texts: Iterable[str]) -> list[str]:
    """Wrapped and indented; a text that begins with a dash is an item of a list."""
    return [
        textwrap.fill(
            printable(text),
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="    " if text.startswith("- ") else "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for text in texts
    ]


def _standing(story: Story) -> str:
    return {
        State.OPEN: "open",
        State.ATTEMPT: "an attempt is open, its outcome not known yet",
        State.COMMITTED: "committed",
        State.WITHDRAWN: "withdrawn",
        State.EXPIRED: "expired",
        State.SUPERSEDED: "superseded",
    }[story.state]


# --- What was proposed ------------------------------------------------------------------------------------------------


def _purpose(story: Story, *, reveal: bool) -> str:
    record = story.record
    verb = "was called at once" if record.one_shot else "was proposed"
    said = [f"{record.effect} {verb} on {_time(story.proposed_at)}, to act on {record.target}."]
    if record.arguments:
        noun = "argument" if len(record.arguments) == 1 else "arguments"
        said.append(f"Its {noun}: {_list(_given(record.arguments, reveal=reveal))}.")
    if record.actor is not None:
        said.append(f"It was asked for by an actor ({_list(_given(record.actor, reveal=reveal)) or 'nothing known'}).")
    if not reveal and (record.arguments or record.actor):
        said.append(f"({_REVEAL} what was given.)")
    if record.expires_us is not None:
        said.append(f"It was to expire on {_time(moment(record.expires_us))}.")
    if record.supersedes is not None:
        said.append(f"It took the place of intent {record.supersedes}.")
    if record.transaction != record.intent_id:
        said.append(f"It came out of the agent's transaction {record.transaction}.")
    return " ".join(said)


def _given(given: Mapping[str, Any], *, reveal: bool) -> list[str]:
    return [f"{name} {render_value(value)}" if reveal else name for name, value in sorted(given.items())]


def _grounds(story: Story) -> list[str]:
    record = story.record
    said = [_ground(story, premise) for premise in record.premises]
    if not said:
        said.append("It was declared without premises: it may always go out.")
    if record.refresh:
        places = story.places(record.refresh)
        said.append(f"- Only shown, and read anew for the effect: {_list(places)}.")
    agent = [read for read in record.reads if read.origin == "AGENT"]
    if agent:
        said.append(f"The agent had read {_list(_rows(agent))}.")
    for decision in record.decisions:
        rest = f", resting on {_list(_rows([record.reads[n] for n in decision.rests_on]))}" if decision.rests_on else ""
        said.append(f"It decided: {decision.text!r}{rest}.")
    if record.differences:
        said.append(
            f"When the effect was proposed, this was no longer as the agent had read it: {_list(record.differences)}."
        )
    return said


def _ground(story: Story, premise: PremiseRecord) -> str:
    text = f"- {story.demands[premise.label]}"
    text += f", else {premise.severity.name}" + (f" ({premise.because})" if premise.because else "")
    if premise.awaited:
        return f"{text}. Awaited: judged only at the gate."
    if premise.proven:
        return f"{text}. So it was when proposed."
    if story.record.one_shot:
        return f"{text}. Not judged before the gate."
    return f"{text}. It was not so, or could not be verified, when proposed."


def _rows(reads: Sequence[Read]) -> list[str]:
    """Reads by resource, with the fields of each."""
    fields: dict[str, list[str]] = {}
    for read in reads:
        name = read.named or str(read.address)
        known = fields.setdefault(name, [])
        field = read.place.removeprefix(name).removeprefix(".") if read.path and read.path != NAMES else ""
        if field and field not in known:
            known.append(field)
    return [f"{name} ({_list(found)})" if found else name for name, found in fields.items()]


# --- What happened ----------------------------------------------------------------------------------------------------


def _told(story: Story, step: Step, before: Step | None, *, reveal: bool) -> str:
    same = before is not None and before.kind == "ATTEMPT" and before.body.get("attempt") == step.body.get("attempt")
    said = [f"On {_time(step.at)}"]
    first, *others = _what(step, same=same)
    if step.looked and not same:
        said[0] += " the gate took a look."
        said += _look(story, step, reveal=reveal)
        said.append(f"{first[0].upper()}{first[1:]}.")
    else:
        said.append(f"{first}.")
    said += [f"{other}." for other in others]
    return " ".join(said)


def _look(story: Story, step: Step, *, reveal: bool) -> list[str]:
    body = step.body
    said: list[str] = []
    if "changed" in body:
        changed = body["changed"]
        doubtful = any(each[2] is None and each[0] in story.demands for each in body["findings"])
        had = "This had changed, or could not be read" if doubtful else "This had changed"
        said.append(f"{had}: {_list(changed)}." if changed else "Nothing that it rests on had changed.")
    ran = {each["label"]: each["holds"] for each in body.get("premises", ())}
    held = [_demand(story, label) for label, holds in ran.items() if holds is True]
    if held:
        said.append(f"Checked, and true: {'; '.join(held)}.")
    idle = len([premise for premise in story.record.premises if premise.label not in ran])
    if idle and ran:
        others = "The other premise was" if idle == 1 else f"The other {idle} premises were"
        said.append(f"{others} not touched by that, and not run.")
    elif idle and not body.get("findings"):
        said.append("No premise had to run.")
    for label, severity, holds, text, because in body.get("findings", ()):
        demand = story.demands.get(label)
        reason = f" ({because})" if because else ""
        if demand is None:
            said.append(f"So {severity}: {text}{reason}.")
        else:
            kind = "Not true" if holds is False else "Not to be verified"
            said.append(f"{kind}, and so {severity}: {demand}{reason}. Found: {text}.")
    said.append(f"The outcome was {_OUTCOMES[body['outcome']]}.")
    if Outcome[body["outcome"]].permits:
        said += _bound(story, body)
        if body.get("refresh"):
            fresh = body["refresh"]
            shown = [f"{name} {render_value(fresh[name])}" if reveal else name for name in sorted(fresh)]
            said.append(f"Read anew for the effect: {_list(shown)}.")
    return said


def _bound(story: Story, body: Mapping[str, Any]) -> list[str]:
    """How firmly the evidence of each premise was tied to the effect, and what less was accepted, and why."""
    grades: dict[Grade, list[str]] = {}
    for label, name in body.get("bindings", {}).items():
        reason = body.get("accepted", {}).get(label)
        because = f" (accepted, because {reason})" if reason is not None else ""
        grades.setdefault(Grade[name], []).append(_demand(story, label) + because)
    if len(grades) == 1 and not body.get("accepted"):
        (grade,) = grades
        return [f"All of it was {grade.name}: {_GRADES[grade]}."]
    return [f"{grade.name}, that is, {_GRADES[grade]}: {'; '.join(grades[grade])}." for grade in sorted(grades)[::-1]]


def _what(step: Step, *, same: bool) -> list[str]:
    """What the transition says beside the look."""
    body, number = step.body, step.body.get("attempt")
    reason = f" ({body['reason']})" if body.get("reason") else ""
    key = f"attempt {number}, under the key {body['key']}" if "key" in body else f"attempt {number}"
    match step.kind:
        case "ATTEMPT":
            return [f"It opened {key}", *_until(body)]
        case "COMMITTED" if body.get("recovered"):
            made = f" to have been committed as attempt {number}" if number is not None else " to have been committed"
            return [f"nobody had said what became of the effect; the target, when asked, knew it{made}"]
        case "COMMITTED":
            return [
                f"the target committed {'attempt ' + str(number) if same else key}",
                *([] if same else _until(body)),
            ]
        case "CLOSED":
            return [f"the target closed attempt {number}: it had not been applied, and never will be{reason}"]
        case "ASSERTED":
            word = "had happened" if body["committed"] else "had not happened"
            return [
                f"{body['by']} said that the effect {word}: {body['note']!r}",
                "This is a person's word, which nothing has proved",
            ]
        case "WITHDRAWN":
            return ["the intent was withdrawn"]
        case "EXPIRED":
            return ["the intent had expired, and was ended"]
        case "SUPERSEDED":
            return [f"the intent was superseded by intent {body['by']}"]
        case _:
            return [_refused(step, key, reason), *([] if same or number is None else _until(body))]


def _refused(step: Step, key: str, reason: str) -> str:
    applied = step.body.get("applied")
    match applied:
        case "REJECTED":
            return f"the target refused {key}, and applied nothing{reason}"
        case "BUSY":
            return f"the target was busy and did not take {key}{reason}"
        case "FAILED":
            return f"the effect itself failed in {key}, and nothing was applied{reason}"
        case _:
            return f"nothing was sent to the target{reason}"


def _until(body: Mapping[str, Any]) -> list[str]:
    said: list[str] = []
    if body.get("deadline_us") is not None:
        said.append(f"After {_time(moment(body['deadline_us']))} anybody could close it")
    if body.get("not_after_us") is not None:
        said.append(f"The permission ended on {_time(moment(body['not_after_us']))}")
    return said


# --- The end ----------------------------------------------------------------------------------------------------------


def _end(story: Story, *, reveal: bool) -> str:
    intent = f"gate.intent({story.record.intent_id!r})"
    if not story.steps:
        return f"Nothing yet: nobody has asked the gate to release it. gate({intent}) would."
    last = story.steps[-1]
    match story.state:
        case State.COMMITTED if last.kind == "ASSERTED":
            return f"It counts as committed since {_time(last.at)}, because {last.body['by']} said so."
        case State.COMMITTED:
            result = last.body.get("result")
            said = f"It was committed on {_time(last.at)}."
            if result is None:
                return f"{said} It returned nothing."
            return f"{said} It returned {render_value(result)}." if reveal else f"{said} ({_REVEAL} what it returned.)"
        case State.ATTEMPT:
            number = last.body["attempt"]
            return f"Attempt {number} may have happened. gate({intent}) or lastlook reconcile asks the target."
        case State.SUPERSEDED:
            return f"Nothing of it was applied, and never will be: intent {last.body['by']} took its place."
        case State.WITHDRAWN | State.EXPIRED:
            return "Nothing of it was applied, and never will be."
        case _:
            return f"Nothing of it has been applied. It is still open: gate({intent}) would look again."


# --- Words ------------------------------------------------------------------------------------------------------------


def _demand(story: Story, label: str) -> str:
    return story.demands.get(label, label)


def _time(iso: str) -> str:
    day, _, clock = iso.removesuffix("Z").partition("T")
    return f"{day} at {clock.partition('.')[0]} UTC"  # to the second; the JSON form has the whole


def _list(names: Iterable[str]) -> str:
    found = list(names)
    more = len(found) - _SHOWN
    if more > 1:
        return f"{', '.join(found[:_SHOWN])} and {more} more"
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else "".join(found)
