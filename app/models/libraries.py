"""Imports the libraries that take seconds, after the page is up and in one thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_one_at_a_time = threading.Lock()
_whole = threading.Event()


def read() -> None:
    """Read torch, transformers and what is built on them; waits where another thread is at it.

    Two threads that read them at once can find them half made: transformers puts another module in its own place. Ask
    for this before the first late import of a thread that may run while no checkpoint has been loaded yet.
    """
    with _one_at_a_time:
        if _whole.is_set():
            return
        with gc_frozen():
            import mars.checkpoint.checkpoint
            import mars.decoding.service
            import mars.provenance
            import mars.serve.remote  # noqa: F401
            from mars import decoders

            for decoder in decoders.TABLE.values():
                decoders.load(decoder.function)
        _whole.set()


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Objects made inside stay for good: Python's garbage collector waits until the end, and ignores them from then on.

    With all that the libraries keep, each of its full rounds would stop every thread for a quarter of a second. For the
    start of the app alone: what is of no use later would be kept too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
