"""The work of sites: which tracks, together with whom, and whose it was."""
