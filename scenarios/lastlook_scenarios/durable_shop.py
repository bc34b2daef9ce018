"""The durable cells as a user of lastlook would write them: mapped classes as they are, effects, a gate on one engine.

The tables have versions, for the baselines; these classes do not map them, and nothing here needs them.

A workflow proposes and ends. A fresh process, this module's, opens the same database, finds the pending intent in the
store and its effect in the versioned registry, and gates it.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from lastlook import Gate, arg, block_unless, replan_unless
from lastlook_connectors.sql import Sql, SqlPermit, row
from lastlook_scenarios.cells import pattern

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sqlalchemy import Engine

    from lastlook.effects import Effect

__all__ = [
    "CloudPolicy",
    "Done",
    "Incident",
    "Meeting",
    "Note",
    "OfficePolicy",
    "Room",
    "Service",
    "checkpoint",
    "main",
    "opened",
    "resume",
]


class _Base(DeclarativeBase):
    pass


class Meeting(_Base):
    """What the assistant may invite people to."""

    __tablename__ = "meetings"
    id: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    room: Mapped[str]
    title: Mapped[str]
    starts: Mapped[str]
    invited: Mapped[bool]


class Room(_Base):
    """Where it takes place."""

    __tablename__ = "rooms"
    id: Mapped[str] = mapped_column(primary_key=True)
    seats: Mapped[int]
    in_service: Mapped[bool]
    floor: Mapped[int]


class Incident(_Base):
    """What the agent may restart instances for."""

    __tablename__ = "incidents"
    id: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    service: Mapped[str]
    title: Mapped[str]
    restarted: Mapped[bool]


class Service(_Base):
    """Whose instances they are."""

    __tablename__ = "services"
    id: Mapped[str] = mapped_column(primary_key=True)
    healthy: Mapped[int]
    region: Mapped[str]
    release: Mapped[str]


class Note(_Base):
    """What the agent read on the way."""

    __tablename__ = "notes"
    id: Mapped[str] = mapped_column(primary_key=True)
    text: Mapped[str]


class Done(_Base):
    """The ledger: one row an effect."""

    __tablename__ = "done"
    number: Mapped[int] = mapped_column(primary_key=True)
    what: Mapped[str]
    by: Mapped[str]


class _OfficeBase(DeclarativeBase):
    pass


class OfficePolicy(_OfficeBase):
    """What the assistant may do."""

    __tablename__ = "policies"
    id: Mapped[str] = mapped_column(primary_key=True)
    most_invited: Mapped[int]
    assistant_may_invite: Mapped[bool]


class _CloudBase(DeclarativeBase):
    pass


class CloudPolicy(_CloudBase):
    """What the agent may do."""

    __tablename__ = "policies"
    id: Mapped[str] = mapped_column(primary_key=True)
    freeze: Mapped[bool]
    most_restarted: Mapped[int]
    agent_may_restart: Mapped[bool]


_MODELS: dict[str, tuple[type[Any], ...]] = {
    "office": (Meeting, Room, OfficePolicy, Note),
    "cloud": (Incident, Service, CloudPolicy, Note),
}


@contextmanager
def opened(file: str, name: str) -> Generator[tuple[Gate, Effect[..., str]]]:
    """A gate on the database of a pattern, and its effect; the engine is closed at the end."""
    engine = create_engine(f"sqlite:///{file}")
    try:
        yield _gate(engine, name)
    finally:
        engine.dispose()


def _gate(engine: Engine, name: str) -> tuple[Gate, Effect[..., str]]:
    gate = Gate(Sql(engine, *_MODELS[name]), store=engine)
    gate.install()
    return gate, _office(gate) if name == "office" else _cloud(gate)


def _office(gate: Gate) -> Effect[..., str]:
    meeting, policy = row(Meeting, arg.meeting_id), row(OfficePolicy, "office")
    room = row(Room, meeting.room)

    @gate.effect(
        target=meeting,
        refresh=[meeting.title],
        premises=[
            replan_unless(meeting.state == "agreed", "the meeting is not agreed"),
            replan_unless(room.in_service, "the room is out of service"),
            replan_unless(arg.attendees <= room.seats, "the room is too small"),
            block_unless(~meeting.invited, "already invited"),
            block_unless(arg.attendees <= policy.most_invited, "more than may be invited unasked"),
            block_unless(policy.assistant_may_invite, "no authority to invite"),
        ],
    )
    def invite(permit: SqlPermit, meeting_id: str, attendees: int) -> str:
        return _carry_out(permit.session, Meeting, meeting_id, "invited", f"{attendees} invited")

    return invite


def _cloud(gate: Gate) -> Effect[..., str]:
    incident, policy = row(Incident, arg.incident_id), row(CloudPolicy, "operations")
    service = row(Service, incident.service)

    @gate.effect(
        target=incident,
        refresh=[incident.title],
        premises=[
            replan_unless(incident.state == "open", "the incident is not open"),
            replan_unless(arg.instances <= service.healthy, "too few healthy instances"),
            block_unless(~incident.restarted, "already restarted"),
            block_unless(~policy.freeze, "a maintenance freeze is on"),
            block_unless(arg.instances <= policy.most_restarted, "more than may be restarted at once"),
            block_unless(policy.agent_may_restart, "no restart authority"),
        ],
    )
    def restart(permit: SqlPermit, incident_id: str, instances: int) -> str:
        return _carry_out(permit.session, Incident, incident_id, "restarted", f"{instances} restarted")

    return restart


def _carry_out(session: Session, model: type[Any], key: str, flag: str, what: str) -> str:
    found = session.get_one(model, key)
    setattr(found, flag, True)
    session.add(Done(what=what, by="ATR"))
    return what


def checkpoint(file: str, name: str) -> None:
    """Read everything on record, decide, propose, and close."""
    of = pattern(name)
    with opened(file, name) as (gate, effect):
        tx = gate.transaction()
        models = {model.__tablename__: model for model in _MODELS[name]}
        reads = {(table, key): tx.read(row(models[table], key)) for table, found in of.rows.items() for key in found}
        tx.decide(f"{name} is due", rests_on=[reads[of.target]])
        tx.propose(effect, **of.arguments)


def resume(file: str, name: str) -> dict[str, Any]:
    """Gate the pending intent of a database, whoever proposed it."""
    with opened(file, name) as (gate, _):
        (intent,) = gate.pending()
        verdict = gate(intent)
        return {
            "outcome": verdict.outcome.name,
            "reasons": [finding.because for finding in verdict.findings],
            "premises": len(verdict.checked),
            "applied": verdict.committed,
        }


def main(argv: Sequence[str]) -> int:
    """Resume each of the files of a pattern: `PATTERN FILE...`; one line of JSON a file."""
    name, *files = argv
    for file in files:
        print(json.dumps(resume(file, name)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
