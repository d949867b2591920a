"""The view Under load: drawn from load tests as the load test writes them, and plain where there are none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.figures.under_load import under_load_points
from analysis.runs.loads import PATTERN, Changes, InTime, LoadTest, Outcome, read_loads, write_load
from app.compare.runner import Runner
from app.tradeoffs.answers import RequestHandler
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.under_load import NO_TEST
from mars.provenance import provenance

STORED = Path(__file__).parents[3] / "assets" / "runs"
VIEW: dict[str, Any] = {"figure": "load", "against": "tokens_per_second"}
ONE = Outcome(
    lane="ar",
    load="0.3",
    offered=0.5,
    requests=5,
    refused=0,
    goodput=0.4,
    tokens_per_second=20.0,
    ttft=(0.2, 0.9),
    tpot=(0.02, 0.05),
    wrong=0,
    right=2,
    judged=5,
)


def made(**changes: Any) -> LoadTest:
    origin = provenance("python -m tests.performance.arrivals")
    results = (
        *(replace(ONE, lane=lane, load=load) for lane in ("ar", "tree", "exact") for load in ("0.3", "1.3", "bursts")),
        replace(ONE, lane="odd <b>lane</b>", requests=0, goodput=0.0, ttft=None, tpot=None, right=0, judged=0),
    )
    test = LoadTest(
        schema=1,
        model="mars-b8",
        threads=2,
        dtype="float32",
        places=8,
        saturation=2.0,
        tpot_alone=0.01,
        limits=InTime(ttft=1.0, tpot=0.05),
        seconds=10.0,
        tokens=64,
        questions=24,
        seed=1,
        thresholds=(),
        results=results,
        **origin,
    )
    return replace(test, **changes)


def ask(folder: Path, make_runner: Callable[..., Runner], what: str = "view", **about: Any) -> dict[str, Any]:
    handler = RequestHandler(RunCache(folder), make_runner())
    *_, last = handler.answer({"ask": what, "about": {**VIEW, **about}, "ticket": 1}, "session")
    found: dict[str, Any] = json.loads(last)
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    older, newer = made(date="2026-01-01T00:00:00+00:00"), made()
    paths = [write_load(tmp_path, test) for test in (older, newer)]
    (tmp_path / "load.broken.json").write_text("{}", encoding="utf-8")
    found, problems = read_loads(tmp_path)
    assert found == [newer, older], "the newest first"
    assert [path.stem for path in paths] == [older.id, newer.id]
    assert len(problems) == 1
    assert problems[0].startswith("load.broken.json: ")


def test_older_load_tests_open_with_their_names() -> None:
    found, problems = read_loads(STORED)
    assert problems == []
    assert {test.id for test in found} == {path.stem for path in STORED.glob(PATTERN)}


def test_gains_over_ar_are_shown_with_n(tmp_path: Path, make_runner: Callable[..., Runner]) -> None:
    paired = replace(ONE, lane="knob", requests=40, judged=40, right=10, against_ar=Changes(n=40, gained=1, lost=3))
    test = made(results=(ONE, paired))
    write_load(tmp_path, test)
    assert read_loads(tmp_path) == ([test], [])
    ar, knob = under_load_points(test).to_dict("records")
    assert math.isnan(ar["points"])
    assert knob["points"] == -5
    assert -20 < knob["points_low"] < -5 < 0 < knob["points_high"] < 10
    assert knob["goodput_low"] < knob["goodput"] == ONE.goodput < knob["goodput_high"] < ONE.offered
    shown = ask(tmp_path, make_runner)
    hovers = [text for trace in shown["figure"]["data"] for text in trace.get("hovertext", ())]
    assert sum("accuracy against AR −5.0 [−" in text and "n = 40" in text for text in hovers) == len(hovers) / 2
    assert sum("0.40 [0." in text for text in hovers) == len(hovers)
    places = {column["label"]: place for place, column in enumerate(shown["table"]["columns"])}
    cells = [
        [row["cells"][places[name]][0] for name in ("Accuracy against AR (points)", "Pairs")]
        for row in shown["table"]["rows"]
    ]
    assert cells[0] == ["", "0"]
    assert cells[1][0].startswith("−5.0 [−")
    assert cells[1][1] == "40"


@pytest.mark.parametrize("wrong", [{"saturation": 0.0}, {"date": "yesterday"}, {"results": ()}, {"places": 0}])
def test_what_cannot_be_is_not_written(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        write_load(tmp_path, made(**wrong))
    assert list(tmp_path.iterdir()) == []


def test_without_load_tests_the_page_says_how(tmp_path: Path, make_runner: Callable[..., Runner]) -> None:
    shown = ask(tmp_path, make_runner)
    assert shown["empty"] == NO_TEST
    assert shown["table"]["rows"] == []


def test_a_line_for_each_lane_in_each_panel(tmp_path: Path, make_runner: Callable[..., Runner]) -> None:
    test = made()
    write_load(tmp_path, test)
    shown = ask(tmp_path, make_runner)
    assert shown["empty"] == ""
    named = [trace["name"] for trace in shown["figure"]["data"] if trace.get("showlegend")]
    assert named == ["AR", "tree layout", "policy exact", "odd &lt;b&gt;lane&lt;/b&gt;"]
    assert {trace["yaxis"] for trace in shown["figure"]["data"]} == {"y", "y2", "y3"}
    assert len(shown["table"]["rows"]) == len(test.results)
    assert {row["id"] for row in shown["table"]["rows"]} == {""}, "no run, so no card"
    assert all(part in shown["caption"] for part in ("mars-b8", "float32", test.hardware, test.date[:10]))
    csv = ask(tmp_path, make_runner, "csv")
    assert len(csv["text"].splitlines()) == 1 + len(test.results)


def test_the_caption_says_whether_clocks_were_simulated(tmp_path: Path, make_runner: Callable[..., Runner]) -> None:
    test = made(in_turn=True)
    write_load(tmp_path, test)
    assert read_loads(tmp_path) == ([test], [])
    caption = ask(tmp_path, make_runner)["caption"]
    assert "passes of all lanes took turns" in caption
    assert "HTTP" not in caption
    write_load(tmp_path / "other", made())
    caption = ask(tmp_path / "other", make_runner)["caption"]
    assert "on one server over HTTP" in caption
    assert "simulated" not in caption


def test_load_tests_of_one_day_have_different_labels(tmp_path: Path, make_runner: Callable[..., Runner]) -> None:
    for test in (made(), made(seed=2, results=(replace(ONE, requests=700), replace(ONE, load="1.3", requests=800)))):
        write_load(tmp_path, test)
    labels = [one["label"] for one in ask(tmp_path, make_runner)["runs"]["options"]]
    assert sorted(label.split(", ")[2] for label in labels) == ["1,500 requests a lane", "15 requests a lane"]
    assert {label.split(", ")[3] for label in labels} == {f"{made().places} places"}


def test_any_load_test_can_be_chosen(tmp_path: Path, make_runner: Callable[..., Runner]) -> None:
    older, newer = made(date="2026-01-01T00:00:00+00:00"), made()
    for test in (older, newer):
        write_load(tmp_path, test)
    assert [one["value"] for one in ask(tmp_path, make_runner)["runs"]["options"]] == [newer.id, older.id]
    assert ask(tmp_path, make_runner, runs=older.id)["runs"]["value"] == older.id
    assert ask(tmp_path, make_runner, runs="none")["runs"]["value"] == newer.id


def test_the_newest_load_test_with_curve_opens(tmp_path: Path, make_runner: Callable[..., Runner]) -> None:
    two = (ONE, replace(ONE, load="1.3"))
    newest, curve = made(results=two), made(date="2026-01-01T00:00:00+00:00")
    for test in (newest, curve, made(date="2025-01-01T00:00:00+00:00")):
        write_load(tmp_path, test)
    assert ask(tmp_path, make_runner)["runs"]["value"] == curve.id
    assert ask(tmp_path, make_runner, runs=newest.id)["runs"]["value"] == newest.id


def test_points_without_an_answer_have_no_times() -> None:
    points = under_load_points(made())
    assert points["ttft_p50"].isna().sum() == 1
    assert (points.loc[points["lane"] == "ar", "rank"] == -1).all()
