"""What states are called, and which queries have them in common."""
