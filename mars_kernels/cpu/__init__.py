"""Passes of bfloat16 models on a CPU by kernels that numba compiles: one call for all layers, by torch's own threads.

Their products are of AMX, AVX512-BF16 or AVX2 (`tiles`). A column gets the same bits whatever shares its pass.
"""
