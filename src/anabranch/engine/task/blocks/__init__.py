"""Blocks as a slot reads and writes them."""
