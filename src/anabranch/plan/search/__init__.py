"""Which plans there are, and the cheapest of them."""
