"""A simulated cluster that drives the same policies, controller and partition map as the Spark runtime."""
