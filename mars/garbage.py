"""Garbage collection of programs that serve: what they load at first is never looked at again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_frozen() -> Iterator[None]:
    """A context without garbage collection; the objects made up to its end are never collected.

    Else, with all objects of the libraries, each full collection would stop every thread for a quarter of a second. For
    the start of a program only, since it also keeps objects of no later use.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
