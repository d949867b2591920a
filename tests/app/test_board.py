"""The score board in a real Chromium: what it counts is what it shows, and a problem opens below the grid."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.compare import problems

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., "Page"]
pytestmark = pytest.mark.browser

LANES = """() => [...document.querySelectorAll('.board-row')].map((row, place) => ({
    key: row.dataset.lane,
    title: row.querySelector('.board-title').textContent,
    right: row.querySelector('.board-right .board-figure').textContent,
    small: row.querySelector('.board-right .board-small')?.textContent ?? '',
    turned: Boolean(row.querySelector('.board-turned')),
    signs: [...document.querySelectorAll('.board-column')].map(column => column.children[place].dataset.standing),
}))"""


def score(tab: Page, family: str = "Word problems", count: int = 5) -> None:
    tab.click("#board-family input")
    tab.locator("[role=option]", has_text=family).click()
    tab.fill("#board-count input[type=range]", str(count))
    tab.click("#board-score")


def over(tab: Page, state: str = "done") -> list[dict[str, Any]]:
    tab.wait_for_selector(f"[data-board={state}]")
    tab.wait_for_selector("#board-score:enabled")
    lanes: list[dict[str, Any]] = tab.evaluate(LANES)
    return lanes


def status(tab: Page) -> str:
    return tab.inner_text(".board-status[role=status]")


def download(tab: Page, button: str) -> tuple[str, list[dict[str, str]]]:
    with tab.expect_download() as found:
        tab.click(button)
    text = Path(found.value.path()).read_text(encoding="utf-8")
    return found.value.suggested_filename, list(csv.DictReader(io.StringIO(text)))


def test_the_table_counts_the_cells_of_the_grid(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    assert status(tab) == "Choose how many problems and of which family, then press Score."
    score(tab)
    lanes = over(tab)
    assert len(lanes) >= 2
    for lane in lanes:
        assert len(lane["signs"]) == 5
        assert set(lane["signs"]) <= {"right", "wrong"}
        right = lane["signs"].count("right")
        assert lane["right"] == f"{right} of 5"
        assert lane["small"].startswith(f"{20 * right} % (95 %: ")
        assert f"{lane['title']}: {right} of 5 right." in status(tab)
    assert status(tab).startswith("Done. ")
    assert tab.locator(".board-block h3").all_inner_texts() == ["Word problems"]
    assert tab.inner_text(".board-about").startswith("5 problems, Word problems, seeds from ")


def test_a_problem_opens_by_key_and_by_click_and_goes_to_compare(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    score(tab, "Logic")
    over(tab)
    tab.focus(".board-column[tabindex='0']")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    title = tab.inner_text(".board-card h3")
    assert title.startswith("Problem 2 · Logic · seed ")
    seed = int(title.rsplit(" ", 1)[1])
    asked = problems.find("logic", seed)
    assert tab.locator(".board-prompt").text_content() == asked.prompt
    assert tab.inner_text(".board-answer b") == problems.known_answer(asked)
    assert tab.locator(".board-wrote").first.text_content().startswith("Let us think. Oslo")
    tab.click(".board-run")
    tab.wait_for_function("seed => document.querySelector('#seed input').value === String(seed)", arg=seed)
    assert tab.input_value("#prompt textarea") == asked.prompt
    tab.locator(".board-column").nth(3).click()
    assert tab.inner_text(".board-card h3").startswith("Problem 4 · Logic")
    assert tab.locator(".board-column.chosen").get_attribute("data-problem") == "3"


def test_the_slider_acts_while_the_lanes_write_and_the_row_says_so(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    tab.click("#lane-b-checkpoint input")
    tab.locator("[role=option]", has_text="slow").click()
    score(tab, "All families", 50)
    tab.wait_for_selector(".board-row[data-lane=b] .board-of")
    tab.fill("#threshold input[type=range]", "0.6")
    tab.wait_for_selector(".board-row[data-lane=b] .board-turned")
    tab.click("#board-stop")
    lanes = over(tab, "stopped")
    assert [lane["turned"] for lane in lanes][:2] == [False, True]
    assert tab.inner_text(".board-row[data-lane=b] .board-tau") == "τ 0.60"


def test_stop_keeps_what_there_is_and_the_same_problems_can_be_scored_again(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    tab.click("#lane-b-checkpoint input")
    tab.locator("[role=option]", has_text="slow").click()  # so that there is something left to stop
    score(tab, "All families", 50)
    tab.wait_for_selector(".board-column [data-standing=wrong]")  # not that of the legend
    tab.click("#board-stop")
    lanes = over(tab, "stopped")
    about = tab.inner_text(".board-about")
    assert status(tab).startswith("Stopped. ")
    for lane in lanes:
        done = sum(sign in ("right", "wrong") for sign in lane["signs"])
        assert done < 50
        assert lane["right"] == (f"{lane['signs'].count('right')} of {done}" if done else "–")
        assert "writing" not in lane["signs"]
    tab.click(".board-again")
    tab.wait_for_selector("[data-board=running]")
    assert tab.inner_text(".board-about") == about
    tab.click("#board-stop")
    over(tab, "stopped")


def test_the_last_board_survives_a_reload_and_can_be_saved(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    score(tab)
    lanes = over(tab)
    tab.reload()
    tab.wait_for_selector(".board[data-ready]")
    assert tab.evaluate(LANES) == lanes
    name, table = download(tab, ".board-lanes")
    assert name.startswith("mars-lens-board-")
    assert [(row["lane"], f"{row['right']} of {row['problems']}") for row in table] == [
        (lane["title"], lane["right"]) for lane in lanes
    ]
    assert all(float(row["share_low_95"]) <= float(row["share"]) <= float(row["share_high_95"]) for row in table)
    _, rows = download(tab, ".board-problems")
    assert len(rows) == 5 * len(lanes)
    assert [row["right"] for row in rows if row["lane"] == lanes[0]["title"]] == [
        str(sign == "right").lower() for sign in lanes[0]["signs"]
    ]


def test_what_a_model_writes_stays_text(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    tab.click("#lane-b-checkpoint input")
    tab.locator("[role=option]", has_text="markup").click()
    score(tab)
    over(tab)
    tab.locator(".board-column").first.click()
    assert "<script>document.title = 'gone'</script>" in tab.locator(".board-wrote").nth(1).text_content()
    assert tab.title() == "MARS Lens"
    tab.reload()
    tab.wait_for_selector(".board[data-board=done]")
    assert tab.title() == "MARS Lens"


def test_a_wrong_length_limit_is_refused_with_a_sentence(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    tab.fill("#limit input", "3")
    tab.click("#board-score")
    tab.wait_for_selector("[data-board=failed]")
    assert status(tab) == "The length limit must be between 16 and 512 new tokens."
    assert tab.locator(".board-body").is_hidden()


def test_what_storage_holds_is_not_trusted(served: Any, visit: Visit) -> None:
    tab = visit(served.url)
    errors: list[str] = []
    for junk in ("no JSON", "[]", '[{"kind": "open"}]', '[{"kind": "nothing"}]'):
        tab.evaluate("junk => localStorage.setItem('mars-lens:last-board', junk)", junk)
        other = tab.context.new_page()
        other.on("pageerror", lambda error: errors.append(str(error)))
        other.goto(served.url)
        other.wait_for_selector(".board[data-ready]")
        assert other.locator(".board-body").is_hidden()
        other.close()
    assert errors == []


def test_nothing_is_wider_than_the_screen(served: Any, visit: Visit) -> None:
    tab = visit(served.url, width=390)
    score(tab, "All families", 10)
    over(tab)
    tab.locator(".board-column").nth(2).click()
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
