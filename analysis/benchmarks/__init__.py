"""Benchmarks of real language models, asked and judged here: Spec-Bench and IFEval (docs/benchmarks.md)."""
