"""From statements to what they mean."""
