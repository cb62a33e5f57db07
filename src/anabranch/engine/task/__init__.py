"""What a slot does: sort out arrivals, evaluate its sites' plans, write blocks and results."""
