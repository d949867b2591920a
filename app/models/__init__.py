"""The checkpoints that the page offers: which they are, when they are loaded, and on which device."""
