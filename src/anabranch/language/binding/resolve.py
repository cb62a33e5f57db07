"""From syntax to typed expressions, through an explicit list of syntax nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from anabranch.language.binding.literals import double, hexadecimal, integer, is_whole, literal
from anabranch.language.binding.node_parts import PARTS, Parts, refuse_extras
from anabranch.language.binding.scope import Scope
from anabranch.language.binding.spark_only import refuse_what_only_spark_computes
from anabranch.language.binding.window_bounds import WINDOW_FUNCTIONS, window_bound, window_value
from anabranch.language.expressions import aggregates, functions, operators, user_predicates
from anabranch.language.expressions.expression import (
    AggregateValue,
    Call,
    ColumnValue,
    Constant,
    Expression,
)
from anabranch.language.expressions.types import FLOATING, INTEGRAL, INTERVAL, Refusal, type_name
from anabranch.language.syntax.duration import DURATION_HINT, duration_us
from anabranch.language.syntax.whole_number import whole_number

LARGEST_FLOAT = 3.4028234663852886e38
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
    exp.NullSafeEQ: "null_safe_equal",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "modulo",
}
_EXTRACTED = {
    **{part: part.lower() for part in ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "DAYOFWEEK")},
    "WEEK": "weekofyear",
    "DOW": "dayofweek",
    "DOY": "dayofyear",
}
"""Functions behind EXTRACT."""
_SUGGESTIONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Subquery: ("a sub-query", "join the stream in FROM instead"),
    exp.Select: ("a sub-query", "join the stream in FROM instead"),
    exp.Exists: ("EXISTS", "join the stream in FROM instead"),
    exp.Window: ("a window function", "put a window on the stream: orders [RANGE 1 HOUR]"),
    exp.IgnoreNulls: ("IGNORE NULLS", "write first(x) FILTER (WHERE x IS NOT NULL)"),
    exp.WithinGroup: ("WITHIN GROUP", "write percentile(x, 0.5)"),
    exp.Star: ("* inside an expression", "name the columns"),
    exp.Collate: ("COLLATE", "compare the strings as they are"),
    exp.Lambda: ("a lambda", "write the expression without ->"),
    exp.Concat: (
        "text made of two quoted parts",
        "write it in one pair of quotes, with \\' for a quote inside",
    ),
    exp.RawString: ("raw text r'…'", "write '…' and double each backslash"),
    exp.Dot: ("access to a field", "write CREATE STREAM … AS SELECT a.b AS b, …"),
}


def resolve(node: exp.Expr, scope: Scope) -> Expression:
    """Give a syntax node its meaning, or raise a QueryError that points at it."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        unknown = (_describe(node), "`anabranch docs language` says what a query may contain")
        what, suggestion = _SUGGESTIONS.get(type(node), unknown)
        keyword = "SELECT" if isinstance(node, exp.Query) else ""
        raise scope.source.error_at_keyword(node, keyword, f"{what} is not supported", suggestion)
    try:
        _refuse_extras(node)
        value = handler(node, scope)
        refuse_what_only_spark_computes(value, scope)
        return value
    except Refusal as refusal:
        raise scope.source.error(node, refusal.message, refusal.suggestion) from None


def _describe(node: exp.Expr) -> str:
    return type(node).__name__ if isinstance(node, exp.Func) else f"this ({type(node).__name__})"


def _refuse_extras(node: exp.Expr) -> None:
    refuse_extras(node, _PARTS, usual=("this", "expression", "expressions"))


def _comparison(node: exp.Expr, scope: Scope) -> Expression:
    left, right = resolve(node.this, scope), resolve(node.expression, scope)
    return operators.compare(_COMPARISONS[type(node)], left, right)


def _arithmetic(node: exp.Expr, scope: Scope) -> Expression:
    left, right = resolve(node.this, scope), resolve(node.expression, scope)
    return operators.arithmetic(_ARITHMETIC[type(node)], left, right)


def _negative(node: exp.Expr, scope: Scope) -> Expression:
    inner = node.this
    # The smallest integers only fit with their sign: 2147483648 alone is a BIGINT, 128Y nothing at all.
    if isinstance(inner, exp.TryCast) and is_whole(inner.this) and type_name(inner.args["to"]) in INTEGRAL:
        return integer(inner.this.name, type_name(inner.args["to"]), sign=-1)
    if is_whole(inner) and inner.name in ("2147483648", "9223372036854775808"):
        return Constant(-int(inner.name), "int" if len(inner.name) == 10 else "bigint")
    return operators.negative(resolve(inner, scope))


def _logical(name: str) -> Callable[[exp.Expr, Scope], Expression]:
    def handle(node: exp.Expr, scope: Scope) -> Expression:
        return operators.logical(name, *(resolve(part, scope) for part in _chained(node)))

    return handle


def _chained(node: exp.Expr) -> list[exp.Expr]:
    """The terms of `a OR b OR c`, which the parser nests: programs write chains of thousands."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            _refuse_extras(part)
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _not(node: exp.Expr, scope: Scope) -> Expression:
    return operators.logical("not", resolve(node.this, scope))


def _is(node: exp.Expr, scope: Scope) -> Expression:
    value, what = resolve(node.this, scope), node.expression
    if isinstance(what, exp.Null):
        return Call("is_null", (value,), "boolean")
    if isinstance(what, exp.Boolean):
        return Call(
            "null_safe_equal", (operators.condition(value), Constant(bool(what.this), "boolean")), "boolean"
        )
    raise Refusal("IS takes NULL, TRUE or FALSE", "write IS NULL or =")


def _in(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("query"):
        raise Refusal("a sub-query behind IN is not supported", "join the stream in FROM instead")
    if not node.expressions:
        raise Refusal("IN takes a list of values", "write IN (1, 2, 3)")
    values = [resolve(node.this, scope), *(resolve(value, scope) for value in node.expressions)]
    return Call("in", tuple(operators.unify(values, "be in one list")[0]), "boolean")


def _between(node: exp.Expr, scope: Scope) -> Expression:
    value = resolve(node.this, scope)
    low = operators.compare("greater_equal", value, resolve(node.args["low"], scope))
    high = operators.compare("less_equal", value, resolve(node.args["high"], scope))
    return operators.logical("and", low, high)


def _like(node: exp.Expr, scope: Scope) -> Expression:
    match = operators.like(resolve(node.this, scope), resolve(node.expression, scope))
    return operators.logical("not", match) if node.args.get("negate") else match


def _escape(node: exp.Expr, scope: Scope) -> Expression:
    inner = node.this
    if not isinstance(inner, exp.Like):
        raise Refusal("ESCAPE belongs behind LIKE", "write a LIKE '…' ESCAPE '#'")
    _refuse_extras(inner)
    match = operators.like(resolve(inner.this, scope), resolve(inner.expression, scope), node.expression.name)
    return operators.logical("not", match) if inner.args.get("negate") else match


def _case(node: exp.Expr, scope: Scope) -> Expression:
    subject = resolve(node.this, scope) if node.this else None
    tests, results = [], []
    for arm in node.args["ifs"]:
        test = resolve(arm.this, scope)
        tests.append(test if subject is None else operators.compare("equal", subject, test))
        results.append(resolve(arm.args["true"], scope))
    default = node.args.get("default")
    results.append(resolve(default, scope) if default else operators.NULL)
    return operators.choose(tests, results)


def _cast(node: exp.Expr, scope: Scope) -> Expression:
    inner, target = node.this, type_name(node.args["to"])
    # 1.5D and 1.5BD arrive as casts of a number: take the digits, not the decimal they would first become.
    if isinstance(inner, exp.Literal) and not inner.is_string and target in FLOATING:
        number = double(inner.name)
        if target == "double" or abs(number) <= LARGEST_FLOAT:
            return Constant(number, target)
    if is_whole(inner) and target in INTEGRAL:
        return integer(inner.name, target)
    return operators.cast(resolve(inner, scope), target)


def _interval(node: exp.Expr, scope: Scope) -> Expression:
    unit = node.args.get("unit")
    size = duration_us(node.this.name, unit.name) if isinstance(unit, exp.Var) and node.this else None
    if size is None or size >= 2**62:
        raise Refusal("this is not a length of time", f"write INTERVAL 10 MINUTES, {DURATION_HINT}")
    return Constant(size, INTERVAL)


def _extract(node: exp.Expr, scope: Scope) -> Expression:
    name = _EXTRACTED.get(node.name.upper())
    if name is None:
        raise Refusal(f"EXTRACT({node.name}) is not supported", f"extract {', '.join(_EXTRACTED)}")
    return functions.call_function(name, [resolve(node.expression, scope)])


def _trim(node: exp.Expr, scope: Scope) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    signs = node.args.get("expression")
    if signs is not None and name == "trim":
        return functions.call_function("btrim", [resolve(node.this, scope), resolve(signs, scope)])
    if signs is not None:
        raise Refusal(f"{name} removes blanks only", "write trim(BOTH 'x' FROM text)")
    return functions.call_function(name, [resolve(node.this, scope)])


def _bits(name: str) -> Callable[[exp.Expr, Scope], Expression]:
    def handle(node: exp.Expr, scope: Scope) -> Expression:
        sides = [node.this, *([node.expression] if name != "bit_not" else [])]
        return functions.BIT_OPERATIONS[name].resolve([resolve(side, scope) for side in sides])

    return handle


def _call(name: str) -> Callable[[exp.Expr, Scope], Expression]:
    """An operator that means a function of two arguments."""

    def handle(node: exp.Expr, scope: Scope) -> Expression:
        found = functions.call_function(name, [resolve(node.this, scope), resolve(node.expression, scope)])
        return operators.logical("not", found) if node.args.get("negate") else found

    return handle


def _ilike(node: exp.Expr, scope: Scope) -> Expression:
    match = operators.like(resolve(node.this, scope), resolve(node.expression, scope))
    assert isinstance(match, Call)
    found = Call("ilike", match.args, "boolean")
    return operators.logical("not", found) if node.args.get("negate") else found


def _bracket(node: exp.Expr, scope: Scope) -> Expression:
    """`split(text, pattern)[0]`, or a number of a vector; other arrays are taken apart at ingest."""
    inner = node.this
    if isinstance(inner, exp.Column) and (vector := scope.vector(inner)) is not None:
        return _element(node, vector)
    is_split = (
        isinstance(inner, exp.Anonymous) and isinstance(inner.this, str) and inner.this.lower() == "split"
    )
    if not is_split or len(inner.expressions) != 2 or len(node.expressions) != 1:
        raise Refusal(
            "access to an element is not supported", "write CREATE STREAM … AS SELECT items[0] AS item, …"
        )
    return functions.split_element(*(resolve(a, scope) for a in (*inner.expressions, *node.expressions)))


def _element(node: exp.Expr, vector: list[ColumnValue]) -> Expression:
    (number,) = node.expressions
    at = whole_number(number.name) if isinstance(number, exp.Literal) and not number.is_string else None
    if at is None or at >= len(vector):
        raise Refusal(f"{node.sql('spark')} is no number of this vector", f"write [0] to [{len(vector) - 1}]")
    return vector[at]


def _function(node: exp.Expr, scope: Scope) -> Expression:
    if not isinstance(node.this, str):
        raise Refusal("a function's name is written without quotes", "remove the back-quotes")
    if node.this.lower() in WINDOW_FUNCTIONS:
        return window_value(node, scope)
    if node.this.lower() in aggregates.AGGREGATES:
        inside = replace(scope, without_aggregates="another aggregate")
        return aggregates.resolve_aggregate(
            node, scope.without_aggregates, resolve_argument=lambda a: resolve(a, inside), times=scope.times
        )
    if node.this.lower() == "l2_distance":
        return functions.l2_distance(*(_vector(arg, scope) for arg in node.expressions))
    if user_predicates.is_predicate(node.this):
        return user_predicates.call_predicate(node.this, [resolve(arg, scope) for arg in node.expressions])
    if node.this.lower() not in functions.FUNCTIONS:
        return functions.call_function(node.this, [])
    return functions.call_function(node.this, [resolve(arg, scope) for arg in node.expressions])


def _vector(node: exp.Expr, scope: Scope) -> list[Expression]:
    """The numbers of `array(x, y, …)`, or of a column that is a vector."""
    if isinstance(node, exp.Column) and (vector := scope.vector(node)) is not None:
        return list[Expression](vector)
    is_array = isinstance(node, exp.Array) or (
        isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() == "array"
    )
    if not is_array:
        raise Refusal(
            "l2_distance takes two vectors",
            "write l2_distance(a.v, b.v) with v declared as DOUBLE[3] in CREATE STREAM, or "
            "l2_distance(array(a.x, a.y), array(b.x, b.y))",
        )
    return [resolve(value, scope) for value in node.expressions]


def _concat(node: exp.Expr, scope: Scope) -> Expression:
    return functions.call_function("concat", [resolve(node.this, scope), resolve(node.expression, scope)])


def _column(node: exp.Expr, scope: Scope) -> Expression:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        raise Refusal("* is not an expression", "name the column")
    return window_bound(node, scope) or scope.column(node)


def _filter(node: exp.Expr, scope: Scope) -> Expression:
    value = resolve(node.this, scope)
    if not isinstance(value, AggregateValue):
        raise Refusal("FILTER belongs behind an aggregate", "write SUM(x) FILTER (WHERE x > 0)")
    _refuse_extras(node.expression)
    inside = replace(scope, without_aggregates="FILTER")
    return aggregates.filtered(value, operators.condition(resolve(node.expression.this, inside)))


_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Expression]] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    exp.Literal: lambda node, scope: literal(node),
    exp.HexString: lambda node, scope: hexadecimal(node),
    exp.Null: lambda node, scope: operators.NULL,
    exp.Boolean: lambda node, scope: Constant(bool(node.this), "boolean"),
    exp.Column: _column,
    exp.Paren: lambda node, scope: resolve(node.this, scope),
    exp.Neg: _negative,
    exp.And: _logical("and"),
    exp.Or: _logical("or"),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Anonymous: _function,
    exp.DPipe: _concat,
    exp.Filter: _filter,
    exp.BitwiseAnd: _bits("bit_and"),
    exp.BitwiseOr: _bits("bit_or"),
    exp.BitwiseXor: _bits("bit_xor"),
    exp.BitwiseNot: _bits("bit_not"),
    exp.BitwiseLeftShift: _call("shiftleft"),
    exp.BitwiseRightShift: _call("shiftright"),
    exp.RegexpLike: _call("regexp_like"),
    exp.ILike: _ilike,
    exp.IntDiv: lambda node, scope: operators.whole_division(
        resolve(node.this, scope), resolve(node.expression, scope)
    ),
    exp.Bracket: _bracket,
}
"""The syntax a query may use. What is not here does not get through."""

_PARTS: Parts = {
    **PARTS,
    exp.Div: {"this", "expression", "typed", "safe"},
    exp.DPipe: {"this", "expression", "safe"},
}
