"""Advice for functions of Spark that a query cannot call, and Spark's registry does not tell why.

What concerns one stream alone can always be computed before: by a SELECT at ingest, or in a DataFrame that is
handed to `session.stream`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

NEAR = 0.82
"""How alike a name must be to be suggested: `substrng` is like `substring`, `md5` is not like `mod`."""

_BEFORE = "compute it where the stream is made: by CREATE STREAM … AS SELECT, or in its DataFrame"
_NESTED = "columns are of simple types: " + _BEFORE
_WINDOW = "write GROUP BY window(ts, '1 hour'), or session_window(ts, '10 minutes')"
_DISTANCE = "write l2_distance(array(a.x, a.y), array(b.x, b.y)) < 5"

_GROUPS = (
    ("sha hash xxhash64", "keys are compared in full, so that no hash is needed; else write sha2(x, 256)"),
    ("date", "write CAST(x AS DATE)"),
    ("timestamp", "write CAST(x AS TIMESTAMP), timestamp_seconds(n) or timestamp_millis(n)"),
    ("to_unix_timestamp", "write unix_seconds(ts)"),
    ("timestampdiff", "write unix_seconds(a.ts) - unix_seconds(b.ts), which is in seconds"),
    ("dateadd timestampadd", "write date_add(x, 1), or unix_seconds(ts) + 86400, in seconds"),
    ("array struct map named_struct size element_at array_contains flatten", _NESTED),
    ("from_json to_json from_csv format_string", _BEFORE),
    ("nvl2 decode", "write CASE WHEN x IS NOT NULL THEN … ELSE … END"),
    ("sum_if countif", "write count(CASE WHEN … THEN 1 END), or sum(CASE WHEN … THEN x ELSE 0 END)"),
    ("pmod", "write mod(mod(x, n) + n, n)"),
    ("tumble hop session", _WINDOW),
    ("pi", "write 3.141592653589793"),
    ("st_distance haversine euclidean_distance", _DISTANCE),
)
ADVICE = {name: advice for names, advice in _GROUPS for name in names.split()}
"""Advice by name of function."""


def advice_for(name: str, known: Collection[str]) -> str:
    """What to do about a function that there is not.

    >>> advice_for("substrng", ["substr", "substring", "mod"])
    'did you mean substring or substr?'
    >>> advice_for("pmod", ["mod"])
    'write mod(mod(x, n) + n, n)'
    """
    lowered = name.lower()
    if lowered in ADVICE:
        return ADVICE[lowered]
    near = difflib.get_close_matches(lowered, known, n=2, cutoff=NEAR)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"the list is in `anabranch docs language`; else {_BEFORE}, or register it by ab.predicate"
