"""Runs and models are chosen by what they are, never by their names."""

from __future__ import annotations

from typing import Any

from analysis.claims.book import Book, Run


def test_the_start_is_the_ar_model_of_the_same_size_that_has_most_runs(
    fabricate: Any, make: Any, ar: Any, mars: Any, one_token: Any
) -> None:
    small = {**ar(900, "small"), "parameters": 400}
    runs = [make(small), make(small, batch_size=1), *one_token(0.9)]
    book = Book(fabricate.store(runs))
    model = book.models(lambda model: model.stage == "mars")[0]
    start, double = book.start_of(model), book.compute_matched(model)
    assert start is not None
    assert double is not None
    assert (start.name, double.name) == ("plain", "double")
    alone = Book(fabricate.store([make(ar(200)), make(mars(4))]))
    assert alone.start_of(model) is not None, "an only AR model is the start, whatever it has seen"
    assert alone.compute_matched(model) is None


def test_models_of_one_name_are_told_apart(fabricate: Any, make: Any, mars: Any) -> None:
    same = [{**mars(8, examples=seen), "name": "mars-b8"} for seen in (48_000, 210_000)]
    book = Book(fabricate.store([make(model) for model in same]))
    names = [book.name(model) for model in book.models(lambda _: True)]
    assert names == ["mars-b8 (210,000 conversations)", "mars-b8 (48,000 conversations)"]


def test_sampled_runs_take_no_part(fabricate: Any, make: Any, ar: Any) -> None:
    assert Book(fabricate.store([make(ar(), temperature=0.7)])).runs == []


def test_runs_of_other_groups_take_no_turns_together(fabricate: Any, make: Any) -> None:
    runs: list[Run] = Book(fabricate.store([make(group="a"), make(group="b"), make()])).runs
    assert len({run.turn for run in runs}) == 3
