"""`window(ts, …)` and `session_window(ts, …)` in GROUP BY: which windows there are."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from anabranch.language.binding.resolve import resolve
from anabranch.language.binding.scope import NamedWindow, Scope
from anabranch.language.binding.window_bounds import WINDOWS
from anabranch.language.expressions.expression import Call, Constant, Expression
from anabranch.language.expressions.types import INTERVAL
from anabranch.language.syntax.dialect import MAX_WINDOW_US
from anabranch.language.syntax.duration import UNITS_US, duration_us
from anabranch.plan.logical import GroupWindow

MOST_WINDOWS = 10_000
"""Windows that a row may lie in."""


def is_window(node: exp.Expr) -> bool:
    """Whether an item of GROUP BY is a window."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in WINDOWS


def read_window(select: exp.Select, scope: Scope) -> NamedWindow | None:
    """The window that a SELECT groups by; None without one."""
    group = select.args.get("group")
    found = [node for node in group.expressions if is_window(node)] if group else []
    if not found:
        return None
    if len(found) > 1:
        raise scope.source.error(found[1], "a query has one window", "write two queries")
    node, name = found[0], found[0].name.lower()
    most = 4 if name == "window" else 2
    if not 2 <= len(node.expressions) <= most:
        raise scope.source.error(
            node,
            f"{name} takes 2{f' to {most}' if most > 2 else ''} arguments, not {len(node.expressions)}",
            f"write {name}(ts, '5 minutes')" + (" or window(ts, '5 minutes', '1 minute')" * (most > 2)),
        )
    kind = _time(node.expressions[0], scope, name)
    lengths = [_length(part, scope) for part in node.expressions[1:]]
    window = _session(node, lengths, scope) if name == "session_window" else _aligned(node, lengths, scope)
    return NamedWindow(name, window, kind)


def _session(node: exp.Expr, lengths: Sequence[int], scope: Scope) -> GroupWindow:
    _refuse_nothing(node, lengths[0], scope)
    return GroupWindow(lengths[0], lengths[0], session=True)


def _aligned(node: exp.Expr, lengths: Sequence[int], scope: Scope) -> GroupWindow:
    size, *others = lengths
    slide, offset = (*others, *(size, 0)[len(others) :])
    _refuse_nothing(node, min(size, slide), scope)
    parts = node.expressions
    if slide > size:
        raise scope.source.error(
            parts[2], "windows with gaps between them are not supported", "slide by no more than their length"
        )
    if size // slide > MOST_WINDOWS:
        raise scope.source.error(
            parts[2],
            f"a row would lie in {size // slide:,} windows",
            f"at most {MOST_WINDOWS:,}: slide further",
        )
    if offset >= slide:
        raise scope.source.error(
            parts[3], "windows cannot start later than the next one", "write a start before the slide"
        )
    return GroupWindow(size, slide, offset)


def _refuse_nothing(node: exp.Expr, length: int, scope: Scope) -> None:
    if length == 0:
        raise scope.source.error(node, "a window of no length holds nothing", "write window(ts, '5 minutes')")


def _time(node: exp.Expr, scope: Scope, name: str) -> str:
    """Type of the bounds of windows over the event time, which must be what `node` is."""
    times = scope.times
    value = resolve(node, scope)
    if len(times) == 1:
        right = times[0].name
        is_time = value == times[0]
    else:
        right = f"greatest({', '.join(f'{t.alias}.{t.name}' for t in times)})"
        is_time = _is_greatest(value, times)
    if not is_time:
        whose = "the event time of the stream" if len(times) == 1 else "the largest event time of a result"
        raise scope.source.error(node, f"{name} goes by {whose}", f"write {name}({right}, '5 minutes')")
    return "timestamp_ntz" if all(t.type == "timestamp_ntz" for t in times) else "timestamp"


def _is_greatest(value: Expression, times: Sequence[Expression]) -> bool:
    return isinstance(value, Call) and value.name == "greatest" and set(value.args) == set(times)


def _length(node: exp.Expr, scope: Scope) -> int:
    value = resolve(node, scope)
    size = None
    if isinstance(value, Constant) and value.type == INTERVAL:
        size = int(str(value.value))
    elif isinstance(value, Constant) and isinstance(value.value, str):
        size = _written(value.value)
    if size is None or size > MAX_WINDOW_US:
        units = ", ".join(unit.lower() for unit in UNITS_US)
        raise scope.source.error(
            node, "this is not a length of time", f"write '5 minutes', with a unit of {units}"
        )
    return size


def _written(text: str) -> int | None:
    """Microseconds of `1 hour 30 minutes`; None when that is no length of time.

    >>> _written("1 hour 30 minutes")
    5400000000
    """
    words = text.split()
    parts = [duration_us(n, unit) for n, unit in zip(words[::2], words[1::2], strict=False)]
    if not words or len(words) % 2 or None in parts:
        return None
    return sum(part for part in parts if part is not None)
