"""Commands that look into a checkpoint."""
