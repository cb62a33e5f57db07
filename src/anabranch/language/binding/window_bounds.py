"""The window of GROUP BY inside SELECT and HAVING: its start and its end."""

from __future__ import annotations

from sqlglot import exp

from anabranch.language.binding.scope import NamedWindow, Scope
from anabranch.language.expressions.expression import AggregateValue, Constant, Expression
from anabranch.language.expressions.operators import arithmetic
from anabranch.language.expressions.types import INTERVAL, Refusal

WINDOWS = ("window", "session_window")
WINDOW_FUNCTIONS = (*WINDOWS, "window_time")
_BOUNDS = ("start", "end")


def window_bound(node: exp.Column, scope: Scope) -> AggregateValue | None:
    """`window.start` or `window.end`; None for a column that is no part of a window."""
    table = node.args.get("table")
    if table is None:
        if node.name.lower() in WINDOWS and not _is_column(node.name, scope):
            window = _named(node.name, scope)
            raise Refusal(f"{window.name} has two parts, and a column one value", _parts(window.name))
        return None
    if table.name.lower() not in WINDOWS or any(r.alias == table.name.lower() for r in scope.references):
        return None
    window = _named(table.name, scope)
    if node.name.lower() not in _BOUNDS:
        raise Refusal(f"a window has no {node.name!r}", _parts(window.name))
    return AggregateValue(f"window_{node.name.lower()}", None, window.type)


def window_value(node: exp.Expr, scope: Scope) -> Expression:
    """`window_time(window)`, the last instant of a window; the functions that make windows are refused."""
    name = node.name.lower()
    if name in WINDOWS:
        if scope.window is None:
            raise Refusal(f"{name} stands in GROUP BY", f"add GROUP BY {name}(ts, '5 minutes')")
        raise Refusal(f"{name} stands in GROUP BY only", _parts(name))
    arguments = node.expressions
    if len(arguments) != 1 or not isinstance(arguments[0], exp.Column):
        raise Refusal("window_time takes the window", "write window_time(window)")
    end = AggregateValue("window_end", None, _named(arguments[0].name, scope).type)
    return arithmetic("subtract", end, Constant(1, INTERVAL))


def _named(name: str, scope: Scope) -> NamedWindow:
    window = scope.window
    if window is None:
        raise Refusal(f"there is no {name}", f"add GROUP BY {name.lower()}(ts, '5 minutes')")
    if scope.without_aggregates is not None:
        raise Refusal(
            f"{name} cannot stand in {scope.without_aggregates}", "compare the stream's time, or use HAVING"
        )
    if window.name != name.lower():
        raise Refusal(f"this query groups by {window.name}, not {name}", _parts(window.name))
    return window


def _parts(name: str) -> str:
    return f"write {name}.start and {name}.end"


def _is_column(name: str, scope: Scope) -> bool:
    return any(c.name.lower() == name.lower() for r in scope.references for c in r.stream.columns)
