"""The checkpoints that the page offers: their names, when they are loaded, and on which device."""
