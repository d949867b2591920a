"""The load test and the soak for seconds on the small shipped model."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.figures.under_load import under_load_points
from analysis.runs.loads import Changes, InTime, read_loads
from mars_tasks import sample
from tests.performance import soak
from tests.performance.arrivals import Load, is_in_time, main, poisson
from tests.performance.asking import Asked, quantile
from tests.performance.served import resident_megabytes

CHECKPOINT = str(Path(__file__).parents[2] / "assets" / "checkpoints" / "mars-b8")
LIMITS = InTime(ttft=1.0, tpot=1.0)


def test_traces_are_poisson_and_repeatable() -> None:
    trace = poisson(5.0, 100.0, 8, 1)
    assert trace == poisson(5.0, 100.0, 8, 1) != poisson(5.0, 100.0, 8, 2)
    assert len(trace) == 500
    assert sorted(trace) == trace
    gaps = [later - former for (former, _), (later, _) in pairwise(trace)]
    assert 0.85 < statistics.pstdev(gaps) / statistics.fmean(gaps) < 1.15
    assert set(Counter(question for _, question in poisson(1.0, 24.0, 8, 1)).values()) == {3}


def test_only_fast_whole_answers_are_in_time() -> None:
    def asked(first: float, seconds: float, finish: str | None = "stop") -> Asked:
        return Asked(status=200, tokens=5, first=first, seconds=seconds, finish=finish)

    assert asked(1.0, 3.0).per_token == 0.5
    assert is_in_time(asked(1.0, 3.0), LIMITS)
    late = (asked(1.1, 3.0), asked(1.0, 5.1), asked(1.0, 3.0, None), Asked(status=429))
    assert not any(is_in_time(one, LIMITS) for one in late)


def test_answers_are_judged_against_ar_by_arrival() -> None:
    problems = [sample("word_problems", 1)]
    right, wrong = problems[0].solution, "no answer"

    def answers(*texts: str | None) -> list[tuple[int, Asked]]:
        return [(0, Asked(status=200, text=text or "", first=0.1, finish=text and "stop")) for text in texts]

    load = Load(clients={}, problems=problems, tokens=4, places=1)
    base, found = answers(right, wrong, right, wrong), answers(wrong, right, None, wrong)
    alone = [answer for _, answer in answers(right)]
    outcome = load.outcome("exact", "0.9", 10.0, found, LIMITS, alone, base)
    assert outcome.against_ar == Changes(n=3, gained=1, lost=1)
    assert (outcome.requests, outcome.refused, outcome.in_time, outcome.wrong) == (4, 1, 3, 2)
    assert (outcome.right, outcome.judged) == (1, 3)


def test_quantiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [quantile(values, share) for share in (0.5, 0.99, 1)] == [50, 99, 100]


def test_memory_of_a_process_is_read() -> None:
    assert 1 < resident_megabytes(os.getpid()) < 100_000


@pytest.mark.slow
def test_all_lanes_are_measured_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--places", "2", "--questions", "3", "--tokens", "4", "--minutes", "0.05", "--turns", "1"]
    limits = ["--ttft", "30", "--tpot", "10", "--queue-size", "1000", "--dtype", "float32", "--threads", "1"]
    given = ["--checkpoint", CHECKPOINT, "--rates", "0.3", "1.1", "--thresholds", "0.5,0.3", "--save", str(tmp_path)]
    assert main([*given, *sizes, *limits]) == 0, capsys.readouterr()
    [test], problems = read_loads(tmp_path)
    assert (test.model, test.dtype, problems) == ("mars-b8", "float32", [])
    assert [(one.load, one.lane) for one in test.results] == [
        (rate, lane) for rate in ("0.3", "1.1") for lane in ("ar", "exact", "knob")
    ]
    assert all(one.in_time == one.requests > 0 == one.wrong for one in test.results if one.lane != "knob")
    assert len(under_load_points(test)) == len(test.results)


@pytest.mark.slow
def test_clients_lose_nothing_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--clients", "6", "--minutes", "0.05", "--questions", "4", "--tokens", "8", "--threads", "1"]
    assert soak.main(few) == 0, capsys.readouterr().out
    assert "wrong: 0; rows left: 0" in capsys.readouterr().out
