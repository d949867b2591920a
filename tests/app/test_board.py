"""The score board in a real Chromium: what it counts is what it shows, and a problem opens below the grid."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from app.compare import problems
from tests.app.driving import choose, run

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser

LANES = """() => [...document.querySelectorAll('.board-row')].map((row, place) => ({
    key: row.dataset.lane,
    title: row.querySelector('.board-title').textContent,
    right: row.querySelector('.board-figure').textContent,
    small: row.querySelector('.board-figure + .lens-note')?.textContent ?? '',
    turned: Boolean(row.querySelector('.board-turned')),
    signs: [...document.querySelectorAll('.board-column')].map(column => column.children[place].dataset.standing),
}))"""


def score(tab: Page, family: str = "Word problems", count: int = 5) -> None:
    choose(tab, "board-family", family)
    tab.fill("#board-count input[type=range]", str(count))
    tab.click("#board-score")
    tab.wait_for_selector("[data-board=running]")  # until then the last board is still there
    assert tab.is_disabled("#sweep-run")


def over(tab: Page, state: str = "done") -> list[dict[str, Any]]:
    tab.wait_for_selector(f"[data-board={state}]")
    tab.wait_for_selector("#board-score:enabled")
    tab.wait_for_selector("#sweep-run:enabled")
    lanes: list[dict[str, Any]] = tab.evaluate(LANES)
    return lanes


def status(tab: Page) -> str:
    return tab.inner_text(".board-status[role=status]")


@pytest.fixture(scope="module")
def board(served: Any, visit_once: Visit) -> Page:
    """A page for tests that score what they look at."""
    return visit_once(served.url)


def test_the_table_counts_the_cells_of_the_grid(board: Page) -> None:
    tab = board
    assert status(tab) == "Choose how many problems and of which family, then press Score."
    tab.fill("#limit input", "3")
    tab.click("#board-score")
    tab.wait_for_selector("[data-board=failed]")
    assert status(tab) == "The length limit must be a whole number between 16 and 512."
    assert tab.locator(".board-body").is_hidden()
    tab.fill("#limit input", "192")
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
    assert tab.locator(".board-blocks h3").all_inner_texts() == ["Word problems"]
    assert tab.inner_text(".board-about").startswith("5 problems, Word problems, seeds from ")


def test_a_problem_opens_and_goes_to_compare(board: Page) -> None:
    tab = board
    score(tab, "Logic")
    over(tab)
    tab.locator(".board-column").nth(1).focus()
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
    assert tab.locator(".board-column[aria-pressed=true]").get_attribute("data-problem") == "3"


def test_lanes_are_steered_stopped_and_scored_again(board: Page) -> None:
    tab = board
    choose(tab, "lane-b-checkpoint", "slow")  # so that there is something left to stop
    run(tab)
    tab.locator("#lane-b-checkpoint input").evaluate("list => (list.focus(), list.blur())")  # the texts stay
    score(tab, "All families", 50)
    assert tab.locator("#run:enabled").count() == 0, "it would end the board"
    token = tab.locator("[data-lane=a] .lens-token").first
    token.click()
    assert tab.locator(".lens-card-own").count() == 0, "so would another start of the answer"
    tab.wait_for_selector(".board-column [data-standing=wrong]")  # not that of the legend
    tab.wait_for_selector(".board-row[data-lane=b] .board-figure:has-text(' of ')")
    tab.fill("#threshold input[type=range]", "0.6")
    tab.wait_for_selector(".board-row[data-lane=b] .board-turned")
    tab.click("#board-stop")
    lanes = over(tab, "stopped")
    assert [lane["turned"] for lane in lanes][:2] == [False, True]
    assert tab.inner_text(".board-row[data-lane=b] .board-tau") == "τ 0.60"
    about = tab.inner_text(".board-about")
    assert status(tab).startswith("Stopped. ")
    for lane in lanes:
        done = sum(sign in ("right", "wrong") for sign in lane["signs"])
        assert done < 50
        assert lane["right"] == (f"{lane['signs'].count('right')} of {done}" if done else "–")
        assert "writing" not in lane["signs"]
    token.click()
    assert tab.locator(".lens-card-own").count() == 1
    tab.locator("#pace label", has_text="Slow").click()
    tab.click("#run")
    tab.wait_for_selector(".board-again:disabled")  # it would end the run
    tab.click("#stop")
    tab.locator("#pace label", has_text="Real time").click()
    tab.click(".board-again:enabled")
    tab.wait_for_selector("[data-board=running]")
    assert tab.inner_text(".board-about") == about
    tab.click("#board-stop")
    over(tab, "stopped")
    tab.fill("#threshold input[type=range]", "0.95")


def test_nothing_is_wider_than_the_screen(board: Page) -> None:
    tab = board
    tab.set_viewport_size({"width": 390, "height": 800})
    score(tab, "All families", 10)
    over(tab)
    tab.locator(".board-column").nth(2).click()
    tab.locator(".board-answer b").evaluate("node => node.append('a'.repeat(250))")  # as what some programs return
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator(".board .lens-scroll").evaluate("node => node.scrollWidth - node.clientWidth") == 0
