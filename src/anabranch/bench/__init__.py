"""Measurements, with the peers in the same run."""
