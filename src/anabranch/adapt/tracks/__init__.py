"""Tracks: which plan works on which partitions, and for which rows."""
