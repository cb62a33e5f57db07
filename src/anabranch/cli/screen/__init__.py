"""What a run shows on a terminal."""
