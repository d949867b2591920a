"""Runs and models are chosen by their settings and training, never by their names; the paper is quoted from tables."""

from typing import Any

from analysis.claims.evidence import GreedyRuns, on_same_problems


def test_models_of_one_name_are_told_apart(fabricate: Any, make: Any, mars: Any) -> None:
    same = [{**mars(8, examples=seen), "name": "mars-b8"} for seen in (48_000, 210_000)]
    runs = GreedyRuns(fabricate.store([make(model) for model in same]))
    names = [runs.name(model) for model in runs.models(lambda _: True)]
    assert names == ["mars-b8 (210,000 conversations)", "mars-b8 (48,000 conversations)"]


def test_sampled_and_unjudged_runs_take_no_part(fabricate: Any, make: Any, ar: Any) -> None:
    assert GreedyRuns(fabricate.store([make(ar(), temperature=0.7)])).all == []
    entry, rows = make(ar())
    assert GreedyRuns(fabricate.store([({**entry, "judged": False}, rows)])).all == []


def test_runs_in_bfloat16_are_compared_on_one_machine(fabricate: Any, make: Any, ar: Any, mars: Any) -> None:
    def on(machine: str, dtype: str, model: Any) -> Any:
        entry, rows = make(model)
        return {**entry, "id": f"{entry['id']}.{machine.replace(' ', '-')}", "hardware": machine, "dtype": dtype}, rows

    for dtype, wanted in (("bfloat16", "new"), ("float32", "a machine")):
        [tried] = GreedyRuns(fabricate.store([on("new", dtype, mars(4))])).all
        others = GreedyRuns(fabricate.store([on("a machine", dtype, ar()), on("new", dtype, ar())])).all
        pair = on_same_problems([tried], others)
        assert pair is not None
        assert [run.hardware for run in pair] == ["new", wanted]
        elsewhere = [run for run in others if run.hardware != "new"]
        assert (on_same_problems([tried], elsewhere) is None) == (dtype == "bfloat16")
