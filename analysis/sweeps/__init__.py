"""Sweeps: what a plan asks for, decoded chunk by chunk into the run store (docs/runs.md)."""
