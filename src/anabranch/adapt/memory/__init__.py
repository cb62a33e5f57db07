"""What sites hold in memory, what they spill, and which rows wait."""
