"""Functions of users in DuckDB: what their predicates are evaluated by, in pieces of some thousand rows."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.expressions import _connection

_installed: dict[str, bytes] = {}
"""By name in DuckDB: the function as it was pickled."""


class UserFunction(Protocol):
    """A function of Arrow arrays that gives a boolean one."""

    @property
    def name(self) -> str: ...
    @property
    def sql_name(self) -> str: ...
    @property
    def types(self) -> tuple[str, ...]: ...
    @property
    def duckdb_types(self) -> tuple[str, ...]: ...
    @property
    def payload(self) -> bytes: ...


def install_functions(functions: Sequence[UserFunction]) -> None:
    """Let DuckDB know the functions of a session, in the place of those of another one."""
    for function in functions:
        if _installed.get(function.sql_name) == function.payload:
            continue
        connection = _connection()
        if function.sql_name in _installed:
            connection.remove_function(function.sql_name)
        connection.create_function(
            function.sql_name,
            checked(function),
            [duckdb.type(kind) for kind in function.duckdb_types],
            duckdb.type("BOOLEAN"),
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        _installed[function.sql_name] = function.payload


def checked(function: UserFunction) -> Callable[..., pa.Array]:
    """The function of a user, with arrays of the types that it was promised, and a look at what it gives."""
    call: Callable[..., Any] = pickle.loads(function.payload)  # noqa: S301 - of the session's own process
    wanted = [arrow_type(kind) for kind in function.types]

    def run(*columns: pa.ChunkedArray) -> pa.Array:
        pairs = zip(columns, wanted, strict=True)
        arrays = [_array(column if kind is None else column.cast(kind)) for column, kind in pairs]
        found = call(*arrays)
        found = _array(found) if isinstance(found, pa.ChunkedArray) else found
        if not isinstance(found, pa.Array) or not pa.types.is_boolean(found.type):
            told = found.type if isinstance(found, pa.Array) else type(found).__name__
            raise TypeError(f"predicate {function.name} gave {told}, and not an Arrow array of booleans")
        if len(found) != len(arrays[0]):
            raise TypeError(f"predicate {function.name} gave {len(found)} values for {len(arrays[0])} pairs")
        return found

    # DuckDB counts the parameters.
    names = (f"x{i}" for i in range(len(wanted)))
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
