"""The body of a PROPOSED record: an `IntentRecord` as a canonical value, and back; every body has a schema number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lastlook.canonical import decode, encode, freeze
from lastlook.errors import IntegrityError, Outcome
from lastlook.records import SCHEMA, Address, Decision, IntentRecord, PremiseRecord, Read, Token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.canonical import Value

__all__ = ["PAGE", "RECORD_BYTES", "intent_body", "intent_from_body"]

PAGE = 250
"""Reads a page: a read set has no bound, so it is not one value but texts of so many reads each."""
RECORD_BYTES = 1 << 30
"""The bound of a whole record, which its store wrote itself."""


def intent_body(record: IntentRecord) -> Mapping[str, Value]:
    """The record as a canonical value; addresses are listed once and named by index."""
    addresses: dict[Address, int] = {}
    reads = [_read(read, addresses) for read in record.reads]
    pages = [encode(reads[first : first + PAGE]).decode() for first in range(0, len(reads), PAGE)]
    listed = list(addresses)
    body: dict[str, object] = {
        "schema": SCHEMA,
        "intent_id": record.intent_id,
        "effect": record.effect,
        "arguments": record.arguments,
        "arguments_digest": record.arguments_digest,
        "actor": record.actor,
        "target": record.target,
        "lane": record.lane,
        "premises": [_premise(premise) for premise in record.premises],
        "addresses": [
            encode([[address.kind, list(address.key)] for address in listed[first : first + PAGE]]).decode()
            for first in range(0, len(listed), PAGE)
        ],
        "reads": pages,
        "refresh": record.refresh,
        "decisions": [[decision.text, list(decision.rests_on)] for decision in record.decisions],
        "captured": record.captured,
        "differences": record.differences,
        "contract": record.contract,
        "expires_us": record.expires_us,
        "supersedes": record.supersedes,
        "transaction": record.transaction,
        "one_shot": record.one_shot,
    }
    return cast("Mapping[str, Value]", freeze(body))


def intent_from_body(body: Mapping[str, Value]) -> IntentRecord:
    """The record of a decoded body.

    Raises:
        IntegrityError: the body is of a newer schema, or is none of a proposal.
    """
    found = cast("Mapping[str, Any]", body)
    schema = found.get("schema")
    if schema != SCHEMA:
        raise IntegrityError(
            f"a proposal of schema {schema!r} cannot be read by this version, which knows {SCHEMA}: upgrade lastlook"
        )
    try:
        addresses = [Address(kind, tuple(key)) for page in found["addresses"] for kind, key in _page(page)]
        return IntentRecord(
            intent_id=found["intent_id"],
            effect=found["effect"],
            arguments=found["arguments"],
            arguments_digest=found["arguments_digest"],
            actor=found["actor"],
            target=found["target"],
            lane=found["lane"],
            premises=tuple(_premise_from(premise) for premise in found["premises"]),
            reads=tuple(_read_from(read, addresses) for page in found["reads"] for read in _page(page)),
            refresh=found["refresh"],
            decisions=tuple(Decision(text, rests_on) for text, rests_on in found["decisions"]),
            captured=found["captured"],
            differences=found["differences"],
            contract=found["contract"],
            expires_us=found["expires_us"],
            supersedes=found["supersedes"],
            transaction=found["transaction"],
            one_shot=found["one_shot"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise IntegrityError(
            "a stored proposal lacks a part or has one of the wrong type: the store was edited or is not lastlook's"
        ) from error


def _page(page: str) -> Any:
    return decode(page.encode())


def _read(read: Read, addresses: dict[Address, int]) -> list[object]:
    token = read.token
    return [
        addresses.setdefault(read.address, len(addresses)),
        list(read.path),
        read.digest,
        [token.kind, token.namespace, token.value],
        read.origin,
        read.named,
    ]


def _read_from(read: Any, addresses: list[Address]) -> Read:
    index: int
    index, path, digest, (kind, namespace, value), origin, named = read
    return Read(addresses[index], path, digest, Token(kind, namespace, value), origin, named)


def _premise(premise: PremiseRecord) -> dict[str, object]:
    return {
        "label": premise.label,
        "condition": premise.condition,
        "severity": premise.severity.name,
        "because": premise.because,
        "accepts": premise.accepts,
        "awaited": premise.awaited,
        "proven": premise.proven,
        "evidence": premise.evidence,
        "validators": premise.validators,
    }


def _premise_from(premise: Mapping[str, Any]) -> PremiseRecord:
    return PremiseRecord(
        label=premise["label"],
        condition=premise["condition"],
        severity=Outcome[premise["severity"]],
        because=premise["because"],
        accepts=premise["accepts"],
        awaited=premise["awaited"],
        # INVARIANT: only a stored True is proof; anything else runs again.
        proven=premise["proven"] is True,
        evidence=premise["evidence"],
        validators=premise["validators"],
    )
