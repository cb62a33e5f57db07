"""The partition map and the routers that use it."""
