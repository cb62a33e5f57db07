"""Standing queries: what a session knows of them and what its checkpoint remembers."""
