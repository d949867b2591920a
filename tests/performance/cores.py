"""Keeps the app and the browser on chosen cores, so that the page can be measured as if it were on another machine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager


def shared_out(apart: bool) -> tuple[frozenset[int], frozenset[int]]:
    """The cores of the app and of the browser: the same ones, or apart, the last one for the browser alone.

    Raises:
        ValueError: apart, on a machine that has one core, or that cannot keep programs apart.
    """
    if not hasattr(os, "sched_getaffinity"):
        if apart:
            raise ValueError("--apart needs Linux: this system does not keep programs on chosen cores")
        return frozenset(), frozenset()
    cores = sorted(os.sched_getaffinity(0))
    if not apart:
        return frozenset(cores), frozenset(cores)
    if len(cores) < 2:
        raise ValueError("--apart needs two cores at least, one of them for the browser")
    return frozenset(cores[:-1]), frozenset(cores[-1:])


@contextmanager
def only(cores: Collection[int]) -> Iterator[None]:
    """While it lasts this thread, and what it starts for good, uses only these; none leaves everything as it is."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
