import asyncio
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from app.compare import event_stream, stream
from app.compare.event_stream import (
    ABANDONED,
    FOLLOWED_SECONDS,
    FRAME_SECONDS,
    MOST_KEPT,
    EventStream,
    EventStreams,
    Step,
    frames,
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


def test_lines_stay_after_the_end() -> None:
    streams = EventStreams()
    going = streams.open("going", "me", live())
    for number in range(2 * MOST_KEPT):
        streams.open(str(number), "me", live()).close()
    assert len(streams._streams) == MOST_KEPT + 2
    assert streams.find("0") is None
    assert streams.find(str(number)) is not None
    assert streams.find("going") is going
    going.close()
    streams.open("next", "me", live())
    assert streams.find("going") is going


@dataclass
class Watch:
    """A clock that only resting moves."""

    passes_per_second: float
    now: float = 100.0
    stopped: bool = False

    def rest(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def steps(count: int, seconds: float) -> list[Step]:
    return [
        Step(
            (stream.End(kind="end", lane="a", reason="stop", tail=str(index)),),
            pass_seconds=seconds,
            began_seconds=index * seconds,
        )
        for index in range(count)
    ]


def shown(watch: Watch, count: int, seconds: float) -> list[float]:
    return [watch.now for _ in frames(steps(count, seconds), watch, lambda: watch.now)]


@pytest.mark.parametrize("seconds", [0.001, 0.02])
def test_the_mean_pass_takes_the_chosen_time(seconds: float) -> None:
    watch = Watch(passes_per_second=4.0)
    assert shown(watch, 5, seconds) == pytest.approx([100.0, 100.25, 100.5, 100.75, 101.0])


def test_pictures_are_no_closer_than_a_frame() -> None:
    watch = Watch(passes_per_second=200.0)
    times = shown(watch, 100, 0.004)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps[:-1]) >= FRAME_SECONDS - 1e-9
    assert times[-1] == pytest.approx(100.0 + 99 / 200, abs=FRAME_SECONDS)


def test_lanes_keep_their_proportion() -> None:
    lanes = {0: [0.01] * 40, 1: [0.02] * 20}
    passes = [(sum(all_[:i]), seconds, lane) for lane, all_ in lanes.items() for i, seconds in enumerate(all_)]
    ordered = [
        Step((stream.End(kind="end", lane="a", reason="stop", tail=str(lane)),), seconds, began)
        for began, seconds, lane in sorted(passes)
    ]
    watch = Watch(passes_per_second=2.0)
    arrived: dict[int, list[float]] = {0: [], 1: []}
    for text in frames(ordered, watch, lambda: watch.now):
        for line in text.splitlines():
            arrived[int(json.loads(line)["tail"])].append(watch.now - 100.0)
    assert arrived[0][::2] == pytest.approx(arrived[1], abs=FRAME_SECONDS)


def test_nothing_is_lost_and_the_value_only_grows() -> None:
    watch = Watch(passes_per_second=0.0)
    text = "".join(frames(steps(50, 0.01), watch, lambda: watch.now))
    assert text == "".join(stream.line(message) for step in steps(50, 0.01) for message in step.messages)


@pytest.mark.parametrize("watch", [Watch(passes_per_second=0.0), Watch(passes_per_second=0.001, stopped=True)])
def test_full_speed_and_stopped_runs_never_wait(watch: Watch) -> None:
    assert shown(watch, 50, 0.01)[-1] == 100.0


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "two\nlines", "τ ≥ 0.95", "\u2028 \u202e", '"quoted"'])
def test_a_message_is_one_line_without_tags(text: str) -> None:
    line = stream.line(stream.state("failed", text))
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert "<" not in line
    assert json.loads(line)["sentence"] == text
