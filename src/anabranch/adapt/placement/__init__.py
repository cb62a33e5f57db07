"""Placement of query fragments on sites, and what moves when loads change (COSMOS, chapter 6)."""
