"""What a value may be, its bounds, and the one form in which a value is refused."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, final
from uuid import UUID

from lastlook.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "ABSENT",
    "INT_BOUND",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_EXPONENT",
    "NUMBER_BOUNDS",
    "Absent",
    "At",
    "Atom",
    "Rule",
    "Value",
    "error",
]

MAX_DEPTH: Final = 32
"""How many lists and maps may stand inside one another."""
MAX_BYTES: Final = 1 << 20
"""The longest text that is read or written, and the most nodes a value may have."""
MAX_DIGITS: Final = 38
"""The most digits of a number: what every database's exact type can hold."""
MAX_EXPONENT: Final = 64
"""The largest exponent of a Decimal, either way."""

INT_BOUND: Final = 10**MAX_DIGITS
NUMBER_BOUNDS: Final = f"a number has at most {MAX_DIGITS} digits and an exponent within {MAX_EXPONENT}"


@final
class Absent:
    """The type of `ABSENT`; it has one instance, whatever is called, copied or loaded."""

    __slots__ = ()

    def __new__(cls) -> Absent:
        """The one instance."""
        return ABSENT

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> NoReturn:
        raise TypeError("ABSENT has no truth value; compare it with 'is ABSENT'")


ABSENT: Final[Absent] = object.__new__(Absent)
"""No such field or no such row; distinct from None, which is a value."""

Atom: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | UUID | Absent | None
Value: TypeAlias = "Atom | tuple[Value, ...] | Mapping[str, Value]"
"""A deep-frozen value. A float or a naive datetime may be held, but neither stored nor digested as evidence."""

At: TypeAlias = "str | tuple[At, str | int]"  # a path, spelt out only for an error
Rule: TypeAlias = "Callable[[Any, At], list[str]]"  # how a value of one exact type is tagged


def error(what: str, at: At, way: str) -> CanonicalError:
    """What was wrong, where, what to do; the value itself may be a secret and is never shown."""
    steps: list[str | int] = []
    while isinstance(at, tuple):
        at, step = at
        steps.append(step)
    for step in reversed(steps):
        if isinstance(step, int):
            at += f"[{step}]"
        elif step.isidentifier() and len(step) <= 64:
            at += f".{step}" if at else step
        else:
            at += f"[{step[:64]!r}]"
    return CanonicalError(f"{what} at {at or 'the top level'}; {way}")
