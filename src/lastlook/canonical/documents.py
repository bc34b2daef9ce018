"""Plain JSON: documents of others read strictly, and values written for people and tools."""

from __future__ import annotations

import base64
import json
import re
from datetime import date
from decimal import Decimal
from typing import Final, NoReturn
from uuid import UUID

import orjson

from lastlook.canonical.codec import parse_int
from lastlook.canonical.freezing import freeze
from lastlook.canonical.values import MAX_BYTES, MAX_DEPTH, NUMBER_BOUNDS, Absent, Value, error
from lastlook.errors import CanonicalError

__all__ = ["dumps", "loads_json", "to_json"]

# A whole string, so that brackets inside one do not count, or a bracket. The closing quote is optional: without it a
# broken string would be tried again from each of its quotes, in quadratic time.
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


def loads_json(data: bytes | str) -> Value:
    """The frozen value of one plain JSON document (RFC 8259), the doubtful ones refused as I-JSON does (RFC 7493).

    A number with a fraction or an exponent is a Decimal of the same text (9.0 stays 9.0), any other an int; there is no
    negative zero.

    Raises:
        CanonicalError: malformed or larger than `MAX_BYTES`, a duplicate key, NaN or Infinity, or a value that `freeze`
            refuses.
    """
    if len(data) > MAX_BYTES:  # of text too: its bytes are no fewer
        raise _json_error(f"more than {MAX_BYTES} bytes")
    try:
        raw = data.encode() if isinstance(data, str) else data
        text = raw.decode()
    except UnicodeError:
        raise _json_error("invalid utf-8") from None
    if len(raw) > MAX_BYTES:
        raise _json_error(f"more than {MAX_BYTES} bytes")
    _refuse_deep(text)
    try:
        tree = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_parse_fraction,
            parse_int=parse_int,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise _json_error(f"malformed text at line {error.lineno}, column {error.colno}") from None
    return freeze(tree)


def _json_error(what: str) -> CanonicalError:
    return CanonicalError(f"{what} in a json document; correct it where it is written")


def _refuse_deep(text: str) -> None:
    """Count levels before parsing: the parser recurses."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        depth += (token in "[{") - (token in "]}")
        if depth > MAX_DEPTH:
            raise _json_error(f"more than {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _json_error("a duplicate key")
    return members


def _parse_fraction(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise error("decimal number out of bounds", "", NUMBER_BOUNDS) from None
    return number or number.copy_abs()


def _refuse_constant(name: str) -> NoReturn:
    raise _json_error(f"'{name}', which is no number,")


def to_json(value: object) -> object:
    """A plain tree of `value` for people and tools, lossy in type: what JSON cannot say exactly becomes a text.

    Integers stay numbers within I-JSON's safe range (RFC 7493, section 2.2), a Decimal where its text is such an
    integer; datetimes are ISO 8601 with Z, bytes base64 and `ABSENT` is {"$absent": true}.

    Raises:
        CanonicalError: as `freeze`.
    """
    return _plain(freeze(value))


def _plain(value: Value) -> object:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) < 2**53 else str(value)
        case float():
            return value if value - value == 0 else str(value)  # only a finite one takes itself away
        case Decimal():
            text = str(value).upper()
            return int(text) if abs(value) < 2**53 and text == str(int(value)) else text
        case bytes():
            return base64.b64encode(value).decode()
        case date():  # a datetime too
            return value.isoformat().replace("+00:00", "Z")
        case UUID():
            return str(value)
        case Absent():
            return {"$absent": True}
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return {key: _plain(item) for key, item in value.items()}


def dumps(obj: object, *, indent: bool = False) -> bytes:
    """JSON bytes of a tree from `to_json`, or of one like it, keys sorted; for reading, not for digests.

    Raises:
        CanonicalError: the tree holds what JSON cannot say.
    """
    option = orjson.OPT_SORT_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(obj, option=option)
    except orjson.JSONEncodeError:
        raise CanonicalError("a tree that json cannot say at the top level; pass it through `to_json` first") from None
