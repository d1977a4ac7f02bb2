"""Check this machine and a data set: one line per check."""
