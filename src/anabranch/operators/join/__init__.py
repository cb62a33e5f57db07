"""Joins: kernels that find pairs, and the plans' operators on top of them."""
