"""Distributed eddies: which station rows take next, decided from what stations report."""
