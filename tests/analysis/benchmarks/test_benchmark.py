"""A benchmark as it runs: turns, a journal that an interrupted run goes on from, and names of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.benchmarks import benchmark as module
from analysis.benchmarks.benchmark import Benchmark, BenchmarkSetup
from analysis.benchmarks.lanes import BenchmarkLane
from analysis.benchmarks.questions import Question
from analysis.harness.journal import Journal

SETUP = BenchmarkSetup(task="asked", fingerprint="f", limit=None, metric="m", dtype="float32", device="cpu", threads=1)
Lanes = Callable[..., list[BenchmarkLane]]


def bench(lanes: list[BenchmarkLane], questions: list[Question], batch_size: int = 1, **more: Any) -> Benchmark:
    return Benchmark(lanes=lanes, questions=questions, batch_size=batch_size, setup=SETUP, **more)


def ignore(_: int) -> None:
    pass


def test_two_machines_neither_share_a_journal_nor_replace_each_others_runs(
    lanes: Lanes, questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(lanes("autoregressive"), questions)
    name = here.digest
    assert bench(lanes("autoregressive"), questions).digest == name
    monkeypatch.setattr(module, "hardware", lambda device: f"another {device}")
    assert here.digest != name


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`interrupted(benchmark, path, count)`: it runs until the journal has so many answers."""
    add = Journal.add

    def of(benchmark: Benchmark, path: Path, count: int) -> None:
        def adding(journal: Journal, key: str, result: Any) -> None:
            add(journal, key, result)
            if len(journal) == count:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch, Journal(path) as journal:
            patch.setattr(Journal, "add", adding)
            with pytest.raises(KeyboardInterrupt):
                benchmark.answers(journal, ignore)

    return of


@pytest.mark.parametrize(
    ("timed", "asked"),
    [
        (True, [[201]] * 2 + [[201]] * 2 + [[202]] * 2),
        (False, [[201]] * 2 + [[], [201]] + [[202]] * 2),
    ],
)
def test_it_goes_on_after_an_interruption(
    timed: bool,
    asked: list[list[int]],
    lanes: Lanes,
    questions: list[Question],
    interrupted: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the third turn, after the first of two lanes, which a timed run begins again."""
    whole = bench(lanes("autoregressive,sliding_window@0.05"), questions, timed=timed)
    interrupted(whole, tmp_path / "journal", 5)
    found: list[list[int]] = []
    converse = module.converse

    def counted(lane: BenchmarkLane, batch: list[Question], places: int) -> Any:
        found.append([question.number for question in batch])
        return converse(lane, batch, places)

    monkeypatch.setattr(module, "converse", counted)
    done: list[int] = []
    with Journal(tmp_path / "journal") as journal:
        kept = journal.results()
        resumed = whole.answers(journal, done.append)
    assert (found, sum(done)) == (asked, 8), "a warm-up, then what was missing"
    for label, answered in whole.answers(Journal(), ignore).items():
        assert list(resumed[label]) == list(answered) == [81, 121, 201, 202]
        for number, turns in answered.items():
            assert [each.ids for each in resumed[label][number]] == [each.ids for each in turns]
    assert resumed["autoregressive"][81][0].seconds == kept[0][0]["seconds"], "it was not measured again"


def test_the_lanes_take_turns(lanes: Lanes, questions: list[Question], monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    converse = module.converse

    def told(lane: BenchmarkLane, *rest: Any) -> Any:
        order.append(lane.label)
        return converse(lane, *rest)

    monkeypatch.setattr(module, "converse", told)
    benchmark = bench(lanes("autoregressive,jacobi"), questions[2:])
    benchmark.answers(Journal(), ignore)
    assert order == ["autoregressive", "jacobi"] * 2 + ["jacobi", "autoregressive"]
    order.clear()
    replace(benchmark, batches=2).answers(Journal(), ignore)
    assert order == ["autoregressive", "jacobi"] * 2, "one turn of two batches"


def test_a_batch_writes_what_each_gets_alone(lanes: Lanes, questions: list[Question]) -> None:
    both = lanes("autoregressive,sliding_window@0.05")
    alone, together = (bench(both, questions, size).answers(Journal(), ignore) for size in (1, 3))
    for label, answered in alone.items():
        for number, turns in answered.items():
            assert [each.ids for each in together[label][number]] == [each.ids for each in turns]


def test_rows_are_right_where_the_judge_says_so(lanes: Lanes, questions: list[Question]) -> None:
    benchmark = bench(lanes("autoregressive"), questions[2:])
    [answered] = benchmark.answers(Journal(), ignore).values()
    rows = benchmark.rows(answered, lambda number, text: number == 201 and bool(text))
    assert rows[["task", "number", "correct"]].to_numpy().tolist() == [["asked", 201, True], ["asked", 202, False]]
    assert rows["tokens"].tolist() == [len(turns[0].ids) for turns in answered.values()]
    assert not benchmark.rows(answered)["correct"].any()


def test_a_timed_group_has_a_name_of_its_own(lanes: Lanes, questions: list[Question]) -> None:
    both = lanes("autoregressive,sliding_window@0.05")
    timed = bench(both, questions)
    groups = {timed.entry(lane)["group"] for lane in both}
    assert len(groups) == 1
    other = replace(timed, lanes=both[1:])
    assert other.entry(both[1])["group"] not in groups
    entry = replace(timed, timed=False).entry(both[0])
    assert (entry["group"], "judged" in entry) == (None, False)
    assert replace(timed, setup=replace(SETUP, metric=None)).entry(both[0])["judged"] is False
