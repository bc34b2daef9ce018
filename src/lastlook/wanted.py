"""What the face takes: a value of another type is refused where it is given, before anything happens."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lastlook.canonical import freeze
from lastlook.errors import DeclarationError

if TYPE_CHECKING:
    from lastlook.ports import Clock

__all__ = ["mistaken", "wanted", "wanted_clock", "wanted_map", "wanted_system", "wanted_text"]

_T = TypeVar("_T")

_SYSTEM = ("name", "kinds", "fields", "is_public", "read_many")


def mistaken(where: str, value: object, way: str) -> DeclarationError:
    """What says where a value of another type was given, and what to give; the value itself may be a secret."""
    what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    return DeclarationError(f"{where} got {what}: {way}")


def wanted(value: object, kind: type[_T], where: str, way: str) -> _T:
    """The value, if it is of that class.

    Raises:
        DeclarationError: it is of another one.
    """
    if not isinstance(value, kind):
        raise mistaken(where, value, way)
    return value


def wanted_text(value: object, where: str, way: str) -> str:
    """The text, plain.

    Raises:
        DeclarationError: it is no text, or an empty one.
        CanonicalError: it could not be stored.
    """
    if not isinstance(value, str):
        raise mistaken(where, value, way)
    text = cast("str", freeze(value, path=where))
    if not text.strip():
        raise DeclarationError(f"{where} got an empty text: {way}")
    return text


def wanted_map(value: Any, where: str, way: str) -> Mapping[Any, Any]:
    """The map.

    Raises:
        DeclarationError: it is none.
    """
    if not issubclass(type(value), Mapping):
        raise mistaken(where, value, way)
    found: Mapping[Any, Any] = value
    return found


def wanted_system(value: Any, where: str) -> None:
    """Refuse what is no system of record.

    Raises:
        DeclarationError: it lacks what one must have.
    """
    if isinstance(value, type) or not all(hasattr(value, part) for part in _SYSTEM):
        raise mistaken(where, value, "give it systems of record, such as Memory(orders={...})")


def wanted_clock(value: Any, where: str) -> Clock:
    """The clock.

    Raises:
        DeclarationError: it tells no moments, or moments without a zone.
    """
    way = "give an object whose now() is an aware datetime, in UTC for choice"
    if not callable(getattr(value, "now", None)):
        raise mistaken(where, value, way)
    moment = value.now()
    if not isinstance(moment, dt.datetime):
        raise mistaken(f"{where}.now()", moment, way)
    if moment.utcoffset() is None:
        raise DeclarationError(f"the clock's moments name no zone: {way}")
    return cast("Clock", value)
