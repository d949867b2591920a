"""What stands around the text of a lane: counters, the history of τ, a reason; and the lanes beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from app import stream

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., "Page"]


@pytest.mark.parametrize("way", ["hover", "focus", "click"])
def test_a_counter_says_its_formula(mount: Mount, play: Any, way: str) -> None:
    tab = mount()
    play.sample(tab)
    button = tab.locator("[data-lane=b]").get_by_role("button", name="tokens / forward")
    getattr(button, way)()
    tip = tab.get_by_role("tooltip")
    assert tip.inner_text() == "Tokens ÷ passes = 4 ÷ 2."
    assert button.get_attribute("aria-describedby") == tip.get_attribute("id")
    tab.keyboard.press("Escape")
    assert tip.count() == 0
    tab.locator("[data-lane=b] .lens-counter-speedup").hover()
    assert tip.inner_text() == "Tok / s of this lane ÷ tok / s of A · AR."
    tab.mouse.move(0, 0)
    assert tip.count() == 0


def test_counters_and_speed_up(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    play.feed(tab, stream.speed_up({"b": 1.704}, "a"))
    assert tab.locator("[data-lane=b] dd").all_inner_texts()[:6] == ["4", "2", "2.00", "1.00", "4", "1.70×"]
    assert tab.locator("[data-counter=speedup]").all_inner_texts() == ["1.00×", "1.70×"]
    assert tab.locator(".lens-speedup").all_inner_texts() == ["1.70×\nMARS over AR, in tokens per second"]


def test_acceptance_lengths_are_bars_and_words(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("b", "masks"))
    message = play.passed("b", 10, [play.token("x")])
    message["counts"]["lengths"] = [2, 4, 0, 1, 0, 0, 0, 0, 0, 3]
    play.feed(tab, message)
    cell = tab.locator(".lens-counter-lengths")
    tab.wait_for_selector(".lens-length")
    words = "1 token in 2 passes, 2 tokens in 4 passes, 4 tokens in 1 pass, 10 tokens in 3 passes"
    assert cell.locator(".lens-spoken").text_content() == words
    heights = [bar.bounding_box()["height"] for bar in cell.locator(".lens-length").all()]  # type: ignore[index]
    assert [round((height - 15) / (max(heights) - 15), 2) for height in heights] == [0.5, 1, 0, 0.25, 0, 0, 0, 0.75]
    assert [bar.get_attribute("data-length") for bar in cell.locator(".lens-length").all()] == [
        *map(str, range(1, 8)),
        "8+",
    ]
    assert cell.locator(".lens-lengths").get_attribute("aria-hidden") == "true"


def test_the_history_of_the_threshold_has_a_step_for_each_change(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("a", "ar"), play.lane("b", "masks"))
    word = [play.token("x")]
    for number, threshold in enumerate((0.95, 0.95, 0.7, None), 1):
        play.feed(tab, play.passed("a", number, word), play.passed("b", number, word, threshold=threshold))
    tab.wait_for_selector(".lens-history-now:has-text('1 token')")
    assert tab.locator(".lens-history").count() == 1
    line = tab.locator("[data-lane=b] .lens-history-line").get_attribute("d")
    assert line is not None
    steps = [(float(y), float(x)) for y, x in (part.split("H") for part in line.removeprefix("M0 ").split("V"))]
    assert [x for _, x in steps] == [2, 3, 4]
    one_token, high, low = steps[2][0], steps[0][0], steps[1][0]
    assert one_token < high < low
    spoken = "τ 0.95 from pass 1, τ 0.70 from pass 3, one token per pass from pass 4."
    assert tab.text_content(".lens-history .lens-spoken") == spoken
    assert tab.locator(".lens-turned").evaluate_all("all => all.map(each => each.dataset.turned)") == [
        "τ 0.70",
        "one token per pass",
    ]


def test_a_lane_says_why_it_is_inactive_and_why_it_cannot_write(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(
        tab, play.lane("a", "masks", inactive="Block size 1."), play.lane("b", "masks", problem="No such checkpoint.")
    )
    assert tab.inner_text("[data-lane=a] .lens-lane-inactive") == "Block size 1."
    assert tab.locator("[data-lane=b] .lens-lane-inactive").is_hidden()
    assert tab.inner_text("[data-lane=b] .lens-lane-problem") == "No such checkpoint."
    play.feed(tab, stream.inactive("a", None))
    assert tab.locator("[data-lane=a] .lens-lane-inactive").is_hidden()


@pytest.mark.parametrize(
    ("width", "count", "beside"), [(1280, 2, True), (1280, 3, True), (1000, 3, False), (390, 3, False)]
)
def test_lanes_stand_side_by_side_where_there_is_room(
    mount: Mount, play: Any, width: int, count: int, beside: bool
) -> None:
    tab = mount(width, 844)
    families = {"a": "ar", "b": "masks", "c": "exact"}
    keys = list(families)[:count]
    play.start(tab, *(play.lane(key, families[key]) for key in keys))
    words, ghosts = [play.token(" word")] * 3, [["x", 0.5, "mask"]]
    for number in range(1, 60):
        play.feed(tab, *(play.passed(key, number, words, ghosts, threshold=0.9) for key in keys))
    tab.wait_for_selector("[data-lane=b] .lens-history-where:text-is('pass 59')")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [tab.locator(f"[data-lane={key}]").bounding_box() for key in keys]
    assert (boxes[0]["y"] == boxes[-1]["y"]) is beside  # type: ignore[index]
    for strip in tab.locator(".lens-counters").all():
        assert strip.evaluate("node => node.scrollWidth <= node.clientWidth")
    tab.evaluate("scrollTo(0, 700)")
    legend, counters = tab.locator(".lens-legend").bounding_box(), tab.locator(".lens-counters").first.bounding_box()
    assert legend is not None
    assert counters is not None
    assert legend["y"] + legend["height"] <= 844.5
    assert counters["y"] >= 0


def test_the_frame_of_a_lane_survives_the_way_gradio_puts_styles_in(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    frame = "node => ['Top', 'Right', 'Bottom', 'Left'].map(side => getComputedStyle(node)[`border${side}Width`])"
    assert tab.locator("[data-lane=a]").evaluate(frame) == ["4px", "1px", "1px", "1px"]


def test_the_counters_stick_below_the_knobs_that_are_in_the_page_now(mount: Mount, play: Any) -> None:
    tab = mount()
    tab.evaluate("""() => {
        const knobs = document.querySelector(".lens-controls");
        const later = knobs.cloneNode(true); // as Gradio does when it builds the page again
        later.style.height = "90px";
        knobs.replaceWith(later);
    }""")
    play.sample(tab)
    knobs = tab.locator(".lens-controls").bounding_box()
    assert knobs is not None
    expected = f"{knobs['height'] - 1:.0f}px"
    assert tab.locator(".lens-stage").evaluate("node => node.style.getPropertyValue('--lens-top')") == expected


@pytest.mark.parametrize("height", [900, 700, 450])
def test_a_run_brings_the_texts_into_view(mount: Mount, play: Any, height: int) -> None:
    tab = mount(1280, height)
    tab.evaluate("document.querySelector('.lens-controls').insertAdjacentHTML('beforebegin', '<p style=height:400px>')")
    tab.evaluate("document.querySelector('.staging').style.minHeight = '2000px'")
    play.sample(tab)
    knobs = tab.locator(".lens-controls").bounding_box()
    assert knobs is not None
    assert knobs["y"] == pytest.approx(0, abs=2)
    text = tab.locator(".lens-text").first.bounding_box()
    assert text is not None
    assert text["y"] < height
