"""Functions that only Spark computes: over one stream, where its rows arrive.

DuckDB has no twin of them that agrees on all values, so they cannot span streams or stand above an aggregate.
Spark resolves them in UTC and gives NULL where they have no value, whatever its settings are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# One per line: name(type of each argument) type of the result. A `?` marks arguments that may be missing.
_SIGNATURES = """
lower(string) string
lcase(string) string
upper(string) string
ucase(string) string
initcap(string) string
reverse(string) string
replace(string, string, string?) string
regexp_replace(string, string, string) string
regexp_extract(string, string, int?) string
regexp_substr(string, string) string
regexp_count(string, string) int
regexp_like(string, string) boolean
rlike(string, string) boolean
split_part(string, string, int) string
substring_index(string, string, int) string
translate(string, string, string) string
lpad(string, int, string?) string
rpad(string, int, string?) string
repeat(string, int) string
right(string, int) string
btrim(string, string?) string
instr(string, string) int
locate(string, string, int?) int
position(string, string) int
ascii(string) int
chr(bigint) string
levenshtein(string, string) int
soundex(string) string
get_json_object(string, string) string
md5(binary) string
sha1(binary) string
sha2(binary, int) string
crc32(binary) bigint
hex(bigint) string
base64(binary) string
format_number(double, int) string
to_timestamp(string, string?) timestamp
to_date(string, string?) date
date_trunc(string, timestamp) timestamp
trunc(date, string) date
date_format(timestamp, string) string
from_unixtime(bigint, string?) string
unix_timestamp(string, string?) bigint
from_utc_timestamp(timestamp, string) timestamp
to_utc_timestamp(timestamp, string) timestamp
date_add(date, int) date
date_sub(date, int) date
datediff(date, date) int
date_diff(date, date) int
add_months(date, int) date
months_between(timestamp, timestamp) double
last_day(date) date
next_day(date, string) date
make_date(int, int, int) date
unix_date(date) int
date_from_unix_date(int) date
quarter(date) int
dayofweek(date) int
weekday(date) int
dayofyear(date) int
weekofyear(date) int
dayname(date) string
monthname(date) string
exp(double) double
ln(double) double
log10(double) double
log2(double) double
log1p(double) double
power(double, double) double
pow(double, double) double
cbrt(double) double
sin(double) double
cos(double) double
tan(double) double
asin(double) double
acos(double) double
atan(double) double
atan2(double, double) double
degrees(double) double
radians(double) double
sign(double) double
signum(double) double
rint(double) double
shiftleft(bigint, int) bigint
shiftright(bigint, int) bigint
bit_count(bigint) int
"""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives."""

    arguments: tuple[str, ...]
    least: int
    """How many of them must be there."""
    result: str


def _read(line: str) -> tuple[str, Signature]:
    found = re.fullmatch(r"(\w+)\(([^)]*)\) (\w+)", line)
    assert found is not None, line
    arguments = found[2].split(", ")
    least = sum(not argument.endswith("?") for argument in arguments)
    return found[1], Signature(tuple(a.removesuffix("?") for a in arguments), least, found[3])


SIGNATURES = dict(map(_read, _SIGNATURES.strip().splitlines()))
"""By lower-case name."""
