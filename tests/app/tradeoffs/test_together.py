"""Which runs can be compared, and which of them a figure shows first."""

from collections.abc import Callable
from typing import Any

import pytest

from analysis import figures
from analysis.figures.frontier import frontier_points
from app.tradeoffs import drawing, together
from app.tradeoffs.drawing import PER_FORWARD, PER_SECOND, View
from app.tradeoffs.run_cache import RunCache
from mars import decoders
from tests.analysis import conftest as make

SHIPPED = RunCache()
TITLES = {decoder.title for decoder in decoders.TABLE.values()}


@pytest.mark.parametrize("against", [PER_SECOND, PER_FORWARD])
def test_a_set_has_one_machine_and_ar_run(against: str) -> None:
    table = SHIPPED.table()
    found = together.sets(table, against)
    assert found
    for each in found:
        rows = table[table["id"].isin(each.ids)]
        assert rows["hardware"].nunique() == rows["n"].nunique() == 1
        assert len(together.references(rows, against))
        if against == PER_SECOND:
            assert rows["group"].nunique() == 1
    assert len({each.name for each in found}) == len({each.label for each in found}) == len(found)


def test_another_machine_or_model_is_another_set() -> None:
    ar, mars = make.model("ar", "sft", None, None), make.model("mars")
    large = {**make.model("large"), "parameters": 9_000_000}
    runs = [make.run(model, batch_size=1, group="timed") for model in (ar, mars)]
    other = [
        make.run(large, name, batch_size=1, group="spec_bench/1", tasks=("spec_bench",), problems=9)
        for name in ("autoregressive", "self_speculative")
    ]
    for entry, _ in other:
        entry |= {"judged": False, "hardware": "another machine"}
    runs.append(make.run(mars, "sliding_window", threshold=0.9, batch_size=1, group="timed"))
    table = figures.measure(make.store([*runs, *other]))
    first, second = together.sets(table, PER_SECOND)
    assert "1 family" not in first.label
    assert (len(first.ids), len(second.ids)) == (3, 2)
    assert second.label == "large · 9 problems of Spec-Bench · another machine"
    assert {row["same_text"] for row in table.to_dict("records") if row["id"] in second.ids} == {1.0}


@pytest.mark.parametrize("asked", [{"batch": 1}, {"batch": 8}, {"against": PER_FORWARD}])
def test_a_figure_starts_with_six_series_at_most(asked: dict[str, Any]) -> None:
    asked = {"figure": "frontier", "against": PER_SECOND, **asked}
    asked["runs"] = next(one.name for one in together.sets(SHIPPED.table(), asked["against"]) if "mars-b8" in one.label)
    shown = drawing.draw(SHIPPED, View(**asked))
    names = [trace["name"] for trace in shown["figure"]["data"] if trace.get("customdata")]
    assert len(names) <= together.MOST_SERIES
    assert {name.replace("<br>", " · ").partition(" · ")[0] for name in names} <= TITLES
    assert names[-1] == "AR", "over the others"


def test_the_first_view_is_of_the_real_model() -> None:
    shown = drawing.draw(SHIPPED, View(figure="frontier", against=PER_SECOND))
    assert shown["axes"][0] == {"value": PER_SECOND, "label": "throughput (tok/s)"}
    assert shown["batch"]["value"] == 1
    assert "smollm2-135m-sft" in shown["answer"]["how"]
    assert all("smollm2-135m" in row["id"] for row in shown["table"]["rows"])
    text = " ".join([shown["caption"], *(axis["label"] for axis in shown["axes"])])
    assert "speed" not in text


def test_the_other_axis_keeps_the_runs() -> None:
    asked = together.sets(SHIPPED.table(), PER_SECOND)[: together.MOST_SETS]
    for runs, ids in [("", asked[0].ids), *((one.name, one.ids) for one in asked)]:
        shown = drawing.draw(SHIPPED, View(against=PER_FORWARD, runs=runs))
        assert ids & {row["id"] for row in shown["table"]["rows"]}


@pytest.mark.parametrize("against", [PER_SECOND, PER_FORWARD])
def test_sets_of_the_largest_model_come_first(against: str) -> None:
    table = SHIPPED.table()
    judged = [each for each in together.sets(table, against) if table[table["id"].isin(each.ids)]["loss"].notna().any()]
    sizes = [table[table["id"].isin(each.ids)]["model.parameters"].max() for each in judged]
    assert sizes[0] > 0.95 * max(sizes), "an adapter more or less is no other size"
    assert len(set(sizes[: together.MOST_SETS])) > 1, "the first sets are of several models"


def test_part_of_the_problems_has_own_ar() -> None:
    table = SHIPPED.table()
    parts = [each for each in together.sets(table, PER_FORWARD) if "100 problems of IFEval" in each.label]
    assert len(parts) == 1
    rows = table[table["id"].isin(parts[0].ids)]
    (ar,) = together.references(rows, PER_FORWARD).to_dict("records")
    assert (ar["decoder"], ar["n"]) == ("autoregressive", 100)
    assert ar["id"] not in set(rows["baseline"])


def test_rings_leave_out_draft_models_and_small_samples(run_cache: RunCache, run_of: Callable[..., str]) -> None:
    table = run_cache.table()
    (first, *_) = together.sets(table, PER_FORWARD)
    rows = table[table["id"].isin(first.ids)].copy()
    best = run_of("mars", "sliding_window", 0.5)
    points = frontier_points(rows)
    assert best in set(points.loc[points["best_by_value"], "id"])
    for change in ({"decoder": "speculative"}, {"n": 12.0}):
        changed = rows.astype({"n": float})
        changed.loc[changed["id"] == best, list(change)] = list(change.values())
        points = frontier_points(changed)
        assert best in set(points["id"])
        assert best not in set(points.loc[points["best_by_value"], "id"])
