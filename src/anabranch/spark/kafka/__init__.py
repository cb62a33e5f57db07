"""Kafka: what Spark's connector leaves to its users. Lag, silence, delivery ids, clear words."""
