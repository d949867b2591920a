"""The load test by turns, on the small shipped model; each pass takes a hundredth of a second of its lane's clock."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from analysis.runs.loads import InTime, read_loads
from mars.checkpoint import load_checkpoint
from mars.serve.budget import Allowed
from tests.performance.arrivals import main
from tests.performance.in_turn import Lanes
from tests.performance.lanes import ways
from tests.performance.questions import questions_of

CHECKPOINT = Path(__file__).parents[2] / "assets" / "checkpoints" / "mars-b8"
NAMES = ("ar", "tree", "exact")
PASS = 0.01
LIMITS = InTime(ttft=30.0, tpot=10.0)


def made(*, places: int = 2, queue: int = 8, context: int = 512) -> Lanes:
    ticks = count()
    asked = {name: way for name, way in ways(Allowed()).items() if name in NAMES}
    sizes = {"places": places, "queue": queue, "context": context}
    checkpoint = load_checkpoint(CHECKPOINT)
    return Lanes(checkpoint, questions_of(3, 1, None), asked, tokens=12, watch=lambda: next(ticks) * PASS, **sizes)


def test_all_lanes_answer_the_same_arrivals_with_the_texts_of_ar_alone(one_thread: None) -> None:
    lanes = made()
    alone = lanes.alone()
    assert all(one.first == pytest.approx(2 * PASS) for one in alone), "a pass for the prompt, one for the token"
    trace = [(0.0, 0), (0.0, 1), (0.03, 2), (5000.0, 0)]
    found = lanes.race(NAMES, trace)
    assert list(found) == list(NAMES)
    for name, answers in found.items():
        assert [number for number, _ in answers] == [0, 1, 2, 0]
        assert all(asked.finish and asked.seconds < 10.0 for _, asked in answers), "from its own arrival on"
        assert [asked.text for _, asked in answers] == [lanes.texts[number] for _, number in trace], name
        assert lanes.outcome(name, "0.3", 1.0, answers, LIMITS).wrong == 0
    assert found["ar"][3][1].per_token == pytest.approx(PASS)
    lanes.texts[0] = "another text"
    assert lanes.outcome("exact", "0.3", 1.0, found["exact"], LIMITS).wrong == 2


def test_a_full_queue_refuses_and_what_is_refused_is_not_in_time(one_thread: None) -> None:
    lanes = made(places=1, queue=1)
    lanes.alone()
    answers = lanes.race(["exact"], [(0.0, 0), (0.0, 1), (0.0, 2)])["exact"]
    assert [asked.status for _, asked in answers] == [200, 200, 429]
    outcome = lanes.outcome("exact", "1.3", 1.0, answers, LIMITS)
    assert (outcome.requests, outcome.refused, outcome.in_time, outcome.wrong) == (3, 1, 2, 0)


def test_saturation_counts_what_full_places_write(one_thread: None) -> None:
    """All prompts stay cached, so that after the first half second every pass writes a token for both rows."""
    lanes = made(places=2)
    assert lanes.saturation("ar", 50 * PASS, 100 * PASS) == pytest.approx(2 / PASS)
    assert lanes.saturation("exact", 50 * PASS, 100 * PASS) > 2 / PASS


def test_a_context_that_is_too_short_is_said(one_thread: None) -> None:
    with pytest.raises(ValueError, match=r"--context must be >= \d+, as long as the longest prompt and answer, got 16"):
        made(context=16)


@pytest.mark.slow
def test_it_is_measured_and_kept_as_any_load_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], one_thread: None
) -> None:
    sizes = [
        "--places",
        "2",
        "--questions",
        "2",
        "--tokens",
        "4",
        "--minutes",
        "0.01",
        "--turns",
        "2",
        "--threads",
        "1",
    ]
    loads = ["--rates", "0.5", "1.3", "--no-bursts", "--lanes", *NAMES, "--queue-size", "4096"]
    limits = ["--ttft", "30", "--tpot", "10", "--save", str(tmp_path)]
    assert main(["--in-turn", "--checkpoint", str(CHECKPOINT), *sizes, *loads, *limits]) == 0, capsys.readouterr()
    [test], problems = read_loads(tmp_path)
    assert (test.in_turn, test.model, problems) == (True, "mars-b8", [])
    assert [(one.load, one.lane) for one in test.results] == [(load, lane) for load in ("0.5", "1.3") for lane in NAMES]
    assert all(one.in_time == one.requests > 0 == one.wrong for one in test.results)
    assert {one.value for one in test.comparisons} == {1.0}
    printed = capsys.readouterr().out
    assert "turn 2 of 2, 1.3: " in printed
    assert "goodput of exact / ar: 1.000" in printed
