"""What a gate answers: a verdict of one release, a preview that authorises nothing, and the stops that calls raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, cast

from lastlook.errors import (
    Applied,
    EffectBlocked,
    EffectContended,
    EffectStopped,
    EffectUnknown,
    Outcome,
    ReplanRequired,
)
from lastlook.records import Finding, Grade, State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.canonical import Value

__all__ = ["NOTHING_SEEN", "Intent", "Preview", "R", "RecordedView", "Verdict", "View", "stop_for"]

R = TypeVar("R", covariant=True)  # noqa: PLC0105 - users read Effect[P, R] and Verdict[R], in docs and messages

_STATE_REASONS = {
    State.WITHDRAWN: "the intent was withdrawn",
    State.EXPIRED: "the intent has expired",
    State.SUPERSEDED: "the intent was superseded by another",
}


class Intent(Generic[R]):
    """A handle of a stored intent: its id and its effect's name, and nothing that could be forged into a permission."""

    __slots__ = ("effect", "id")

    def __init__(self, intent_id: str, effect: str, /) -> None:
        self.id = intent_id
        self.effect = effect

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intent) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __bool__(self) -> NoReturn:
        raise TypeError("an intent is not a yes or no: call gate(intent)")

    def __repr__(self) -> str:
        return f"Intent({self.id!r}, {self.effect!r})"


class View(Protocol):
    """What one validation found, for people; made when somebody asks."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The premises that did not hold."""
        ...

    @property
    def checked(self) -> tuple[str, ...]:
        """The labels of the premises that ran."""
        ...

    @property
    def changed(self) -> tuple[str, ...]:
        """The places that differ from what was recorded."""
        ...

    @property
    def differences(self) -> tuple[str, ...]:
        """The places that the agent had read otherwise than they were when it proposed."""
        ...

    @property
    def bindings(self) -> Mapping[str, Grade]:
        """The grade of each premise's evidence."""
        ...

    @property
    def accepted(self) -> Mapping[str, str]:
        """The developer's reasons for accepting less than a premise's grade, by premise."""
        ...

    def reveal(self) -> tuple[Finding, ...]:
        """The findings with undeclared values shown; only a live look can."""
        ...


class RecordedView:
    """The view of a validation that was read back from a journal record; `differences` stand in the proposal's."""

    __slots__ = ("body", "differences")

    def __init__(self, body: Mapping[str, Value], differences: tuple[str, ...] = ()) -> None:
        self.body = cast("Mapping[str, Any]", body)
        self.differences = differences

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The premises that did not hold."""
        return tuple(
            Finding(label, cast("Any", Outcome[severity]), holds, text, because)
            for label, severity, holds, text, because in self.body.get("findings", ())
        )

    @property
    def checked(self) -> tuple[str, ...]:
        """The labels of the premises that ran."""
        return tuple(premise["label"] for premise in self.body.get("premises", ()))

    @property
    def changed(self) -> tuple[str, ...]:
        """The places that differed from what was recorded."""
        return cast("tuple[str, ...]", self.body.get("changed", ()))

    @property
    def bindings(self) -> Mapping[str, Grade]:
        """The grade of each premise's evidence."""
        return {label: Grade[name] for label, name in self.body.get("bindings", {}).items()}

    @property
    def accepted(self) -> Mapping[str, str]:
        """The developer's reasons for accepting less than a premise's grade, by premise."""
        return cast("Mapping[str, str]", self.body.get("accepted", {}))

    def reveal(self) -> tuple[Finding, ...]:
        """The findings as recorded: values were never stored."""
        return self.findings


NOTHING_SEEN = RecordedView({})
"""The view where no validation took place."""


class _Seen:
    """What a verdict and a preview share."""

    __slots__ = ("_effect", "_view", "intent", "outcome")

    def __init__(self, outcome: Outcome, effect: str, intent: Intent[Any] | None, view: View) -> None:
        self.outcome = outcome
        self.intent = intent
        self._effect = effect
        self._view = view

    @property
    def view(self) -> View:
        """What the validation found, as it found it."""
        return self._view

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The premises that did not hold, each with its severity and its text."""
        return self._view.findings

    @property
    def checked(self) -> tuple[str, ...]:
        """The labels of the premises that ran in the last validation; an untouched premise is not among them."""
        return self._view.checked

    @property
    def changed(self) -> tuple[str, ...]:
        """The places of evidence that differ from what was recorded, such as `policies/refund.limit`."""
        return self._view.changed

    @property
    def bindings(self) -> Mapping[str, Grade]:
        """How firmly each premise's evidence is tied to the effect, by label."""
        return self._view.bindings

    def _lines(self, *, reveal: bool) -> list[str]:
        view = self._view
        lines = [f"changed: {', '.join(view.changed)}" if view.changed else "nothing that it rests on changed"]
        if view.differences:
            lines.append(f"read otherwise by the agent than it was when proposed: {', '.join(view.differences)}")
        findings = view.reveal() if reveal else view.findings
        failed = {finding.premise for finding in findings}
        lines.extend(f"checked: {label}: holds" for label in view.checked if label not in failed)
        lines.extend(f"found: {_finding_text(finding)}" for finding in findings)
        for label, grade in view.bindings.items():
            reason = view.accepted.get(label)
            accepted = f", accepted because {reason}" if reason is not None else ""
            lines.append(f"{grade.name.lower()}: {label}{accepted}")
        return lines


class Preview(_Seen):
    """What the gate would say now; it authorises nothing and applies nothing."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise TypeError("a preview is not a yes or no: test preview.outcome")

    def explain(self, *, reveal: bool = False) -> str:
        """The preview as text; `reveal` shows values that were not declared public."""
        head = f"{self._effect}: would be {self.outcome.name}"
        return "\n".join([head, *self._lines(reveal=reveal)])

    def __repr__(self) -> str:
        return f"Preview({self.outcome.name}, {self.intent!r})"


class Verdict(_Seen, Generic[R]):
    """What one `gate(intent)` decided and what became of the effect.

    Attributes:
        outcome: that of the last validation.
        applied: what became of the effect; never inferred from the outcome.
        state: where the intent stands now; None where nothing was stored.
        error: the body's exception where it failed, or the store's where a committed effect could not be journaled yet.
    """

    __slots__ = ("_reason", "_result", "applied", "error", "state")

    def __init__(
        self,
        outcome: Outcome,
        applied: Applied,
        effect: str,
        intent: Intent[Any] | None,
        view: View,
        state: State | None,
        result: Any = None,
        reason: str = "",
        error: BaseException | None = None,
    ) -> None:
        self.outcome = outcome
        self.intent = intent
        self._effect = effect
        self._view = view
        self.applied = applied
        self.state = state
        self.error = error
        self._result = result
        self._reason = reason

    def __bool__(self) -> NoReturn:
        raise TypeError("a verdict is not a yes or no: test verdict.committed, or match verdict.outcome")

    @property
    def committed(self) -> bool:
        """Whether the target acknowledged the effect."""
        return self.applied is Applied.COMMITTED

    def result(self) -> R:
        """What the body returned.

        Raises:
            EffectStopped: the effect was not committed, or nobody can say; the subclass tells which.
        """
        if self.committed:
            return cast("R", self._result)
        raise stop_for(self) from self.error

    def explain(self, *, reveal: bool = False) -> str:
        """The verdict as text; `reveal` shows values that were not declared public, where the look is still live."""
        where = f" ({self.intent.id})" if self.intent is not None else ""
        head = f"{self._effect}{where}: {self.outcome.name}, {self.applied.name.lower().replace('_', ' ')}"
        reasons = [self._why()] if self._why() else []
        return "\n".join([head, *reasons, *self._lines(reveal=reveal)])

    def model_text(self) -> str:
        """What a model may read of this verdict: reasons and resources, no undeclared values."""
        if self.applied is Applied.UNKNOWN:
            return f"{self._effect} may have happened: do not call it again; gate(intent) asks by key"
        why = f" ({self._why()})" if self._why() else ""
        if self.applied is Applied.IN_PROGRESS and self.state is State.ATTEMPT:
            return f"{self._effect} is being attempted: do not call it again; ask by gate(intent){why}"
        if self.applied in (Applied.BUSY, Applied.REJECTED, Applied.IN_PROGRESS):
            return f"{self._effect}: nothing was applied; safe to try again{why}"
        texts = [_model_text(finding) for finding in self.findings]
        if not texts:
            return f"{self.outcome.name} {self._effect}: {self._why() or 'no premise holds it up'}"
        added = f" ({self._reason})" if self._reason else ""
        return f"{self.outcome.name} {self._effect}: {'; '.join(texts)}{added}"

    def _why(self) -> str:
        return self._reason or (_STATE_REASONS.get(self.state, "") if self.state is not None else "")

    def __repr__(self) -> str:
        return f"Verdict({self.outcome.name}, {self.applied.name}, {self.intent!r})"


def stop_for(verdict: Verdict[Any]) -> EffectStopped:
    """The exception that says what a verdict says."""
    text = verdict.model_text()
    if verdict.applied is Applied.UNKNOWN:
        return EffectUnknown(verdict, text)
    if verdict.applied in (Applied.BUSY, Applied.REJECTED, Applied.IN_PROGRESS):
        return EffectContended(verdict, text)
    if verdict.outcome is Outcome.REPLAN:
        return ReplanRequired(verdict, text)
    return EffectBlocked(verdict, text)


def _model_text(finding: Finding) -> str:
    """What a model reads of a premise: its reason is none where nobody could tell."""
    if finding.because and finding.holds is None:
        return f"{finding.because} (could not be verified)"
    return finding.because or finding.text


def _finding_text(finding: Finding) -> str:
    said = f" - {finding.because}" if finding.because else ""
    return f"{finding.text} [{finding.severity.name}]{said}"
