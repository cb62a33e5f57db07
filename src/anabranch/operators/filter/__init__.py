"""Many predicates as one index."""
