"""Decoders as they are measured: their settings, the places of prompts, and the clock."""
