"""Results of a slot on their way to staged files."""
