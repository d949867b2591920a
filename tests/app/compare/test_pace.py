import json
from dataclasses import dataclass
from itertools import pairwise

import pytest

from app.compare import stream
from app.compare.event_stream import FRAME_SECONDS, Step, frames


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


def test_a_stopped_run_hurries_to_its_end() -> None:
    watch = Watch(passes_per_second=0.001, stopped=True)
    assert shown(watch, 50, 0.01)[-1] == 100.0


def test_full_speed_never_waits() -> None:
    watch = Watch(passes_per_second=0.0)
    assert shown(watch, 50, 0.01)[-1] == 100.0
