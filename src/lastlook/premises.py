"""How a premise is declared: a condition, what its failure demands, what a model may read, what binding is accepted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, cast

from lastlook.canonical import freeze
from lastlook.errors import DeclarationError, Outcome
from lastlook.expressions import Expr, condition_of, render
from lastlook.frozen import Frozen
from lastlook.wanted import mistaken, wanted, wanted_text

if TYPE_CHECKING:
    from lastlook.errors import Severity
    from lastlook.expressions import BoolClause

__all__ = ["STRICT", "UNBOUND", "Accept", "BindingPolicy", "Premise", "block_unless", "replan_unless"]


class Accept(Frozen):
    """A developer's written acceptance of less than a premise's grade; explanations repeat the reason."""

    reason: str


def UNBOUND(reason: str, /) -> Accept:  # noqa: N802 - reads as the grade that is accepted
    """Accept evidence that is only observed: `block_unless(cond, accept=UNBOUND("the bank offers no condition"))`.

    Raises:
        DeclarationError: no reason.
    """
    if isinstance(cast("object", reason), str) and not reason.strip():
        raise DeclarationError(
            "accept=UNBOUND() needs a reason that an auditor can read: UNBOUND('why less is enough here')"
        )
    return Accept(wanted_text(reason, "accept=UNBOUND(...)", "write why less is enough here, for an auditor"))


class Premise(Frozen, eq=False):
    """A condition that must still hold when the effect is released; made by `block_unless` and `replan_unless`."""

    condition: Expr[bool]
    severity: Severity
    because: str
    accept: Accept | None

    @property
    def label(self) -> str:
        """The condition in its declared form: how findings and tests name the premise."""
        return render(self.condition)


class BindingPolicy(Frozen):
    """Marks evidence as critical beyond what the premises say; it can only ask for more.

    Attributes:
        critical: kinds, or `kind.field`, whose premises block, and need binding, even where they are declared REPLAN.
        allows_no_preconditions: whether an effect may be declared with `no_preconditions=True`.

    Raises:
        DeclarationError: `critical` is no collection of texts.
    """

    critical: frozenset[str] = frozenset()
    allows_no_preconditions: bool = True

    def __init__(self, critical: Collection[str] = frozenset(), *, allows_no_preconditions: bool = True) -> None:
        way, given = "give a set of kinds, or of 'kind.field'", cast("object", critical)
        if not issubclass(type(given), Collection) or issubclass(type(given), (str, Mapping)):
            raise mistaken("BindingPolicy(critical=...)", given, way)
        marks = frozenset([wanted_text(mark, "BindingPolicy(critical=...)", way) for mark in critical])
        where = "BindingPolicy(allows_no_preconditions=...)"
        super().__init__(marks, wanted(allows_no_preconditions, bool, where, "give True or False"))


STRICT = BindingPolicy()
"""The default: a premise that blocks must be checked by the target, or held by its owner, or owned by the store."""


def block_unless(condition: Expr[bool] | BoolClause, because: str = "", /, *, accept: Accept | None = None) -> Premise:
    """The effect is blocked unless the condition holds; false, missing or unverifiable all block.

    Args:
        condition: an expression over arguments and resources.
        because: what a person or a model may read when it fails, as in `assert cond, because`.
        accept: `UNBOUND("reason")` where the evidence lies where the target cannot check it.

    Raises:
        DeclarationError: the condition is a plain bool, or no condition at all.
    """
    return _premise("block_unless", condition, Outcome.BLOCK, because, accept)


def replan_unless(condition: Expr[bool] | BoolClause, because: str = "", /, *, accept: Accept | None = None) -> Premise:
    """The intent must be planned anew unless the condition holds; as `block_unless` otherwise."""
    return _premise("replan_unless", condition, Outcome.REPLAN, because, accept)


def _premise(word: str, condition: object, severity: Severity, because: object, accept: object) -> Premise:
    if isinstance(condition, bool):
        raise DeclarationError(
            f"{word}() got a plain {condition}, already computed at import: `is`, `not` and constants cannot be "
            "recorded; write ~order.refunded for `not order.refunded`"
        )
    if not isinstance(condition, Expr):
        raise DeclarationError(
            f"{word}() got {type(condition).__name__}, not a condition: write an expression such as "
            f"{word}(~order.refunded)"
        )
    chosen = cast("Expr[bool]", condition)
    condition_of(chosen, f"{word}()")
    if not isinstance(because, str):
        raise DeclarationError(f"{word}(condition, because) got {type(because).__name__} as the reason: write a text")
    if accept is not None and not isinstance(accept, Accept):
        raise DeclarationError(
            f"{word}(accept=...) got {type(accept).__name__}: write accept=UNBOUND('why less is enough here')"
        )
    return Premise(chosen, severity, cast("str", freeze(because, path=f"{word}(because)")), accept)
