"""The names of resources, intents and attempts."""

from __future__ import annotations

import base64
import sys
import unicodedata
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Final, NamedTuple, cast

import orjson

from lastlook.canonical.codec import encode, tree_of
from lastlook.canonical.digests import DIGESTED
from lastlook.canonical.freezing import freeze
from lastlook.canonical.values import INT_BOUND, MAX_DIGITS, MAX_EXPONENT, Absent, At, Value, error

__all__ = ["Named", "idempotency_key", "identity", "intent_id", "named", "random_id"]

_KEY_BYTES: Final = 1024
_ID_BYTES: Final = 16
_EXACT: Final = Context(prec=MAX_DIGITS)


class Named(NamedTuple):
    """A resource's name.

    Attributes:
        identity: its one text: two names share it only when their kinds and all parts of their keys are `same`.
        kind: its kind, a plain text.
        key: its key, each part in the one form of all that are `same`: 9 for 9.0 and for an enum member of value 9.
    """

    identity: str
    kind: str
    key: tuple[Value, ...]


def identity(kind: str, key: tuple[object, ...]) -> str:
    """The one text of the resource of this kind and key; raises as `named`."""
    return named(kind, key).identity


def named(kind: str, key: tuple[object, ...]) -> Named:
    """The name of the resource of this kind and key.

    Text is compared byte for byte and by case. It is refused, never mended, when another text could pass for it.

    Raises:
        CanonicalError: a part that is no plain value, or is text that is not in NFC (Unicode Annex 15), holds a
            control or format character (bidi and zero-width ones too) or has more than 1,024 bytes; or an empty kind.
    """
    plain = freeze(kind, path="kind")
    if not isinstance(plain, str):
        raise error(f"a kind of type '{type(kind).__name__}'", "kind", "name the kind of resource by a text")
    if not plain:
        raise error("an empty kind of resource", "kind", "name it")
    _legible(plain, "kind")
    parts = freeze(key, path="key")
    if not isinstance(parts, tuple):
        raise error("a key that is no tuple", "key", "write one part as '(part,)'")
    for index, part in enumerate(parts):
        at: At = ("key", index)
        if part is None or isinstance(part, (float, Absent, tuple, Mapping)):
            raise error("a part that names nothing exactly", at, "use text, numbers, dates, bytes or a uuid")
        if isinstance(part, str):
            _legible(part, at)
        elif isinstance(part, bytes) and len(part) > _KEY_BYTES:
            raise error(f"a key part of more than {_KEY_BYTES} bytes", at, "use a shorter one")
    tree = [plain, [tree_of(part, DIGESTED, ("key", index)) for index, part in enumerate(parts)]]
    if any(type(part) is Decimal for part in parts):
        parts = tuple([_plain_number(part) if isinstance(part, Decimal) else part for part in parts])
    return Named(sys.intern(orjson.dumps(tree).decode()), plain, parts)


def _plain_number(part: Decimal) -> int | Decimal:
    """The form of a number that stands in keys for all that equal it: an int where it is one."""
    if part == part.to_integral_value() and -INT_BOUND < part < INT_BOUND:
        return int(part)
    shortest = part.normalize(_EXACT)
    # Beyond the bound it could be written and not be read again.
    return shortest if abs(cast("int", shortest.as_tuple().exponent)) <= MAX_EXPONENT else part


def _legible(text: str, at: At) -> None:
    if len(text.encode()) > _KEY_BYTES:
        raise error(f"a name of more than {_KEY_BYTES} bytes", at, "use a shorter one")
    if text.isascii() and text.isprintable():
        return
    if not unicodedata.is_normalized("NFC", text):
        raise error("a name that is not in the normal form nfc", at, "normalise it where it comes from")
    if any(unicodedata.category(character) in {"Cc", "Cf"} for character in text):
        raise error("a name with a control, bidi or zero-width character", at, "remove it where it comes from")


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()


def intent_id(data: bytes) -> str:
    """The id that follows from `data`: 128 bits of its SHA-256 as 26 characters of base32 (RFC 4648), lower case."""
    import hashlib  # dear to import, and not needed to declare an effect

    return _base32(hashlib.sha256(data).digest()[:_ID_BYTES])


def random_id(entropy: bytes) -> str:
    """The id that says `entropy`, in the form of `intent_id`.

    Raises:
        CanonicalError: `entropy` does not have 16 bytes.
    """
    if len(entropy) != _ID_BYTES:
        raise error(f"{len(entropy)} bytes", "entropy", f"give {_ID_BYTES}")
    return _base32(entropy)


def idempotency_key(intent_id: str, attempt: int) -> str:
    """The key under which a target knows this attempt of this intent, whoever sends it and however often."""
    import hashlib  # dear to import, and not needed to declare an effect

    return "ll-" + _base32(hashlib.sha256(encode((intent_id, attempt))).digest()[:_ID_BYTES])
