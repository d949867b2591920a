"""The Trade-offs tab in a real Chromium, over a small store of fabricated runs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from analysis.runs import read_runs

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser

# Where a mark is on screen: a click there is one on the figure, not on an element of ours.
MARK = """run => {
  const plot = document.querySelector('.trade-plot');
  plot.scrollIntoView({ block: 'center' });
  for (const trace of plot._fullData) {
    const place = (trace.customdata ?? []).indexOf(run);
    if (place < 0 || trace.type !== 'scatter') continue;
    const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect();
    return [box.left + xaxis._offset + xaxis.d2p(trace.x[place]), box.top + yaxis._offset + yaxis.d2p(trace.y[place])];
  }
}"""
# What a test may not leave behind on the page that it shares: a view, an open card or table, the dark.
LEFT = """() => [
  location.search,
  document.querySelector('.trade').dataset.figure,
  document.querySelector('.trade-points').value,
  document.querySelectorAll('.trade-card:not([hidden]), .trade-numbers[open], body.dark').length,
].join(' ')"""


def show(tab: Page, against: str = "tokens_per_forward") -> Page:
    """The tab with a figure drawn."""
    tab.click("#tab-tradeoffs-button")
    tab.wait_for_selector(".trade[data-ready][data-state=shown]")
    if against != "tokens_per_second":
        choose(tab, "Horizontal axis", against)
        tab.wait_for_function("document.querySelector('.trade-plot').layout.xaxis.title.text === 'tokens per forward'")
    return tab


@pytest.fixture(scope="module")
def _shown(site: Any, visit_once: Visit) -> Page:
    tab = visit_once(site.url)
    assert tab.evaluate("typeof window.Plotly") == "undefined", "the library is fetched with the first figure"
    show(tab)
    tab.click("#tab-compare-button")
    show(tab)
    assert tab.locator("script[src*='plotly.min.js']").count() == 1
    assert tab.locator(".trade-plot .scatterlayer .trace").count() > 2
    tab.wait_for_function("location.search.includes('against=tokens_per_forward')")
    return tab


@pytest.fixture
def shown(_shown: Page) -> Iterator[Page]:
    """The tab as `show` leaves it, for tests that leave it so too: a page of its own takes four seconds of a core."""
    before = _shown.evaluate(LEFT)
    yield _shown
    _shown.wait_for_function(f"before => ({LEFT})() === before", arg=before)
    settled(_shown)


def settled(tab: Page) -> None:
    tab.wait_for_selector(".trade[data-state=shown]")


def choose(tab: Page, label: str, option: str) -> None:
    field = tab.locator(".trade-field", has=tab.locator(f"span:text-is('{label}')"))
    field.locator("select").select_option(option)
    settled(tab)


def run_of(site: Any, model: str, threshold: float | None) -> str:
    for entry in read_runs(site.runs).entries:
        has = (entry["model"]["name"], entry["settings"]["threshold"], entry["batch_size"], entry["decoder"])
        if has == (model, threshold, 16, "sliding_window"):
            return str(entry["id"])
    raise LookupError(model)


def test_the_figure_has_the_numbers_of_the_table(shown: Page) -> None:
    tab = shown
    drawn = tab.evaluate("document.querySelector('.trade-plot').data.flatMap(trace => trace.customdata ?? [])")
    tab.click(".trade-numbers summary")
    rows = tab.locator(".trade-scroll tbody tr")
    listed = {str(rows.nth(place).get_attribute("data-run")) for place in range(rows.count())}
    assert set(drawn) <= listed
    tab.click(".trade-numbers summary")


def test_a_click_on_a_mark_opens_its_card(site: Any, shown: Page) -> None:
    tab = shown
    x, y = tab.evaluate(MARK, run_of(site, "mars", 0.7))
    tab.mouse.click(x, y)
    tab.wait_for_selector(".trade-card:not([hidden])")
    assert tab.inner_text(".trade-card h3") == "MARS, threshold at τ 0.7"
    assert tab.inner_text(".trade-setting") == "mars · sliding_window · τ 0.7 · batch size 16"
    assert "87.5 %" in tab.inner_text(".trade-measures")
    tab.wait_for_selector(".trade-sample")
    assert tab.locator(".trade-sample").count() == 6
    assert tab.locator(".trade-sample .trade-text").first.inner_text() == "what mars wrote"
    tab.get_by_label("Right or wrong samples").select_option(label="Wrong")
    tab.wait_for_function("document.querySelector('.trade-shown').textContent === '6 of 50'")
    assert set(tab.locator(".trade-sample .lens-badge").all_inner_texts()) == {"× wrong"}
    tab.keyboard.press("Escape")
    assert tab.locator(".trade-card").is_hidden()


def test_the_points_allowed_move_the_star(shown: Page) -> None:
    tab = shown
    star = "document.querySelector('.trade-plot').data.at(-1)"
    before = tab.evaluate(f"{star}.x[0]")
    assert "MARS, threshold at τ 0.95 writes the most tokens per forward: 1.6" in tab.inner_text(".trade-sentence")
    usual = tab.input_value(".trade-points")
    tab.fill(".trade-points", "10")
    tab.keyboard.press("Tab")
    tab.wait_for_function("document.querySelector('.trade-sentence').textContent.includes('τ 0.7 ')")
    settled(tab)
    assert tab.evaluate(f"{star}.x[0]") > before
    tab.click("text=Show this setting")
    tab.wait_for_selector(".trade-card:not([hidden])")
    assert tab.inner_text(".trade-card h3") == "MARS, threshold at τ 0.7"
    tab.keyboard.press("Escape")
    tab.fill(".trade-points", usual)
    tab.keyboard.press("Tab")


@pytest.fixture(scope="module")
def first_view(site: Any, visit_once: Visit) -> Page:
    """The tab as it opens, for tests that leave its figure as it was."""
    return show(visit_once(site.url), "tokens_per_second")


def test_an_impossible_budget_is_answered(first_view: Page) -> None:
    tab = first_view
    usual = tab.input_value(".trade-points")
    for points in ("0", "-3", "100"):
        tab.fill(".trade-points", points)
        tab.keyboard.press("Tab")
        assert tab.inner_text(".trade-sentence") == "The budget must be from 0.1 to 50 points."
        assert tab.locator("text=Show this setting").is_hidden()
    tab.fill(".trade-points", "5")
    tab.keyboard.press("Tab")
    tab.wait_for_function("document.querySelector('.trade-sentence').textContent.startsWith('Within 5 points')")
    tab.fill(".trade-points", usual)
    tab.keyboard.press("Tab")
    settled(tab)


def test_the_first_view_is_throughput(first_view: Page) -> None:
    tab = first_view
    assert tab.evaluate("document.querySelector('.trade-plot').layout.xaxis.title.text") == "output tokens/s"
    assert "the fastest at batch size 1 is" in tab.inner_text(".trade-sentence")
    choose(tab, "Batch size", "4")
    tab.wait_for_function("document.querySelector('.trade-sentence').textContent.includes('at batch size 4')")
    tab.wait_for_function("location.search.includes('batch=4')")
    choose(tab, "Batch size", "1")


def test_numbers_and_picture_are_saved(shown: Page) -> None:
    tab = shown
    with tab.expect_download() as download:
        tab.click("text=Save the numbers as CSV")
    assert Path(download.value.path()).read_text().startswith('"Run","Model","Decoder",')
    assert download.value.suggested_filename == "mars-lens-frontier.csv"
    with tab.expect_download() as download:
        tab.click(".modebar-btn[data-title='Download plot as a PNG']")
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_no_button_of_the_figure_sends_it_anywhere(shown: Page) -> None:
    tab = shown
    titles = tab.locator(".modebar-btn").evaluate_all("buttons => buttons.map(button => button.dataset.title)")
    assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]


def test_light_and_dark(shown: Page) -> None:
    tab = shown
    ink = "document.querySelector('.trade-plot')._fullLayout.font.color"
    before = tab.evaluate(ink)
    tab.click(".lens-theme")
    tab.wait_for_function(f"{ink} !== '{before}'")
    tab.click(".lens-theme")
    tab.wait_for_function(f"{ink} === '{before}'")


def test_a_view_has_an_address(site: Any, shown: Page, visit: Visit) -> None:
    tab = shown
    choose(tab, "Question", "equal_accuracy")
    tab.wait_for_function("location.search.includes('figure=equal_accuracy')")
    other = visit(tab.url)
    other.wait_for_selector(".trade[data-figure=equal_accuracy]")
    other.click("#tab-learn-button")
    other.click("#tab-tradeoffs-button")
    other.click("summary:has-text('The numbers as a table')")
    other.locator(".trade-open").first.click()
    other.wait_for_selector(".trade-card:not([hidden])")
    other.wait_for_function("location.search.includes('run=')")
    other.go_back()
    other.go_back()
    other.wait_for_selector(".trade-card", state="hidden")
    assert other.locator(".trade-field", has_text="Question").locator("select").input_value() == "equal_accuracy"
    other.goto(f"{site.url}?tab=tradeoffs&figure=gone")
    other.wait_for_selector(".trade[data-figure=frontier][data-state=shown]")
    choose(tab, "Question", "frontier")


def test_a_broken_run_is_named(site: Any, first_view: Page) -> None:
    assert "1 run or table cannot be used" in first_view.inner_text(".trade-notices")
    first_view.click(".trade-notices summary")
    assert "broken.parquet" in first_view.inner_text(".trade-notices")
    assert str(site.runs) not in first_view.inner_text(".trade-notices")


def test_a_phone_never_scrolls_sideways(first_view: Page) -> None:
    """Nor is a figure left out because the one before it had a longer legend."""
    tab = first_view
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.click(".trade-numbers summary")
    for figure in ("frontier", "equal_accuracy"):
        choose(tab, "Question", figure)
        tab.wait_for_selector(f".trade[data-figure={figure}][data-state=shown]")
        tab.locator(".trade-open").first.click()
        tab.wait_for_selector(".trade-sample")
        widths: list[Any] = tab.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]")
        assert max(widths) <= 390
        tab.keyboard.press("Escape")


def test_settings_go_to_compare(site: Any, first_view: Page) -> None:
    tab = first_view
    tab.set_viewport_size({"width": 1280, "height": 800})
    choose(tab, "Question", "frontier")
    choose(tab, "Horizontal axis", "tokens_per_forward")
    tab.evaluate("document.addEventListener('lens:use', event => (window.used = event.detail))")
    tab.mouse.click(*tab.evaluate(MARK, run_of(site, "mars", 0.7)))
    tab.click("text=Use these settings in Compare")
    used = tab.evaluate("window.used.choice")
    assert (used["checkpoint"], used["decoder"], used["threshold"], used["follows"]) == (
        *("mars", "sliding_window", 0.7),
        False,
    )
