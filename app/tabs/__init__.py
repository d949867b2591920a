"""One module per tab; each has `build(...)`, called inside the page's Blocks."""
