"""The load test on the small shipped model: its traces, and that all lanes that must write what AR writes do."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import httpx
import pytest

from analysis.figures.under_load import under_load, under_load_points
from analysis.runs.loads import Changes, InTime, read_loads
from mars.checkpoint import load_checkpoint
from mars.config import DecodingSettings
from mars.decoders import EXACT
from mars.decoding import DECODERS
from mars.decoding.service import Service, Stream
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.performance.arrivals import Load, Question, bursts, end_without, faster, main, poisson, questions_of
from tests.performance.asking import Asked, quantile
from tests.performance.lanes import TABLE, Fixed

CHECKPOINT = Path(__file__).parents[2] / "assets" / "checkpoints" / "mars-b8"
PROMPTS = Path(__file__).parents[2] / "assets" / "benchmarks" / "own" / "question.jsonl"


def test_traces_are_random_and_the_same_each_time() -> None:
    trace = poisson(5.0, 100.0, 8, "1")
    assert trace == poisson(5.0, 100.0, 8, "1") != poisson(5.0, 100.0, 8, "2")
    assert 400 < len(trace) < 600
    assert sorted(trace) == trace
    assert all(0 <= when < 100 and question in range(8) for when, question in trace)
    assert len(poisson(0.001, 1.0, 8, "1")) == 1, "at least one"
    assert [when for when, _ in bursts(0.5, 10.0, 8, "1")] == [0, 0, 4, 4, 8, 8]


def test_seconds_per_token_leave_the_first_out() -> None:
    assert Asked(status=200, tokens=5, first=1.0, seconds=3.0).per_token == 0.5
    assert Asked(status=200, tokens=1, first=1.0, seconds=1.0).per_token is None


def test_quantiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [quantile(values, share) for share in (0.5, 0.99, 1)] == [50, 99, 100]
    assert quantile([3.0], 0.5) == 3


def test_questions_are_problems_that_can_be_judged_or_prompts_of_a_file() -> None:
    problems = questions_of(8, 1, None)
    assert all(one.is_right and not one.is_right("no answer") for one in problems)
    prompts = questions_of(8, 1, PROMPTS)
    assert prompts == questions_of(8, 1, PROMPTS) != questions_of(8, 2, PROMPTS)
    assert len({one.prompt for one in prompts}) == 8
    assert {one.is_right for one in prompts} == {None}
    with pytest.raises(SystemExit, match=r"--questions must be at most 100, as many as .* has, got 101"):
        main(["--checkpoint", str(CHECKPOINT), "--prompts", str(PROMPTS), "--questions", "101"])


def test_answers_are_compared_with_ar_arrival_by_arrival() -> None:
    """Questions 0 and 1 are judged; the first arrives three times, and one answer to it never came."""

    def answers(*texts: str | None) -> list[tuple[int, Asked]]:
        asked = [Asked(status=200, text=text or "", first=0.1, finish=text and "stop") for text in texts]
        return list(zip((0, 1, 0, 2, 0), asked, strict=True))

    questions = [Question("a", "a".__eq__), Question("b", "b".__eq__), Question("c")]
    load = Load(httpx.AsyncClient(), questions, 4)
    load.texts = ["a", "b", "c"]
    base, found = answers("a", "b", "a", "c", "x"), answers("x", "b", None, "d", "a")
    outcome = load.outcome("knob", "0.9", 10.0, found, InTime(ttft=1.0, tpot=1.0), base)
    assert outcome.against_ar == Changes(n=3, gained=1, lost=1)
    assert (outcome.right, outcome.judged, outcome.refused, outcome.in_time) == (2, 3, 1, 4)
    assert load.outcome("ar", "0.9", 10.0, found, InTime(ttft=1.0, tpot=1.0)).against_ar is None


def test_a_user_gains_what_a_token_takes_less_than_ar_question_by_question() -> None:
    """Question 0 arrives twice and counts once; question 2 has no second token."""

    def answers(*seconds: float) -> list[tuple[int, Asked]]:
        asked = [Asked(status=200, tokens=11, first=1.0, seconds=1.0 + each) for each in seconds]
        return [*zip((0, 0, 1), asked, strict=True), (2, Asked(status=200, tokens=1, first=1.0, seconds=1.0))]

    base, found = answers(4.0, 4.0, 8.0), answers(1.0, 4.0, 2.0)
    gain = faster(found, base)
    assert gain is not None
    assert gain.n == 2
    assert gain.value == pytest.approx((2 * 4) ** 0.5), "2 for question 0, 4 for question 1"
    assert gain.low < gain.value < gain.high
    assert faster(found[:2], base[:2]) is None, "one question has no interval"


def test_the_table_goes_by_the_number_of_rows_and_changes_no_text(one_thread: None) -> None:
    checkpoint = load_checkpoint(CHECKPOINT)
    settings = DecodingSettings(max_new_tokens=24, block_size=8)
    prompts = [checkpoint.encode(f"Repeat the word pear {count} times.") for count in range(2, 7)]
    service = Service(checkpoint.engine, 5, beside=True, controller=Fixed(TABLE))
    written: list[list[ForwardPass]] = [[] for _ in prompts]
    streams: list[Stream] = []
    spent: dict[int, set[str]] = {}
    for prompt in prompts:
        streams.append(service.submit(EXACT, prompt, settings))
        for _ in range(4):
            service.advance()
            if service.layouts:
                spent.setdefault(sum(service.layouts.values()), set()).update(service.layouts)
    while not all(stream.ended for stream in streams):
        service.advance()
        for stream, records in zip(streams, written, strict=True):
            records.extend(stream.ready())
    found = [output_ids(records) for records in written]
    assert found == [output_ids(DECODERS["autoregressive"](checkpoint.engine, [one], settings)) for one in prompts]
    assert spent == {1: {"tree"}, 2: {"linear"}, 3: {"narrow"}, 4: {"narrow"}, 5: {"none"}}


@pytest.mark.slow
def test_lanes_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    few = ["--places", "2", "--rates", "0.5", "--questions", "4", "--tokens", "4", "--minutes", "0.1", "--turns", "2"]
    options = [
        *few,
        "--lanes",
        "ar",
        "tree",
        "table",
        "copy",
        "lookup",
        "exact",
        "--threads",
        "1",
        "--json",
        str(file),
        "--save",
        str(tmp_path),
    ]
    assert main(["--checkpoint", str(CHECKPOINT), "--ttft", "30", "--tpot", "10", *options]) == 0, capsys.readouterr()
    found = json.loads(file.read_text())
    lanes = ["ar", "tree", "table", "copy", "lookup", "exact"]
    assert sorted({one["lane"] for one in found["results"]}) == sorted(lanes)
    assert len(found["results"]) == len(lanes) * 2
    [test], problems = read_loads(tmp_path)
    assert (test.model, test.dtype, problems) == ("mars-b8", "float32", [])
    assert len(under_load_points(test)) == len(under_load(test).data) / 5 == len(test.results)
    changes = [one.against_ar for one in test.results if one.lane != "ar"]
    assert all(found and found.gained == found.lost == 0 for found in changes), "the texts are the same"
    assert all(one.faster and one.faster.low <= one.faster.value for one in test.results if one.lane != "ar")
    assert all(one["goodput"] > 0 and one["refused"] == one["wrong"] == 0 for one in found["results"])


def test_the_server_ends_with_the_process_that_asked_for_it() -> None:
    """However that ended: nothing is said, the pipe is just closed."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    waiting = spawn.Process(target=end_without, args=(theirs,), daemon=True)
    waiting.start()
    theirs.close()
    assert waiting.is_alive()
    ours.close()
    waiting.join(60)
    assert waiting.exitcode == 0
