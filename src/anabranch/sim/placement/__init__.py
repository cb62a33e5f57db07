"""Fragments on simulated sites."""
