"""The engine on Spark: session, ingest, batch loop, slot task, sinks, progress."""
