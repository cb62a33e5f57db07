"""Whether groups of queries go on together."""
