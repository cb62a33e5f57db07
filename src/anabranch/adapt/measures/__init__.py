"""What was measured: loads, costs, and what came of decisions."""
