"""The policy `exact` under load beside each fixed layout and AR, on a simulated server."""

from __future__ import annotations

import random
import statistics

import pytest

from analysis.runs.loads import InTime
from mars.decoding.controller import Controller
from tests.performance.lanes import FIXED, Fixed
from tests.performance.simulated import PLACES, Simulation, Text, Times
from tests.performance.traces import Answers, dealt, poisson
from tests.performance.verdict import PART, counted, faster

QUESTIONS = 24
FIXED_ONES = ("lookup", "copy", "tree", "narrow", "table")
MACHINES = {
    "columns are cheap": Times(one=0.013, column=0.0001, masks=1.3),
    "masks are dear": Times(one=0.013, column=0.0001, masks=1.8),
    "columns are dear": Times(one=0.013, column=0.0006, masks=1.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_adapting_is_as_good_as_the_best_fixed_layout_at_every_load(machine: str) -> None:
    dice = random.Random(1)
    texts = [Text.drawn(dice) for _ in range(QUESTIONS)]
    lanes = {"ar": Simulation(MACHINES[machine], None), "exact": Simulation(MACHINES[machine], Controller())}
    lanes |= {name: Simulation(MACHINES[machine], Fixed(FIXED[name])) for name in FIXED_ONES}
    for lane in lanes.values():  # what warm-up does: some alone, then all places taken
        lane.play([(4.0 * number, number) for number in range(8)], texts)
        lane.play([(0.0, number % QUESTIONS) for number in range(2 * QUESTIONS)], texts)
    most = saturation(lanes["ar"], texts)
    alone = [
        asked.per_token or 0.0 for number in range(QUESTIONS) for _, asked in lanes["ar"].play([(0.0, number)], texts)
    ]
    limits = InTime(ttft=2.0, tpot=2 * statistics.median(alone))
    for rate in (0.1, 0.6, 1.1, 1.4):
        trace = poisson(rate * most, 300 / (rate * most), dealt(QUESTIONS, "1"), f"{rate}")
        found: dict[str, Answers] = {name: lane.play(trace, texts) for name, lane in lanes.items()}
        in_time = {name: counted([answers], limits) for name, answers in found.items()}
        assert in_time["exact"] >= PART * max(in_time.values()), (rate, in_time)
        each = {name: statistics.fmean(asked.per_token or 0.0 for _, asked in one) for name, one in found.items()}
        assert min(each.values()) > 0.93 * each["exact"], (rate, each)
        gain = faster(found["exact"], found["ar"])
        assert gain is not None
        assert gain.low > 1.0, (rate, gain)


@pytest.mark.slow
def test_with_a_promise_fewer_answers_are_late_and_more_are_in_time() -> None:
    times, dice = MACHINES["columns are dear"], random.Random(3)
    texts = [Text.drawn(dice) for _ in range(QUESTIONS)]
    base = Simulation(times, None)
    alone = [asked.per_token or 0.0 for number in range(QUESTIONS) for _, asked in base.play([(0.0, number)], texts)]
    limits, most = InTime(ttft=2.0, tpot=2 * statistics.median(alone)), saturation(base, texts)
    in_time, late = [], []
    for tpot in (None, limits.tpot):
        lane = Simulation(times, Controller(tpot=tpot))
        lane.play([(4.0 * number, number) for number in range(8)], texts)
        lane.play([(0.0, number % QUESTIONS) for number in range(2 * QUESTIONS)], texts)
        traces = [poisson(rate * most, 300 / (rate * most), dealt(QUESTIONS, "1"), f"{rate}") for rate in (0.9, 1.1)]
        found = [lane.play(trace, texts) for trace in traces]
        in_time.append(counted(found, limits))
        late.append(sum((asked.per_token or 0.0) > limits.tpot for answers in found for _, asked in answers))
    assert in_time[1] > in_time[0]
    assert 2 * late[1] <= late[0]


def saturation(lane: Simulation, texts: list[Text]) -> float:
    """Requests a second that a lane answers while all places are taken."""
    began, count = lane.now, 12 * PLACES
    lane.play([(0.0, number % QUESTIONS) for number in range(count)], texts)
    return count / (lane.now - began)
