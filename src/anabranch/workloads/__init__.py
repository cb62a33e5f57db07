"""Streams of rows for benchmarks, experiments, demo and tests."""
