"""The report of fabricated runs: the page, its CSV files, the command, and the page in a real Chromium."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.figures import measure
from analysis.published import read_published
from analysis.report.page import PAGE, page, write_report
from analysis.report.sections import Evidence, Section, sections
from analysis.runs import RunStore, write_run
from analysis.text_table import to_csv

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVIL = "</script><img src=//evil.example/x>&{{ 1 }}"
SKIPPED = f"shipped.parquet: runs[3].id is {EVIL}"
PROBLEMS = 150
PASS_TIMES = {
    "checkpoint": EVIL,
    "dtype": "float32",
    "hardware": EVIL,
    "date": "2026-01-02T03:04:05+00:00",
    "times": [{"columns": columns, "seconds": 0.01, "low": 0.01, "high": 0.02} for columns in (1, 2)],
}
PLOTLY = re.compile(r"<script>/\*\*\n\* plotly\.js .*?</script>", re.DOTALL)


def evidence_of(store: RunStore) -> Evidence:
    return Evidence(
        runs=store,
        table=measure(store, read_published()),
        pass_times=PASS_TIMES,
    )


@pytest.fixture(scope="module")
def runs(fabricate: Any) -> list[Any]:
    """AR, a sweep of thresholds, an exact run with its proposals, and a timed group; enough problems for 2 points."""
    mars, place = fabricate.model(EVIL), {"batch_size": 4, "group": "plan/decoders"}
    settings: list[tuple[str, dict[str, Any]]] = [
        ("self_speculative", {"gain": 3.0}),
        *(
            ("sliding_window", {"threshold": at, "gain": 2.0, "accuracy": hits})
            for at, hits in ((None, 0.9), (0.95, 0.8))
        ),
        ("sliding_window", {"threshold": 0.7, "score": "margin"}),
        ("autoregressive", place),
        *((decoder, {"threshold": 0.9, "gain": 2.0, **place}) for decoder in ("sliding_window", "block_cached")),
    ]
    ar = fabricate.run(problems=PROBLEMS)
    benchmark = {"tasks": ("spec_bench",), "problems": 4, "group": "spec_bench/turns"}
    kinds = [fabricate.run(mars, **benchmark), fabricate.run(mars, "self_speculative", gain=2.0, **benchmark)]
    by_batch = [
        fabricate.run(mars, decoder, tasks=("ifeval",), problems=4, batch_size=size, group=f"ifeval/{size}")
        for size in (1, 8)
        for decoder in ("autoregressive", "self_speculative")
    ]
    swept = [
        fabricate.run(mars, "sliding_window", tasks=("ifeval",), problems=4, threshold=at) for at in (None, 0.9, 0.5)
    ]
    own = [fabricate.run(mars, decoder, problems=PROBLEMS, **chosen) for decoder, chosen in settings]
    return [ar, *own, *kinds, *by_batch, *swept]


@pytest.fixture(scope="module")
def evidence(fabricate: Any, runs: list[Any]) -> Evidence:
    store = fabricate.store(runs, {runs[1][0]["id"]: fabricate.proposals()})
    return evidence_of(RunStore(entries=store.entries, frames=store.frames, kept=store.kept, problems=[SKIPPED]))


@pytest.fixture(scope="module")
def shown(evidence: Evidence) -> list[Section]:
    return sections(evidence)


@pytest.fixture(scope="module")
def report(evidence: Evidence, shown: list[Section], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report."""
    folder = tmp_path_factory.mktemp("report") / "made"
    write_report(folder, evidence, shown)
    return folder


@pytest.fixture(scope="module")
def written(report: Path) -> str:
    """The page without Plotly's own code."""
    text, count = PLOTLY.subn("", (report / PAGE).read_text(encoding="utf-8"))
    assert count == 1
    return text


def test_every_figure_has_place_data_and_numbers(report: Path, written: str, shown: list[Section]) -> None:
    assert 5 < len(shown) <= 10
    assert [section.name for section in shown if "Measured with " in section.caption] == ["batches"]
    chapters = list(dict.fromkeys(section.chapter for section in shown))
    assert [written.count(f'<p class="chapter">{chapter}</p>') for chapter in chapters] == [1] * 5
    assert {path.name for path in report.iterdir()} == {PAGE, *(f"{section.name}.csv" for section in shown)}
    for section in shown:
        assert section.figure.data, section.name
        assert f'data-figure="{section.name}"' in written
        assert f'data-for="{section.name}"' in written
        assert f'href="{section.name}.csv"' in written


def test_numbers_are_the_very_ones_that_are_drawn(report: Path, shown: list[Section]) -> None:
    frontier = next(section for section in shown if section.name == "frontier")
    numbers = pd.read_csv(report / "frontier.csv").set_index("id")
    drawn = [trace for trace in frontier.figure.data if trace.customdata]
    assert sum(len(trace.x) for trace in drawn) == len(numbers)
    for trace in drawn:
        rows = numbers.loc[list(trace.customdata)]
        assert list(trace.x) == pytest.approx(list(rows["tokens_per_forward"]))
        assert list(trace.error_y.array) == pytest.approx(list(rows["points_high"] - rows["points"]))


def test_figures_of_small_models_have_short_names(shown: list[Section]) -> None:
    found = {section.name: section for section in shown}
    for name in ("frontier", "equal-accuracy-speed"):
        assert (found[name].points["tasks"].map(len) > 1).all()
    assert "autoregressive" not in set(found["frontier"].points["decoder"])
    assert "Qwen2.5-0.5B-Instruct, B = 4" in {trace.name for trace in found["published"].figure.data}


def test_numbers_drop_nonsense_and_join_lists() -> None:
    points = pd.DataFrame({"id": ["a"], "tasks": [("x", "y")], "hover": ["<b>"], "rank": [1], "low": [None], "n": [3]})
    assert pd.read_csv(io.StringIO(to_csv(points))).to_dict("records") == [{"id": "a", "tasks": "x; y", "n": 3}]


def test_no_text_of_a_run_is_markup(written: str) -> None:
    assert "<img" not in written
    assert html.escape(EVIL) in written  # in the table of runs
    assert written.count("</script>") == written.count("<script")


def test_the_page_names_no_other_host(written: str) -> None:
    without = written.replace(html.escape(EVIL), "").replace("//evil.example", "")
    assert not re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]+", without)
    assert "default-src 'none'" in written


def test_left_out_runs_and_sources_are_said(written: str) -> None:
    assert html.escape(SKIPPED) in written
    for words in ("python -m analysis sweep …", "a machine, 2 cores", "plan/decoders", "17 runs of 2 models"):
        assert words in written


def test_captions_say_how_many_problems(written: str) -> None:
    assert "n = 300 problems a mark." in written
    assert re.search(r"n = [0-9,]+ proposals\.", written)


def test_a_report_without_runs_says_what_is_missing() -> None:
    evidence = evidence_of(RunStore())
    shown = sections(evidence)
    text = page(evidence, shown)
    assert "There are no runs" in text
    assert text.count("Nothing to draw") == 5
    assert text.count("Numbers (CSV)") == sum(len(section.points) > 0 for section in shown) < len(shown)


def test_a_figure_without_numbers_has_no_file(tmp_path: Path) -> None:
    evidence = evidence_of(RunStore())
    shown = sections(evidence)
    written = write_report(tmp_path, evidence, shown)
    assert {path.name for path in written} == {PAGE} | {f"{each.name}.csv" for each in shown if len(each.points)}
    assert not (tmp_path / "frontier.csv").exists()


def test_the_command_writes_the_report(runs: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for entry, rows in runs[:4]:
        write_run(tmp_path / "runs", entry, rows)
    damaged = "another"
    (tmp_path / "runs" / f"{damaged}.parquet").write_bytes(b"PAR1")
    assert main(["report", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "a" / "b")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'a' / 'b' / PAGE}: 4 runs, ")
    assert f"left out: {tmp_path / 'runs' / damaged}.parquet is damaged" in err
    assert damaged in (tmp_path / "a" / "b" / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize(("runs_folder", "out", "complaint"), [("nowhere", "out", "--runs"), (".", "a-file", "--out")])
def test_the_command_refuses_what_is_no_folder(
    runs_folder: str, out: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a-file").touch()
    assert main(["report", "--runs", str(tmp_path / runs_folder), "--out", str(tmp_path / out)]) == 2
    assert f"analysis report: {complaint} must be a folder" in capsys.readouterr().err


@pytest.mark.browser
def test_a_browser_draws_all_figures_and_asks_nobody(report: Path, shown: list[Section], chromium: Browser) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    tab, complaints = context.new_page(), []
    tab.set_default_timeout(120_000)
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:")) else complaints.append(request.url),
    )
    tab.goto((report / PAGE).as_uri())
    tab.wait_for_selector("body[data-state=drawn]")
    drawn = tab.locator(".plot").evaluate_all(
        "plots => plots.map(plot => [plot.data.length, plot.querySelectorAll('.main-svg').length > 0, "
        "Math.abs(plot._fullLayout._size.h - plot.layout.meta.plot_height)])"
    )
    assert len(drawn) == len(shown)
    assert all(count and there and error < 2 for count, there, error in drawn)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.locator(".plot .legendtext", has_text="</script><img").count() > 0
    assert tab.locator("main img").count() == 0
    context.close()
    assert complaints == []
