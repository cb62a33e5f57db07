"""`anabranch demo`."""
