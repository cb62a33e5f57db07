"""Decisions: statistics in, proposals and decisions out. Nothing here knows Spark, a clock or a file."""
