"""What stands around the text of a lane: counters, the history of τ, a reason; and the lanes beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from app.compare import stream

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Mount = Callable[..., "Page"]
PLACES = """[...document.querySelectorAll('.lens-lane, .lens-token, .lens-board, .lens-lane-foot')].map(each => {
    const { top, left, height, width } = each.getBoundingClientRect();
    return [top, left, height, width];
})"""


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
    assert tab.locator(".lens-speedup").all_inner_texts() == ["", "1.70×\nthe speed of AR"]


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
    marks = tab.locator(".lens-turned").evaluate_all("all => all.map(each => each.dataset.turned)")
    assert marks == ["one token per pass"]  # the slider did not rest in between


def test_a_threshold_that_stays_has_no_history(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("a", "masks"))
    history = tab.locator(".lens-history")
    for number, threshold, shown in ((1, 0.9, False), (2, 0.9, False), (3, 0.8, True)):
        play.feed(tab, play.passed("a", number, [play.token("x")], threshold=threshold))
        lengths = f".lens-counter-lengths .lens-spoken:has-text('in {number} pass')"
        tab.wait_for_selector(lengths, state="attached")  # drawn in the same frame
        assert history.is_visible() is shown


def test_a_ratio_keeps_its_unit_beside_the_reason_of_an_end(mount: Mount, play: Any) -> None:
    tab = mount(1280)
    play.start(tab, *(play.lane(key, family) for key, family in zip("abc", ("ar", "masks", "exact"), strict=True)))
    play.feed(tab, *(play.passed(key, 1, [play.token("x")]) for key in "abc"))
    play.feed(tab, stream.speed_up({"b": 1.7, "c": 2.0}, "a"), stream.lane_end("b", "length", ""))
    tab.wait_for_selector("[data-lane=b] .lens-ending:has-text('length limit')")
    assert tab.inner_text("[data-lane=b] .lens-speedup").split() == ["1.70×", "AR"]
    assert tab.inner_text("[data-lane=c] .lens-speedup").split() == ["2.00×", "the", "speed", "of", "AR"]


def test_a_lane_says_why_it_is_inactive_and_why_it_cannot_write(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(
        tab,
        play.lane("a", "masks", texts={"inactive": "Block size 1."}),
        play.lane("b", "masks", problem="No such checkpoint."),
    )
    assert tab.inner_text("[data-lane=a] .lens-lane-inactive") == "Block size 1."
    assert tab.locator("[data-lane=b] .lens-lane-inactive").is_hidden()
    assert tab.inner_text("[data-lane=b] .lens-lane-problem") == "No such checkpoint."
    play.feed(tab, stream.Inactive(kind="inactive", lane="a", sentence=None))
    assert tab.locator("[data-lane=a] .lens-lane-inactive").is_hidden()


@pytest.mark.parametrize(
    ("width", "count", "beside"), [(1280, 2, True), (1280, 3, True), (1000, 3, False), (700, 3, False)]
)
def test_lanes_stand_side_by_side_where_there_is_room(
    mount: Mount, play: Any, width: int, count: int, beside: bool
) -> None:
    tab = mount(width, 844)
    families = {"a": "ar", "b": "masks", "c": "exact"}
    keys = list(families)[:count]
    play.start(tab, *(play.lane(key, families[key]) for key in keys))
    words, ghosts = [play.token(" word")] * 3, [play.token("x", 0.5, "mask")]
    for number in range(1, 60):
        threshold = 0.9 if number < 30 else 0.8
        play.feed(tab, *(play.passed(key, number, words, ghosts, threshold=threshold) for key in keys))
    tab.wait_for_selector("[data-lane=b] .lens-history-where:text-is('pass 59')")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [tab.locator(f"[data-lane={key}]").bounding_box() for key in keys]
    assert (boxes[0]["y"] == boxes[-1]["y"]) is beside  # type: ignore[index]
    for strip in tab.locator(".lens-counters").all():
        assert strip.evaluate("node => node.scrollWidth <= node.clientWidth")
    tab.evaluate("scrollTo(0, 700)")
    board, head = tab.locator(".lens-board").bounding_box(), tab.locator(".lens-lane-top").first.bounding_box()
    assert board is not None
    assert head is not None
    assert board["y"] + board["height"] <= 844.5
    assert head["y"] >= 0


def test_the_frame_of_a_lane_survives_the_way_gradio_puts_styles_in(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    frame = "node => ['Top', 'Right', 'Bottom', 'Left'].map(side => getComputedStyle(node)[`border${side}Width`])"
    assert tab.locator("[data-lane=a]").evaluate(frame) == ["3px", "1px", "1px", "1px"]


def test_the_heads_of_the_lanes_stick_below_the_knobs_that_are_in_the_page_now(mount: Mount, play: Any) -> None:
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


def test_on_a_phone_one_lane_is_in_view_and_the_baseline_is_a_bar(mount: Mount, play: Any) -> None:
    tab = mount(390, 844)
    play.sample(tab)
    tab.wait_for_selector(".lens-behind-said:text-is('AR: 2 tokens · this lane: 4')")
    assert tab.locator(".lens-behind").evaluate("node => node.style.getPropertyValue('--share')") == "0.500"
    lanes = "[...document.querySelectorAll('.lens-lane')]"
    shown = f"{lanes}.filter(each => each.checkVisibility()).map(each => each.dataset.lane)"
    assert tab.evaluate(shown) == ["b"]
    tab.get_by_role("button", name="AR", exact=True).click()
    assert tab.evaluate(shown) == ["a"]
    play.start(tab, play.lane("a", "ar"), play.lane("b", "masks"), identity="next")
    assert tab.evaluate(shown) == ["a"]


def test_a_slider_that_moves_leaves_one_mark_for_each_place_where_it_stops(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("b", "masks"))
    thresholds = [0.95] * 3 + [0.9, 0.85, 0.8, 0.7] + [0.7] * 6 + [0.75, 0.8] + [0.8] * 3
    for number, threshold in enumerate(thresholds, 1):
        play.feed(tab, play.passed("b", number, [play.token("x")], threshold=threshold))
    marks = tab.locator(".lens-turned").evaluate_all("all => all.map(each => [each.dataset.pass, each.dataset.turned])")
    assert marks == [["7", "τ 0.70"], ["15", "τ 0.80"]]


def test_the_exact_lane_says_what_its_passes_look_like_now(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("c", "exact"))
    play.feed(tab, {**play.passed("c", 1, [play.token("x")]), "phase": "verify", "columns": 1})
    tab.wait_for_selector(".lens-lane-doing:has-text('Now: no drafts, 1 position a pass')")
    play.feed(tab, {**play.passed("c", 2, [play.token("x")]), "phase": "verify", "columns": 7})
    tab.wait_for_selector(".lens-lane-doing:has-text('7 positions a pass (chosen by what each layout costs')")
    assert "drafts in a line" in tab.inner_text(".lens-lane-doing")
    play.feed(tab, {**play.passed("c", 3, [play.token("x")]), "phase": "verify", "columns": 9, "tree": True})
    tab.wait_for_selector(".lens-lane-doing:has-text('drafts in a tree, 9 positions a pass')")


def test_the_foot_of_the_exact_lane_does_not_move_when_its_first_pass_comes(mount: Mount, play: Any) -> None:
    tab = mount()
    play.start(tab, play.lane("a", "ar"), play.lane("b", "exact"))
    top = "document.querySelector('[data-lane=b] .lens-counters').getBoundingClientRect().top"
    before = tab.evaluate(top)
    play.feed(tab, play.passed("b", 1, [play.token("One")], phase="verify", decoder="self_speculative"))
    tab.wait_for_selector("[data-lane=b] .lens-lane-doing:not(:empty)")
    assert tab.evaluate(top) == before


def test_a_run_that_is_over_can_be_played_again_and_nothing_moves(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    play_button, time = tab.locator(".lens-play"), tab.locator(".lens-time")
    assert play_button.is_disabled()
    tab.wait_for_selector("[data-lane=b] .lens-lane-sum:has-text('2 passes')")  # the foot follows the text by a frame
    before = tab.evaluate(PLACES)
    play.finish(tab, "a", "b")
    assert tab.evaluate(PLACES) == before
    assert tab.locator(".lens-tick:not([d=''])").count() == 4
    time.fill("0")
    assert tab.locator(".lens-text .lens-pass.later").count() == 4
    assert tab.evaluate(PLACES) == before
    time.press("End")
    assert tab.locator(".lens-text .lens-pass.later").count() == 0
    play_button.click()
    tab.wait_for_selector(".lens-pass.later", state="attached")
    tab.wait_for_function("!document.querySelector('.lens-pass.later')")
    assert play_button.inner_text() == "Play"


def test_a_new_run_is_shown_to_its_end_and_the_reading_of_its_prompt_as_a_line(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    play.finish(tab, "a", "b")
    tab.locator(".lens-time").fill("300")
    play.start(tab, play.lane("a", "ar"), identity="second")
    play.feed(tab, {**play.passed("a", 1, [play.token("One")]), "seconds": 0.25, "at": 1.0})
    play.finish(tab, "a")
    assert tab.locator(".lens-time").input_value() == "1000"
    assert tab.locator(".lens-tick.prompt").get_attribute("d") == "M0 4h0.75000v2H0z"
