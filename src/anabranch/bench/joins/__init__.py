"""Joins beside their peers."""
