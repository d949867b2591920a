"""Admission of runs: limits on a request, the queue of the device, the live runs by session."""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from app.runs.run import Run
from mars.config import ScoreName
from mars.control import Control
from mars.schema import shown

MAX_CHARACTERS = 20_000
FEWEST_TOKENS, MOST_TOKENS = 16, 512
LINE = 40
MOST_SESSIONS = 200
FULL_SPEED = 0.0
PACES = {"Slow": 3.0, "Readable": 12.0, "Real time": FULL_SPEED}
"""The paces of the page by name, with the numbers that addresses have; `rate` says what they mean."""


def whole(value: object) -> object:
    """A whole number that a slider or a number box sent as a float, as an int; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The longest prompt or conversation, in characters, and the longest answer in tokens."""

    characters: int = MAX_CHARACTERS
    new_tokens: int = MOST_TOKENS

    def check_prompt(self, prompt: object) -> str:
        """The prompt, with lone surrogates as U+FFFD; ValueError if it is no text, empty, or too long."""
        if isinstance(prompt, str) and not prompt.strip():
            raise ValueError("The prompt is empty. Write one, or choose an example.")
        return self.check_text(prompt, "The prompt")

    def check_text(self, text: object, name: str) -> str:
        """The text, with lone surrogates as U+FFFD; ValueError if it is no text, or longer than a prompt may be."""
        if not isinstance(text, str):
            raise ValueError(f"{name} must be text, got {shown(text)}.")
        if len(text) > self.characters:
            raise ValueError(f"{name} has {len(text):,} characters; at most {self.characters:,} are read. Shorten it.")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def check_conversation(self, texts: Sequence[str]) -> None:
        """Raise ValueError if `texts`, the questions and answers, are too long."""
        written = sum(map(len, texts))
        if written > self.characters:
            raise ValueError(
                f"This conversation has {written:,} characters; at most {self.characters:,} are read. "
                "Press Run to start afresh."
            )

    def check_length(self, tokens: object) -> int:
        """The length limit as a whole number; ValueError if it is none, or out of range."""
        found = whole(tokens)
        if not isinstance(found, int) or isinstance(found, bool) or not FEWEST_TOKENS <= found <= self.new_tokens:
            raise ValueError(f"The length limit must be a whole number between {FEWEST_TOKENS} and {self.new_tokens}.")
        return found


USUAL_LIMITS = Limits()


class AdmissionQueue:
    """Admits runs, and passes one at a time, both first come, first served.

    At most `places` runs are active; later ones wait in the queue and can ask for their position. At most `line` of
    them wait. An active run takes a lock before each pass, so two of them alternate and a long run never holds up a
    short one; each device has a lock of its own.
    """

    def __init__(self, places: int = 4, line: int = LINE) -> None:
        self.places = places
        self.most_runs = places + line  # those that wait included
        self._changed = threading.Condition()
        self._line: list[Ticket] = []
        self._locks: defaultdict[str, deque[object]] = defaultdict(deque)

    def counts(self) -> dict[str, int]:
        with self._changed:
            active = min(len(self._line), self.places)
            return {"active": active, "waiting": len(self._line) - active, "places": self.places}

    def join(self) -> "Ticket":
        """Stand in line for a place; ValueError if the line is full."""
        ticket = Ticket(self)
        with self._changed:
            if len(self._line) >= self.most_runs:
                waiting = len(self._line) - self.places
                raise ValueError(f"The app is busy and its queue is full ({waiting} waiting). Try again in a moment.")
            self._line.append(ticket)
        return ticket

    @contextmanager
    def lock(self, where: str = "") -> Iterator[None]:
        """Hold the device called `where` for one pass; waits until those who asked earlier have had theirs."""
        mine = object()
        with self._changed:
            waiting = self._locks[where]
            waiting.append(mine)
            self._changed.wait_for(lambda: waiting[0] is mine)
        try:
            yield
        finally:
            with self._changed:
                waiting.popleft()
                self._changed.notify_all()


class Ticket:
    """A run's place in line. `leave` gives it back and may be called from any thread, any number of times."""

    def __init__(self, queue: AdmissionQueue) -> None:
        self._queue = queue

    def position(self, wait_seconds: float = 0.0) -> int:
        """How many runs must end first, 0 when this one may go on; waits for a change in line, at most so long."""

        def found() -> int:
            line = queue._line
            return max(0, line.index(self) - queue.places + 1) if self in line else 0

        queue = self._queue
        with queue._changed:
            if before := found():
                queue._changed.wait_for(lambda: found() != before, wait_seconds)
            return found()

    def leave(self) -> None:
        """Give the place to the next in line."""
        with self._queue._changed:
            if self in self._queue._line:
                self._queue._line.remove(self)
            self._queue._changed.notify_all()


def rate(pace: float) -> float:
    """Passes per second of the slowest lane at a pace of the page, such as 8 for 12; real time adds no wait."""
    return pace * 2 / 3


class LiveRun:
    """A run that can be steered from other threads: its threshold, its pace, and whether it goes on.

    `slider` is the control of every lane that follows the slider. `passes_per_second` slows the picture, never the
    clocks; `FULL_SPEED` adds no wait. `reason` is what the page is told of a run that was stopped.
    """

    def __init__(self, ticket: Ticket, threshold: float | None, passes_per_second: float = FULL_SPEED) -> None:
        self.ticket = ticket
        self.passes_per_second = passes_per_second
        self.slider = Control(threshold)
        self.reason = "Stopped."
        self._lock = threading.Lock()
        self._controls = [self.slider]
        self._stop = threading.Event()

    def control(self, threshold: float | None, score: ScoreName = "probability", *, follows: bool = False) -> Control:
        """The control of one more lane: the slider's if it `follows`, else one with a threshold of its own."""
        with self._lock:
            if not follows:
                self._controls.append(Control(threshold, score))
            if self.stopped:
                self._controls[-1].stop()
            return self.slider if follows else self._controls[-1]

    def stop(self, reason: str = "Stopped.") -> None:
        """End the run before its next forward pass and give its place to the next in line."""
        with self._lock:
            if not self.stopped:
                self.reason = reason
            self._stop.set()
            for control in self._controls:
                control.stop()
        self.ticket.leave()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def rest(self, seconds: float) -> None:
        """Wait, unless the run is stopped meanwhile."""
        self._stop.wait(seconds)


class Sessions:
    """The live run of each session and the last that it has finished. A new run stops the one before.

    At most `MOST_SESSIONS` have a finished run here; if there are more, the address with most of them loses its oldest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, LiveRun] = {}
        self._finished: dict[str, tuple[str, Run]] = {}  # the session that ended a run last comes last

    def live(self, session: str) -> LiveRun | None:
        """What `session` runs now."""
        return self._live.get(session)

    def begin(self, session: str, run: LiveRun) -> None:
        """Make `run` the live one of `session`."""
        with self._lock:
            earlier, self._live[session] = self._live.get(session), run
        if earlier:
            earlier.stop()

    def begin_alone(self, session: str, run: LiveRun) -> bool:
        """Make `run` the live one of `session` unless it has one; returns whether it did."""
        with self._lock:
            return self._live.setdefault(session, run) is run

    def end(self, session: str, run: LiveRun) -> None:
        """Forget `run`, which is over, and free its place."""
        run.stop()
        with self._lock:
            if self._live.get(session) is run:
                del self._live[session]

    def last(self, session: str) -> Run | None:
        """The last finished run of `session`."""
        return self._finished.get(session, ("", None))[1]

    def keep(self, session: str, address: str, run: Run) -> None:
        """Keep a finished run of `session`, which came from `address`."""
        with self._lock:
            self._finished.pop(session, None)
            self._finished[session] = address, run
            if len(self._finished) > MOST_SESSIONS:
                addresses = Counter(found for found, _ in self._finished.values())
                ((most, _),) = addresses.most_common(1)
                del self._finished[next(name for name, (found, _) in self._finished.items() if found == most)]
