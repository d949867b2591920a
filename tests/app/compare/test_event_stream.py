from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from app.compare import event_stream
from app.compare.event_stream import FOLLOWED_SECONDS, LONGEST_PAUSE_SECONDS, EventStream, EventStreams
from app.compare.pace import FRAME_SECONDS, HURRIED_FRAME_SECONDS


@dataclass
class Steered:
    passes_per_second: float = 0.0
    stopped: bool = False

    def rest(self, seconds: float) -> None:
        raise AssertionError("nothing waits for a picture here")


@dataclass
class Clock:
    now: float = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def line(clock: Clock) -> EventStream:
    made = EventStream("run", Steered(), clock)
    for text in ("one\ntwo\n", "three\n", "four\nfive\nsix\n"):
        made.put(text)
    return made


@pytest.mark.parametrize("after", range(8))
def test_what_is_behind_the_lines_that_the_page_has(line: EventStream, after: int) -> None:
    assert line.fetch(after) == "".join(line.text.splitlines(keepends=True)[after:])


def test_only_a_newline_ends_a_line(clock: Clock) -> None:
    made = EventStream("run", Steered(), clock)
    made.put('"a\u2028b\x85c"\nsecond\n')
    assert made.fetch(1) == "second\n"


def test_nobody_follows_who_has_not_asked_for_a_while(line: EventStream, clock: Clock) -> None:
    assert not line.followed
    line.fetch(0)
    clock.now += FOLLOWED_SECONDS
    assert line.followed
    clock.now += 0.1
    assert not line.followed


def test_a_page_that_follows_has_a_moment_to_fetch_the_end(line: EventStream) -> None:
    assert not line.emptied()  # nobody follows
    line.fetch(0)
    other = threading.Timer(0.05, line.fetch, [6])
    other.start()
    assert line.emptied()
    other.join()


@pytest.mark.parametrize("after", [0, 5])
def test_what_was_sent_is_not_yet_there(line: EventStream, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    monkeypatch.setattr(event_stream, "PATIENCE_SECONDS", 0.01)
    line.fetch(after)
    assert not line.emptied()


def test_nobody_has_lines_that_are_yet_to_come(line: EventStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PATIENCE_SECONDS", 0.01)
    line.fetch(100)
    assert line.emptied()
    line.put("seven\n")
    assert not line.emptied()


@pytest.mark.parametrize(("pace", "frame"), [(0.0, HURRIED_FRAME_SECONDS), (12.0, FRAME_SECONDS)])
def test_the_page_asks_again_when_there_may_be_another_picture(clock: Clock, pace: float, frame: float) -> None:
    made = EventStream("run", Steered(pace), clock)
    for quiet, again in ((0.0, frame), (0.08, frame), (0.6, 0.3), (60.0, LONGEST_PAUSE_SECONDS)):
        made.put("line\n")
        clock.now += quiet
        assert made.again_seconds == pytest.approx(again)


def test_a_wire_is_there_while_its_run_goes_on() -> None:
    event_streams = EventStreams()
    made = event_streams.open("run", Steered())
    assert event_streams.find("run") is made
    event_streams.close(made)
    assert event_streams.find("run") is None
    assert len(event_streams) == 0
