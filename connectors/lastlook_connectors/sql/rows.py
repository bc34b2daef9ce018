"""One row of a mapped class, named by its key, with the class's own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Table
from sqlalchemy.orm import Mapper

from lastlook import resource
from lastlook.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Column

__all__ = ["columns_of", "kind_of", "mapper_of", "row", "table_of"]

_T = TypeVar("_T")


def row(model: type[_T], key: object, /) -> type[_T]:
    """Name a row of a mapped class by its primary key, for premises.

    `order = row(Order, arg.order_id)`

    To a type checker it is the class itself, as SQLAlchemy's `aliased` is, so that `order.refundd` is an error and
    `order.refunded` a condition. At run time it is a resource, whose fields are the class's mapped columns.

    Args:
        model: the mapped class.
        key: the key, from arguments, constants or other evidence; a tuple of its parts where it is composite, in the
            order of the primary key's columns.

    Raises:
        DeclarationError: no mapped class, or a key of another number of parts.
    """
    mapper = mapper_of(model)
    if mapper is None:
        raise DeclarationError(f"row() takes a mapped class, not {model!r}: for a table write resource('name', key)")
    given: Any = key
    parts: tuple[Any, ...] = tuple(given) if isinstance(key, tuple) else (key,)
    names = [column.name for column in mapper.primary_key]
    if len(parts) != len(names):
        raise DeclarationError(
            f"row({model.__name__}, ...) got a key of {len(parts)} parts, and its primary key has {len(names)}: "
            f"give them in this order: {', '.join(names)}"
        )
    return cast("type[_T]", resource(kind_of(table_of(mapper)), *parts, model=model))


def mapper_of(model: object) -> Mapper[Any] | None:
    """The mapper of a mapped class, without configuring it: other classes may still be to come."""
    mapper = getattr(model, "__mapper__", None)
    return cast("Mapper[Any]", cast("object", mapper)) if isinstance(mapper, Mapper) else None


def table_of(mapper: Mapper[Any]) -> Table[Any]:
    """The one table of a mapped class.

    Raises:
        DeclarationError: it is mapped to something else, or it shares its rows with another class.
    """
    table: Any = mapper.local_table
    name = mapper.class_.__name__
    if mapper.inherits is not None:
        raise DeclarationError(
            f"{name} inherits its mapping, so its rows are another class's too: give the table, {name}.__table__, and "
            "name its rows by resource()"
        )
    if not isinstance(table, Table):
        raise DeclarationError(f"{name} is mapped to no plain table: declare a named query instead")
    return cast("Table[Any]", cast("object", table))


def kind_of(table: Table[Any]) -> str:
    """The kind of a table's rows: its name, with the schema if it has one."""
    return table.fullname


def columns_of(mapper: Mapper[Any]) -> Mapping[str, Column[Any]]:
    """The columns that loading an object reads, by attribute."""
    found: dict[str, Column[Any]] = {}
    for name, column in mapper.columns.items():
        loaded = mapper.has_property(name) and not getattr(mapper.get_property(name), "deferred", False)
        if loaded and column.table is mapper.local_table:
            found[name] = column
    return found
