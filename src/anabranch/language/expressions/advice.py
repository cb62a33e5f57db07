"""Advice for functions of Spark that a query cannot call: what to write instead.

Most are not on the list because tests have not shown, or have disproved, that Spark and DuckDB give the same
values. What concerns one stream alone can always be computed before: in a DataFrame that is handed to
`session.stream`, or by whoever writes the source.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

NEAR = 0.82
"""How alike a name must be to be suggested: `substrng` is like `substring`, `md5` is not like `mod`."""

_BEFORE = "compute it in the DataFrame that you give to session.stream(…)"
_TIMES = "times are compared as they are; a group of them is a window: GROUP BY window(ts, '1 hour')"
_PARTS = "year(ts), month(ts), day(ts), hour(ts), minute(ts) and second(ts) give the parts of a time"
_NESTED = "columns are of simple types: " + _BEFORE
_TEXT = "LIKE, contains, startswith, endswith, substring and concat work on text; else " + _BEFORE
_CLOCK = "a result must not depend on when it is computed: use the time column of a stream"
_CHANCE = "a result must be the same after a restart: bring the number along in a column"
_RANKS = (
    "rows yet to come have no rank: max_by(x, ts), first(x) and last(x) of GROUP BY window(ts, …) find one"
)
_HASH = "keys are compared in full, so that no hash is needed; else " + _BEFORE
_LISTS = "aggregates give one value: count(*), min(x), max(x), sum(x)"
_TO_TIME = "write timestamp_seconds(n) or timestamp_millis(n); of a text, let the source read it as TIMESTAMP"
_BETWEEN = "write unix_seconds(a.ts) - unix_seconds(b.ts), which is in seconds"
_JSON = "declare the fields as columns of CREATE STREAM … FROM json; else " + _BEFORE
_IF = "write count(CASE WHEN … THEN 1 END), or sum(CASE WHEN … THEN x ELSE 0 END)"
_ANY = "write max(CASE WHEN … THEN 1 ELSE 0 END) = 1, or min(CASE …) = 1 for all"
_WINDOW = "write GROUP BY window(ts, '1 hour'), or session_window(ts, '10 minutes')"
_DISTANCE = "write l2_distance(array(a.x, a.y), array(b.x, b.y)) < 5"

_GROUPS = (
    ("md5 sha sha1 sha2 crc32 hash xxhash64", _HASH),
    ("date_trunc trunc date_format", f"{_TIMES}; {_PARTS}"),
    ("to_date date", "write CAST(x AS DATE)"),
    ("to_timestamp timestamp from_unixtime", _TO_TIME),
    ("unix_timestamp to_unix_timestamp", "write unix_seconds(ts)"),
    ("datediff date_diff timestampdiff months_between", _BETWEEN),
    ("date_add date_sub dateadd timestampadd add_months", "write unix_seconds(ts) + 86400, in seconds"),
    ("dayofweek weekday weekofyear quarter dayofyear last_day", f"{_PARTS}; else {_BEFORE}"),
    ("current_timestamp now current_date localtimestamp", _CLOCK),
    ("rand randn random uuid shuffle monotonically_increasing_id", _CHANCE),
    ("row_number rank dense_rank ntile lag lead", _RANKS),
    ("explode posexplode array struct map named_struct size element_at array_contains flatten", _NESTED),
    ("get_json_object from_json to_json json_tuple from_csv", _JSON),
    ("split regexp_extract regexp_replace regexp_like rlike replace translate reverse initcap", _TEXT),
    ("instr locate lpad rpad concat_ws format_string base64 levenshtein", _TEXT),
    ("array_agg collect_list collect_set string_agg listagg", _LISTS),
    ("nvl2 decode", "write CASE WHEN x IS NOT NULL THEN … ELSE … END"),
    ("sum_if countif count_if", _IF),
    ("any_value any bool_or bool_and every some", _ANY),
    ("sign signum", "write CASE WHEN x > 0 THEN 1 WHEN x < 0 THEN -1 ELSE 0 END"),
    ("pmod", "write mod(mod(x, n) + n, n)"),
    ("tumble hop session", _WINDOW),
    ("sin cos tan atan atan2 radians degrees pi", "last digits differ between engines: " + _BEFORE),
    ("st_distance haversine euclidean_distance", _DISTANCE),
)
ADVICE = {name: advice for names, advice in _GROUPS for name in names.split()}
"""Advice by name of function."""


def advice_for(name: str, known: Collection[str]) -> str:
    """What to do about a function that there is not.

    >>> advice_for("substrng", ["substr", "substring", "mod"])
    'did you mean substring or substr?'
    >>> advice_for("now", ["nvl"])
    'a result must not depend on when it is computed: use the time column of a stream'
    """
    lowered = name.lower()
    if lowered in ADVICE:
        return ADVICE[lowered]
    near = difflib.get_close_matches(lowered, known, n=2, cutoff=NEAR)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"supported are {', '.join(sorted(known))}; else {_BEFORE}"
