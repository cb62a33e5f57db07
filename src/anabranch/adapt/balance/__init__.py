"""Which partitions change sites: policies propose, the controller decides."""
