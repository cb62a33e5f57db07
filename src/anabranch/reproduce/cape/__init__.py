"""Experiments of CAPE."""
