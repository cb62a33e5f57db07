"""Tables, checks and pictures of experiments."""
