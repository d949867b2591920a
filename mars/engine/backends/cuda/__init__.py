"""Passes on a GPU by Triton's kernels; mars/engine/graphs.py captures them in CUDA graphs."""
