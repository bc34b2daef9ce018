"""What a system answers for: tables, whose rows have keys, and named queries; both give frozen values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Select, Table, select

from lastlook import canonical
from lastlook.errors import DeclarationError
from lastlook_connectors.sql.columns import DECODING_ERRORS, BadKey, decoder_of, encoder_of, is_evidence
from lastlook_connectors.sql.rows import columns_of, kind_of, mapper_of, table_of
from lastlook_connectors.sql.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Column
    from sqlalchemy import Dialect as Driver

    from lastlook.canonical import Value
    from lastlook.records import Address
    from lastlook_connectors.sql.dialects import Dialect

__all__ = ["NamedQuery", "Source", "Undecodable", "source_of"]


class Undecodable(Exception):
    """A stored value that is none of its column's type; the text never shows it."""


class _Fields:
    """Names and decoders of a row's values, in the order in which they are selected."""

    def __init__(self, columns: Iterable[tuple[str, Any]], driver: Driver, dialect: Dialect) -> None:
        typed = [(name, column.type) for name, column in columns]
        self.names = tuple(name for name, _ in typed)
        self._decoders = tuple(decoder_of(kind, driver, dialect) for _, kind in typed)
        self._types = tuple(type(kind).__name__ for _, kind in typed)

    def decode(self, raw: Sequence[Any]) -> Mapping[str, Value]:
        """The row as premises see it, frozen.

        Raises:
            Undecodable: a value has no canonical form, or is none of its column's type.
        """
        found: dict[str, Any] = {}
        for number, (name, decode, value) in enumerate(zip(self.names, self._decoders, raw, strict=True)):
            try:
                found[name] = canonical.freeze(value if decode is None else decode(value), path=name)
            except DECODING_ERRORS as error:
                raise Undecodable(f"column {name!r} holds what is no {self._types[number]}") from error
        return cast("Mapping[str, Value]", canonical.freeze(found))


class Source:
    """A table's rows.

    Attributes:
        kind: how premises name it.
        table: where they are.
        fields: the names of a row's values, by attribute of the mapped class, or by column.
        version: the field that moves with every write, if one was declared.
    """

    def __init__(
        self,
        kind: str,
        table: Table[Any],
        key: Sequence[Column[Any]],
        columns: Mapping[str, Column[Any]],
        driver: Driver,
        dialect: Dialect,
    ) -> None:
        dialect.refuse_schema(table)
        self.kind = kind
        self.table = table
        self.version: str | None = None
        self.key = tuple(key)
        self._columns = {name: column for name, column in columns.items() if is_evidence(column.type)}
        self._row = _Fields(self._columns.items(), driver, dialect)
        self._encoders = tuple(encoder_of(column.type, driver) for column in key)
        self.fields = frozenset(self._row.names)
        self.width = len(self.key) + len(self._row.names)
        self.decode = self._row.decode
        self._driver = driver
        self._whole: Prepared | None = None

    def encode_key(self, address: Address) -> tuple[Any, ...]:
        """The key's parts as the driver takes them.

        Raises:
            BadKey: a key of another number of parts, or a part that its column cannot hold.
        """
        if len(address.key) != len(self.key):
            raise BadKey(f"{self.kind!r} has a key of {len(self.key)} parts, and {len(address.key)} are given")
        values: list[Any] = []
        for column, encode, part in zip(self.key, self._encoders, address.key, strict=True):
            try:
                values.append(encode(part))
            except DECODING_ERRORS as error:
                what = error if isinstance(error, BadKey) else "something else"
                raise BadKey(f"{self.kind!r} has the key column {column.name!r}: {what}") from error
        return tuple(values)

    def aliased(self, alias: Any) -> list[Any]:
        """The columns to select of an alias of the table: first those of the key, to tell whether a row is there."""
        columns = (*self.key, *self._columns.values())
        return [_selectable(column, alias.c[column.key]) for column in columns]

    def whole(self) -> Prepared:
        """All rows, in the order of their keys."""
        if self._whole is None:
            columns = [_selectable(column, column) for column in self._columns.values()]
            self._whole = Prepared(select(*columns).select_from(self.table).order_by(*self.key), self._driver)
        return self._whole


def _selectable(column: Column[Any], aliased: Any) -> Any:
    """A column as its type wants it selected, if it wants anything."""
    wanted = column.type.column_expression(aliased)
    return aliased if wanted is None else wanted


def source_of(given: object, driver: Driver, dialect: Dialect) -> Source:
    """The source that a mapped class or a table is.

    Raises:
        DeclarationError: it is neither, or it has no primary key.
    """
    mapper = mapper_of(given)
    if mapper is not None:
        table = table_of(mapper)
        return Source(kind_of(table), table, cast("Any", mapper.primary_key), columns_of(mapper), driver, dialect)
    if not isinstance(given, Table):
        name = given.__name__ if isinstance(given, type) else repr(given)
        raise DeclarationError(
            f"Sql() takes mapped classes and tables, and {name} is neither: map the class, or give its Table"
        )
    declared = cast("Table[Any]", cast("object", given))
    if not declared.primary_key.columns:
        raise DeclarationError(
            f"the table {declared.name!r} has no primary key, so that nothing names its rows: declare one on "
            "the Table, or a named query"
        )
    columns: dict[str, Column[Any]] = dict(declared.columns.items())
    return Source(kind_of(declared), declared, tuple(declared.primary_key), columns, driver, dialect)


class NamedQuery:
    """A declared query: field `rows` is what it found, and `value` the one value, where it found exactly one.

    The key's parts are the values of its parameters, in the order in which they first occur.
    """

    fields = frozenset({"value", "rows"})

    def __init__(self, kind: str, statement: object, driver: Driver, dialect: Dialect) -> None:
        if not isinstance(statement, Select):
            raise DeclarationError(
                f"queries[{kind!r}] is {type(statement).__name__}: give it select(...), with bindparam('name') for "
                "each part of the key"
            )
        self.kind = kind
        columns = list(cast("Select[Any]", statement).selected_columns)
        names = [str(column.key) for column in columns]
        if len(set(names)) != len(names):
            raise DeclarationError(f"queries[{kind!r}] selects two columns of one name: give them .label('name')")
        self._row = _Fields(zip(names, columns, strict=True), driver, dialect)
        self._prepared = Prepared(cast("Any", statement), driver)
        binds = {bind.key: bind for bind in cast("Any", statement.compile(dialect=driver)).binds.values()}
        self._encoders: list[Callable[[Any], Any]] = [
            encoder_of(binds[name].type, driver) for name in self._prepared.names
        ]

    def parameters(self, address: Address) -> Mapping[str, Any]:
        """The values of the query's parameters.

        Raises:
            BadKey: too many or too few, or one that its parameter cannot take.
        """
        names = self._prepared.names
        if len(address.key) != len(names):
            raise BadKey(
                f"query {self.kind!r} takes {', '.join(names) or 'nothing'}, and {len(address.key)} parts are given"
            )
        try:
            return {name: encode(part) for name, encode, part in zip(names, self._encoders, address.key, strict=True)}
        except DECODING_ERRORS as error:
            what = error if isinstance(error, BadKey) else "a part of another type than the parameter's"
            raise BadKey(f"query {self.kind!r}: {what}") from error

    def run(self, connection: Any, parameters: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...]:
        """What it finds now, as the driver gives it."""
        return tuple(self._prepared.rows(connection, parameters))

    def decode_rows(self, raw: tuple[tuple[Any, ...], ...]) -> tuple[Value, ...]:
        """The rows that it found, frozen.

        Raises:
            Undecodable: a value has no canonical form.
        """
        return tuple(self._row.decode(found) for found in raw)

    def decode(self, raw: tuple[tuple[Any, ...], ...]) -> Mapping[str, Value]:
        """What it found, frozen.

        Raises:
            Undecodable: a value has no canonical form.
        """
        rows = cast("tuple[Mapping[str, Value], ...]", self.decode_rows(raw))
        answer: dict[str, Any] = {"rows": rows}
        if len(rows) == 1 and len(self._row.names) == 1:
            answer["value"] = rows[0][self._row.names[0]]
        return cast("Mapping[str, Value]", canonical.freeze(answer))
