"""An effect's contract: its premises compiled once, what their evidence can be bound to, every mistake at import."""

from lastlook.contract.declared import Contract, condition_text
from lastlook.contract.programs import Check, Pin, Program, RefreshRule, Surroundings

__all__ = ["Check", "Contract", "Pin", "Program", "RefreshRule", "Surroundings", "condition_text"]
