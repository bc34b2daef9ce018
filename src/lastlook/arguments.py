"""An effect's signature, and the codec of its arguments and result: bound by name, decoded strictly, stored."""

from __future__ import annotations

import datetime as dt
import enum
import inspect
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from lastlook import canonical
from lastlook.errors import CanonicalError, DeclarationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastlook.canonical import Value

__all__ = ["MAX_ARGUMENTS", "OPTIONS", "Arguments"]

MAX_ARGUMENTS = 1 << 18
"""Bytes that all arguments together, an actor, or a result may have: what a record holds must surely fit into it."""

OPTIONS = ("key", "expires", "actor", "supersedes")
"""What a call carries beside its arguments, through `.options(...)`."""

_SCALARS: tuple[type, ...] = (str, int, bool, Decimal, bytes, dt.date, dt.datetime, uuid.UUID)
_CONTAINERS = (list, tuple, dict, Mapping, Sequence)
_NESTED = (list, tuple, Mapping)
_PLAIN = (*_SCALARS, *_NESTED, enum.Enum, types.NoneType)


class Arguments:
    """The parameters behind `permit`, and how their values travel into the store and back.

    Args:
        function: the effect's body; its first parameter is `permit`.
        name: how messages name the effect.

    Raises:
        DeclarationError: no function, a method, no `permit` first, `*args` or `**kwargs`, or a result that cannot be
            stored.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        if not inspect.isfunction(function):
            raise DeclarationError(
                f"@gate.effect got {type(function).__name__}: "
                "put the framework's decorator above, @gate.effect next to def"
            )
        self._function = function
        self._name = name
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        if parameters and parameters[0].name in ("self", "cls"):
            raise DeclarationError(
                f"{name}() is a method, and an intent outlives `{parameters[0].name}`: use a module-level function"
            )
        if not parameters or parameters[0].name != "permit" or parameters[0].kind is parameters[0].KEYWORD_ONLY:
            rest = ", ".join(parameter.name for parameter in parameters if parameter.name != "permit")
            rest = f", {rest}" if rest else ""
            raise DeclarationError(f"{name}() must take `permit` first: def {name}(permit{rest})")
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise DeclarationError(
                    f"{name}() takes {parameter}: an intent stores its arguments by name, so name each parameter"
                )
        self.parameters = tuple(parameters[1:])
        self.names = frozenset(parameter.name for parameter in self.parameters)
        self.signature = signature.replace(parameters=self.parameters)
        self.positional = tuple(p.name for p in self.parameters if p.kind is p.POSITIONAL_ONLY)
        self._adapters: dict[str, Any] = {}
        self._hints: dict[str, Any] | None = None
        self._refuse_result()

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The values by parameter name, defaults applied, each decoded strictly by its annotation.

        Raises:
            TypeError: the call does not fit the signature; the effect and a near name are named.
            CanonicalError: a value is not of its annotation, or cannot be stored.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(self._misfit(kwargs) or f"{self._name}(): {error}") from None
        bound.apply_defaults()
        return {name: self._decode(name, value) for name, value in bound.arguments.items()}

    def _misfit(self, kwargs: Mapping[str, Any]) -> str:
        names = [parameter.name for parameter in self.parameters]
        for name in kwargs:
            if name == "permit":
                return f"{self._name}() is given its permit by the gate: leave it out of the call"
            if name not in self.names:
                return f"{self._name}() has no parameter {name!r}{self._instead(name, names)}"
        return ""

    def _instead(self, name: str, names: list[str]) -> str:
        if name in OPTIONS:
            return f": it goes in {self._name}.options({name}=...)"
        from difflib import get_close_matches  # only for a message

        near = get_close_matches(name, names, 1)
        return f": did you mean {near[0]!r}?" if near else f": it takes {', '.join(names) or 'none'}"

    def freeze(self, values: Mapping[str, Any]) -> Mapping[str, Value]:
        """The values as they are stored.

        Raises:
            CanonicalError: a value has no canonical form; floats are among them.
        """
        frozen = canonical.freeze({name: self._storable(name, value) for name, value in values.items()})
        try:
            canonical.encode(frozen, limit=MAX_ARGUMENTS)
        except CanonicalError as error:
            raise CanonicalError(f"the arguments of {self._name}() cannot be stored: {error}") from error
        return cast("Mapping[str, Value]", frozen)

    def thaw(self, stored: Mapping[str, Value]) -> dict[str, Any]:
        """The values for the body, from the store, decoded under today's signature.

        Raises:
            CanonicalError: today's signature lacks one, needs another, or has another type.
        """
        known = {name: value for name, value in stored.items() if name in self.names}
        gone = sorted(stored.keys() - known.keys())
        if gone:
            raise CanonicalError(
                f"{self._name}() no longer takes {gone[0]!r}: propose it again under today's signature"
            )
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.name in known:
                values[parameter.name] = self._restore(parameter.name, known[parameter.name])
            elif parameter.default is not parameter.empty:
                values[parameter.name] = parameter.default
            else:
                raise CanonicalError(
                    f"{self._name}() now needs {parameter.name!r}: propose it again under today's signature"
                )
        return values

    def call(self, function: Callable[..., Any], permit: Any, values: Mapping[str, Any]) -> Any:
        """Call the body with a permit and the values."""
        if not self.positional:
            return function(permit, **values)
        keywords = {name: value for name, value in values.items() if name not in self.positional}
        return function(permit, *(values[name] for name in self.positional), **keywords)

    def store_result(self, value: Any) -> Value:
        """The result as it is stored.

        Raises:
            CanonicalError: it has no canonical form.
        """
        if value is None or type(value) is bool or (type(value) is str and value.isascii() and len(value) < 10_000):
            return value
        stored = self._storable("return", value)
        canonical.encode(stored, limit=MAX_ARGUMENTS)
        return stored

    def restore_result(self, stored: Value) -> Any:
        """A stored result as the body returned it, as far as its annotation says; a stored value itself otherwise."""
        try:
            return self._restore("return", stored)
        except CanonicalError:
            return _thaw(stored)

    def _hint(self, name: str) -> Any:
        if self._hints is None:
            function = self._function
            # The permit's annotation is never decoded, and may well be imported for type checkers only.
            holder = types.FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
            holder.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name != "permit"}
            try:
                self._hints = typing.get_type_hints(holder, include_extras=True)
            except NameError as error:
                raise DeclarationError(
                    f"{self._name}() has an annotation that does not resolve: {error}; "
                    "import it where the function is defined"
                ) from error
        return self._hints.get(name, Any)

    def _adapter(self, name: str, hint: Any) -> Any:
        found = self._adapters.get(name)
        if found is None:
            from pydantic import TypeAdapter

            found = self._adapters[name] = TypeAdapter(hint)
        return found

    def _decode(self, name: str, value: Any) -> Any:
        hint = self._hint(name)
        if hint is Any or (hint in _SCALARS and type(value) is hint):
            return value
        return self._validate(name, hint, value, strict=True)

    def _restore(self, name: str, stored: Value) -> Any:
        value, hint = _thaw(stored), self._hint(name)
        if hint is Any or (hint in _SCALARS and type(value) is hint):
            return value
        # A stored Enum, dataclass or model is its plain value, which strictness would refuse; a scalar is itself.
        return self._validate(name, hint, value, strict=hint in _SCALARS)

    def _validate(self, name: str, hint: Any, value: Any, *, strict: bool) -> Any:
        from pydantic import ValidationError

        try:
            return self._adapter(name, hint).validate_python(value, strict=strict)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(part) for part in (name, *first["loc"]))
            said = first["msg"]
            raise CanonicalError(f"{self._name}() got a wrong {where!r}: {said[:1].lower()}{said[1:]}") from None

    def _storable(self, name: str, value: object) -> Value:
        if type(value) in (str, int, bool, types.NoneType):
            return canonical.freeze(value, path=name)
        dumped: object = value
        if not isinstance(value, _PLAIN) or (isinstance(value, _NESTED) and self._hint(name) is not Any):
            dumped = self._adapter(name, self._hint(name)).dump_python(value)
        return canonical.freeze(dumped, path=name)

    def _refuse_result(self) -> None:
        try:
            hint = self._hint("return")
        except DeclarationError:
            self._hints = None  # a forward reference: resolved at the first call, when its module is whole
            return
        refused = _unstorable(hint)
        if refused is not None:
            raise DeclarationError(
                f"{self._name}() returns {refused}, which cannot be stored with the commit: "
                "return a text, number, list, dict, dataclass or model instead, such as the new row's id"
            )


def _thaw(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_thaw(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _thaw(item) for key, item in value.items()}
    return value


def _unstorable(hint: Any) -> str | None:
    """The part of a return annotation that has no stored form, or None; what is no plain class is tried at run time."""
    if hint is Any or hint is None or hint is types.NoneType:
        return None
    origin = typing.get_origin(hint)
    if origin is not None:
        parts = [part for part in typing.get_args(hint) if part is not Ellipsis]
        if origin is typing.Literal:
            return None
        if origin is typing.Annotated:
            parts = parts[:1]
        elif origin not in (typing.Union, types.UnionType) and not issubclass(origin, _CONTAINERS):
            return getattr(origin, "__name__", str(origin))
        return next((found for found in map(_unstorable, parts) if found is not None), None)
    if not isinstance(hint, type):
        return None
    plain = issubclass(hint, (*_SCALARS, *_CONTAINERS, enum.Enum))
    described = (
        hasattr(hint, "__dataclass_fields__") or hasattr(hint, "__pydantic_fields__") or typing.is_typeddict(hint)
    )
    mapped = hasattr(hint, "__mapper__") or hasattr(hint, "__table__")
    return None if (plain or described) and not mapped else hint.__name__
