"""Where results go, as far as it takes no Spark."""
