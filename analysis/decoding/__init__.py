"""Decoders as they are measured: who takes part with which settings, how prompts get their places, the clock."""
