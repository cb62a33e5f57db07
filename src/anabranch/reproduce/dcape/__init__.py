"""Experiments of D-CAPE."""
