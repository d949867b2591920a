"""Lanes with simulated clocks, on a scripted model whose passes take a second each and whose answers take four."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

import pytest

from mars.config import DecodingSettings
from mars.decoding.service import Service
from mars.decoding.simulated_lane import SimulatedLane
from mars.scripted import ScriptedModel

SETTINGS = DecodingSettings(max_new_tokens=4)


def scripted() -> ScriptedModel:
    return ScriptedModel(lambda _row, position, _masks: (5 + position, 1.0), seconds_per_pass=1.0)


def lane(
    arrivals: Iterable[tuple[float, int]],
    *,
    engine: ScriptedModel | None = None,
    places: int = 1,
    most: int = 8,
    watch: Callable[[], float] | None = None,
) -> SimulatedLane:
    service = Service(engine or scripted(), places, 64, beside=True)
    return SimulatedLane(
        service, lambda _: service.submit("autoregressive", [3], SETTINGS), arrivals, most=most, watch=watch
    )


def played(one: SimulatedLane) -> list[tuple[float | None, float | None]]:
    """When the first token of each request came, and when it ended."""
    while not one.done:
        one.step()
    return [(request.first, request.ended) for request in one.requests]


def test_time_without_a_request_costs_no_pass() -> None:
    engine = scripted()
    one = lane([(10.0, 0), (1000.0, 1)], engine=engine)
    assert played(one) == [(11.0, 14.0), (1001.0, 1004.0)]
    assert len(engine.calls) == 8
    assert [(request.number, request.arrived) for request in one.requests] == [(0, 10.0), (1, 1000.0)]


def test_requests_wait_for_a_place_or_share_passes() -> None:
    arrivals = [(0.0, 0), (0.5, 1)]
    assert played(lane(arrivals)) == [(1.0, 4.0), (5.0, 8.0)]
    assert played(lane(arrivals, places=2)) == [(1.0, 4.0), (2.0, 5.0)], "from the pass after its arrival on"


def test_who_finds_too_many_others_is_refused_as_it_was_at_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[None] = []
    monkeypatch.setattr(Service, "refuse", lambda _: told.append(None))
    one = lane([(0.0, 0), (0.5, 1), (0.6, 2), (3.5, 3), (4.5, 4)], most=2)
    assert played(one) == [(1.0, 4.0), (5.0, 8.0), (None, None), (None, None), (9.0, 12.0)]
    assert [request.refused for request in one.requests] == [False, False, True, True, False]
    assert len(told) == 2, "the controller hears of it"


def test_a_clock_moves_with_the_passes_of_its_own_lane_alone() -> None:
    engine, now = scripted(), [0.0]

    def watch() -> float:
        now[0] += 3.0
        return now[0]

    ours, theirs = lane([(0.0, 0)], engine=engine), lane([(0.0, 0)], engine=engine, watch=watch)
    ours.step()
    assert (ours.clock, theirs.clock) == (1.0, 0.0)
    now[0] += 100.0
    theirs.step()
    assert (ours.clock, theirs.clock) == (1.0, 3.0), "of the whole step, by its watch"
    assert played(ours) == [(1.0, 4.0)]
    assert played(theirs) == [(3.0, 12.0)]


def test_arrivals_may_be_endless_and_requests_may_come_without_them() -> None:
    def endless() -> Iterator[tuple[float, int]]:
        yield from ((2.0 * number, number) for number in count())

    one = lane(endless(), most=1)
    for _ in range(9):
        one.step()
    assert [request.number for request in one.requests if not request.refused] == [0, 3, 6]
    assert not one.done
    other = lane([])
    assert other.done
    other.offer(7)
    assert other.open == 1
    other.close()
    assert (other.open, other.done) == (0, True)


def test_a_pass_that_fails_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    one = lane([(0.0, 0)])
    monkeypatch.setattr(ScriptedModel, "record", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        one.step()
