"""Aggregates and DISTINCT over windows."""
