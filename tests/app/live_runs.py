"""Looks at what runs and boards write while they are live, and waits for them."""

import time
from collections.abc import Callable

from app.compare.event_stream import EventStream
from app.compare.runner import Runner

PATIENCE_SECONDS = 60.0


def event_stream(runner: Runner, identity: str) -> EventStream:
    """What a run or a board writes to."""
    found = runner.event_streams.find(identity)
    assert found is not None
    return found


def until(holds: Callable[[], object]) -> None:
    """Wait until this holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
