"""Tools that measure the app as a visitor meets it: many visitors at once (`load`), the page in a browser (`page`)."""
