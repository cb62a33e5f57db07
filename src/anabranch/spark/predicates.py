"""Predicates of users: Python functions over Arrow arrays that queries call by name."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark import cloudpickle

from anabranch.language.expressions.user_predicates import register_predicate


def predicate(name: str, function: Callable[..., pa.Array]) -> None:
    """Let queries of this process call a function in conditions over two or more streams.

    Parameters
    ----------
    name
        What SQL calls it.
    function
        Gets an Arrow array for each argument, of equal length, and gives an array of booleans: one for each
        pair of rows. It sees NULL as Arrow does; where it gives NULL the pair is no result. It must depend on
        nothing but its arguments.

    Examples
    --------
    ::

        ab.predicate("similar", lambda a, b: pc.equal(pc.utf8_lower(a), pc.utf8_lower(b)))
        session.query("same", "SELECT … FROM a […], b […] WHERE a.k = b.k AND similar(a.name, b.name)")

    The function is pickled when it is registered, and travels to Spark's workers. A checkpoint does not keep
    it: register it again before a session goes on.
    """
    pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    register_predicate(name, pickled)
