"""Between the page and the network: options, accounts, headers, limits, health."""
