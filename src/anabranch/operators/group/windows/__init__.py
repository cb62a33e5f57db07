"""Tumbling, hopping and session windows."""
