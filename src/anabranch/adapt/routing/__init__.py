"""Routing of joins that no key spreads: masters, segments, and when they change."""
