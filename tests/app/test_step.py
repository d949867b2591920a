"""The Step through tab in a real Chromium; runs are compared with what the server kept of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from app.runs.run import REPLAYS, read
from tests.app.driving import run

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser

COLUMNS = """() => [...document.querySelectorAll('.step-column')].map(column => ({
    fate: column.className.replace('step-column ', ''),
    said: column.querySelector('.step-said .step-word')?.textContent ?? null,
    read: column.querySelector('.step-read .step-word').textContent,
    score: column.querySelector('.step-value')?.textContent ?? null,
}))"""


def open_step(tab: Page) -> Page:
    tab.click("#tab-step-button")
    tab.wait_for_selector(".step-top[data-ready]")
    return tab


def show(tab: Page, name: str, lane: str) -> None:
    """Open a shipped run at one of its lanes."""
    open_step(tab)
    tab.select_option(".step-choice", name)
    tab.click(f".step-lane[data-lane={lane}]")


@pytest.fixture(scope="module")
def step(served: Any, visit_once: Visit) -> Page:
    """The tab, at first without a run."""
    return open_step(visit_once(served.url))


@pytest.fixture
def shipped(step: Page) -> Page:
    """The same page at a shipped run."""
    show(step, "4-python", "mars-0-9")
    return step


def cut(value: float) -> str:
    """Three places, never rounded up."""
    return f"{int(value * 1000 + 1e-6) / 1000:.3f}"


def where(tab: Page) -> str:
    return tab.inner_text(".step-where")


REFUSED = {
    b"no JSON": "This file cannot be opened as a run: the document is not JSON",
    b'{"kind": "<b>x</b>"}': "This file cannot be opened as a run: kind must be mars-lens-run, got '<b>x</b>'.",
    b" " * 3_100_000: "This file is too large: 3.1 MB. The limit is 3.0 MB.",
}


def test_without_a_run_the_shipped_ones_are_offered(step: Page, tmp_path: Path) -> None:
    tab, file = step, tmp_path / "file.json"
    for content, sentence in REFUSED.items():
        file.write_bytes(content)
        tab.set_input_files(".step-file", file)
        says = "sentence => document.querySelector('.step-notice').innerText.startsWith(sentence)"
        tab.wait_for_function(says, arg=sentence)
    titles = [read(path.read_bytes()).title for path in sorted(REPLAYS.glob("*.json"))]
    assert tab.locator(".step-offer b").all_inner_texts() == titles
    assert tab.locator(".step-save").is_disabled()
    tab.locator(".step-offer").first.click()
    tab.wait_for_selector(".step-panel")
    assert where(tab).startswith("Pass 1 of ")
    assert not tab.locator(".step-offers").is_visible()


@pytest.fixture(scope="module")
def ran(served: Any, visit_once: Visit) -> Page:
    """A page with a run, the last of the server."""
    tab = visit_once(served.url)
    run(tab)
    tab.wait_for_function("lens.keeper.runs.size > 0")
    return tab


def test_every_pass_is_drawn_as_recorded(served: Any, ran: Page) -> None:
    tab = ran
    tab.click(".lens-step-through")
    lanes = [lane for lane in served.last_run() if lane.records[-1].phase == "decode"]  # not the exact one
    assert len(lanes) == 2
    for lane in lanes:
        tab.click(f".step-lane[data-lane={lane.key}]")
        rows = [record.rows[0] for record in lane.records if record.phase == "decode"]
        for number, row in enumerate(rows, start=1):
            assert where(tab) == f"Pass {number} of {len(rows)}"
            columns = tab.evaluate(COLUMNS)
            assert [column["score"] for column in columns] == [cut(proposal.score) for proposal in row.proposals]
            assert row.trace is not None
            fates = {"below": "refused", "behind": "behind", "ended": "behind"}  # what is past the end is not refused
            assert [column["fate"] for column in columns] == [
                fates.get(reason, "accepted kept") for reason in row.trace.reasons
            ]
            assert row.trace.reasons[: row.accepted].count("met") == max(0, row.accepted - 1)
            assert {column["read"] for column in columns[1:]} <= {"mask"}
            tab.keyboard.press("ArrowRight")
        assert tab.locator(".step-passage .ahead").count() == 0
        assert tab.inner_text(".step-passage").replace("↵", "").startswith(lane.text.split("\n")[0])


def test_text_is_drawn_up_to_the_pass(shipped: Page) -> None:
    tab = shipped
    show(tab, "1-side-by-side", "mars-0-95")
    lane = read((REPLAYS / "1-side-by-side.json").read_bytes()).lanes[1]
    assert tab.locator(".step-passage .lens-token").all_text_contents() == list(lane.written)
    tab.locator(".step-passage [data-index='7']").click()
    assert where(tab).startswith("Pass 7 of ")
    assert tab.locator(".step-passage .here").get_attribute("data-index") == "7"
    assert tab.locator(".step-passage .lens-pass:not(.ahead)").count() == 7
    tab.fill(".step-player input[type=range]", "9")
    assert where(tab).startswith("Pass 9 of ")
    assert tab.get_attribute(".step-player input[type=range]", "aria-valuetext") == "Pass 9, step 10 of 20"


def test_keys_step_and_play(shipped: Page) -> None:
    tab = shipped
    show(tab, "1-side-by-side", "mars-0-95")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert where(tab).startswith("Pass 3 of ")
    tab.keyboard.press("ArrowLeft")
    assert where(tab).startswith("Pass 2 of ")
    tab.keyboard.press("Home")
    assert where(tab) == "Prompt"
    assert "tokens of the prompt go into the cache" in tab.inner_text(".step-title")
    tab.keyboard.press("End")
    assert where(tab) == "Pass 19 of 19"
    tab.locator(".step-passage").click(position={"x": 2, "y": 2})
    tab.keyboard.press("Space")
    tab.wait_for_selector(".step-play[aria-label=Pause]")
    tab.wait_for_function("document.querySelector('.step-where').textContent.startsWith('Pass 3 of')")
    tab.keyboard.press("Space")
    tab.wait_for_selector(".step-play[aria-label=Play]")


def test_a_card_has_the_alternatives_and_the_reason(shipped: Page) -> None:
    tab = shipped
    show(tab, "1-side-by-side", "mars-0-95")
    proposal = read((REPLAYS / "1-side-by-side.json").read_bytes()).lanes[1].records[1].rows[0].proposals[1]
    tab.locator(".step-column").nth(1).hover()
    assert tab.locator(".step-card .lens-card-where").inner_text() == "Pass 1 · proposal 2 of 8"
    shares = tab.locator(".step-card .lens-chance").all_inner_texts()
    assert shares == [cut(share) for _, share in proposal.alternatives]
    assert tab.locator(".step-card .lens-card-reason").inner_text() == "Refused: its score does not reach τ."
    tab.locator(".step-column").nth(0).locator("button").focus()
    assert tab.inner_text(".step-card .lens-card-reason").endswith("autoregressive token, which is always accepted.")
    tab.keyboard.press("Escape")
    assert tab.locator(".step-card").is_hidden()


def test_another_threshold_recolours_the_pass(shipped: Page) -> None:
    tab = shipped
    show(tab, "2-threshold-too-low", "mars-0-6")
    lane = read((REPLAYS / "2-threshold-too-low.json").read_bytes()).lanes[1]
    rows = [(n, record.rows[0]) for n, record in enumerate(lane.records) if record.phase == "decode"]
    index, row = next((n, row) for n, row in rows if any(p.score < 0.95 for p in row.proposals[1 : row.accepted]))
    tab.fill(".step-player input[type=range]", str(index))
    tab.fill(".step-what-if-panel input", "0.94")
    tab.press(".step-what-if-panel input", "ArrowRight")
    assert [node.input_value() for node in tab.locator("#step input[type=range]").all()] == [str(index), "0.95"]
    kept = next(place for place in range(1, row.accepted) if row.proposals[place].score < 0.95)
    fates = [column["fate"] for column in tab.evaluate(COLUMNS)][: row.accepted]
    assert fates == ["accepted kept would"] * kept + ["lost kept"] * (row.accepted - kept)
    now = sum(row.accepted for _, row in rows) / len(rows)
    assert f"tokens per forward instead of {now:.2f}. This counts the recorded scores alone" in tab.inner_text(
        ".step-what-if-notice"
    )
    tab.click(".step-what-if-panel button")
    assert {column["fate"] for column in tab.evaluate(COLUMNS)} <= {"accepted kept", "refused", "behind"}


def test_exact_decoding_shows_drafts_and_the_tree(shipped: Page) -> None:
    tab = shipped
    show(tab, "3-exact", "mars-exact-quadratic")
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text(".step-facts").startswith("64 positions computed")
    assert tab.inner_text(".step-caption").startswith("A tree: the last token and 7 drafts are causal")
    assert tab.inner_text(".step-what-if-panel").startswith("No threshold: a draft is kept only if")
    assert tab.locator(".step-read.draft").count() >= 1
    tab.locator(".step-column").last.hover()
    assert "sees the prefix (" in tab.inner_text(".step-caption")


def test_a_run_is_opened_saved_loaded_and_kept(served: Any, ran: Page, step: Page, tmp_path: Path) -> None:
    tab = ran
    tab.click("#tab-compare-button")
    bands = tab.locator("[data-lane=b] .lens-pass")
    sizes = bands.evaluate_all("all => all.map(band => band.querySelectorAll('.lens-token').length)")
    several = next(place for place, size in enumerate(sizes) if size > 1)  # the window follows the machine's load
    bands.nth(several).locator(".lens-token").nth(1).click()
    tab.click(".lens-card-step")  # a token in Compare leads to its pass
    tab.wait_for_selector(".step-lane[data-lane=b][aria-pressed=true]")
    assert where(tab).startswith(f"Pass {several + 1} of ")
    tab.click("#tab-compare-button")
    tab.focus("[data-lane=a] .lens-text")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_selector(".step-lane[data-lane=a][aria-pressed=true]")
    assert where(tab).startswith("Pass 2 of ")
    with tab.expect_download() as download:
        tab.click(".step-save")
    saved = tmp_path / "run.json"
    download.value.save_as(saved)
    lanes = read(saved.read_bytes()).lanes
    assert [list(lane.records) for lane in lanes] == [lane.records for lane in served.last_run()]
    identity = json.loads(saved.read_text())["id"]
    tab.reload()
    tab.wait_for_selector("[data-state=idle]", state="attached")
    open_step(tab)
    assert tab.get_attribute(".step", "data-run") == identity
    step.set_input_files(".step-file", saved)
    step.wait_for_selector(f".step[data-run='{identity}']")


def test_a_phone_never_scrolls_sideways(shipped: Page) -> None:
    tab = shipped
    tab.set_viewport_size({"width": 390, "height": 844})
    for lane in ("mars-exact-quadratic", "mars-exact-linear", "one-token"):
        show(tab, "3-exact", lane)
        for _ in range(6):
            tab.keyboard.press("ArrowRight")
        tab.locator(".step-column").first.hover()
        assert max(tab.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]")) <= 390
        parts = ".step-window, .step-player > *, .step-picker > *:not([hidden])"
        right = "all => Math.max(...all.map(each => each.getBoundingClientRect().right))"
        assert tab.locator(parts).evaluate_all(right) <= 390
