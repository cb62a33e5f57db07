"""The only rooms that know Spark: session, run, ingest, sources and sinks."""
