"""One checkpoint under one decoder: held-out accuracy, its model card, and whether exact decoding is exact."""
