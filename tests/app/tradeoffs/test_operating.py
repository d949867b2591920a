"""The answer to an accuracy budget: one sentence, from runs that can be compared."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from app.tradeoffs import drawing, together
from app.tradeoffs.card import card
from app.tradeoffs.drawing import PER_FORWARD, PER_SECOND, View
from app.tradeoffs.operating import Finding, finding
from app.tradeoffs.run_cache import RunCache

RunOf = Callable[..., str]


@pytest.fixture
def find(run_cache: RunCache) -> Callable[..., Finding]:
    def found(points: float, against: str = PER_FORWARD, **where: Any) -> Finding:
        table = run_cache.table()
        (first, *_) = together.sets(table, against)
        rows = table[table["id"].isin(first.ids)]
        for column, values in where.items():
            rows = rows[rows[column].isin(values)]
        return finding(rows, points=points, against=against)

    return found


MASKED = {"decoder": ["autoregressive", "sliding_window"]}


def test_the_fastest_setting_that_surely_loses_less(find: Callable[..., Finding], run_of: RunOf) -> None:
    found = find(2.0, **MASKED, batch_size=[1, 16])
    assert found.chosen == run_of("mars", threshold=0.95)
    assert found.sentence == (
        "Within 2 points of AR's accuracy (90.0 %, n = 400), MARS, threshold at τ 0.95 writes the most tokens per "
        "forward: 1.6, where AR writes 1.0; a pass may take longer than one of AR."
    )
    assert "AR is ar on 400 problems of 2 families, on a machine, 2 cores. " in found.how
    assert "tried on 400 problems; 95% confidence in all of them together, " in found.how
    assert found.how.endswith("as accurate as AR in this measurement; with 95% confidence it loses less than 2 points.")


def test_where_nothing_is_sure_the_sentence_says_so(find: Callable[..., Finding]) -> None:
    found = find(0.1, **MASKED)
    assert found.chosen is None
    assert found.sentence.startswith("No setting is surely within 0.1 points of AR's accuracy (90.0 %, n = 400). The ")
    assert "The closest is MARS, " in found.sentence
    assert "stay with AR" in found.sentence
    [points] = re.findall(r"may lose ([\d.]+) points", found.sentence)
    assert find(float(points), **MASKED).chosen is not None


def test_on_the_clock_it_answers_one_batch_size(find: Callable[..., Finding], run_of: RunOf) -> None:
    found = find(5.0, PER_SECOND, batch_size=[4])
    assert found.chosen == run_of("mars", "block_cached", 0.95, 4)
    assert found.sentence == (
        "Within 5 points of AR's accuracy (90.0 %, n = 400), the fastest at batch size 4 is Block cache at τ 0.95: "
        "about 150 tokens a second, 1.70× as fast as AR [1.70, 1.70], on 400 problems of 2 families."
    )
    assert found.how.startswith(
        "AR is ar at 91 tokens a second on 400 problems of 2 families, measured on 2026-01-02 in turn with the others, "
        "on a machine, 2 cores."
    )


def test_a_setting_that_is_no_faster_leaves_ar(run_cache: RunCache) -> None:
    """Nor is one named where the problems are few, or the budget is all that AR has right."""
    table = run_cache.table()
    (first, *_) = together.sets(table, PER_SECOND)
    rows = table[table["id"].isin(first.ids) & (table["batch_size"] == 1)].copy()
    slower = rows["decoder"] != "autoregressive"
    fastest = "no setting at batch size 1 is clearly faster than AR: the fastest, Block cache at τ 0.95, is "
    for change, told in (
        ({"speedup_low": 0.99}, f"{fastest}1.70× as fast as AR [0.99, 1.70]."),
        ({"speedup": 0.85}, f"{fastest}0.85×"),
        ({"accuracy": 0.05}, "AR has 5.0 % of 400 problems of 2 families right: it could lose them all within this"),
        ({"n": 99}, "AR has 5.0 % of 99 problems of 2 families right: fewer than 100 are no ground to recommend a"),
    ):
        rows.loc[slower if "speedup" in str(change) else rows["n"] > 0, list(change)] = list(change.values())
        found = finding(rows, points=5.0, against=PER_SECOND)
        assert found.chosen is None
        assert told in found.sentence
        assert found.how
    rows = table[table["id"].isin(first.ids)].assign(n=400, tokens_per_forward=1.0)
    found = finding(rows, points=5.0, against=PER_FORWARD)
    assert found.chosen is None
    assert found.sentence.endswith(", no setting writes clearly more tokens per forward than AR.")


def test_without_judge_only_ars_text_is_lossless(run_cache: RunCache, run_of: RunOf) -> None:
    table = run_cache.table()
    (first, *_) = together.sets(table, PER_SECOND)
    rows = table[table["id"].isin(first.ids) & (table["batch_size"] == 1)].copy()
    rows[["accuracy", "loss", "baseline"]] = None
    rows["same_text"] = 0.5
    none = finding(rows, points=2.0, against=PER_SECOND)
    assert none.chosen is None
    assert none.sentence.endswith("No setting here writes it in every answer.")
    exact = run_of("mars", "sliding_window", 0.95, 1)
    rows.loc[rows["id"] == exact, "same_text"] = 1.0
    found = finding(rows, points=2.0, against=PER_SECOND)
    assert found.chosen == exact
    assert found.sentence == (
        "Not scored. Of the settings with AR's text, the fastest at batch size 1 is MARS, "
        "threshold at τ 0.95: about 140 tokens a second, 1.50× as fast as AR [1.50, 1.50], on 400 problems "
        "of 2 families."
    )


SHIPPED = RunCache()
FOLDERS = {"mars-b8": "assets/checkpoints", "smollm2-135m-mars": "assets/adapters"}


@pytest.mark.parametrize("against", [PER_SECOND, PER_FORWARD])
@pytest.mark.parametrize(
    ("model", "batch", "points"), [("smollm2-135m-mars", 1, 5.0), ("mars-b8", 1, 0.5), ("mars-b8", 8, 5.0)]
)
def test_sentence_star_card_and_lane_agree(against: str, model: str, batch: int, points: float) -> None:
    runs = next(each for each in together.sets(SHIPPED.table(), against) if model in each.label)
    shown = drawing.draw(SHIPPED, View(figure="frontier", against=against, batch=batch, points=points, runs=runs.name))
    answer, table = shown["answer"], SHIPPED.table()
    stars = [trace for trace in shown["figure"]["data"] if trace["marker"].get("symbol") == "star"]
    assert len(stars) == bool(answer["run"])
    if answer["run"] is None:
        return
    row = table[table["id"] == answer["run"]].iloc[0]
    assert (stars[0]["x"][0], stars[0]["y"][0]) == (row[against], row["points"])
    told = card(SHIPPED, answer["run"], {})
    assert told["model"] in answer["sentence"]
    if against == PER_SECOND:
        assert row["batch_size"] == batch
        here = together.references(table[table["id"].isin(runs.ids)], against).query("batch_size == @row.batch_size")
        (ar,) = here["tokens_per_second"]
        assert row["speedup"] == pytest.approx(row["tokens_per_second"] / ar, rel=1e-6)
        ends = f"[{row['speedup_low']:.2f}, {row['speedup_high']:.2f}]"
        assert f"{row['speedup']:.2f}× as fast as AR {ends}" in answer["sentence"]
        (ratio,) = [one for one in told["measures"] if one["label"].startswith("Against AR, measured in turn with it")]
        assert f"{ar:,.0f} tok/s" in ratio["label"]
        assert ratio["value"] == f"{row['speedup']:.2f}×"
        assert (row["n"], row["own_n"]) == (1200, 96)
        assert answer["sentence"].endswith(", on 96 problems of 6 families.")
        assert dict(told["facts"])["Problems"].startswith("n = 1,200 (tokens and speed: 96): ")
        assert "n = 1,200 (tokens and speed: 96) · 6 families" in row["hover"]
        assert "1,200 problems of 6 families, 96 on the clock" in runs.label
        assert {tuple(each["cells"][-4:-2]) for each in shown["table"]["rows"]} == {("1,200", "96")}
    sources = {row["model.name"]: f"{FOLDERS[model]}/{row['model.name']}"}
    lane = card(SHIPPED, answer["run"], sources)["choice"]
    assert (lane["decoder"], lane["block_size"]) == (row["decoder"], row["settings.block_size"])
    assert lane["threshold"] == (None if row["threshold"] != row["threshold"] else row["threshold"])
