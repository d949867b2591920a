"""One prompt, several lanes: their settings, the run itself, and the messages that draw it on the page."""
