"""Sets of rows: their columns, their orders, and what is taken from them."""
