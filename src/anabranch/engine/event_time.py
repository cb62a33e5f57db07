"""The event times we accept: 1970 to 2199. Anything else is a broken clock or a wrong unit."""

MAX_TIME_US = 7_258_118_400_000_000
"""First microsecond after the last accepted event time."""
NEVER_LATE = -(1 << 63)
"""Stands for the watermark of a stream that has none yet."""
