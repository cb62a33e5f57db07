"""Typed expressions, and how both engines write them."""
