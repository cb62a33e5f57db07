"""A step of a batch, free of Spark: what the driver plans, what slots do, what is committed."""
