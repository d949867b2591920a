"""Runs and models are chosen by their settings and training, never by their names; the paper is quoted from tables."""

from pathlib import Path
from typing import Any

from analysis.claims import CLAIMS
from analysis.claims.evidence import GreedyRuns, on_same_problems

ROOT = Path(__file__).parents[3]


def test_the_start_is_the_commonest_ar_model(fabricate: Any, make: Any, ar: Any, mars: Any, one_token: Any) -> None:
    small = {**ar(900, "small"), "parameters": 400}
    runs = GreedyRuns(fabricate.store([make(small), make(small, batch_size=1), *one_token(0.9)]))
    model = runs.models(lambda model: model.stage == "mars")[0]
    start, double = runs.start_of(model), runs.compute_matched(model)
    assert start is not None
    assert double is not None
    assert (start.name, double.name) == ("plain", "double")
    alone = GreedyRuns(fabricate.store([make(ar(200)), make(mars(4))]))
    assert alone.start_of(model) is not None, "an only AR model is the start, whatever it has seen"
    assert alone.compute_matched(model) is None


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


def test_claimed_figures_come_from_the_tables() -> None:
    claimed = {claim.number: claim.claimed for claim in CLAIMS}
    for number_, words in {
        1: "30.4 against 28.7 of AR SFT",
        2: "from 28.4 to 22.2 without the SFT loss, and from 30.4 to 29.7 with it",
        3: "costs 1.0 to 1.6 points",
        4: "up to 1.71× AR, at batch 4 with cache blocks of 32; without a cache 0.49× at batch 8 and 0.23× at batch 16",
        6: "1.07 tokens per forward",
        7: "1.27× with a MARS target, 1.40× with both",
        8: "falls to 22.8",
        12: "28 ms per step at batch 4 where reading the weights takes 3.2 ms: 11%",
    }.items():
        assert words in claimed[number_]
