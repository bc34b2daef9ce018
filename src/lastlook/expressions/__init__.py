"""Expression trees: the way a premise is written.

`~order.refunded` and `arg.amount <= policy.limit` build a tree. From the one tree come the evidence that it names, its
three-valued evaluation, a JSON form that loads without eval, and its English.
"""

from lastlook.expressions.analysis import Analysis, ValidatorCall, analyse, field_place
from lastlook.expressions.builders import (
    actor,
    arg,
    before,
    call_node,
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
    rows,
    total,
    unchanged,
)
from lastlook.expressions.deadlines import valid_until
from lastlook.expressions.english import render_value
from lastlook.expressions.environment import Env, Judgement, Pending, Unverifiable
from lastlook.expressions.evaluate import SlotTable, compile_expression
from lastlook.expressions.explain import explain, hidden_name, render
from lastlook.expressions.expr import BoolClause, Clause, Expr, Field, condition_of
from lastlook.expressions.jsonform import EXPRESSION_SEMANTICS, from_json, to_json
from lastlook.expressions.resources import (
    KeyPart,
    Ref,
    Resource,
    make_ref,
    ref_fields,
    ref_key,
    ref_kind,
    ref_public,
    resource,
)

__all__ = [
    "EXPRESSION_SEMANTICS",
    "Analysis",
    "BoolClause",
    "Clause",
    "Env",
    "Expr",
    "Field",
    "Judgement",
    "KeyPart",
    "Pending",
    "Ref",
    "Resource",
    "SlotTable",
    "Unverifiable",
    "ValidatorCall",
    "actor",
    "analyse",
    "arg",
    "before",
    "call_node",
    "compile_expression",
    "condition_of",
    "count",
    "each",
    "every",
    "exists",
    "explain",
    "field_place",
    "fresh",
    "from_json",
    "hidden_name",
    "holds",
    "largest",
    "literal",
    "lookup",
    "make_ref",
    "none",
    "ref_fields",
    "ref_key",
    "ref_kind",
    "ref_public",
    "render",
    "render_value",
    "resource",
    "rows",
    "to_json",
    "total",
    "unchanged",
    "valid_until",
]
