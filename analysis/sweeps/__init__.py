"""Sweeps: decode the runs of a plan chunk by chunk into the run store (docs/runs.md)."""
