"""One module per family of experiments of the papers; each checks its claim."""
