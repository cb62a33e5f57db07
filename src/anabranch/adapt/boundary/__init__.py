"""The boundary between two batches: one decision, of everything that changes there."""
