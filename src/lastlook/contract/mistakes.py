"""The mistakes of a declaration, each found before the first effect and told with what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from lastlook.errors import DeclarationError
from lastlook.expressions import Expr, Ref, analyse, ref_key, render
from lastlook.premises import Premise
from lastlook.records import Grade

if TYPE_CHECKING:
    from collections.abc import Collection

    from lastlook.contract.declared import Contract
    from lastlook.contract.programs import Check, Surroundings
    from lastlook.expressions import Analysis

__all__ = ["refuse_kind", "refuse_lists", "refuse_mistakes", "refuse_unknown", "refuse_unreachable"]


def refuse_lists(name: str, /, **given: Sequence[object]) -> None:
    """Refuse what is no list of premises, fields or expressions.

    Raises:
        DeclarationError: where, what it is, and what belongs there.
    """
    for word, items in given.items():
        if isinstance(items, str) or not isinstance(cast("object", items), Sequence):
            raise DeclarationError(
                f"{name}(): {word} takes a list, not {_what(items)}: write {word}=[...], also for a single one"
            )
        for index, item in enumerate(items):
            where = f"{name}(): {word}[{index}] is"
            if word in ("premises", "awaits") and isinstance(item, Expr):
                raise DeclarationError(
                    f"{where} a condition, not a premise: wrap it in block_unless(...) or replan_unless(...)"
                )
            if word in ("premises", "awaits") and not isinstance(item, Premise):
                raise DeclarationError(f"{where} {_what(item)}, not a premise: write block_unless(condition)")
            if word == "refresh" and not isinstance(item, Expr):
                raise DeclarationError(
                    f"{where} {_what(item)}, not a field: write a field of a resource, such as order.note"
                )
            if word == "lane" and not isinstance(item, Expr):
                raise DeclarationError(
                    f"{where} {_what(item)}, not an expression: write an argument, such as arg.order_id"
                )


def refuse_mistakes(contract: Contract) -> None:
    """Refuse what no system has to be known for.

    Raises:
        DeclarationError: see `Contract`.
    """
    if not contract.premises and not contract.no_preconditions:
        raise DeclarationError(
            f"{contract.name}() has no premises, so there is nothing to look at before it: "
            "declare premises=[...], or no_preconditions=True if it may always go out"
        )
    labels: set[str] = set()
    for premise, awaited in contract.premises:
        if premise.label in labels:
            raise DeclarationError(f"{contract.name}() declares the premise '{premise.label}' twice: once is enough")
        labels.add(premise.label)
        if awaited and any(analyse(value).calls for value in analyse(premise.condition).captures):
            raise DeclarationError(
                f"{contract.name}() awaits '{premise.label}', which holds a validator to its earlier answer, and the "
                "validators of awaited premises are asked only at the gate: write unchanged(...) of the fields "
                "that it judges"
            )
    for expression in contract.expressions():
        _refuse_arguments(contract, analyse(expression))
    for shown, (ref, _) in zip(contract.refresh, contract.refreshed, strict=True):
        found = [part for part in ref_key(ref) if analyse(part).static or analyse(part).collections]
        if found:
            raise DeclarationError(
                f"{contract.name}() refreshes {render(shown)}, whose row other evidence names: the row of this refresh "
                f"field is found through {render(found[0])}: take its key as an argument (and check it by a "
                "premise), or use unchanged(...)"
            )
    decisive = {
        (repr(ref), path)
        for part in (*contract.lane_parts(), *contract.target_parts())
        for ref, path in analyse(part).static
    }
    for ref, path in contract.refreshed:
        if (repr(ref), path) in decisive:
            raise DeclarationError(
                f"{contract.name}() refreshes {ref!r}.{path[0]}, which gives the target its key: "
                "a refreshed field is presentation only, so take it out of refresh="
            )


def _refuse_arguments(contract: Contract, analysis: Analysis) -> None:
    for argument in sorted(analysis.arguments - contract.arguments.names):
        names = [parameter.name for parameter in contract.arguments.parameters]
        hint = _near(argument, names) or f": it takes {', '.join(names) or 'none'}"
        raise DeclarationError(f"{contract.name}() has no parameter {argument!r}{hint}")


def refuse_kind(name: str, kind: str, surroundings: Surroundings) -> None:
    """Raise unless a system answers for a kind.

    Raises:
        DeclarationError: none does; a near name is proposed.
    """
    owned = surroundings.store.evidence
    known = set(surroundings.systems) | set(owned.kinds if owned is not None else ())
    if kind not in known:
        hint = _near(kind, known) or f": there are {', '.join(sorted(known)) or 'none'}"
        raise DeclarationError(f"{name}(): no system answers for {kind!r}{hint}")


def refuse_unknown(name: str, analysis: Analysis, surroundings: Surroundings, *, strict_fields: bool) -> None:
    """Refuse kinds that no system answers for and, if `strict_fields`, fields that these do not have.

    Raises:
        DeclarationError: a near name is proposed.
    """
    for kind in sorted(analysis.kinds):
        refuse_kind(name, kind, surroundings)
    if not strict_fields:
        return
    for kind, field in sorted(analysis.fields):
        system = surroundings.systems.get(kind)
        if system is None:
            continue
        names, complete = system.fields(kind)
        if field in names:
            continue
        near = _near(field, names, 0.8)
        if complete or near:
            hint = near or f": it has {', '.join(sorted(names)) or 'none'}"
            raise DeclarationError(f"{name}(): {kind!r} has no field {field!r}{hint}")


def refuse_unreachable(contract: Contract, check: Check, surroundings: Surroundings) -> None:
    """Refuse a premise whose evidence must be bound and can never be.

    Raises:
        DeclarationError: what it reads, and the ways out.
    """
    if not check.binds or check.grade is not Grade.UNBOUND:
        return
    target = surroundings.target.name if surroundings.target is not None else str(contract.target)
    unbound = sorted(kind for kind in check.analysis.kinds if surroundings.grade(kind) is Grade.UNBOUND)
    what = f"reads {unbound[0]!r}" if unbound else "asks for absence or for all rows of a kind"
    raise DeclarationError(
        f"{contract.name}() could never be released: '{check.label}' {what}, which {target!r} cannot check: keep it in "
        "a system that can hold it, move it to the target's system, or accept=UNBOUND('why') on that premise"
    )


def _what(value: object) -> str:
    """What stands where something else belongs."""
    if isinstance(value, Premise):
        return f"the premise '{value.label}'"
    if isinstance(value, Expr):
        return repr(cast("Expr[object]", value))
    if isinstance(value, Ref):
        return f"the resource {value!r}"
    if isinstance(value, bool):
        return f"a plain {value}"
    return f"the text {value!r}" if isinstance(value, str) else f"a {type(value).__name__}"


def _near(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    from difflib import get_close_matches  # only for a message

    near = get_close_matches(name, known, 1, cutoff)
    return f": did you mean {near[0]!r}?" if near else ""
