"""Benchmarks: decoders against each other on the clock, and the seconds of one pass by its shape."""
