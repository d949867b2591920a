"""The load test on the small shipped model: its traces, and that all lanes that must write what AR writes do."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

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
from tests.performance import questions, traces
from tests.performance.arrivals import main
from tests.performance.asking import Asked, quantile
from tests.performance.lanes import TABLE, Fixed
from tests.performance.questions import Load, Question, questions_of
from tests.performance.served import end_without
from tests.performance.traces import bursts, dealt, length, poisson, seconds_for

CHECKPOINT = Path(__file__).parents[2] / "assets" / "checkpoints" / "mars-b8"
PROMPTS = Path(__file__).parents[2] / "assets" / "benchmarks" / "own" / "question.jsonl"


def test_traces_are_random_the_same_each_time_and_as_long_as_their_rate_says() -> None:
    def drawn(seed: str, count: int = 8) -> list[tuple[float, int]]:
        return poisson(5.0, 100.0, dealt(count, "1"), seed)

    trace = drawn("1")
    assert trace == drawn("1") != drawn("2")
    assert len(trace) == 500
    assert sorted(trace) == trace
    assert all(0 <= when < 100 and question in range(8) for when, question in trace)
    gaps = [later - former for (former, _), (later, _) in pairwise(trace)]
    assert 0.85 < statistics.pstdev(gaps) / statistics.fmean(gaps) < 1.15, "as those of a Poisson process"
    assert len(poisson(0.001, 1.0, dealt(8, "1"), "1")) == 1, "at least one"
    assert [when for when, _ in bursts(0.5, 10.0, dealt(8, "1"), "1")] == [0, 0, 4, 4, 8, 8]


def test_each_question_comes_as_often_as_the_others_over_the_turns_too() -> None:
    numbers = dealt(8, "1")
    asked = [question for turn in "ab" for _, question in poisson(1.2, 10.0, numbers, turn)]
    assert set(Counter(asked).values()) == {3}
    assert asked[:8] != asked[8:16]


def test_the_time_is_shared_out_and_low_rates_get_more_of_it() -> None:
    rates, lanes, turns, drain = [0.05, 0.1, 0.3, 1.3, 0.6], 4, 2, 3.0
    seconds = seconds_for(1200.0, lanes, rates, turns, drain)
    wholes = [seconds * length(rate) for rate in rates]
    assert wholes == pytest.approx([part * seconds for part in (3, 3, 3, 1, 1.5)])
    taken = sum(whole * max(rate, 1.0) + turns * drain for whole, rate in zip(wholes, rates, strict=True))
    assert lanes * taken == pytest.approx(1200.0)
    assert seconds_for(1.0, lanes, rates, turns, drain) == 0.3


def test_saturation_counts_the_tokens_of_its_time_and_no_start_or_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of 2 seconds and 8 tokens, measured from 1 to 7: half of the first and of the last are outside."""
    load, clock = Load(httpx.AsyncClient(), [Question("a"), Question("b")], 8), [0.0]
    asked: list[int] = []

    async def answered(lane: str, question: int) -> Asked:
        assert lane == "exact"
        asked.append(question)
        clock[0] += 2.0
        return Asked(status=200, tokens=8, first=1.0, seconds=2.0, finish="stop")

    monkeypatch.setattr(load, "ask", answered)
    monkeypatch.setattr(load, "_usual_tokens", 6.0)
    monkeypatch.setattr(questions, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    assert asyncio.run(load.saturation("exact", 1, 1.0, 6.0)) == pytest.approx(24 / 6 / 6)
    assert asked == [0, 1, 0, 1]


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


def test_prompts_with_instructions_are_judged_by_their_checks(tmp_path: Path) -> None:
    checks = {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, {}]}
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(checks | {"key": key, "prompt": f"Say {key}."}) + "\n" for key in range(3)))
    try:
        asked = questions_of(2, 1, instructions=file)
    except ValueError as error:
        pytest.skip(str(error))
    assert asked[0].prompt != asked[1].prompt
    for one in asked:
        assert one.is_right is not None
        assert [one.is_right(text) for text in ('"Three"', "Three", '"Three, four"')] == [True, False, False]
    with pytest.raises(ValueError, match=r"--questions must be at most 3, as many as .* has, got 4"):
        questions_of(4, 1, instructions=file)


def test_answers_are_compared_with_ar_arrival_by_arrival() -> None:
    """Questions 0 and 1 are judged; the first arrives three times, and one answer to it never came."""

    def answers(*texts: str | None) -> list[tuple[int, Asked]]:
        asked = [Asked(status=200, text=text or "", first=0.1, finish=text and "stop") for text in texts]
        return list(zip((0, 1, 0, 2, 0), asked, strict=True))

    asked = [Question("a", "a".__eq__), Question("b", "b".__eq__), Question("c")]
    load = Load(httpx.AsyncClient(), asked, 4)
    load.texts = ["a", "b", "c"]
    base, found = answers("a", "b", "a", "c", "x"), answers("x", "b", None, "d", "a")
    outcome = load.outcome("knob", "0.9", 10.0, found, InTime(ttft=1.0, tpot=1.0), base)
    assert outcome.against_ar == Changes(n=3, gained=1, lost=1)
    assert (outcome.right, outcome.judged, outcome.refused, outcome.in_time) == (2, 3, 1, 4)
    assert load.outcome("ar", "0.9", 10.0, found, InTime(ttft=1.0, tpot=1.0)).against_ar is None


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
def test_lanes_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "BURSTS_APART", 0.5)  # a burst of four seconds is a hundred requests of this model
    file, lanes = tmp_path / "out.json", ["ar", "table", "copy", "exact"]
    few = ["--places", "2", "--rates", "0.5", "--questions", "4", "--tokens", "4", "--minutes", "0.1", "--turns", "2"]
    options = [
        *few,
        "--queue-size",
        "4096",
        "--lanes",
        *lanes,
        "--threads",
        "1",
        "--json",
        str(file),
        "--save",
        str(tmp_path),
    ]
    assert main(["--checkpoint", str(CHECKPOINT), "--ttft", "30", "--tpot", "10", *options]) == 0, capsys.readouterr()
    found = json.loads(file.read_text())
    assert sorted({one["lane"] for one in found["results"]}) == sorted(lanes)
    assert len(found["results"]) == len(lanes) * 2
    [test], problems = read_loads(tmp_path)
    assert (test.model, test.dtype, problems) == ("mars-b8", "float32", [])
    assert len(under_load_points(test)) == len(under_load(test).data) / 5 == len(test.results)
    changes = [one.against_ar for one in test.results if one.lane != "ar"]
    assert all(found and found.gained == found.lost == 0 for found in changes), "the texts are the same"
    assert all(one.faster and one.faster.low <= one.faster.value for one in test.results if one.lane != "ar")
    assert all(one["goodput"] > 0 and one["refused"] == one["wrong"] == 0 for one in found["results"])
    assert {(one.load, one.lane, one.value) for one in test.comparisons} == {
        (load, "exact", 1.0) for load in ("0.5", "bursts", "all")
    }
    assert "goodput of exact / ar: 1.000" in capsys.readouterr().out


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
