"""The boundary between two batches, as the engine sees it: reports and requests in the decider's words."""
