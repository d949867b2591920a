"""Measurements that need a GPU, in steps of at most ten minutes: the steps, running them, targets. No torch here."""
