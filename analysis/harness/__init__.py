"""Our decoders in EleutherAI's lm-evaluation-harness, and its results in the run store (docs/benchmarks.md)."""
