"""Benchmarks for pretrained language models: Spec-Bench and IFEval (docs/benchmarks.md)."""
