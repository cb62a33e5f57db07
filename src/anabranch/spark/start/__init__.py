"""Starting Spark, and what it is told."""
