"""Expressions of a SELECT at ingest: from the user's syntax to Spark SQL, through a list of syntax nodes.

Nothing of the user's text is handed on as it is. Names are quoted, text is written so that no setting can
change what it means, and functions are those of `built_ins`. Where Spark would stop the stream (a cast of
text that is no number, an overflow), the value is NULL instead, as everywhere in queries.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from sqlglot import exp

from anabranch.language.binding.node_parts import PARTS, Parts, refuse_extras
from anabranch.language.binding.scope import is_substituted
from anabranch.language.expressions.constants import spark_constant
from anabranch.language.expressions.types import Refusal, type_name
from anabranch.language.ingest.built_ins import DETERMINISTIC, GENERATORS, REFUSED
from anabranch.language.syntax.source_text import SourceText

_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "AND",
    exp.Or: "OR",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.IntDiv: "DIV",
    exp.RegexpLike: "RLIKE",
    exp.ILike: "ILIKE",
    exp.Like: "LIKE",
}
_TRIED: dict[type[exp.Expr], str] = {
    exp.Add: "try_add",
    exp.Sub: "try_subtract",
    exp.Mul: "try_multiply",
    exp.Div: "try_divide",
    exp.Mod: "try_mod",
}
_NAMED: dict[type[exp.Expr], tuple[str, str]] = {
    exp.QueryTransform: ("TRANSFORM", "use the built-in functions: scripts are not run"),
    exp.Subquery: ("a sub-query", "declare the other source as a stream or table, and join it in a query"),
    exp.Select: ("a sub-query", "declare the other source as a stream or table, and join it in a query"),
    exp.Exists: ("EXISTS over a sub-query", "declare the other source as a table, and join it in a query"),
    exp.Window: ("a window function", "select the rows here, and group them in a CREATE QUERY"),
    exp.Filter: ("FILTER", "put the condition behind WHERE"),
    exp.Placeholder: ("a parameter", "write its value"),
    exp.Parameter: ("a variable", "write its value"),
    exp.RawString: ("raw text r'…'", "write '…' and double each backslash"),
    exp.Kwarg: ("an argument by name", "write the arguments in their order"),
    exp.Array: ("this array", "write get(array(…), 0)"),
}
HIDDEN = "__anabranch_"
"""How names of columns begin that are only there in between."""
_NUMBER = re.compile(r"\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?", re.ASCII)
_UNITS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DOW", "DOY", "HOUR", "MINUTE", "SECOND")


def ingest_sql(node: exp.Expr, source: SourceText) -> str:
    """Spark SQL of an expression, or a QueryError that points at what must not be there."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        what, suggestion = _NAMED.get(
            type(node), (f"this ({type(node).__name__})", "see docs/ingest.md for what may stand here")
        )
        keyword = "SELECT" if isinstance(node, exp.Query) else ""
        raise source.error_at_keyword(node, keyword, f"{what} is not supported at ingest", suggestion)
    try:
        refuse_extras(node, _ARGUMENTS, usual=("this", "expression", "expressions", "safe", "typed"))
        return handler(node, source)
    except Refusal as refusal:
        raise source.error(node, refusal.message, refusal.suggestion) from None


def quoted(identifier: exp.Expr) -> str:
    """A name in back-quotes."""
    if is_substituted(identifier.name):
        raise Refusal(f"Spark would replace the ${{…}} in {identifier.name!r}", "rename the column")
    if identifier.name.lower().startswith(HIDDEN):
        raise Refusal(f"names that begin with {HIDDEN} are taken", "rename the column")
    return "`" + identifier.name.replace("`", "``") + "`"


def spark_ddl(node: exp.DataType) -> str:
    """A type, plain or nested, in Spark SQL."""
    inner = node.expressions
    if node.this == exp.DType.ARRAY and len(inner) == 1:
        return f"ARRAY<{spark_ddl(inner[0])}>"
    if node.this == exp.DType.MAP and len(inner) == 2:
        return f"MAP<{spark_ddl(inner[0])}, {spark_ddl(inner[1])}>"
    if node.this == exp.DType.STRUCT and inner:
        fields = (f"{quoted(f.this)}: {spark_ddl(f.args['kind'])}" for f in inner)
        return f"STRUCT<{', '.join(fields)}>"
    return "VARIANT" if node.this == exp.DType.VARIANT else type_name(node).upper()


def _literal(node: exp.Expr, source: SourceText) -> str:
    if node.is_string:
        return spark_constant(node.name, "string")
    if not _NUMBER.fullmatch(node.name):
        raise Refusal(f"{node.name} is not a number", "use the digits 0 to 9")
    return node.name


def _column(node: exp.Expr, source: SourceText) -> str:
    assert isinstance(node, exp.Column)
    parts = node.parts
    if isinstance(node.this, exp.Star):
        raise Refusal("* is not an expression", "name the column")
    return ".".join(map(quoted, parts))


def _function(node: exp.Expr, source: SourceText) -> str:
    if not isinstance(node.this, str):
        raise Refusal("a function's name is written without quotes", "remove the back-quotes")
    name = node.this.lower()
    if name in GENERATORS:
        raise Refusal(f"{name} stands alone in SELECT or behind LATERAL VIEW", f"write {name}(x) AS y")
    if name not in DETERMINISTIC:
        raise refused_function(node.this)
    if name in ("unix_timestamp", "to_unix_timestamp") and not node.expressions:
        raise refused_function("now")
    named = name == "struct"
    return f"{name}({', '.join(_argument(a, source, named=named) for a in node.expressions)})"


def _argument(node: exp.Expr, source: SourceText, *, named: bool) -> str:
    if named and isinstance(node, exp.Alias):
        return f"{ingest_sql(node.this, source)} AS {quoted(node.args['alias'])}"
    if isinstance(node, exp.Star):
        raise source.error(node, "* as an argument is not supported", "name the columns")
    return ingest_sql(node, source)


def refused_function(name: str) -> Refusal:
    if name.lower() in REFUSED:
        reason, suggestion = REFUSED[name.lower()]
        return Refusal(f"function {name} is not supported at ingest: {reason}", suggestion)
    near = difflib.get_close_matches(name.lower(), DETERMINISTIC, n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(near)}?" if near else "see the built-in functions of Spark SQL"
    return Refusal(f"{name} is no built-in function of Spark", hint)


def _dot(node: exp.Expr, source: SourceText) -> str:
    if not isinstance(node.expression, exp.Identifier):
        raise Refusal("a function's name has one part", "write the function's name alone")
    return f"{ingest_sql(node.this, source)}.{quoted(node.expression)}"


def _bracket(node: exp.Expr, source: SourceText) -> str:
    if len(node.expressions) != 1:
        raise Refusal("[…] takes one index or key", "write items[0]")
    return f"{ingest_sql(node.this, source)}[{ingest_sql(node.expressions[0], source)}]"


def _lambda(node: exp.Expr, source: SourceText) -> str:
    names = ", ".join(map(quoted, node.expressions))
    # Spark's grammar has no parentheses around a single name.
    left = names if len(node.expressions) == 1 else f"({names})"
    return f"{left} -> {ingest_sql(node.this, source)}"


def _is(node: exp.Expr, source: SourceText) -> str:
    if not isinstance(node.expression, exp.Null | exp.Boolean):
        raise Refusal("IS takes NULL, TRUE or FALSE", "write IS NULL or =")
    return f"({ingest_sql(node.this, source)} IS {ingest_sql(node.expression, source)})"


def _in(node: exp.Expr, source: SourceText) -> str:
    if node.args.get("query") or not node.expressions:
        raise Refusal("IN takes a list of values at ingest", "write IN (1, 2, 3)")
    values = ", ".join(ingest_sql(value, source) for value in node.expressions)
    return f"({ingest_sql(node.this, source)} IN ({values}))"


def _between(node: exp.Expr, source: SourceText) -> str:
    value, low, high = (ingest_sql(node.args[key], source) for key in ("this", "low", "high"))
    return f"({value} BETWEEN {low} AND {high})"


def _escape(node: exp.Expr, source: SourceText) -> str:
    inner = node.this
    if not isinstance(inner, exp.Like | exp.ILike) or len(node.expression.name) != 1:
        raise Refusal("ESCAPE belongs behind LIKE", "write a LIKE '…' ESCAPE '#'")
    escape = spark_constant(node.expression.name, "string")
    if not escape.startswith("'"):
        raise Refusal("this character cannot be the escape", "write ESCAPE '#'")
    sides = f"{ingest_sql(inner.this, source)} {_SIGNS[type(inner)]} {ingest_sql(inner.expression, source)}"
    return f"({sides} ESCAPE {escape})"


def _case(node: exp.Expr, source: SourceText) -> str:
    subject = f" {ingest_sql(node.this, source)}" if node.this else ""
    arms = "".join(
        f" WHEN {ingest_sql(arm.this, source)} THEN {ingest_sql(arm.args['true'], source)}"
        for arm in node.args["ifs"]
    )
    default = node.args.get("default")
    return f"CASE{subject}{arms}{f' ELSE {ingest_sql(default, source)}' if default else ''} END"


def _cast(node: exp.Expr, source: SourceText) -> str:
    return f"TRY_CAST({ingest_sql(node.this, source)} AS {spark_ddl(node.args['to'])})"


def _interval(node: exp.Expr, source: SourceText) -> str:
    unit = node.args.get("unit")
    word = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    if not node.this or not re.fullmatch(r"-?\d{1,9}", node.this.name, re.ASCII) or word not in _UNITS:
        raise Refusal("this is not a length of time", "write INTERVAL 10 MINUTES")
    return f"INTERVAL '{node.this.name}' {word}"


def _extract(node: exp.Expr, source: SourceText) -> str:
    if node.name.upper() not in _PARTS:
        raise Refusal(f"EXTRACT({node.name}) is not supported", f"extract one of {', '.join(_PARTS)}")
    return f"extract({node.name.upper()} FROM {ingest_sql(node.expression, source)})"


def _trim(node: exp.Expr, source: SourceText) -> str:
    where = str(node.args.get("position") or "BOTH")
    what = node.args.get("expression")
    sign = ingest_sql(what, source) if what is not None else "' '"
    return f"trim({where} {sign} FROM {ingest_sql(node.this, source)})"


def _binary(node: exp.Expr, source: SourceText) -> str:
    sides = (ingest_sql(node.this, source), ingest_sql(node.expression, source))
    tried = _TRIED.get(type(node))
    if tried:
        return f"{tried}({', '.join(sides)})"
    sql = f"({f' {_SIGNS[type(node)]} '.join(sides)})"
    return f"(NOT {sql})" if node.args.get("negate") else sql


def _hex(node: exp.Expr, source: SourceText) -> str:
    try:
        return spark_constant(bytes.fromhex(node.name), "binary")
    except ValueError:
        raise Refusal(f"X'{node.name}' is not a row of bytes", "use pairs of hexadecimal digits") from None


_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr, SourceText], str]] = {
    **dict.fromkeys(_SIGNS, _binary),
    **dict.fromkeys(_TRIED, _binary),
    exp.Literal: _literal,
    exp.HexString: _hex,
    exp.Null: lambda node, source: "NULL",
    exp.Boolean: lambda node, source: "TRUE" if node.this else "FALSE",
    exp.Column: _column,
    exp.Identifier: lambda node, source: quoted(node),
    exp.Paren: lambda node, source: f"({ingest_sql(node.this, source)})",
    exp.Neg: lambda node, source: f"(- {ingest_sql(node.this, source)})",
    exp.Not: lambda node, source: f"(NOT {ingest_sql(node.this, source)})",
    exp.BitwiseNot: lambda node, source: f"(~ {ingest_sql(node.this, source)})",
    exp.Anonymous: _function,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Lambda: _lambda,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.Trim: _trim,
}
"""The syntax that may stand in a SELECT at ingest. What is not here does not get through."""

_ARGUMENTS: Parts = {**PARTS, exp.Identifier: {"this", "quoted"}}
