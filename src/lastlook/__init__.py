"""lastlook takes a last look at the world just before an AI agent's effect.

Declare what must still hold with `@gate.effect(...)`, propose with `effect.propose(...)`, release with `gate(intent)`:
KEEP, REFRESH, REPLAN or BLOCK, and an effect only through a conditional write bound to exactly what was looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastlook.errors import (
    Applied,
    CanonicalError,
    DeclarationError,
    Declined,
    EffectBlocked,
    EffectContended,
    EffectNotBound,
    EffectStopped,
    EffectUnknown,
    InFlight,
    IntegrityError,
    KeyReused,
    LastlookError,
    Outcome,
    ReplanRequired,
    StoreBusy,
    StoreError,
    UnknownEffect,
    UnknownIntent,
)
from lastlook.expressions import (
    Field,
    Resource,
    actor,
    arg,
    before,
    count,
    each,
    every,
    exists,
    fresh,
    holds,
    largest,
    literal,
    lookup,
    none,
    resource,
    rows,
    total,
    unchanged,
)
from lastlook.functions import FunctionPermit
from lastlook.gate import AsyncGate, AsyncTransaction, Gate, Transaction
from lastlook.index import Change
from lastlook.memory import Memory, MemoryPermit
from lastlook.premises import STRICT, UNBOUND, BindingPolicy, block_unless, replan_unless
from lastlook.records import Capture, Grade, State
from lastlook.store.memory import MemoryStore
from lastlook.validators import validator
from lastlook.verdicts import Intent, Preview, Verdict

if TYPE_CHECKING:
    __version__: str

__all__ = [
    "STRICT",
    "UNBOUND",
    "Applied",
    "AsyncGate",
    "AsyncTransaction",
    "BindingPolicy",
    "CanonicalError",
    "Capture",
    "Change",
    "DeclarationError",
    "Declined",
    "EffectBlocked",
    "EffectContended",
    "EffectNotBound",
    "EffectStopped",
    "EffectUnknown",
    "Field",
    "FunctionPermit",
    "Gate",
    "Grade",
    "InFlight",
    "IntegrityError",
    "Intent",
    "KeyReused",
    "LastlookError",
    "Memory",
    "MemoryPermit",
    "MemoryStore",
    "Outcome",
    "Preview",
    "ReplanRequired",
    "Resource",
    "State",
    "StoreBusy",
    "StoreError",
    "Transaction",
    "UnknownEffect",
    "UnknownIntent",
    "Verdict",
    "actor",
    "arg",
    "before",
    "block_unless",
    "count",
    "each",
    "every",
    "exists",
    "fresh",
    "holds",
    "largest",
    "literal",
    "lookup",
    "none",
    "replan_unless",
    "resource",
    "rows",
    "total",
    "unchanged",
    "validator",
]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("lastlook")
    raise AttributeError(f"module 'lastlook' has no attribute {name!r}")
