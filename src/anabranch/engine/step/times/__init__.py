"""Watermarks, late rows, and when results are final."""
