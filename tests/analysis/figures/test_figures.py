"""Figures of fabricated runs, judged by their data: intervals, series, panels, ids, and text that stays text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis import figures
from analysis.claims.book import Book
from analysis.figures.style import BASELINE, NEUTRAL, Look
from analysis.published import read_published
from analysis.runs import RunStore
from analysis.stats import accuracy, reliability, tokens_per_forward, wilson_interval

EVIL = "<i>&%{x}$y$"
ESCAPED = "&lt;i&gt;&amp;&#37;{x}&#36;y&#36;"
GROUP = "plan/decoders"


@pytest.fixture(scope="module")
def store(fabricate: Any) -> RunStore:
    """A bit of everything: thresholds, scores, block sizes, timed groups at two batch sizes, exact runs, proposals."""
    mars = fabricate.model("mars-b8")
    runs = [fabricate.run(), fabricate.run(mars, "self_speculative", accuracy=0.9, gain=3.0, layout="linear")]
    for threshold, accuracy_, gain in ((None, 0.9, 1.0), (0.95, 0.85, 2.0), (0.5, 0.6, 3.0)):
        runs.append(fabricate.run(mars, "sliding_window", accuracy=accuracy_, gain=gain, threshold=threshold))
    runs.append(fabricate.run(mars, "sliding_window", accuracy=0.8, gain=2.0, threshold=0.9, score="margin"))
    for size, loss, accuracy_ in ((4, True, 0.9), (8, False, 0.8), (4, False, 0.85)):
        model = fabricate.model(f"b{size}{loss}", block_size=size, sft_loss=loss)
        runs += [fabricate.run(model, "sliding_window", accuracy=accuracy_, threshold=at) for at in (None, 0.95)]
    for batch_size, speed in ((1, 100.0), (4, 300.0)):
        timed = {"batch_size": batch_size, "group": GROUP}
        runs.append(fabricate.run(mars, speed=speed, **timed))
        runs.append(fabricate.run(mars, "sliding_window", gain=2.0, speed=1.5 * speed, threshold=0.95, **timed))
        for cache, factor in ((8, 0.8), (32, 1.2)):
            runs.append(
                fabricate.run(
                    mars,
                    "block_cached",
                    gain=2.0,
                    speed=factor * speed,
                    threshold=0.95,
                    cache_block_size=cache,
                    **timed,
                )
            )
    exact = runs[1][0]["id"]
    return fabricate.store(runs, {exact: fabricate.proposals()})


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    """Of the paper's tables what the figures draw: means, the sweep on one benchmark, and the block cache."""
    table = read_published()
    sweep = (table["table"] == "threshold_sweep") & (table["tasks"].map(lambda tasks: tasks == ("GSM8K",)))
    return table[sweep | (table["tasks"].map(len) > 1) | (table["table"] == "block_cache_throughput")]


@pytest.fixture(scope="module")
def table(store: RunStore, published: pd.DataFrame) -> pd.DataFrame:
    return figures.measure(store, published)


@pytest.fixture(scope="module")
def by_family(store: RunStore) -> pd.DataFrame:
    return figures.measure(store, families=("logic", "word_problems"), measures=("tokens_per_forward",))


Draw = Callable[[RunStore, pd.DataFrame, pd.DataFrame, bool], go.Figure]
DRAWN: dict[str, Draw] = {
    "frontier": lambda store, table, by_family, dark: figures.frontier(table, dark=dark),
    "frontier/speedup": lambda store, table, by_family, dark: figures.frontier(table, against="speedup", dark=dark),
    "families": lambda store, table, by_family, dark: figures.families(by_family, dark=dark),
    "scores": lambda store, table, by_family, dark: figures.scores(table, dark=dark),
    "ablation": lambda store, table, by_family, dark: figures.ablation(table, dark=dark),
    "caching": lambda store, table, by_family, dark: figures.caching(table, dark=dark),
    "acceptance": lambda store, table, by_family, dark: figures.acceptance(store, table, dark=dark),
    "reliability": lambda store, table, by_family, dark: figures.reliability(store, table, dark=dark),
    "equal accuracy": lambda store, table, by_family, dark: figures.equal_accuracy(table, points=10, dark=dark),
    "efficiency": lambda store, table, by_family, dark: figures.efficiency(table, dark=dark),
}
every_figure = pytest.mark.parametrize("name", DRAWN)


@pytest.fixture(scope="module")
def drawn(store: RunStore, table: pd.DataFrame, by_family: pd.DataFrame) -> dict[str, go.Figure]:
    """Every figure of the whole table, light."""
    return {name: draw(store, table, by_family, False) for name, draw in DRAWN.items()}


def of(table: pd.DataFrame, decoder: str, **fields: Any) -> pd.Series:
    """The one row of `table` that fits."""
    found = table[(table["decoder"] == decoder) & (table["source"] == "measured")]
    for name, value in fields.items():
        column = found[name.replace("__", ".")]
        found = found[column.isna() if value is None else column == value]
    assert len(found) == 1, found[["id", "series", "threshold"]]
    return found.iloc[0]


def traces(figure: go.Figure, words: str) -> list[Any]:
    return [trace for trace in figure.data if trace.name and words in trace.name.replace("<br>", " · ")]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


# the table


def test_measures_are_those_of_the_statistics(store: RunStore, table: pd.DataFrame) -> None:
    row = of(table, "sliding_window", threshold=0.5)
    rows = store.rows(row["id"])
    for name, expected in (("accuracy", accuracy(rows)), ("tokens_per_forward", tokens_per_forward(rows))):
        assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(
            (expected.value, expected.low, expected.high)
        )
    assert (row["gained"], row["lost"], row["loss"]) == (0, 24, pytest.approx(30))
    assert row["loss_low"] < 30 < row["loss_high"]


def test_speed_ups_are_over_the_autoregressive_run_of_the_same_turn(table: pd.DataFrame) -> None:
    for batch_size in (1, 4):
        row = of(table, "sliding_window", timed=True, batch_size=batch_size)
        assert row["speedup"] == pytest.approx(1.5)
        assert row["speedup_low"] == pytest.approx(1.5)
    untimed = of(table, "sliding_window", threshold=0.5)
    assert pd.isna(untimed["speedup"])
    assert pd.isna(untimed["tokens_per_second"])


def test_the_ar_baseline_is_an_sft_model_on_the_same_problems(fabricate: Any) -> None:
    mars = fabricate.model("mars-b8")
    runs = [
        fabricate.run(accuracy=0.5),
        fabricate.run({**fabricate.model("larger", "sft", None, None), "parameters": 2000}),
        fabricate.run(mars, "sliding_window", problems=20),
        fabricate.run(mars, "sliding_window", problems=60),
    ]
    entry, rows = fabricate.run(problems=100)
    runs.append(({**entry, "id": "of-another-seed", "seed": 8}, rows))
    table = figures.measure(fabricate.store(runs))
    part, more = of(table, "sliding_window", problems=20), of(table, "sliding_window", problems=60)
    assert part["baseline"] == runs[0][0]["id"]
    assert part["ar_accuracy"] == 1.0  # the first 20 problems of a family are among those that are right
    assert pd.isna(more["ar_accuracy"])
    assert of(table, "autoregressive", model__name="larger")["baseline"] == runs[1][0]["id"]


def test_the_ar_baseline_is_the_model_that_the_claims_compare_with(fabricate: Any) -> None:
    """Not the compute-matched one, although it has most runs; and not a sampled run."""
    start, mars = fabricate.model("plain", "sft", None, None), fabricate.model("mars-b8")
    double = {**fabricate.model("double", "sft", None, None), "examples": 2 * mars["examples"]}
    runs = [
        *(fabricate.run(double, batch_size=size) for size in (1, 4, 16)),
        fabricate.run(start, problems=60, temperature=1.0),
        fabricate.run(start),
        fabricate.run(mars, "sliding_window"),
    ]
    store = fabricate.store(runs)
    assert of(figures.measure(store), "sliding_window")["baseline"] == runs[-2][0]["id"]
    book = Book(store)
    [model] = book.models(lambda model: model.stage == "mars")
    assert book.start_of(model).fingerprint == start["fingerprint"]
    assert book.compute_matched(model).fingerprint == double["fingerprint"]


def test_values_that_differ_by_rounding_alone_are_one(fabricate: Any) -> None:
    place = {"batch_size": 4, "group": GROUP}
    runs = [fabricate.run(problems=150, **place), fabricate.run(fabricate.model("m"), problems=150, **place)]
    runs.append(fabricate.run(fabricate.model("m"), "sliding_window", problems=150, gain=2.0, **place))
    assert set(figures.measure(fabricate.store(runs))["speedup"]) == {1.0}


def test_published_rows_have_no_intervals_and_are_called_published(table: pd.DataFrame) -> None:
    theirs = table[table["source"] == "published"]
    assert len(theirs) > 50
    assert theirs[["accuracy_low", "tokens_per_forward_low", "speedup_low", "ar_accuracy"]].isna().all(axis=None)
    assert theirs["series"].str.startswith("published (arXiv 2604.07023)").all()
    assert not theirs["series"].str.contains("nan").any()
    assert theirs["hover"].str.contains("another model, another task").all()
    assert not theirs["series"].str.contains("nan").any()
    sweep = theirs[theirs["id"].str.startswith("published.threshold_sweep.") & (theirs["decoder"] == "sliding_window")]
    assert (sweep.groupby("series")["settings.block_size"].nunique() == 1).all()


def test_a_published_threshold_of_one_is_one_token_mode(table: pd.DataFrame) -> None:
    theirs = table[(table["source"] == "published") & (table["settings.threshold"] == 1)]
    assert len(theirs)
    assert theirs["threshold"].isna().all()
    assert theirs["hover"].str.contains("one-token mode").all()


def test_a_store_without_runs_gives_an_empty_table(published: pd.DataFrame) -> None:
    assert figures.measure(RunStore()).empty
    assert len(figures.measure(RunStore(), published)) == len(published)


# names


def test_models_of_one_name_are_told_apart(fabricate: Any) -> None:
    shipped, other = fabricate.model("mars-b8"), fabricate.model("mars-b8")
    other |= {"fingerprint": "f" * 16, "examples": 48_000}
    table = figures.measure(fabricate.store([fabricate.run(model, "sliding_window") for model in (shipped, other)]))
    assert sorted(table["series"]) == ["mars-b8 (0.1k) · sliding_window", "mars-b8 (48k) · sliding_window"]


def test_runs_on_other_tasks_are_another_series(fabricate: Any) -> None:
    mars = fabricate.model("mars-b8")
    runs = [fabricate.run(mars, "sliding_window", threshold=threshold) for threshold in (None, 0.9)]
    runs.append(fabricate.run(mars, "sliding_window", threshold=0.9, tasks=("gsm8k",), problems=500))
    table = figures.measure(fabricate.store(runs))
    assert set(table["series"]) == {"mars-b8 · sliding_window", "mars-b8 · sliding_window · gsm8k"}


def test_a_threshold_that_decides_nothing_is_none(fabricate: Any) -> None:
    run = fabricate.run(fabricate.model("m"), "self_speculative", threshold=0.95)
    assert figures.measure(fabricate.store([run]))["threshold"].isna().all()


def test_looks_differ_in_shape_as_well_as_in_colour() -> None:
    looks = [Look.number(index) for index in range(30)]
    assert len({(look.colour, look.symbol) for look in looks}) == 30
    assert len({(look.colour, look.dash) for look in looks}) == 30
    assert all(one.symbol != other.symbol for one, other in zip(looks, looks[8:], strict=False))
    assert Look.number(-1) == BASELINE


# all figures


@every_figure
def test_every_mark_carries_the_id_of_its_run(name: str, drawn: dict[str, go.Figure], table: pd.DataFrame) -> None:
    known, figure = set(table["id"]), drawn[name]
    assert figure.data
    for trace in figure.data:
        if trace.hoverinfo == "skip":
            continue
        if isinstance(trace, go.Heatmap):
            assert trace.customdata.shape == trace.z.shape
            assert set(trace.customdata.ravel()) - {""} <= known
        else:
            assert len(trace.customdata) == len(trace.hovertext) == len(trace.x)
            assert set(trace.customdata) <= known


@every_figure
def test_figures_have_a_transparent_ground_and_differ_in_their_template_only(
    name: str, drawn: dict[str, go.Figure], store: RunStore, table: pd.DataFrame, by_family: pd.DataFrame
) -> None:
    light, dark = (json.loads(f.to_json()) for f in (drawn[name], DRAWN[name](store, table, by_family, True)))
    template, other = light["layout"].pop("template"), dark["layout"].pop("template")
    assert light == dark
    assert template != other
    assert template["layout"]["paper_bgcolor"] == template["layout"]["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert light["layout"]["uirevision"]
    assert light["layout"]["legend"]["orientation"] == "h"


@every_figure
def test_an_empty_selection_gives_a_sentence(
    name: str, store: RunStore, table: pd.DataFrame, by_family: pd.DataFrame
) -> None:
    figure = DRAWN[name](store, table.iloc[:0], by_family.iloc[:0], False)
    assert not figure.data
    assert len(figure.layout.annotations[0].text) > 20
    assert figure.layout.uirevision


@pytest.fixture(scope="module")
def evil(fabricate: Any) -> tuple[RunStore, pd.DataFrame, pd.DataFrame]:
    """A store whose names are markup, and its tables."""
    model, ar = fabricate.model(EVIL), fabricate.model(f"{EVIL}ar", "sft", None, None)
    place = {"batch_size": 4, "group": EVIL}
    runs = [fabricate.run(ar), fabricate.run(ar, **place), fabricate.run(model, "self_speculative", gain=2.0)]
    runs += [fabricate.run(model, "sliding_window", threshold=0.9, score=score) for score in ("probability", "margin")]
    runs += [fabricate.run(model, "sliding_window", threshold=threshold) for threshold in (None, 0.95)]
    runs += [fabricate.run(model, decoder, threshold=0.95, **place) for decoder in ("sliding_window", "block_cached")]
    runs += [fabricate.run(model, EVIL, tasks=(EVIL,))]
    store = fabricate.store(
        [({**entry, "hardware": EVIL, "date": EVIL}, rows) for entry, rows in runs],
        {runs[2][0]["id"]: fabricate.proposals()},
    )
    families = ("logic", EVIL)
    return store, figures.measure(store), figures.measure(store, families=families, measures=("tokens_per_forward",))


@every_figure
def test_no_text_of_a_run_is_markup(name: str, evil: tuple[RunStore, pd.DataFrame, pd.DataFrame]) -> None:
    written = json.loads(DRAWN[name](*evil, False).to_json())
    shown = [*strings(written["layout"])]
    for trace in written["data"]:
        shown += strings({field: value for field, value in trace.items() if field not in ("legendgroup", "customdata")})
    assert any(ESCAPED in text for text in shown)
    assert not [text for text in shown if "<i>" in text or "%{x}" in text or "$y$" in text]


# one by one


def test_frontier_joins_thresholds_and_shows_intervals_both_ways(table: pd.DataFrame) -> None:
    figure = figures.frontier(table[(table["source"] == "measured") & ~table["timed"].astype(bool)])
    (line,) = [trace for trace in traces(figure, "mars-b8 · sliding_window") if "margin" not in trace.name]
    assert list(line.y) == [0.9, 0.85, 0.6]
    rows = [
        of(table, "sliding_window", threshold=value, model__name="mars-b8", settings__score="probability", timed=False)
        for value in (None, 0.95, 0.5)
    ]
    assert list(line.customdata) == [row["id"] for row in rows]
    for error, name in ((line.error_x, "tokens_per_forward"), (line.error_y, "accuracy")):
        assert list(error.array) == [row[f"{name}_high"] - row[name] for row in rows]
        assert list(error.arrayminus) == [row[name] - row[f"{name}_low"] for row in rows]


def test_frontier_has_the_band_of_ar_whatever_is_filtered(table: pd.DataFrame) -> None:
    figure = figures.frontier(table[table["settings.threshold"] == 0.5])
    band, line = figure.layout.shapes
    low, high = wilson_interval(72, 80)
    assert (band.y0, band.y1, line.y0) == (pytest.approx(low), pytest.approx(high), pytest.approx(0.9))
    assert line.showlegend
    assert line.line.color == NEUTRAL


def test_a_series_keeps_its_look_when_others_are_filtered(table: pd.DataFrame) -> None:
    whole = traces(figures.frontier(table), "b4False · sliding_window")[0]
    alone = traces(figures.frontier(table[table["model.name"] == "b4False"]), "b4False · sliding_window")[0]
    assert (whole.line.color, whole.marker.symbol, whole.line.dash) == (
        alone.line.color,
        alone.marker.symbol,
        alone.line.dash,
    )


def test_published_curves_are_hollow_dotted_and_after_ours(table: pd.DataFrame) -> None:
    figure = figures.frontier(table)
    theirs = traces(figure, "published (arXiv 2604.07023)")
    assert theirs
    assert all(trace.marker.symbol.endswith("-open") and trace.line.dash == "dot" for trace in theirs)
    ours = [trace for trace in figure.data if trace not in theirs and trace.hoverinfo != "skip"]
    assert not any(trace.marker.symbol.endswith("-open") for trace in ours)
    assert figure.data.index(theirs[0]) > figure.data.index(ours[-1])


def test_frontier_against_seconds_has_a_panel_for_each_batch_size(table: pd.DataFrame) -> None:
    figure = figures.frontier(table[table["source"] == "measured"], against="speedup")
    assert [note.text for note in figure.layout.annotations] == ["batch size 1", "batch size 4"]
    assert {axis for trace in traces(figure, "sliding_window") for axis in [trace.xaxis]} == {"x", "x2"}
    assert sum(bool(trace.showlegend) for trace in traces(figure, "mars-b8 · sliding_window")) == 1


def test_frontier_says_where_points_stand(table: pd.DataFrame) -> None:
    points = figures.frontier_points(table)
    exact = of(points, "self_speculative")
    assert exact["best_by_value"]
    assert of(points, "sliding_window", threshold=0.5)["standing"] == "dominated"
    assert points.loc[points["source"] == "published", "standing"].isna().all()
    ring = traces(figures.frontier(table), "frontier")[0]
    assert exact["tokens_per_forward"] in ring.x


@pytest.mark.parametrize("figure", [figures.frontier, figures.equal_accuracy])
def test_what_nothing_can_be_drawn_against_is_refused(figure: Any, table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"against must be one of tokens_per_forward, .*, got 'beauty'"):
        figure(table, against="beauty")


def test_families_have_a_panel_each_with_their_own_band(store: RunStore, by_family: pd.DataFrame) -> None:
    figure = figures.families(by_family)
    assert [note.text for note in figure.layout.annotations] == ["logic", "word_problems"]
    assert len(figure.layout.shapes) == 4
    row = of(by_family, "sliding_window", threshold=0.5, task="logic")
    assert row["n"] == 40
    assert row["accuracy_high"] == pytest.approx(wilson_interval(24, 40)[1])


def test_scores_compares_settings_that_were_run_with_more_than_one(table: pd.DataFrame) -> None:
    figure = figures.scores(table)
    assert [trace.name for trace in figure.data] == ["probability", "margin"]
    assert set(figures.scores_points(table)["model.name"]) == {"mars-b8"}


def test_ablation_draws_block_sizes_with_and_without_the_loss(table: pd.DataFrame) -> None:
    figure = figures.ablation(table[table["source"] == "measured"])
    assert [note.text for note in figure.layout.annotations] == ["one-token mode", "τ 0.95"]
    (one_token, at_threshold) = traces(figure, "without SFT loss")
    assert list(one_token.y) == [0.85, 0.8]
    assert [round(place) for place in one_token.x] == [0, 1]
    assert list(figure.layout.xaxis.ticktext) == ["4", "8"]
    assert (one_token.marker.symbol, one_token.line.dash) != (
        traces(figure, "with SFT loss")[0].marker.symbol,
        traces(figure, "with SFT loss")[0].line.dash,
    )
    assert at_threshold.xaxis == "x2"


def test_ablation_takes_the_models_that_saw_equally_much(fabricate: Any) -> None:
    shipped = {**fabricate.model("shipped"), "examples": 900}
    small = [fabricate.model(f"b{size}", block_size=size) for size in (4, 8)]
    runs = [
        fabricate.run(model, "sliding_window", problems=n) for model, n in ((shipped, 60), *((m, 40) for m in small))
    ]
    runs.append(fabricate.run(small[0], "sliding_window", tasks=("gsm8k",), problems=500))
    points = figures.ablation_points(figures.measure(fabricate.store(runs)))
    assert list(points["model.name"]) == ["b4", "b8"]
    assert set(points["n"]) == {80}


def test_caching_is_a_map_of_cache_blocks_and_batch_sizes(table: pd.DataFrame) -> None:
    ours, theirs = figures.caching(table).data
    assert (list(ours.x), list(ours.y)) == (["1", "4"], ["8", "32"])
    assert (2**ours.z).ravel() == pytest.approx([0.8, 0.8, 1.2, 1.2])
    assert ours.text[1][0].startswith("1.20×<br>1.20–")
    assert set(theirs.customdata.ravel()) <= set(table.loc[table["source"] == "published", "id"])


def test_acceptance_is_the_share_of_passes(store: RunStore, table: pd.DataFrame) -> None:
    exact = of(table, "self_speculative")
    (bars,) = figures.acceptance(store, table[table["id"] == exact["id"]]).data
    assert sum(bars.y) == pytest.approx(1)
    counts = sum(
        pd.Series(lengths)
        for lengths in store.rows(exact["id"])["acceptance_lengths"].map(lambda x: [*x, *[0] * (9 - len(x))])
    )
    assert list(bars.y) == pytest.approx(list(counts[: len(bars.y)] / counts.sum()))
    assert list(bars.x) == list(range(1, len(bars.y) + 1))


def test_reliability_has_a_panel_for_each_depth_with_intervals(store: RunStore, table: pd.DataFrame) -> None:
    figure = figures.reliability(store, table)
    assert [note.text for note in figure.layout.annotations] == ["depth 1", "depth 2", "depth 3"]
    exact = of(table, "self_speculative")
    proposals = store.proposals(exact["id"])
    assert proposals is not None
    bins = reliability(proposals).query("depth == 2 and n >= 10")
    line = next(trace for trace in figure.data if isinstance(trace, go.Scatter) and trace.xaxis == "x2")
    assert list(line.x) == list(bins["mean_score"])
    assert list(line.error_y.array) == list(bins["agreement_high"] - bins["agreement"])
    bars = next(trace for trace in figure.data if isinstance(trace, go.Bar) and trace.xaxis == "x2")
    assert list(bars.y) == pytest.approx(list(bins["n"] / 120))
    assert sum(shape.type == "line" for shape in figure.layout.shapes) == 3


def test_reliability_takes_the_run_on_most_problems(fabricate: Any) -> None:
    runs = [fabricate.run(fabricate.model("m"), "self_speculative", problems=n) for n in (30, 50)]
    store = fabricate.store(runs, {entry["id"]: fabricate.proposals() for entry, _ in runs})
    assert set(figures.reliability_points(store, figures.measure(store))["id"]) == {runs[1][0]["id"]}


def test_equal_accuracy_takes_the_fastest_setting_that_surely_qualifies(table: pd.DataFrame) -> None:
    points = figures.equal_accuracy_points(table, points=10)
    sliding = points[points["series"] == "mars-b8 · sliding_window"].iloc[0]
    assert (sliding["qualifies"], sliding["tried"]) == (True, 3)
    assert sliding["threshold"] != 0.5
    margin = points[points["series"] == "mars-b8 · sliding_window · margin"].iloc[0]
    assert not margin["qualifies"]
    figure = figures.equal_accuracy(table, points=10)
    assert not [label for label in figure.data[0].y if "margin" in label]
    assert "more without a setting" in figure.layout.annotations[-1].text.replace("<br>", " ")


def test_equal_accuracy_says_when_nothing_qualifies(table: pd.DataFrame) -> None:
    figure = figures.equal_accuracy(table[table["threshold"] == 0.5], points=1)
    assert not figure.data
    assert figure.layout.annotations[0].text.replace("<br>", " ").startswith("No setting of the selection surely loses")


def test_equal_accuracy_against_seconds_has_a_bar_for_each_batch_size(table: pd.DataFrame) -> None:
    figure = figures.equal_accuracy(table, points=15, against="speedup")
    assert [trace.name for trace in figure.data] == ["batch size 1", "batch size 4"]
    assert len({trace.marker.pattern.shape for trace in figure.data}) == 2


def test_efficiency_is_speed_up_over_tokens_per_forward_below_the_limit(table: pd.DataFrame) -> None:
    points = figures.efficiency_points(table)
    row = of(points, "sliding_window", batch_size=1)
    assert row["efficiency"] == pytest.approx(row["speedup"] / row["tokens_per_forward"])
    figure = figures.efficiency(table)
    limit = next(shape for shape in figure.layout.shapes if shape.name and shape.name.startswith("limit"))
    assert (limit.x0, limit.x1) == (limit.y0, limit.y1)
