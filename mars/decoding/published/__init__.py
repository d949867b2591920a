"""The decoders with which the paper compares its own (arXiv 2604.07023): their rows wait for each other.

Block-cached decoding and speculative decoding with a draft model (sections 4.5 and 4.6) run as the paper describes
them: all rows of a batch take each step together, and a row that is ahead waits for the others; `lockstep` does this
for both. Every other decoder runs in `Pool` (mars/decoding/pool.py), where no row waits for another and rows may join
and leave.
"""
