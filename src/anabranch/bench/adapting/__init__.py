"""Loads that adaptation answers, or leaves alone."""
