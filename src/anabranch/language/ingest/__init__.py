"""A SELECT at ingest: Spark SQL over one source, checked before any of it reaches Spark."""
