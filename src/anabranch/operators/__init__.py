"""Vectorised kernels on Arrow columns, one per file."""
