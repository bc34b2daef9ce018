"""Frozen classes: what `@dataclass(frozen=True)` makes, without what each of those costs when it is imported.

A dataclass writes, compiles and runs the source of its methods. Here all classes share one of each, which goes by the
names of the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field
    from typing import Self

__all__ = ["Frozen"]


class _Fields:
    """`__dataclass_fields__`, made when somebody asks for it: `dataclasses.fields`, `asdict` and `replace` work."""

    def __init__(self) -> None:
        self._known: dict[type, dict[str, Field[Any]]] = {}

    def __get__(self, _: object, owner: type[Frozen]) -> dict[str, Field[Any]]:
        found = self._known.get(owner)
        if found is None:
            found = self._known[owner] = _fields_of(owner)
        return found


def _fields_of(owner: type[Frozen]) -> dict[str, Field[Any]]:
    import dataclasses

    hints = owner.__annotations__ if owner is not Frozen else {}
    defaults = {name: dataclasses.field(default=getattr(owner, name)) for name in hints if hasattr(owner, name)}
    made: Any = dataclasses.make_dataclass(
        owner.__name__, [(name, hint, defaults.get(name, dataclasses.field())) for name, hint in hints.items()]
    )
    return {field.name: field for field in dataclasses.fields(made)}


@dataclass_transform(frozen_default=True)
class Frozen:
    """Base of classes whose annotated names are their fields, given by position or by name, and then never changed.

    A field may have a default, which all instances share. Fields are not inherited. Instances are equal if they are of
    one class and equal by field; with `eq=False`, only to themselves. What `hidden` names is not in their text.
    """

    __match_args__: ClassVar[tuple[str, ...]] = ()
    _by_field: ClassVar[bool] = True
    _hidden: ClassVar[frozenset[str]] = frozenset()
    if not TYPE_CHECKING:  # checkers know it of every class that is transformed
        __dataclass_fields__ = _Fields()

    def __init_subclass__(cls, *, eq: bool = True, hidden: tuple[str, ...] = ()) -> None:
        """Take the fields from the annotations."""
        cls.__match_args__ = tuple(cls.__annotations__)  # type: ignore[misc]  # mypy thinks a dataclass made it
        cls._by_field = eq
        cls._hidden = frozenset(hidden)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = self.__match_args__
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__}() takes {len(names)} arguments, not {len(args)}")
        values = self.__dict__
        values.update(zip(names, args, strict=False))
        if kwargs:
            for name in kwargs:
                if name in values or name not in names:
                    raise TypeError(f"{type(self).__name__}() takes no argument {name!r}, or takes it once")
            values.update(kwargs)
        if len(values) < len(names):
            for name in names:
                if not hasattr(self, name):
                    raise TypeError(f"{type(self).__name__}() needs an argument {name!r}")

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in self.__match_args__} | changes)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not self._by_field:
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values()) if self._by_field else object.__hash__(self)

    def __repr__(self) -> str:
        hidden = self._hidden
        fields = ", ".join(
            f"{name}={'...' if name in hidden else repr(getattr(self, name))}" for name in self.__match_args__
        )
        return f"{type(self).__qualname__}({fields})"

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set: make another by but({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")
