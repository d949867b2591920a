"""Passes on a GPU by Triton's kernels, and CUDA graphs that hold passes (`graphs`, `whole_pass`)."""
