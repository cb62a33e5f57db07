"""Experiments of Flux."""
