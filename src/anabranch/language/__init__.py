"""From text to a bound query: the dialect, the binder, and the oracle's rendering."""
