"""Reading evidence: one statement for all rows that a stage names, one snapshot for whatever else it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import and_, bindparam, literal_column, select
from sqlalchemy.exc import MultipleResultsFound
from sqlalchemy.types import NullType

from lastlook import canonical
from lastlook.canonical import ABSENT
from lastlook.ports import Unreadable
from lastlook.records import Observation, Token
from lastlook_connectors.sql.columns import BadKey
from lastlook_connectors.sql.sources import NamedQuery, Source, Undecodable
from lastlook_connectors.sql.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection
    from sqlalchemy import Dialect as Driver

    from lastlook.records import Address
    from lastlook_connectors.sql.dialects import Dialect

__all__ = ["NAMESPACE", "Batch", "Library"]

NAMESPACE = "sql"
"""The namespace of this connector's tokens: digests of content, which are alike wherever the content is."""

_KEPT = 4_096
"""Of how many resources the last observation is kept, so that one that did not move is the very same."""
_SHAPES = 256


class Library:
    """What is known of a database's sources, shared by all who read it: statements by shape, last observations."""

    def __init__(self, sources: Mapping[str, Source | NamedQuery], driver: Driver, dialect: Dialect) -> None:
        self.sources = sources
        self.dialect = dialect
        self._driver = driver
        self._shapes: dict[tuple[str, ...], Prepared] = {}
        self._last: dict[str, tuple[Any, Any, Observation]] = {}
        self._nothing = Observation(ABSENT, Token("digest", NAMESPACE, canonical.fingerprint(ABSENT)))

    def statement(self, sources: Sequence[Source]) -> Prepared:
        """One row of each of these, joined side by side; those that are not there are null."""
        shape = tuple(source.kind for source in sources)
        found = self._shapes.get(shape)
        if found is None:
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            found = self._shapes[shape] = self._compile(sources)
        return found

    def _compile(self, sources: Sequence[Source]) -> Prepared:
        joined: Any = select(cast("Any", literal_column("1")).label("one")).subquery("lastlook_one")
        columns: list[Any] = []
        for number, source in enumerate(sources):
            alias = source.table.alias(f"r{number}")
            parts = [
                alias.c[column.key] == bindparam(f"k{number}_{part}", type_=NullType(), required=True)
                for part, column in enumerate(source.key)
            ]
            joined = joined.outerjoin(alias, and_(*parts))
            columns.extend(source.aliased(alias))
        return Prepared(select(*columns).select_from(joined), self._driver)

    def observed(
        self, identity: str, raw: Any, decode: Callable[[Any], Any], version: str | None = None
    ) -> Observation | Unreadable:
        """What the driver's values are as evidence; the same object as last time where they are the same values."""
        kinds = _kinds(raw)
        last = self._last.get(identity)
        if last is not None and last[0] == raw and last[1] == kinds:
            return last[2]
        try:
            value = decode(raw)
        except Undecodable as error:
            return Unreadable(str(error))
        digest = canonical.fingerprint(value)
        number = None if version is None else value.get(version)
        if type(number) is int and number >= 0:
            digest = f"{number}@{digest}"
        observation = Observation(value, Token("digest", NAMESPACE, digest))
        if len(self._last) >= _KEPT:
            self._last.clear()
        self._last[identity] = (raw, kinds, observation)
        return observation

    @property
    def nothing(self) -> Observation:
        """There is no such row."""
        return self._nothing


def _kinds(raw: Any) -> object:
    """The types of the driver's values: 1 and 1.0 are equal, and two kinds of evidence."""
    if isinstance(raw, tuple):
        return tuple([_kinds(part) for part in cast("Any", raw)])
    return cast("object", type(raw))


class Batch:
    """A fixed list of addresses, read together."""

    def __init__(self, library: Library, addresses: Sequence[Address]) -> None:
        self._library = library
        self._found: list[Observation | Unreadable] = [library.nothing] * len(addresses)
        self._rows: list[tuple[int, Address, Source, tuple[Any, ...]]] = []
        self._wholes: list[tuple[int, Address, Source]] = []
        self._queries: list[tuple[int, Address, NamedQuery, Mapping[str, Any]]] = []
        for number, address in enumerate(addresses):
            source = library.sources[address.kind]
            try:
                if isinstance(source, NamedQuery):
                    self._queries.append((number, address, source, source.parameters(address)))
                elif address.is_collection:
                    self._wholes.append((number, address, source))
                else:
                    self._rows.append((number, address, source, source.encode_key(address)))
            except BadKey as error:
                self._found[number] = Unreadable(str(error))
        self._joins = self._chunks()
        self._several = len(self._joins) + len(self._wholes) + len(self._queries) > 1

    def _chunks(self) -> list[tuple[Prepared, Mapping[str, Any], list[tuple[int, Address, Source, tuple[Any, ...]]]]]:
        dialect, library = self._library.dialect, self._library
        groups: list[list[tuple[int, Address, Source, tuple[Any, ...]]]] = []
        width = 0
        for item in self._rows:
            if not groups or len(groups[-1]) >= dialect.joined or width + item[2].width > dialect.columns:
                groups.append([])
                width = 0
            groups[-1].append(item)
            width += item[2].width
        return [
            (
                library.statement([source for _, _, source, _ in group]),
                {
                    f"k{number}_{part}": value
                    for number, (_, _, _, key) in enumerate(group)
                    for part, value in enumerate(key)
                },
                group,
            )
            for group in groups
        ]

    def read(self, connection: Connection, *, inside: bool = False) -> tuple[Observation | Unreadable, ...]:
        """One observation for each address, from one snapshot.

        Args:
            connection: where to read.
            inside: a transaction is open there already, and is the snapshot.
        """
        if self._several and not inside:
            with self._library.dialect.reading(connection):
                return self._read(connection)
        return self._read(connection)

    def _read(self, connection: Connection) -> tuple[Observation | Unreadable, ...]:
        found, library = list(self._found), self._library
        for prepared, values, group in self._joins:
            rows = prepared.rows(connection, values)
            if len(rows) != 1:
                raise MultipleResultsFound("a key that a mapping calls primary is that of several rows")
            raw, at = rows[0], 0
            for number, address, source, key in group:
                here, at = raw[at : at + source.width], at + source.width
                width = len(key)
                if here[0] is None:
                    continue
                if here[:width] != key:
                    found[number] = Unreadable("the database takes its key for that of another row")
                    continue
                found[number] = library.observed(address.identity, here[width:], source.decode, source.version)
        for number, address, source in self._wholes:
            raw = tuple(source.whole().rows(connection, {}))
            found[number] = library.observed(address.identity, raw, _all(source))
        for number, address, query, parameters in self._queries:
            decode = query.decode_rows if address.is_collection else query.decode
            found[number] = library.observed(address.identity, query.run(connection, parameters), decode)
        return tuple(found)


def _all(source: Source) -> Callable[[Any], Any]:
    return lambda raw: tuple([source.decode(row) for row in raw])
