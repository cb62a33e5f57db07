"""Predicates that users write in Python: named in SQL, evaluated by DuckDB in workers, on Arrow arrays.

They belong to the process that registered them. Checkpoints know their names only: a session that goes on
has to register them again. What travels to workers is the function, pickled, with the constants of a session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from anabranch.errors import ConfigError
from anabranch.language.expressions.aggregates import AGGREGATES
from anabranch.language.expressions.expression import Call, Expression, aliases_in
from anabranch.language.expressions.functions import FUNCTIONS
from anabranch.language.expressions.operations import OPERATIONS, Operation
from anabranch.language.expressions.types import VOID, Refusal, duckdb_type

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_TAKEN = frozenset((*FUNCTIONS, *AGGREGATES, "l2_distance", "array", "window", "session_window"))


@dataclass(frozen=True, slots=True)
class UserPredicate:
    """A predicate for arguments of certain types.

    Attributes
    ----------
    types
        Of the arguments, as Spark calls them.
    payload
        The function, pickled.
    """

    name: str
    types: tuple[str, ...]
    payload: bytes

    @property
    def sql_name(self) -> str:
        """What DuckDB calls it: functions for other types have other names."""
        return sql_name(self.name, self.types)

    @property
    def duckdb_types(self) -> tuple[str, ...]:
        return tuple(map(duckdb_type, self.types))


def sql_name(name: str, types: Sequence[str]) -> str:
    """
    >>> sql_name("similar", ["double", "decimal(10,2)"])
    'similar of DOUBLE, DECIMAL(10,2)'
    """
    return f"{name} of {', '.join(map(duckdb_type, types))}"


_payloads: dict[str, bytes] = {}
_bound: dict[str, UserPredicate] = {}
_forbidden: ContextVar[bool] = ContextVar("flow file", default=False)


def register_predicate(name: str, payload: bytes) -> None:
    """Let queries that are bound from now on call a function by name; another one of that name goes."""
    known = name.lower()
    if not _NAME.fullmatch(known) or known in _TAKEN:
        problem = "is a function already" if known in _TAKEN else "is not a name"
        raise ConfigError(f"a predicate cannot be called {name!r}: that {problem}. Call it my_{known}")
    _payloads[known] = payload
    for bound in [p for p in _bound.values() if p.name == known]:
        _bound[bound.sql_name] = UserPredicate(known, bound.types, payload)
    OPERATIONS[_operation(known)] = Operation(
        _not_in_spark, lambda args, types: f'"{sql_name(known, types[:-1])}"({", ".join(args)})'
    )


def is_predicate(name: str) -> bool:
    """Whether a predicate of this name was registered."""
    return name.lower() in _payloads


def call_predicate(name: str, args: Sequence[Expression]) -> Expression:
    """Resolve a call; raises `Refusal` where it cannot be made."""
    known = name.lower()
    if _forbidden.get():
        raise Refusal(
            f"{name} is a predicate of a Python session, and flow files have none",
            'start this query from Python: session.query("…", "SELECT …")',
        )
    if len(frozenset().union(*map(aliases_in, args))) < 2:
        raise Refusal(
            f"{name} is a predicate over two streams",
            "give it columns of both; what concerns one stream is computed where it is read",
        )
    if any(arg.type == VOID for arg in args):
        raise Refusal(f"{name} cannot tell the type of NULL", "write CAST(NULL AS DOUBLE)")
    types = tuple(arg.type for arg in args)
    predicate = UserPredicate(known, types, _payloads[known])
    _bound[predicate.sql_name] = predicate
    return Call(_operation(known), tuple(args), "boolean")


def bound_predicates() -> tuple[UserPredicate, ...]:
    """Those that queries of this process call."""
    return tuple(_bound[name] for name in sorted(_bound))


@contextmanager
def without_predicates() -> Iterator[None]:
    """Refuse predicates: a flow file must mean the same wherever it runs."""
    token = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(token)


def _operation(name: str) -> str:
    return f"predicate {name}"


def _not_in_spark(args: Sequence[str], types: Sequence[str]) -> str:
    raise LookupError("a predicate of a Python session is not computed by Spark")
