"""Imports the libraries that take seconds, after the page is up and in one thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_one_at_a_time = threading.Lock()
_whole = threading.Event()


def read() -> None:
    """Import torch, transformers and what is built on them; waits while another thread does so.

    Two threads that import them at once can find them half imported: transformers replaces its own module meanwhile. A
    thread that may run before any checkpoint is loaded must call this before its first late import.
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
    """A context without garbage collection; the objects made inside are never collected.

    Else, with all objects of the libraries, each full collection would stop every thread for a quarter of a second. For
    the start of the app only, since it also keeps objects of no later use.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
