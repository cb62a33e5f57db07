"""Kernels of aggregates: ranges, sliding windows, parts of windows."""
