"""What a live run has written, for the page that fetches it: new lines only, and none of them through Gradio.

Gradio sends the whole of a growing value through its queue, its comparison with the value before, and the update of all
components on both sides. That work took a tenth of the time from models on the same processor. The page asks for what
is new instead, and where nobody asks, in a program or behind a proxy that lets nothing else through, Gradio sends it.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable

from app.compare.pace import Pacing, frame_seconds

FOLLOWED_SECONDS = 2.5
"""A page that has not asked for so long is gone, hidden, or cannot."""
PATIENCE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 0.5  # a run that waits in line has news now and then


class EventStream:
    """The lines of one run. One thread puts, others fetch."""

    def __init__(self, identity: str, pacing: Pacing, now: Callable[[], float] = time.monotonic) -> None:
        self.identity = identity
        self._pacing = pacing
        self._now = now
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._ends: list[int] = []
        self._had = 0
        self._asked: float | None = None
        self._put = now()

    @property
    def text(self) -> str:
        """All lines so far."""
        with self._changed:
            return "".join(self._texts)

    @property
    def again_seconds(self) -> float:
        """When to ask again: after a picture, or where nothing has come for a while, half as long as that."""
        return max(frame_seconds(self._pacing), min(LONGEST_PAUSE_SECONDS, (self._now() - self._put) / 2))

    @property
    def followed(self) -> bool:
        """Whether a page fetches the lines, so that nothing else need send them."""
        return self._asked is not None and self._now() - self._asked <= FOLLOWED_SECONDS

    def put(self, text: str) -> None:
        """Append whole lines."""
        with self._changed:
            self._put = self._now()
            self._texts.append(text)
            self._ends.append(self._lines() + text.count("\n"))

    def fetch(self, after: int) -> str:
        """The lines behind the first `after`, which the page has by now; nothing where it has all."""
        with self._changed:
            self._asked = self._now()
            place = bisect_right(self._ends, after)
            texts = self._texts[place:]
            if texts and (within := after - (self._ends[place - 1] if place else 0)):
                texts[0] = texts[0].split("\n", within)[within]
            self._had = max(self._had, min(after, self._lines()))
            self._changed.notify_all()
            return "".join(texts)

    def emptied(self) -> bool:
        """Whether the page that follows says that it has all lines; waits a little for it."""
        with self._changed:
            return self.followed and self._changed.wait_for(lambda: self._had == self._lines(), PATIENCE_SECONDS)

    def _lines(self) -> int:
        return self._ends[-1] if self._ends else 0


class EventStreams:
    """The event streams of all live runs, by the identity of the run: nobody can guess it, only its page is told."""

    def __init__(self) -> None:
        self._streams: dict[str, EventStream] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, identity: str, pacing: Pacing) -> EventStream:
        """An event stream for a run that begins."""
        event_stream = self._streams[identity] = EventStream(identity, pacing)
        return event_stream

    def find(self, identity: str) -> EventStream | None:
        """The event stream of a live run."""
        return self._streams.get(identity)

    def close(self, event_stream: EventStream) -> None:
        """The run is over, and nobody needs its lines from here."""
        self._streams.pop(event_stream.identity, None)
