"""Runs on one checkpoint share their passes, and each gets what it gets alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.compare.comparison import Question, compare
from app.compare.event_stream import Step
from app.compare.lane import Lane
from app.compare.starting import is_shared, race, start
from app.scheduling import AdmissionQueue, LiveRun
from mars.config import DecodingSettings
from mars.control import Control
from mars.metrics import output_ids
from mars.records import ForwardPass

SETTINGS = DecodingSettings(block_size=8, threshold=0.9, max_new_tokens=48)
MakeCheckpoint = Callable[..., Any]
Begin = Callable[..., Any]
REPLY = "So 3 * 18 = 54, and that is the number of sheep in all.\n#### 54"


def test_a_very_long_prompt_runs_by_itself(make_checkpoint: MakeCheckpoint) -> None:
    checkpoint = make_checkpoint("mars", REPLY, context_length=8192)
    records = start(checkpoint, "sliding_window", [5] * 4100, SETTINGS, Control(0.9), 4)
    assert checkpoint.decode(output_ids(records)) == REPLY
    assert not is_shared(records)


def test_streams_of_different_numbers_share_no_pass(make_checkpoint: MakeCheckpoint) -> None:
    checkpoint = make_checkpoint("mars", REPLY)
    ids = checkpoint.encode("How many sheep?")
    streams = [start(checkpoint, "sliding_window", ids, SETTINGS, Control(0.9), 4, number) for number in (0, 0, 1)]
    for _ in range(6):
        for stream in streams:
            next(stream)
    assert [is_shared(stream) for stream in streams] == [True, True, False]


@pytest.fixture
def checkpoints(make_checkpoint: MakeCheckpoint) -> dict[str, Any]:
    return {"ar": make_checkpoint("ar", REPLY, masks=False), "mars": make_checkpoint("mars", REPLY)}


def test_people_share_passes_and_their_lanes_say_so(checkpoints: dict[str, Any], make_entries: Begin) -> None:
    question = Question(prompt="How many?", threshold=0.9)

    def come(queue: AdmissionQueue) -> tuple[LiveRun, list[Lane], Iterator[Step]]:
        live = LiveRun(queue.join(), 0.9)
        entries = make_entries(checkpoints, question, live, queue)
        return live, [entry.lane for entry in entries], compare(entries, question, live, queue)

    queue = AdmissionQueue()
    people = [come(queue), come(queue)]
    for _ in range(20):
        for _, _, steps in people:
            next(steps)
    calls = len(checkpoints["ar"].engine.calls) + len(checkpoints["mars"].engine.calls)
    assert calls < sum(len(lane.records) for _, lanes, _ in people for lane in lanes)
    assert people[0][1][0].shared
    _, [lane, _], steps = come(AdmissionQueue())
    for live, _, _ in people:
        live.stop()
    for _ in range(5):
        next(steps)
    assert not lane.shared


def passes(seconds: list[float], closed: list[str] | None = None, name: str = "") -> Iterator[ForwardPass]:
    try:
        for index, duration in enumerate(seconds):
            yield ForwardPass(index, "decode", duration, 1, ())
    finally:
        if closed is not None:
            closed.append(name)


def test_the_lane_behind_takes_the_next_pass() -> None:
    events = list(race({"slow": passes([3.0, 3.0]), "fast": passes([1.0] * 5)}))
    order = [lane for lane, record, _ in events if record]
    assert order == ["slow", "fast", "fast", "fast", "slow", "fast", "fast"]


def test_every_pass_is_taken_within_a_turn() -> None:
    inside: list[bool] = []
    held = False

    @contextmanager
    def turn(lane: str) -> Iterator[None]:
        nonlocal held
        held = True
        yield
        held = False

    def watch() -> Iterator[ForwardPass]:
        for index in range(3):
            inside.append(held)
            yield ForwardPass(index, "decode", 1.0, 1, ())

    for _ in race({"only": watch()}, turn):
        assert not held
    assert inside == [True] * 3


@pytest.mark.parametrize("steps", [1, 3])
def test_an_abandoned_race_closes_its_decoders(steps: int) -> None:
    closed: list[str] = []
    running = race({"a": passes([1.0] * 9, closed, "a"), "b": passes([1.0] * 9, closed, "b")})
    for _ in range(steps + 1):
        next(running)
    running.close()
    assert sorted(closed) == ["a", "b"]
