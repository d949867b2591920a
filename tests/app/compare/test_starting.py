"""Runs on one checkpoint share their passes, and each gets what it gets alone."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.compare.comparison import Question, compare
from app.compare.starting import is_shared, race, start
from app.scheduling import AdmissionQueue, LiveRun
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.metrics import output_ids
from mars.records import ForwardPass

SETTINGS = DecodingSettings(block_size=8, threshold=0.9, max_new_tokens=48)
MakeCheckpoint = Callable[..., Any]
Begin = Callable[..., Any]
REPLY = "So 3 * 18 = 54, and that is the number of sheep in all.\n#### 54"


@pytest.mark.parametrize("decoder", sorted(set(DECODERS) - {"speculative"}))
def test_every_decoder_writes_what_it_writes_alone(make_checkpoint: MakeCheckpoint, decoder: str) -> None:
    checkpoint = make_checkpoint("mars", REPLY)
    ids = checkpoint.encode("How many sheep?")
    found = list(start(checkpoint, decoder, ids, SETTINGS, Control(0.9), 4))
    assert output_ids(found) == output_ids(DECODERS[decoder](make_checkpoint("mars", REPLY).engine, [ids], SETTINGS))


def test_a_decoder_that_there_is_not_is_refused(make_checkpoint: MakeCheckpoint) -> None:
    with pytest.raises(ValueError, match=r"The decoder must be one of autoregressive, .*, got 'magic'\."):
        start(make_checkpoint("mars", REPLY), "magic", [1], SETTINGS, Control(0.9), 4)


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


class Person:
    """Somebody who runs a comparison in a thread of their own."""

    def __init__(
        self, begin: Callable[..., Any], checkpoints: dict[str, Any], queue: AdmissionQueue, threshold: float
    ) -> None:
        question = Question(prompt="How many?", threshold=threshold)
        self.live = LiveRun(queue.join(), threshold)
        self.failure: Exception | None = None
        entries = begin(checkpoints, question, self.live, queue)
        self.lanes = [entry.lane for entry in entries]
        self._steps = compare(entries, question, self.live, queue)
        self.thread = threading.Thread(target=self._run)

    def step(self, count: int) -> None:
        for _ in range(count):
            next(self._steps)

    def _run(self) -> None:
        try:
            list(self._steps)
        except RuntimeError as error:
            self.failure = error

    def texts(self) -> list[str]:
        return [lane.text for lane in self.lanes]


def run_together(people: list[Person]) -> None:
    for person in people:
        person.thread.start()
    for person in people:
        person.thread.join(timeout=60)


@pytest.fixture
def checkpoints(make_checkpoint: MakeCheckpoint) -> dict[str, Any]:
    return {"ar": make_checkpoint("ar", REPLY, masks=False), "mars": make_checkpoint("mars", REPLY)}


def test_people_share_passes_and_their_lanes_say_so(checkpoints: dict[str, Any], make_entries: Begin) -> None:
    queue = AdmissionQueue()
    first, second = (Person(make_entries, checkpoints, queue, 0.9) for _ in range(2))
    for _ in range(20):
        first.step(1)
        second.step(1)
    calls = len(checkpoints["ar"].engine.calls) + len(checkpoints["mars"].engine.calls)
    records = sum(len(lane.records) for person in (first, second) for lane in person.lanes)
    assert calls < records
    assert first.lanes[0].shared
    alone = Person(make_entries, checkpoints, AdmissionQueue(), 0.9)
    first.live.stop()
    second.live.stop()
    alone.step(5)
    assert not alone.lanes[0].shared


def test_a_device_error_reaches_all_in_it(
    checkpoints: dict[str, Any], make_entries: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = AdmissionQueue()
    first, second = (Person(make_entries, checkpoints, queue, 0.9) for _ in range(2))
    first.step(12)
    second.step(12)
    engine = checkpoints["mars"].engine
    with monkeypatch.context() as patch:
        patch.setattr(engine, "record", _break)
        run_together([first, second])
    assert [type(person.failure) for person in (first, second)] == [RuntimeError, RuntimeError]
    later = Person(make_entries, checkpoints, queue, 0.9)
    run_together([later])
    assert later.failure is None
    assert later.texts() == [REPLY, REPLY]


def _break(*_: Any) -> None:
    raise RuntimeError("the device broke")


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
