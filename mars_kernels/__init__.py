"""Kernels of our own, beside the library: numba's for bfloat16 on a CPU, Triton's and CUDA graphs for a GPU.

The library picks them in one place, mars/engine/backends.py, and works without them.
"""
