"""Digests of values: equal where the values are the same."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import orjson

from lastlook.canonical.codec import STORED, micros, tree_of
from lastlook.canonical.freezing import freeze

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.canonical.values import At, Rule

__all__ = ["DIGESTED", "SCHEMA", "digest", "fingerprint"]

SCHEMA: Final = 1
"""The version of the digest form; it is part of every digest."""


def _by_value(value: Decimal, _at: At) -> list[str]:
    """A number's one text: no exponent, no zeros that change nothing, no sign on zero; 9, 9.0 and 0.9E1 alike."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return ["n", text if value else "0"]


DIGESTED: Final[dict[type, Rule]] = {**STORED, int: lambda value, _: ["n", str(value)], Decimal: _by_value}
_RECORDED: Final[dict[type, Rule]] = {
    **DIGESTED,
    float: lambda value, _: ["f", value.hex()],  # exact, and NaN and the infinities by name
    datetime: lambda value, at: ["N", value.isoformat()] if value.tzinfo is None else micros(value, at),
}


def _header(kind: str, salt: bytes) -> bytes:
    """Each part after its length, so that no two lists of parts run together into the same bytes."""
    name = kind.encode()
    return b"".join((len(name).to_bytes(8), name, SCHEMA.to_bytes(8), len(salt).to_bytes(8), salt))


_VALUE_HEADER: Final = _header("value", b"")


def _hash(header: bytes, value: object, rules: Mapping[type, Rule]) -> str:
    body = orjson.dumps(tree_of(freeze(value), rules, ""), option=orjson.OPT_SORT_KEYS)
    import hashlib  # dear to import, and not needed to declare an effect

    return "sha256:" + hashlib.sha256(header + body).hexdigest()


def digest(value: object, *, kind: str, salt: bytes = b"") -> str:
    """A digest that two values share when they are `same`, under one kind and one salt, and else never.

    Absent, null and empty text have three digests. With a secret salt a digest does not give away a guessable value.

    Raises:
        CanonicalError: as `freeze`, and for a float or a naive datetime.
    """
    return _hash(_header(kind, salt), value, DIGESTED)


def fingerprint(value: object, *, salt: bytes = b"") -> str:
    """The digest of kind "value", for telling whether a recorded read moved: it takes floats and naive datetimes too.

    Raises:
        CanonicalError: as `freeze`.
    """
    return _hash(_header("value", salt) if salt else _VALUE_HEADER, value, _RECORDED)
