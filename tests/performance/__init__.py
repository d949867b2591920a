"""A tool that measures the app as a visitor meets it: the page in a browser (`page`)."""
