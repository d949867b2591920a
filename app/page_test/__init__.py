"""Measures the page in a real browser, with long texts."""
