"""The libraries that take seconds to read: they are read after the page is up, and by one thread."""

from __future__ import annotations

import threading

_one_at_a_time = threading.Lock()


def read() -> None:
    """Read torch, transformers and what is built on them; waits where another thread is at it.

    Two threads that read them at once can find them half made: transformers puts another module in its own place. Ask
    for this before the first late import of a thread that may run while no checkpoint has been loaded yet.
    """
    with _one_at_a_time:
        import mars.checkpoint
        import mars.decoding
        import mars.provenance
        import mars.service  # noqa: F401 - the last of them; each later import of any finds it whole
