"""Benchmarks: the wall-clock speed of decoders against each other, and the seconds of one pass by its shape."""
