"""Columns as evidence: which of them are any, and how the driver's value becomes a canonical one."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, DateTime, PickleType
from sqlalchemy.types import NullType

from lastlook import canonical
from lastlook.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Dialect as Driver
    from sqlalchemy.types import TypeEngine

    from lastlook_connectors.sql.dialects import Dialect

__all__ = ["DECODING_ERRORS", "BadKey", "decoder_of", "encoder_of", "is_evidence"]

_EVIDENCE = (bool, int, float, decimal.Decimal, str, bytes, dt.datetime, dt.date, uuid.UUID, enum.Enum, list, dict)
_INT64 = 1 << 63


class BadKey(ValueError):
    """A key part that the column cannot hold."""


def is_evidence(kind: TypeEngine[Any]) -> bool:
    """Whether a column's values have a canonical form; spans and times of day have none, pickles are never opened."""
    if isinstance(kind, (JSON, NullType)):
        return True
    if isinstance(kind, PickleType):
        return False
    python = _python_type(kind)
    return python is not None and issubclass(python, _EVIDENCE)


def _python_type(kind: TypeEngine[Any]) -> type | None:
    try:
        return kind.python_type
    except NotImplementedError:  # how SQLAlchemy says that a type stands for no one Python type
        return None


def decoder_of(kind: TypeEngine[Any], driver: Driver, dialect: Dialect) -> Callable[[Any], Any] | None:
    """What turns the driver's value into the one that a premise sees; None where they are the same."""
    if isinstance(kind, JSON):
        return _document
    own = dialect.decoder(kind)
    if own is not None:
        return own
    return kind.dialect_impl(driver).result_processor(driver, None)


def _document(value: Any) -> Any:
    """A JSON column's text, decoded exactly: its fractions are decimals, which SQLAlchemy would make floats."""
    if value is None:
        return None
    if not isinstance(value, (str, bytes)):
        raise TypeError("no text")
    return canonical.loads_json(value)


def encoder_of(kind: TypeEngine[Any], driver: Driver) -> Callable[[Any], Any]:
    """What turns a key's part into the driver's value.

    The result raises BadKey for a part of another type than the column's: databases convert between types, and two
    keys of different types would name one row.
    """
    python = _python_type(kind)
    naive = isinstance(kind, DateTime)
    process: Any = kind.dialect_impl(driver).bind_processor(driver)

    def encode(part: Any) -> Any:
        if naive:
            raise BadKey("a datetime without a zone, which names no moment: a day, a number or a text can be a key")
        value = _fitting(part, python)
        return value if process is None else process(value)

    return encode


def _fitting(part: Any, python: type | None) -> Any:
    """The part as the column's own type, or BadKey."""
    if python is None:
        return part
    if issubclass(python, enum.Enum):
        for member in python:
            if canonical.same(member.value, part):
                return member
        raise BadKey(f"no member of {python.__name__}")
    if issubclass(python, bool):
        raise BadKey("of a column that is true or false, which names no row")
    if issubclass(python, int):
        if isinstance(part, decimal.Decimal) and part == part.to_integral_value():
            part = int(part)
        if type(part) is int and not -_INT64 <= part < _INT64:
            raise BadKey("a number of more than 64 bits")
        return _typed(part, int, "a whole number")
    if issubclass(python, decimal.Decimal):
        return decimal.Decimal(part) if type(part) is int else _typed(part, decimal.Decimal, "a number")
    if issubclass(python, dt.datetime):
        return _typed(part, dt.datetime, "a moment")
    for plain, name in ((dt.date, "a day"), (str, "a text"), (bytes, "bytes"), (uuid.UUID, "a uuid")):
        if issubclass(python, plain):
            return _typed(part, plain, name)
    return part


def _typed(part: Any, plain: type, name: str) -> Any:
    if type(part) is not plain:
        raise BadKey(f"{name}, and the key gives {type(part).__name__}")
    return part


DECODING_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, CanonicalError)
"""What a decoder raises of a value that its column's type does not have."""
