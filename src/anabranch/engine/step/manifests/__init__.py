"""From what a step has done to what the next one starts from."""
