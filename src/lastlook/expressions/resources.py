"""Resources: the rows of systems of record that expressions name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeAlias, cast

from lastlook.errors import DeclarationError
from lastlook.expressions import build
from lastlook.expressions.english import render_ref
from lastlook.expressions.expr import Clause, Expr, Field, Term, field_from, node_of, operand_of, reference_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date
    from uuid import UUID

    from lastlook.expressions.tree import RefNode

__all__ = [
    "KeyPart",
    "Ref",
    "Resource",
    "UntypedRef",
    "field_of",
    "make_ref",
    "ref_fields",
    "ref_from",
    "ref_key",
    "ref_kind",
    "ref_public",
    "resource",
]

KeyPart: TypeAlias = "Expr[Any] | Clause | str | int | bytes | date | UUID"


class Ref:
    """One row of a kind by its key, as `resource()`, a Resource or a connector's `row()` makes it.

    Its attributes are fields and nothing else; `ref["class"]` is a field whose name Python does not take. It has no
    truth value, text or order: what is done with a resource is a function, such as `exists(order)`.
    """

    __slots__ = ("__weakref__", "_ref")

    _ref: RefNode

    def __getitem__(self, name: str) -> Field[Any]:
        return field_of(self._ref, name)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return render_ref(self._ref)

    def __setattr__(self, name: str, value: object) -> None:
        raise DeclarationError(
            f"{render_ref(self._ref)}.{name} is evidence and cannot be set: the body writes, not this"
        )

    def __bool__(self) -> NoReturn:
        text = render_ref(self._ref)
        raise DeclarationError(f"{text} is a resource and no value: name one of its fields, or write exists(...)")

    # Checkers report the rest by themselves, and an unknown attribute only where fields are typed.
    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> Field[Any]:
            if name.startswith("_"):
                raise AttributeError(name)
            return field_of(self._ref, name)

        def _refuse(self, *_: object) -> NoReturn:
            text = render_ref(self._ref)
            raise DeclarationError(f"{text} is a resource and no value: name one of its fields, or write exists(...)")

        __iter__ = __contains__ = __format__ = __str__ = _refuse
        __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __invert__ = __and__ = __or__ = _refuse


def field_of(ref: RefNode, name: str) -> Field[Any]:
    """The field of that name.

    Raises:
        DeclarationError: the fields are known and it is none of them.
    """
    return field_from(build.field(ref, name))


class UntypedRef(Ref):
    """A resource whose fields no checker knows."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Field[Any]: ...


class Resource(Ref):
    """A kind of resource whose fields are declared, so that a misspelt one is an error of types and of declaration.

    ```python
    class Incident(Resource, kind="incidents"):
        state: Field[str]
        title: Field[str] = Field(public=True)


    incident = Incident(arg.incident_id)
    ```
    """

    _kind: ClassVar[str] = ""
    _fields: ClassVar[frozenset[str]] = frozenset()
    _public: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, kind: str = "", **options: Any) -> None:
        """Take the fields from the annotations; a subclass has those of its bases too.

        Raises:
            DeclarationError: no kind, or an annotation that is no `Field[...]`.
        """
        super().__init_subclass__(**options)
        cls._kind = kind or cls._kind
        if not cls._kind:
            raise DeclarationError(f'{cls.__name__} names no kind: class {cls.__name__}(Resource, kind="orders")')
        names: set[str] = set()
        public: set[str] = set()
        for name, annotation in inspect.get_annotations(cls).items():
            if "ClassVar" in str(annotation):
                continue
            if name in _RESERVED:
                raise DeclarationError(f"{cls.__name__}.{name} is taken: leave it undeclared and read it by item")
            if not _is_field(annotation):
                raise DeclarationError(f"{cls.__name__}.{name} is no field: declare it as {name}: Field[...]")
            names.add(name)
            default = cls.__dict__.get(name)
            if isinstance(default, Field) and node_of(cast("Field[object]", default)).args[0]:
                public.add(name)
            setattr(cls, name, _Declared(name))
        for name, default in cls.__dict__.items():
            if isinstance(default, Field):
                raise DeclarationError(
                    f"{cls.__name__}.{name} has no type: declare it as {name}: Field[...] = Field(...)"
                )
        cls._fields = cls._fields | names
        cls._public = cls._public | public

    def __init__(self, *key: KeyPart) -> None:
        cls = type(self)
        made = make_ref(cls._kind, key, fields=cls._fields, public=cls._public)
        object.__setattr__(self, "_ref", reference_in(made))


_RESERVED: Final = frozenset({"_ref", "_kind", "_fields", "_public"})


def _is_field(annotation: object) -> bool:
    """Whether an annotation is a Field; of one that is still text only its form is known."""
    if isinstance(annotation, str):
        return "[" in annotation or annotation.rpartition(".")[2] == "Field"
    return annotation is Field or getattr(annotation, "__origin__", None) is Field


class _Declared:
    """Stands in the class for a declared field, which only a row has."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, row: Resource | None, cls: type[Resource]) -> Field[Any]:
        if row is None:
            raise AttributeError(f"{cls.__name__}.{self._name} is a field of a row: name one, {cls.__name__}(arg.id)")
        return row[self._name]


def resource(kind: str, /, *key: KeyPart, model: type | None = None) -> UntypedRef:
    """One row of a kind by the parts of its key, which may come from arguments, the actor or evidence.

    Args:
        kind: the kind, as a system of record publishes it.
        key: the key's parts; constants or expressions.
        model: a class whose annotations, pydantic fields or SQLAlchemy table say which fields there are.

    Raises:
        DeclarationError: no key, a part that cannot be one, or a field that the model does not have.
    """
    return make_ref(kind, key, fields=None if model is None else _names_of(model))


def _names_of(model: type) -> Collection[str]:
    """The field names of a model, by what pydantic and SQLAlchemy leave on a class, and without importing them."""
    fields = getattr(model, "model_fields", None)
    if isinstance(fields, dict):
        return [str(name) for name in cast("dict[object, object]", fields)]
    mapped = getattr(model, "__mapper__", None) or getattr(model, "__table__", None)
    if mapped is not None:  # a mapper's columns go by the names of the class's attributes, a table's by their own
        return [str(name) for name in cast("Iterable[object]", mapped.columns.keys())]
    return [name for cls in model.__mro__[:-1] for name in inspect.get_annotations(cls)]


def make_ref(
    kind: str, key_parts: Iterable[KeyPart], *, fields: Collection[str] | None, public: Collection[str] = ()
) -> UntypedRef:
    """A resource, as a connector makes it from a declaration of its own.

    Args:
        kind: the kind that the system publishes.
        key_parts: constants or expressions, in the order of the key's columns.
        fields: the names that there are, or None where nobody knows.
        public: the fields whose values an explanation may show.

    Raises:
        DeclarationError: no key, or a part that cannot be one.
    """
    parts = tuple(operand_of(part) for part in key_parts)
    if not parts:
        raise DeclarationError(f'{kind!r} has no key: give its parts, or write rows("{kind}") for all rows')
    known = None if fields is None else frozenset(fields)
    return ref_from(build.reference(kind, parts, known, frozenset(public)))


def ref_from(ref: RefNode) -> UntypedRef:
    """The resource that a tree names."""
    made = object.__new__(UntypedRef)
    object.__setattr__(made, "_ref", ref)
    return made


def _ref(ref: Ref) -> RefNode:
    found = reference_in(ref)
    if found is None:
        raise DeclarationError(f"a resource is needed here, not {type(ref).__name__}")
    return found


def ref_kind(ref: Ref) -> str:
    """The kind of a resource."""
    return _ref(ref).kind


def ref_key(ref: Ref) -> tuple[Expr[Any], ...]:
    """The parts of a resource's key, each an expression; none where all rows are meant."""
    return tuple(Term(part) for part in _ref(ref).key)


def ref_fields(ref: Ref) -> frozenset[str] | None:
    """The fields that a resource is known to have, or None."""
    return _ref(ref).fields


def ref_public(ref: Ref) -> frozenset[str]:
    """The fields of a resource whose values an explanation may show."""
    return _ref(ref).public
