"""What Spark says is wrong, in one line."""

from __future__ import annotations

import re


def spark_reason(error: Exception) -> str:
    """The line with Spark's error class, or the first one."""
    found = re.search(r"\[[A-Z][A-Z_.]+\] ([^\n]+?)(?: SQLSTATE|\n|$)", str(error))
    return found[1] if found else str(error).splitlines()[0]
