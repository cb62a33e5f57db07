"""The allow-list: the functions a query may call, and the types they take and give.

A function is here only while tests/language/test_engines_agree.py shows that Spark and DuckDB give the
same values for it on a table of nasty inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anabranch.language.expressions.advice import ADVICE, advice_for
from anabranch.language.expressions.expression import Call, Cast, Constant, Expression
from anabranch.language.expressions.operators import (
    NULL,
    Arguments,
    arithmetic,
    cast,
    choose,
    coerce,
    compare,
    logical,
    negative,
    unify,
    unix_micros,
)
from anabranch.language.expressions.spark_functions import SIGNATURES, Signature
from anabranch.language.expressions.types import (
    INTEGRAL,
    VOID,
    Refusal,
    decimal_digits,
    decimal_type,
    is_numeric,
    is_widening,
)
from anabranch.language.ingest import built_ins

MOST_DIMENSIONS = 1000


@dataclass(frozen=True, slots=True)
class Function:
    """A function users may call, with the number of arguments it takes."""

    resolve: Callable[[Arguments], Expression]
    least: int
    most: int


def call_function(name: str, args: Arguments) -> Expression:
    """Resolve a call by the name the user wrote; raises `Refusal` when it is not on the list."""
    function = FUNCTIONS.get(name.lower())
    if function is None:
        raise _unknown(name)
    if not function.least <= len(args) <= function.most:
        takes = (
            str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
        )
        plural = "" if takes == "1" else "s"
        raise Refusal(
            f"{name} takes {takes} argument{plural}, not {len(args)}", "see `anabranch docs language`"
        )
    return function.resolve(args)


def _unknown(name: str) -> Refusal:
    known = name.lower()
    reason = _REFUSED.get(known) or built_ins.REFUSED.get(known)
    if reason is None and known in built_ins.DETERMINISTIC and known not in ADVICE:
        reason = _AT_INGEST
    if reason is not None:
        return Refusal(f"function {name} is not supported: {reason[0]}", reason[1])
    return Refusal(f"function {name} is not supported", advice_for(name, FUNCTIONS))


def _want(value: Expression, *kinds: str) -> Expression:
    if value.type in kinds:
        return value
    if value.type == VOID:
        return Constant(None, kinds[0])
    raise Refusal(f"expected {' or '.join(kinds)}, found {value.type}", f"CAST it to {kinds[0].upper()}")


def _number(value: Expression) -> Expression:
    if value.type != VOID and not is_numeric(value.type):
        raise Refusal(f"expected a number, found {value.type}", "CAST it to a number")
    return coerce(value, "double") if value.type == VOID else value


def _simple(operation: str, kind: str, *wanted: str) -> Function:
    def resolve(args: Arguments) -> Expression:
        return Call(operation, tuple(_want(arg, want) for arg, want in zip(args, wanted, strict=True)), kind)

    return Function(resolve, len(wanted), len(wanted))


def _absolute(args: Arguments) -> Expression:
    value = _number(args[0])
    return Call("absolute_integer" if value.type in INTEGRAL else "absolute", (value,), value.type)


def _to_whole(operation: str) -> Function:
    def resolve(args: Arguments) -> Expression:
        value = _number(args[0])
        if decimal_digits(value.type):
            raise Refusal(f"{operation} of a decimal is not supported", "CAST it to DOUBLE")
        if value.type in INTEGRAL:
            return coerce(value, "bigint")
        return Call(operation, (coerce(value, "double"),), "bigint")

    return Function(resolve, 1, 1)


def _round(args: Arguments) -> Expression:
    value = _number(args[0])
    places = args[1].value if len(args) == 2 and isinstance(args[1], Constant) else 0
    if len(args) == 2 and not (
        isinstance(args[1], Constant) and isinstance(places, int) and 0 <= places <= 18
    ):
        raise Refusal("round takes a constant number of digits from 0 to 18", "write round(x, 2)")
    assert isinstance(places, int)
    if value.type in INTEGRAL:
        return value
    digits = decimal_digits(value.type)
    if digits is None:
        if len(args) == 1:
            return Call("round", (value,), value.type)
        return Call("round_to", (value, Constant(places, "int")), value.type)
    scale = min(digits[1], places)
    kind = decimal_type(min(digits[0] - digits[1] + 1 + scale, 38), scale)
    return Call("round_decimal", (value, Constant(places, "int")), kind)


def _square_root(args: Arguments) -> Expression:
    return Call("square_root", (coerce(_number(args[0]), "double"),), "double")


def _variadic(operation: str, least: int) -> Function:
    def resolve(args: Arguments) -> Expression:
        values, kind = unify(args, f"be arguments of one {operation}")
        return Call(operation, tuple(values), kind) if len(values) > 1 else values[0]

    return Function(resolve, least, 100)


def _null_if(args: Arguments) -> Expression:
    return choose([compare("equal", args[0], args[1])], [NULL, args[0]])


def _concat(args: Arguments) -> Expression:
    texts = [arg if arg.type in ("string", VOID) else cast(arg, "string") for arg in args]
    values = tuple(coerce(text, "string") for text in texts)
    return Call("concat", values, "string") if len(values) > 1 else values[0]


def _substring(args: Arguments) -> Expression:
    places = [arg.value if isinstance(arg, Constant) else None for arg in args[1:]]
    length = args[2] if len(args) == 3 else Constant(2**31 - 1, "int")
    # Positions from the end, and those that a column tells, mean other things to other engines.
    plain = all(isinstance(place, int) and place >= 0 for place in places) and places[0] != 0
    numbers = (_want(args[1], "int"), _want(length, "int"))
    return Call("substring" if plain else "any_substring", (_want(args[0], "string"), *numbers), "string")


def _left(args: Arguments) -> Expression:
    return _substring([args[0], Constant(1, "int"), args[1]])


def _is_nan(args: Arguments) -> Expression:
    return Call("is_nan", (coerce(_number(args[0]), "double"),), "boolean")


def _unix(per_unit_us: int) -> Function:
    def resolve(args: Arguments) -> Expression:
        micros = unix_micros(_want(args[0], "timestamp"))
        unit = Constant(per_unit_us, "bigint")
        return micros if per_unit_us == 1 else Call("divide_floor", (micros, unit), "bigint")

    return Function(resolve, 1, 1)


def _from_unix(per_unit_us: int) -> Function:
    def resolve(args: Arguments) -> Expression:
        if args[0].type not in (*INTEGRAL, VOID):
            raise Refusal(f"expected an integer, found {args[0].type}", "CAST it to BIGINT")
        count = coerce(args[0], "bigint")
        unit = Constant(per_unit_us, "bigint")
        micros = count if per_unit_us == 1 else Call("multiply", (count, unit), "bigint")
        return Call("timestamp_micros", (micros,), "timestamp")

    return Function(resolve, 1, 1)


def _part(name: str) -> Function:
    def resolve(args: Arguments) -> Expression:
        value = args[0]
        if value.type == "date":
            value = Cast(value, "timestamp")
        return Call(name, (_want(value, "timestamp"),), "int")

    return Function(resolve, 1, 1)


def _is_null(args: Arguments) -> Expression:
    return Call("is_null", (args[0],), "boolean")


def l2_distance(*vectors: Arguments) -> Expression:
    """The Euclidean distance of two vectors, each written as its numbers."""
    if len(vectors) != 2:
        raise Refusal(f"l2_distance takes 2 arguments, not {len(vectors)}", "see `anabranch docs language`")
    left, right = vectors
    if len(left) != len(right) or not 1 <= len(left) <= MOST_DIMENSIONS:
        raise Refusal(
            f"vectors of {len(left)} and {len(right)} numbers have no distance",
            f"give both the same number of them, 1 to {MOST_DIMENSIONS}",
        )
    return Call("l2_distance", tuple(coerce(_number(x), "double") for x in (*left, *right)), "double")


def _in_spark(name: str, signature: Signature) -> Function:
    """A function of `SIGNATURES`."""

    def resolve(args: Arguments) -> Expression:
        values = tuple(_given(arg, kind) for arg, kind in zip(args, signature.arguments, strict=False))
        return Call(name, values, signature.result)

    return Function(resolve, signature.least, len(signature.arguments))


def _given(value: Expression, kind: str) -> Expression:
    """An argument in the type that Spark would give it by itself."""
    if kind == "double":
        return coerce(_number(value), kind)
    if value.type in INTEGRAL and is_widening(value.type, kind):
        return coerce(value, kind)
    if (value.type, kind) in (("date", "timestamp"), ("timestamp", "date")):
        return Cast(value, kind)
    if (value.type, kind) == ("string", "binary"):
        return Cast(value, kind)
    return _want(value, kind)


def _concat_ws(args: Arguments) -> Expression:
    texts = (arg if arg.type in ("string", VOID) else cast(arg, "string") for arg in args)
    return Call("concat_ws", tuple(coerce(text, "string") for text in texts), "string")


def split_element(text: Expression, pattern: Expression, index: Expression) -> Expression:
    """`split(text, pattern)[index]`: the only form in which a query may split."""
    args = (_want(text, "string"), _want(pattern, "string"), _want(index, "int"))
    return Call("element_of_split", args, "string")


def _bits(name: str) -> Function:
    def resolve(args: Arguments) -> Expression:
        for arg in args:
            if arg.type not in (*INTEGRAL, VOID):
                raise Refusal(f"expected an integer, found {arg.type}", "CAST it to BIGINT")
        values, kind = unify(args, "be operands of one bit operation")
        return Call(name, tuple(values), kind)

    return Function(resolve, 1 if name == "bit_not" else 2, 1 if name == "bit_not" else 2)


BIT_OPERATIONS = {name: _bits(name) for name in ("bit_and", "bit_or", "bit_xor", "bit_not")}
"""What `&`, `|`, `^` and `~` mean."""


def _operator(name: str) -> Function:
    return Function(lambda args: arithmetic(name, args[0], args[1]), 2, 2)


FUNCTIONS: dict[str, Function] = {
    **{name: _in_spark(name, signature) for name, signature in SIGNATURES.items()},
    "concat_ws": Function(_concat_ws, 2, 100),
    "abs": Function(_absolute, 1, 1),
    "ceil": _to_whole("ceil"),
    "ceiling": _to_whole("ceil"),
    "floor": _to_whole("floor"),
    "round": Function(_round, 1, 2),
    "sqrt": Function(_square_root, 1, 1),
    "mod": _operator("modulo"),
    "try_add": _operator("add"),
    "try_subtract": _operator("subtract"),
    "try_multiply": _operator("multiply"),
    "try_divide": _operator("divide"),
    "try_mod": _operator("modulo"),
    "negative": Function(lambda args: negative(args[0]), 1, 1),
    "isnan": Function(_is_nan, 1, 1),
    "coalesce": _variadic("coalesce", 1),
    "ifnull": Function(lambda args: FUNCTIONS["coalesce"].resolve(args), 2, 2),
    "nvl": Function(lambda args: FUNCTIONS["coalesce"].resolve(args), 2, 2),
    "nullif": Function(_null_if, 2, 2),
    "if": Function(lambda args: choose(args[:1], args[1:]), 3, 3),
    "isnull": Function(_is_null, 1, 1),
    "isnotnull": Function(lambda args: logical("not", _is_null(args)), 1, 1),
    "least": _variadic("least", 2),
    "greatest": _variadic("greatest", 2),
    "concat": Function(_concat, 1, 100),
    "length": _simple("length", "int", "string"),
    "char_length": _simple("length", "int", "string"),
    "character_length": _simple("length", "int", "string"),
    "substring": Function(_substring, 2, 3),
    "substr": Function(_substring, 2, 3),
    "left": Function(_left, 2, 2),
    "trim": _simple("trim", "string", "string"),
    "ltrim": _simple("left_trim", "string", "string"),
    "rtrim": _simple("right_trim", "string", "string"),
    "startswith": _simple("starts_with", "boolean", "string", "string"),
    "endswith": _simple("ends_with", "boolean", "string", "string"),
    "contains": _simple("contains", "boolean", "string", "string"),
    "unix_micros": _unix(1),
    "unix_millis": _unix(1_000),
    "unix_seconds": _unix(1_000_000),
    "timestamp_micros": _from_unix(1),
    "timestamp_millis": _from_unix(1_000),
    "timestamp_seconds": _from_unix(1_000_000),
    "year": _part("year"),
    "month": _part("month"),
    "day": _part("day"),
    "dayofmonth": _part("day"),
    "hour": _part("hour"),
    "minute": _part("minute"),
    "second": _part("second"),
}
"""What users may call, by lower-case name."""

_AGGREGATE = ("there is no such aggregate", "use count, sum, avg, min, max, stddev, variance or max_by")
_APPROXIMATE = ("there is no such aggregate", "write percentile(x, 0.95), which is exact")
_AT_INGEST = (
    "a query computes with plain values only",
    "write CREATE STREAM … AS SELECT, where all built-in functions of Spark are at hand",
)
_REFUSED: dict[str, tuple[str, str]] = {
    "bround": ("engines round it differently", "write round(x, 2)"),
    "log": ("its base may come first or not at all", "write ln, log10 or log2"),
    "split": ("a query has no arrays", "write split(text, ',')[0], or split_part(text, ',', 1)"),
    **dict.fromkeys(built_ins.GENERATORS, _AT_INGEST),
    **dict.fromkeys(("collect_list", "collect_set", "mode", "skewness", "kurtosis"), _AGGREGATE),
    **dict.fromkeys(("approx_percentile", "percentile_approx", "percentile_cont"), _APPROXIMATE),
    "approx_count_distinct": ("there is no such aggregate", "write COUNT(DISTINCT x), which is exact"),
}
