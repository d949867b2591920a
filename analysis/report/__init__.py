"""The report: makes figures from the run store, and from these one page and its CSV files. No torch here."""
