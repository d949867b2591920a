import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from app.compare import event_stream
from app.compare.event_stream import (
    ABANDONED,
    FOLLOWED_SECONDS,
    KEPT_SECONDS,
    MOST_KEPT,
    EventStream,
    EventStreams,
    Step,
)
from app.scheduling import AdmissionQueue, LiveRun


@dataclass
class Clock:
    now: float = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def live() -> LiveRun:
    return LiveRun(AdmissionQueue().join(), None)


@pytest.fixture
def written(clock: Clock) -> EventStream:
    made = EventStream("run", "me", live(), clock)
    for text in ("one\ntwo\n", "three\n", "four\nfive\nsix\n"):
        made.put(text)
    return made


async def read(found: AsyncIterator[tuple[int, str]]) -> list[tuple[int, str]]:
    return [each async for each in found]


@pytest.mark.parametrize("after", range(8))
def test_a_returning_page_gets_what_it_lacks(written: EventStream, after: int) -> None:
    written.close()
    rest = "".join(written.behind(0).splitlines(keepends=True)[after:])
    assert written.behind(after) == rest
    assert asyncio.run(read(written.follow(after))) == ([(6, rest)] if rest else [])


def test_only_a_newline_ends_a_line(clock: Clock) -> None:
    made = EventStream("run", "me", live(), clock)
    made.put('"a\u2028b\x85c"\nsecond\n')
    assert made.behind(1) == "second\n"


def test_followers_hear_each_line_once(written: EventStream) -> None:
    async def listen() -> list[list[tuple[int, str]]]:
        heard: list[list[tuple[int, str]]] = [[], []]

        async def page(number: int, after: int) -> None:
            async for each in written.follow(after):
                heard[number].append(each)
                if each[0] == 6:
                    await asyncio.to_thread(written.put, "seven\n") if number else None
                if each[0] == 7:
                    written.close()

        await asyncio.gather(page(0, 0), page(1, 5))
        return heard

    first, second = asyncio.run(asyncio.wait_for(listen(), 30))
    assert "".join(text for _, text in first) == written.behind(0)
    assert second == [(6, "six\n"), (7, "seven\n")]


def test_a_page_hears_something_where_nothing_comes(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "QUIET_SECONDS", 0.01)
    made = EventStream("run", "me", live(), clock)

    async def listen() -> tuple[int, str]:
        async for each in made.follow(0):
            return each
        raise AssertionError("the run is over")

    assert asyncio.run(listen()) == (0, "")


def test_two_minutes_without_a_page_end_a_run(written: EventStream, clock: Clock) -> None:
    async def listen() -> None:
        page: Any = written.follow(0)
        await anext(page)
        clock.now += 10 * FOLLOWED_SECONDS
        written.write([Step(())])
        await page.aclose()

    clock.now += FOLLOWED_SECONDS
    asyncio.run(listen())
    clock.now += FOLLOWED_SECONDS
    written.write([Step(())])
    assert not written.live.stopped
    clock.now += 0.1
    written.write([Step(())])
    assert written.live.stopped
    assert written.live.reason == ABANDONED


def test_the_result_of_a_run_is_awaited(written: EventStream) -> None:
    run: Any = object()
    other = threading.Timer(0.05, written.close, [run])
    other.start()
    assert written.result(30) is run
    other.join()
    assert EventStream("other", "me", live()).result(0.01) is None


def test_lines_stay_a_while_after_the_end(clock: Clock) -> None:
    streams = EventStreams(clock)
    over, going = streams.open("over", "me", live()), streams.open("going", "me", live())
    over.close()
    clock.now += KEPT_SECONDS
    streams.open("next", "me", live())
    assert streams.find("over") is over
    clock.now += 0.1
    streams.open("last", "me", live())
    assert streams.find("over") is None
    assert streams.find("going") is going


def test_no_more_than_some_stay(clock: Clock) -> None:
    streams = EventStreams(clock)
    for number in range(2 * MOST_KEPT):
        streams.open(str(number), "me", live()).close()
    assert len(streams._streams) == MOST_KEPT + 1
    assert streams.find("0") is None
