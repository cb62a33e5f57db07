"""Which join order each site runs."""
