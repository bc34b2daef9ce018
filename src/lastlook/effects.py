"""The decorated function: a plain function that proposes and releases its effect, typed as `Effect[P, R]`."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from lastlook.arguments import MAX_ARGUMENTS, OPTIONS
from lastlook.canonical import encode, freeze
from lastlook.errors import DeclarationError
from lastlook.frozen import Frozen
from lastlook.verdicts import Intent
from lastlook.wanted import wanted, wanted_map, wanted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from lastlook.canonical import Value
    from lastlook.contract import Contract

__all__ = ["AsyncEffect", "Declared", "Effect", "Options", "P", "R", "Releasing", "make_effect"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - users read Effect[P, R] and Verdict[R], in docs and messages


class Options(Frozen, hidden=("actor",)):
    """What a call of an effect carries beside its arguments.

    Attributes:
        key: the call key: the same key and arguments mean the same intent, whoever repeats the call.
        expires: how long after it was proposed the intent may be released.
        actor: who acts; a trusted root for premises, never an argument that a model could make.
        supersedes: the id of the intent that the new one replaces.
    """

    key: str | None = None
    expires: dt.timedelta | None = None
    actor: Mapping[str, Value] | None = None
    supersedes: str | None = None


class Declared(Frozen):
    """An effect as a gate knows it: its name, its contract and its body."""

    name: str
    contract: Contract
    function: Callable[..., Any]


class Effect(Protocol[P, R]):
    """A gated function. At run time it is a plain function with these attributes, so that frameworks take it as one."""

    @property
    def contract(self) -> Contract:
        """What the effect was declared with; `contract.bindings()` tells each premise's grade."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Propose and release in one go; validated once, at the gate.

        Raises:
            EffectStopped: it was not committed, or nobody can say.
        """
        ...

    def propose(self, *args: P.args, **kwargs: P.kwargs) -> Intent[R]:
        """Read, validate and store why the effect is justified.

        Raises:
            EffectStopped: a premise is untrue already; nothing was stored.
            CanonicalError: an argument is not of its annotation, or cannot be stored.
        """
        ...

    def options(
        self,
        *,
        key: str | None = None,
        expires: dt.timedelta | None = None,
        actor: Mapping[str, Any] | None = None,
        supersedes: Intent[Any] | None = None,
    ) -> Effect[P, R]:
        """The same effect with a call key, an expiry, an actor, or an intent that the next one replaces."""
        ...

    def intent(self, intent_id: str, /) -> Intent[R]:
        """The handle of a stored intent of this effect.

        Raises:
            UnknownIntent: there is none, or it is another effect's.
        """
        ...


class AsyncEffect(Protocol[P, R]):
    """A gated coroutine function; as `Effect`, awaited."""

    @property
    def contract(self) -> Contract:
        """What the effect was declared with; `contract.bindings()` tells each premise's grade."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Propose and release in one go."""
        ...

    def propose(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Intent[R]]:
        """Read, validate and store why the effect is justified."""
        ...

    def options(
        self,
        *,
        key: str | None = None,
        expires: dt.timedelta | None = None,
        actor: Mapping[str, Any] | None = None,
        supersedes: Intent[Any] | None = None,
    ) -> AsyncEffect[P, R]:
        """The same effect with a call key, an expiry, an actor, or an intent that the next one replaces."""
        ...

    def intent(self, intent_id: str, /) -> Coroutine[Any, Any, Intent[R]]:
        """The handle of a stored intent of this effect."""
        ...


class Releasing(Protocol):
    """What an effect needs of its gate."""

    def _call(self, declared: Declared, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """Propose and release."""
        ...

    def _propose(self, declared: Declared, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any:
        """Propose."""
        ...

    def _find(self, declared: Declared, intent_id: str, /) -> Any:
        """The handle of a stored intent."""
        ...


def make_effect(gate: Releasing, declared: Declared, options: Options) -> Any:
    """The decorated function: the wrapped one's name, signature and annotations, without `permit`."""
    function = declared.function

    def call(*args: Any, **kwargs: Any) -> Any:
        return gate._call(declared, options, args, kwargs)  # noqa: SLF001 - a gate's side for its effects

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return await gate._call(declared, options, args, kwargs)  # noqa: SLF001 - a gate's side for its effects

    def propose(*args: Any, **kwargs: Any) -> Any:
        return gate._propose(declared, options, args, kwargs)  # noqa: SLF001 - a gate's side for its effects

    def with_options(
        *arguments: Any,
        key: str | None = None,
        expires: dt.timedelta | None = None,
        actor: Mapping[str, Any] | None = None,
        supersedes: Intent[Any] | None = None,
        **others: Any,
    ) -> Any:
        if arguments or others:
            raise TypeError(_no_option(declared.name, next(iter(others), None)))
        return make_effect(gate, declared, _checked(options, key, expires, actor, supersedes))

    effect: Any = functools.wraps(function)(call_async if inspect.iscoroutinefunction(function) else call)
    effect.__signature__ = declared.contract.arguments.signature
    effect.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name != "permit"}
    effect.propose = _named(propose, function, "propose")
    propose.__signature__ = effect.__signature__  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess] - what help() shows
    effect.options = _named(with_options, function, "options")
    with_options.__signature__ = _OPTIONS_SIGNATURE  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess] - as above
    effect.intent = functools.partial(gate._find, declared)  # noqa: SLF001 - a gate's side for its effects
    effect.contract = declared.contract
    effect.declared = (declared, options)
    return effect


def _named(made: Any, function: Any, name: str) -> Any:
    """A function of an effect, as tracebacks and help() name it."""
    made.__name__, made.__module__ = name, function.__module__
    made.__qualname__, made.__doc__ = f"{function.__qualname__}.{name}", getattr(Effect, name).__doc__
    return made


def _no_option(effect: str, name: str | None) -> str:
    if name is None:
        return f"{effect}.options() takes its options by name: {', '.join(OPTIONS)}"
    from difflib import get_close_matches  # only for a message

    near = get_close_matches(name, OPTIONS, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(OPTIONS)}"
    return f"{effect}.options() has no option {name!r}: {hint}"


_LONGEST = dt.timedelta(days=365 * 8029)
"""Whoever acts later than in 1970 and adds more comes to no date any more."""
_OPTIONS_SIGNATURE = inspect.Signature(
    [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in OPTIONS]
)


def _checked(
    options: Options,
    key: object,
    expires: dt.timedelta | None,
    actor: Mapping[str, Any] | None,
    supersedes: Intent[Any] | None,
) -> Options:
    if key is not None:
        key = wanted_text(key, "options(key=...)", "give a non-empty text, such as the framework's tool call id")
    if expires is not None:
        way = "give a span of time, such as timedelta(hours=1)"
        span = wanted(expires, dt.timedelta, "options(expires=...)", way)
        if not dt.timedelta(0) < span < _LONGEST:
            raise DeclarationError(f"options(expires=...) takes a span that ends in the future, not {span}")
    if actor is not None:
        wanted_map(actor, "options(actor=...)", "give a map of who acts, such as {'user_id': ...}")
    if supersedes is not None:
        wanted(supersedes, Intent, "options(supersedes=...)", "give the intent, or find it by gate.intent(id)")
    changes: dict[str, Any] = {}
    if key is not None:
        changes["key"] = key
    if expires is not None:
        changes["expires"] = expires
    if actor is not None:
        frozen = freeze(actor, path="actor")
        encode(frozen, limit=MAX_ARGUMENTS)  # refuses what could not be stored
        changes["actor"] = frozen
    if supersedes is not None:
        changes["supersedes"] = supersedes.id
    return options.but(**changes)
