"""A judged premise in words, for a colleague or a model."""

from __future__ import annotations

from typing import Any

from lastlook.expressions.english import render_node
from lastlook.expressions.expr import Expr, node_of

__all__ = ["render"]


def render(expr: Expr[Any]) -> str:
    """The expression as it is declared, such as `arg.amount <= policies['refund'].limit`; no evidence is in it."""
    return render_node(node_of(expr))
