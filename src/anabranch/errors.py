"""The root of every error Anabranch raises on purpose."""


class AnabranchError(Exception):
    """Anything Anabranch refuses or cannot do."""


class StateError(AnabranchError):
    """The checkpoint cannot be read, written or trusted."""


class ConfigError(AnabranchError):
    """A setting, option or argument is missing, unknown or out of range."""


class QueryError(AnabranchError):
    """A query or flow file cannot be understood.

    Parameters
    ----------
    message
        What is wrong, in one sentence.
    line, column
        Where, counted from 1, in the text the user wrote.
    suggestion
        What to write instead.
    source
        The whole text, so that the offending line can be shown.
    path
        The file the text came from, if any.

    Examples
    --------
    >>> print(QueryError("unknown column 'b'", line=1, column=8, suggestion="write a", source="SELECT b"))
    line 1, column 8: unknown column 'b'
      SELECT b
             ^
    Try: write a
    """

    def __init__(
        self,
        message: str,
        *,
        line: int = 1,
        column: int = 1,
        suggestion: str = "",
        source: str = "",
        path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.suggestion = suggestion
        self.source = source
        self.path = path

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}"
        parts = [f"{self.path}: {place}: {self.message}" if self.path else f"{place}: {self.message}"]
        lines = self.source.split("\n")
        if 1 <= self.line <= len(lines) and lines[self.line - 1].strip():
            shown = lines[self.line - 1].rstrip("\r")
            # Tabs are kept in the padding so that the caret stays under its token in any terminal.
            padding = "".join("\t" if c == "\t" else " " for c in shown[: self.column - 1])
            parts += [f"  {shown}", f"  {padding}^"]
        if self.suggestion:
            parts.append(f"Try: {self.suggestion}")
        return "\n".join(parts)


class SinkError(AnabranchError):
    """Results cannot be written where the user wants them."""


class ForeignResultsError(SinkError):
    """A sink has results that the checkpoint does not know of."""


class RunError(AnabranchError):
    """A run stopped because of a failure outside the queries; the state is at the last commit."""
