"""Kernels on their own."""
