"""The stations of joins without a common key."""
