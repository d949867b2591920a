"""MARS Lens library: training, checkpoints and decoders for mask autoregression (arXiv 2604.07023)."""
