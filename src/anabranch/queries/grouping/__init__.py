"""Queries that one answers: who forms a group, what its representative asks for, when it ends."""
