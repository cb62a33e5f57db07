"""Experiments of COSMOS."""
