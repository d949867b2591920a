"""The report: from the run store to figures, and from those to one page and its CSV files. No torch here."""
