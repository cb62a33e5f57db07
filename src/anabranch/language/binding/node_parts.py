"""Which parts of a node are looked at: what a query says beside them must not get lost without a word."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from anabranch.language.expressions.types import Refusal

Parts = Mapping[type[exp.Expr], Collection[str]]

PARTS: Parts = {
    exp.Literal: {"this", "is_string"},
    exp.Column: {"this", "table", "db", "catalog"},
    exp.Between: {"this", "low", "high"},
    **{kind: {"this", "expression", "negate"} for kind in (exp.Like, exp.ILike, exp.RegexpLike)},
    exp.Case: {"this", "ifs", "default"},
    exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "safe", "requires_string"},
    exp.In: {"this", "expressions", "query"},
    exp.Interval: {"this", "unit"},
    exp.Trim: {"this", "expression", "position"},
}


def refuse_extras(node: exp.Expr, parts: Parts, *, usual: Collection[str]) -> None:
    """Refuse parts of a known node that its handler would not look at.

    Parameters
    ----------
    usual
        The parts of nodes that `parts` does not name.
    """
    allowed = parts.get(type(node), usual)
    for key, value in node.args.items():
        if value and key not in allowed:
            raise Refusal(f"{key.strip('_').upper()} is not supported here", "leave it out")
