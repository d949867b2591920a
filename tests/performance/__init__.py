"""Tools that measure the app as a visitor meets it: many clients at once (`soak`), the page in a browser (`page`)."""
