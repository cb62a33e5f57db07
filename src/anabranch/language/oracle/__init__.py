"""The definition of a right result, as batch SQL."""
