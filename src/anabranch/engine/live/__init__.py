"""Queries that come and go while a session runs, and what is made ready for those that are there."""
