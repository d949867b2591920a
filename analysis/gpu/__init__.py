"""All that waits for a GPU, in steps of at most ten minutes: which there are, running them, targets. No torch here."""
