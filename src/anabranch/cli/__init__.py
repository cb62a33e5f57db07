"""The command line: `anabranch run`, `explain`, `state`, `demo` and `bench`."""

from anabranch.cli.app import main

__all__ = ["main"]
