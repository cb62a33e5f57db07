"""Hypothesis strategies for the text of continuous queries over given streams.

The expressions of one stream stay inside what the ingest without a JVM can translate: columns, casts,
comparisons. What spans streams is free, because DuckDB evaluates it in the engine and in the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from anabranch.plan.logical import Stream

ALIASES = ("a", "b", "c", "d")
NUMERIC = "ilfdnw"
"""Kinds of columns that may be compared with each other."""
_EXACT = "iln"
"""Kinds whose sums and differences stay inside 38 digits whatever they are mixed with."""


@dataclass(frozen=True, slots=True)
class From:
    """One appearance of a stream."""

    alias: str
    stream: Stream

    @property
    def kinds(self) -> str:
        return "".join(c.name for c in self.stream.columns if len(c.name) == 1)

    def of(self, kinds: str) -> list[str]:
        return [f"{self.alias}.{k}" for k in self.kinds if k in kinds]


@st.composite
def select_texts(draw: st.DrawFn, streams: Sequence[Stream], *, computed: bool = False) -> str:
    """A SELECT with one to four references, self-joins included.

    Parameters
    ----------
    computed
        Also expressions of one stream: computed keys, filters and columns.
    """
    refs, rest = draw(any_from(streams, numbers=(2, 3, 2, 3, 3, 1, 4)))
    outputs = draw(_outputs(refs))
    if computed:
        more = draw(st.lists(st.sampled_from(_computed_conditions(refs)), max_size=2, unique=True))
        outputs += [f"{e} AS e{i}" for i, e in enumerate(draw(_computed_values(refs[-1])))]
        rest += "".join(f"{' AND' if i or ' WHERE ' in rest else ' WHERE'} {c}" for i, c in enumerate(more))
    return f"SELECT {', '.join(outputs)} FROM {rest}"


@st.composite
def any_from(draw: st.DrawFn, streams: Sequence[Stream], *, numbers: Sequence[int]) -> tuple[list[From], str]:
    """Some references, and what follows FROM: their windows and conditions."""
    number = draw(st.sampled_from(numbers))
    refs = [From(alias, draw(st.sampled_from(streams))) for alias in ALIASES[:number]]
    windows = [draw(st.sampled_from(_WINDOWS)) if number > 1 else "" for _ in refs]
    sources = ", ".join(f"{r.stream.name}{w} AS {r.alias}" for r, w in zip(refs, windows, strict=True))
    conditions = [*draw(_equalities(refs)), *draw(_residuals(refs)), *draw(_filters(refs))]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return refs, f"{sources}{where}"


_WINDOWS = (
    " [RANGE 4 MICROSECONDS]",
    " [NOW]",
    " [RANGE 1 MICROSECOND]",
    " [RANGE 12 MICROSECONDS]",
    " [RANGE 12 MICROSECONDS]",
    " [RANGE UNBOUNDED]",
)


@st.composite
def _equalities(draw: st.DrawFn, refs: list[From]) -> list[str]:
    """One key shared by all, keys along a chain, several keys, on some pairs only, or none."""
    shape = draw(st.sampled_from(("shared", "chain", "several", "some", "chain", "none")))
    found: list[str] = []
    for i in range(1, len(refs)):
        j = i - 1 if shape == "chain" else draw(st.integers(0, i - 1))
        pairs = _comparable(refs[j], refs[i])
        if shape == "shared":
            # Starting from one column of the first reference closes everything into one class.
            pairs = [p for p in _comparable(refs[0], refs[i]) if p[0] == (found or [p[0]])[0].split(" ")[0]]
        if pairs and shape != "none" and not (shape == "some" and draw(st.booleans())):
            for _ in range(2 if shape == "several" else 1):
                left, right = draw(st.sampled_from(pairs))
                found.append(f"{left} = {right}")
    return list(dict.fromkeys(found))


def _comparable(left: From, right: From) -> list[tuple[str, str]]:
    """Pairs of columns that may be compared; those of the same kind first."""
    pairs = [
        (f"{left.alias}.{x}", f"{right.alias}.{y}")
        for x in left.kinds
        for y in right.kinds
        if x == y or (x in NUMERIC and y in NUMERIC)
    ]
    return sorted(pairs, key=lambda p: p[0][-1] != p[1][-1])


@st.composite
def _residuals(draw: st.DrawFn, refs: list[From]) -> list[str]:
    found = []
    for i in range(1, len(refs)):
        if draw(st.integers(0, 2)) == 0:
            left, right = refs[draw(st.integers(0, i - 1))], refs[i]
            found.append(draw(st.sampled_from(_predicates(left, right))))
    if len(refs) > 2 and draw(st.integers(0, 4)) == 0:
        a, b, c = (f"{r.alias}.id" for r in refs[:3])
        found.append(f"({a} < {b} OR {b} < {c} OR {a} = {c})")
    return found


def _predicates(left: From, right: From) -> list[str]:
    a, b = left.alias, right.alias
    found = [
        f"{a}.id - {b}.id BETWEEN -2 AND 2",
        f"{a}.id <> {b}.id",
        f"{a}.ts <= {b}.ts",
        f"({a}.id + {b}.id) % 2 = 0",
        f"({a}.id & {b}.id) = 0",
    ]
    for x, y in _comparable(left, right)[:6]:
        found += [
            f"{x} < {y}",
            f"{x} <=> {y}",
            f"({x} = {y} OR {a}.id > {b}.id)",
            f"NOT ({x} >= {y})",
            f"coalesce({x} <> {y}, TRUE)",
        ]
    # A key: what does not fit is NULL, and meets nothing.
    found += [f"CAST({x} AS INT) = CAST({y} AS INT)" for x in left.of("l") for y in right.of("l")]
    found += [f"abs({x} - {y}) <= 2" for x in left.of(_EXACT) for y in right.of(_EXACT)]
    found += [f"concat({x}, '\"', {y}) <> '\"'" for x in left.of("s") for y in right.of("s")]
    return found + _bands(left, right)


def _bands(left: From, right: From) -> list[str]:
    """Bounds of one difference or of two, some with another predicate beside them."""
    a, b = left.alias, right.alias
    found = [
        f"abs({a}.id - {b}.id) <= 2",
        f"{a}.ts - {b}.ts <= INTERVAL 3 MICROSECONDS",
        f"{a}.id < {b}.id AND {b}.ts <= {a}.ts",
        f"{a}.id - {b}.id BETWEEN -1 AND 2 AND ({a}.ts = {b}.ts OR ({a}.id + {b}.id) % 3 <> 0)",
    ]
    found += [f"abs({x} - {y}) < 0.6e0" for x in left.of("fd") for y in right.of("fd")]
    found += [f"{x} - {y} BETWEEN -1 AND 0.5" for x in left.of("lfdn") for y in right.of("lfdn")]
    pairs = [(x, y) for x, y in _comparable(left, right)[:3] if x[-1] in NUMERIC]
    found += [f"{x} BETWEEN {y} AND {z}" for x, y in pairs for z in right.of(NUMERIC)[:2]]
    return found


@st.composite
def _filters(draw: st.DrawFn, refs: list[From]) -> list[str]:
    found = []
    for ref in refs:
        if draw(st.integers(0, 3)) == 0:
            choices = [f"{ref.alias}.id > 3", f"{ref.alias}.id < 0", f"NOT {ref.alias}.id = 1"]
            choices += [f"{x} IS NOT NULL" for x in ref.of("ilfdnwsxeub")]
            choices += [f"{x} >= 0" for x in ref.of(NUMERIC)] + ref.of("b")
            choices += [f"{x} <> 'a'" for x in ref.of("s")]
            found.append(draw(st.sampled_from(choices)))
    return found


@st.composite
def _outputs(draw: st.DrawFn, refs: list[From]) -> list[str]:
    if draw(st.integers(0, 9)) == 9:
        return ["1 AS one"]
    found = [f"{r.alias}.id AS {r.alias}" for r in refs]
    columns = [f"{r.alias}.{k}" for r in refs for k in r.kinds] + [f"{r.alias}.ts" for r in refs]
    chosen = draw(st.lists(st.sampled_from(columns), max_size=3))
    if len(refs) > 1 and draw(st.booleans()):
        chosen.append(draw(st.sampled_from(_expressions(refs[0], refs[-1]))))
    return found + [f"{expression} AS o{i}" for i, expression in enumerate(chosen)]


def _expressions(left: From, right: From) -> list[str]:
    a, b = left.alias, right.alias
    found = [f"{a}.id * {b}.id", f"CASE WHEN {a}.id < {b}.id THEN {a}.ts ELSE {b}.ts END", "7"]
    found += [f"{x} + {y}" for x in left.of(_EXACT) for y in right.of(_EXACT)]
    found += [f"{x} - {y}" for x in left.of("fd") for y in right.of("fd")]
    found += [f"round({x} * {y}, 1)" for x in left.of("fd") for y in right.of("fd")]
    found += [f"{x} | {y}" for x in left.of("il") for y in right.of("il")] + [f"{a}.id ^ ~{b}.id"]
    found += [f"coalesce({x}, {y})" for x, y in _comparable(left, right) if x[-1] == y[-1]]
    found += [f"concat({x}, '\"', {y})" for x in left.of("s") for y in right.of("s")]
    return found


def _computed_conditions(refs: list[From]) -> list[str]:
    first, last = refs[0], refs[-1]
    a, b = first.alias, last.alias
    found = [f"{a}.id % 5 <> 1", f"second({b}.ts) < 59"]
    found += [f"coalesce({x}, 0) < 2" for x in first.of("ild")]
    found += [f"length({x}) < 2" for x in last.of("s")]
    if len(refs) > 1:
        found += [f"{a}.id + 1 = {b}.id", f"{a}.id % 4 = {b}.id % 4"]
        found += [f"{x} + 1 = {y}" for x in first.of("il") for y in last.of("iln")]
        found += [f"coalesce({x}, 'a') = coalesce({y}, 'a')" for x in first.of("s") for y in last.of("s")]
        found += [f"CAST({x} AS STRING) = {y}" for x in first.of("il") for y in last.of("s")]
    return found


def _computed_values(ref: From) -> st.SearchStrategy[list[str]]:
    found = [f"{ref.alias}.id * 2 + 1", f"CASE WHEN {ref.alias}.id > 4 THEN 'many' END"]
    found += [f"{x} - 1" for x in ref.of("iln")] + [f"{x} * 2" for x in ref.of("fd")]
    found += [f"trim({x})" for x in ref.of("s")] + [f"CAST({x} AS DATE)" for x in ref.of("u")]
    found += [f"round({x}, 1)" for x in ref.of("fdn")] + [f"{x} & 6" for x in ref.of("il")]
    return st.lists(st.sampled_from(found), max_size=2)
