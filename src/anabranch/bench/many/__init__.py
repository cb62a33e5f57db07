"""Many queries, many sites."""
