from pathlib import Path
from typing import Any

import pytest

from analysis.figures import FIGURES, POOLED
from analysis.measured import CHAT
from app.tradeoffs import drawing, together
from app.tradeoffs.drawing import AXES, PER_FORWARD, PER_SECOND, View
from app.tradeoffs.run_cache import RunCache


def draw(run_cache: RunCache, figure: str = "frontier", against: str = PER_FORWARD, **asked: Any) -> dict[str, Any]:
    return drawing.draw(run_cache, View(figure=figure, against=against, **asked))


def ids(shown: dict[str, Any]) -> set[str]:
    return {each for trace in shown["figure"]["data"] for each in trace.get("customdata") or [] if each}


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_drawn_from_the_runs(run_cache: RunCache, figure: str) -> None:
    shown = draw(run_cache, figure)
    assert shown["empty"] == ""
    assert ids(shown)
    assert ids(shown) <= {entry["id"] for entry in run_cache.runs.entries}
    assert {row["id"] for row in shown["table"]["rows"]} >= ids(shown)


def test_it_draws_a_series_for_each_decoder(run_cache: RunCache) -> None:
    shown = draw(run_cache)
    table = run_cache.table().set_index("id")
    assert {table.loc[run, "model"] for run in ids(shown)} == {"ar", "mars"}
    assert {table.loc[run, "settings.score"] for run in ids(shown)} == {"probability"}
    assert len(shown["table"]["rows"]) == 14, "the table has them all"


def test_one_family_is_measured_on_its_own(run_cache: RunCache) -> None:
    shown = draw(run_cache, task="logic")
    places = [column["label"] for column in shown["table"]["columns"]]
    table, place = run_cache.table("logic").set_index("id"), places.index("Accuracy (%)")
    assert {row["cells"][places.index("n of answers")] for row in shown["table"]["rows"]} == {"200"}
    for row in shown["table"]["rows"]:  # which the CSV has with all digits
        assert row["numbers"][place] == [100 * table.loc[row["id"], f"accuracy{end}"] for end in ("", "_low", "_high")]
    assert (shown["task"], draw(run_cache, task="no such family")["task"]) == ("logic", "all families")


@pytest.mark.parametrize("against", AXES)
@pytest.mark.parametrize("points", [0.1, 5.0])
def test_answer_and_bars_agree(run_cache: RunCache, against: str, points: float) -> None:
    shown = draw(run_cache, "equal_accuracy", against, points=points)
    traces = [one for one in shown["figure"]["data"] if one["type"] == "bar"]
    bars = [(x, run) for one in traces for x, run in zip(one["x"], one["customdata"], strict=True)]
    answer = shown["answer"]
    assert bool(answer["run"]) == ("No setting" not in answer["sentence"])
    if answer["run"]:
        assert max(bars)[1] == answer["run"]
    place = [column["label"] for column in shown["table"]["columns"]].index("Settings tried")
    tried = {row["cells"][place] for row in shown["table"]["rows"]} - {"", "0"}
    assert all(f"{count} settings tried" in answer["how"] for count in tried)


def test_without_runs_it_says_what_makes_some(tmp_path: Path) -> None:
    for figure in FIGURES:
        shown = draw(RunCache(tmp_path), figure)
        assert shown["empty"].startswith("There are no runs for this figure. This makes some: python -m analysis repro")


def test_only_the_ends_of_lines_have_names(run_cache: RunCache) -> None:
    """More names would lie on one another."""
    for trace in draw(run_cache)["figure"]["data"]:
        named = [place for place, text in enumerate(trace.get("text") or []) if text]
        assert set(named) <= {0, len(trace["x"]) - 1}


def test_a_decoder_keeps_its_colour_in_every_set() -> None:
    colours: dict[str, set[str]] = {}
    cache = RunCache()
    for one in together.sets(cache.table(), PER_SECOND)[: together.MOST_SETS]:
        for trace in draw(cache, against=PER_SECOND, runs=one.name)["figure"]["data"]:
            if trace.get("customdata"):
                decoders = cache.table().set_index("id").loc[list(trace["customdata"]), "decoder"]
                colours.setdefault(decoders.iloc[0], set()).add(trace["line"]["color"])
    assert len(colours) > 2
    assert all(len(found) == 1 for found in colours.values())


def test_five_sets_are_offered_at_first() -> None:
    cache = RunCache()
    few, every = draw(cache, against=PER_SECOND)["runs"]["options"], together.sets(cache.table(), PER_SECOND)
    assert len(few) == together.MOST_SETS < len(every)
    named = every[-1].name
    shown = draw(cache, against=PER_SECOND, runs=named)["runs"]
    assert shown["value"] == named
    assert len(shown["options"]) == together.MOST_SETS + 1
    chat = draw(cache, against=PER_SECOND, task=CHAT)
    assert [each["value"] for each in chat["runs"]["options"]] == [chat["runs"]["value"]], "no set that it cannot show"
    said = "AR is smollm2-135m-sft at 113 tokens a second on 81 problems of ordinary questions, measured on 2026-11-30 "
    assert chat["answer"]["how"].startswith(said)
    assert "writes its own model's text" in chat["caption"]
    assert "MARS, threshold · masks auto" in [trace["name"] for trace in chat["figure"]["data"]], "as in Compare"


def test_the_runs_are_read_and_measured_once(run_cache: RunCache) -> None:
    assert run_cache.runs is run_cache.runs
    assert run_cache.table() is run_cache.table(POOLED)
    one = run_cache.table("logic")
    assert set(one["task"]) == {"logic"}
    assert one is run_cache.table("logic")
