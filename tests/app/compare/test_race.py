from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.compare.starting import race
from mars.records import ForwardPass


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
