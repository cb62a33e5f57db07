"""Static tables: versions in the checkpoint, joined at ingest."""
