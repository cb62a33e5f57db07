"""Sinks that need Spark."""
