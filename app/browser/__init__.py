"""The page's scripts and style sheets, one folder a tab, and how they reach the page."""
