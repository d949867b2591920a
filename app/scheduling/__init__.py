"""Who may run, when, and how much: limits, the admission queue of the device, live runs by session."""
