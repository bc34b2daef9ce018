"""`lastlook show`: a gate's effects, their premises, and what their evidence is bound to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lastlook import canonical
from lastlook.cli.finding import find_gate, places
from lastlook.expressions import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastlook.contract import Contract
    from lastlook.records import Grade

__all__ = ["show"]


def show(options: Any) -> int:
    """Print the declared effects of the gate at MODULE:GATE."""
    where, _ = places(options, store=False, intent="none")
    gate = find_gate(str(where))
    described = [_described(name, contract) for name, contract in sorted(gate.contracts.items())]
    if options.json:
        print(canonical.dumps({"effects": described}, indent=True).decode())
        return 0
    if not described:
        print(f"{where} declares no effect yet")
    for effect in described:
        _print(effect)
    return 0


def _described(name: str, contract: Contract) -> dict[str, Any]:
    grades: Mapping[str, Grade] = contract.bindings() if contract.surroundings is not None else {}
    return {
        "effect": name,
        "parameters": [str(parameter) for parameter in contract.arguments.parameters],
        "target": repr(contract.target),
        "lane": [render(part) for part in contract.lane_parts()],
        "irreversible": contract.irreversible,
        "refresh": [render(field) for field in contract.refresh],
        "premises": [
            {
                "premise": premise.label,
                "severity": premise.severity.name,
                "awaited": awaited,
                "because": premise.because,
                "accepts": premise.accept.reason if premise.accept is not None else None,
                "binding": grades[premise.label].name if premise.label in grades else None,
            }
            for premise, awaited in contract.premises
        ],
    }


def _print(effect: Mapping[str, Any]) -> None:
    print(f"{effect['effect']}({', '.join(effect['parameters'])}) acts on {effect['target']}")
    for premise in effect["premises"]:
        word = "awaits" if premise["awaited"] else "unless"
        said = f" - {premise['because']}" if premise["because"] else ""
        accepted = f" (accepted: {premise['accepts']})" if premise["accepts"] else ""
        binding = premise["binding"] or "not connected"
        print(f"  {premise['severity'].lower()} {word} {premise['premise']}  [{binding}]{accepted}{said}")
    for field in effect["refresh"]:
        print(f"  refresh {field}")
