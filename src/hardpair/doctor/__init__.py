"""Whether this machine and these images are fit for training: one line a check."""
