"""Limits of runs, the admission queue of the device, and the live runs by session."""
