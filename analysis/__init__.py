"""Measuring: held-out accuracy, tokens per forward and speed of checkpoints and decoders. Imports mars."""
