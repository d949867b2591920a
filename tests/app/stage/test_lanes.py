"""What stands around the text of a lane, lanes beside each other, and what a growing text costs the page."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from app.compare import stream

pytestmark = pytest.mark.browser

Mount = Callable[..., Page]
FAMILIES = {"a": "ar", "b": "masks", "c": "exact"}
PLACES = """[...document.querySelectorAll('.lens-lane, .lens-token, .lens-board, .lens-lane-foot')].map(each => {
    const { top, left, height, width } = each.getBoundingClientRect();
    return [top, left, height, width];
})"""

# What the stage draws behind its text comes at most a quarter of a second and a frame later.
DRAWN = """value.set("").then(() => new Promise(drawn => setTimeout(() => requestAnimationFrame(drawn), 300)))"""


def start(tab: Page, play: Any, keys: str = "abc", **more: Any) -> None:
    play.start(tab, *(play.lane(key, FAMILIES[key]) for key in keys), **more)


def test_cost_of_a_pass_stands_beside_ar(mount: Mount, play: Any) -> None:
    tab = mount()
    start(tab, play, "ab")
    slow = [{**play.passed("b", number, [play.token("x")]), "seconds": 0.6, "at": 0.6 * number} for number in (1, 2)]
    play.feed(tab, *(play.passed("a", number, [play.token("x")]) for number in (1, 2)), *slow)
    said = tab.locator("[data-lane=b] .lens-cost-said")
    said.wait_for()
    assert "A pass takes 600 ms, AR's 500 ms. Once the prompt is read, a pass of more than 1.20" in said.inner_text()
    assert tab.locator("[data-lane=a] .lens-cost").is_hidden()


def test_copied_tokens_are_called_copied(mount: Mount, play: Any) -> None:
    tab = mount()
    start(tab, play, "ac")
    tokens = [play.token("x"), play.token("y", 0.9, "copy")]
    play.feed(tab, play.passed("c", 1, tokens, phase="verify", decoder="self_speculative"))
    tab.wait_for_selector("[data-lane=c] .lens-lane-note:has-text('1 copied from the text')")


def test_acceptance_by_place_is_bars_and_words(mount: Mount, play: Any) -> None:
    tab = mount()
    start(tab, play, "b")
    tokens = [play.token("x"), play.token("y", source="mask")]
    play.feed(tab, play.passed("b", 1, tokens), play.passed("b", 2, tokens[:1], play.ghosts))
    words = "1: 100 % of 2, 2: 50 % of 2, 3: 0 % of 1"
    tab.locator(".lens-counter-places .lens-spoken", has_text=words).wait_for(state="attached")
    shares = tab.locator(".lens-place").evaluate_all("all => all.map(each => each.style.getPropertyValue('--share'))")
    assert [float(share) for share in shares] == [1, 0.5, 0, 0]


def test_a_lane_with_another_model_has_no_ratio(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    play.feed(tab, stream.SpeedUp(kind="speedup", ratios={"b": None}, baseline="a"))
    tab.wait_for_selector("[data-lane=b] .lens-lane-note:has-text('No ratio: this model has another size')")
    assert tab.inner_text("[data-lane=b] .lens-ratio") == "–"
    assert tab.locator("[data-lane=b] .lens-cost").is_hidden()


def test_first_differences_are_marked_and_named(mount: Mount, play: Any) -> None:
    tab = mount(1600)
    start(tab, play)
    for key in "abc":
        play.feed(tab, play.passed(key, 1, [play.token("zero"), play.token("one"), play.token("two")]))
    play.feed(
        tab,
        stream.Difference(kind="difference", tokens={"a": 1, "b": 2}, baseline="a"),
        stream.Same(kind="same", lanes=["a", "c"]),
        stream.Correctness(kind="verdict", lane="b", right=False),
        stream.state("done", "Done."),
    )
    marked = "all => all.map(each => [each.textContent, each.dataset.differs])"
    assert tab.locator(".lens-text .differs").evaluate_all(marked) == [["one", "B"], ["two", "A"]]
    parting = "B and A first differ at token 2 of A, 3 of B: other weights. C and A wrote the same text."
    assert tab.text_content(".lens-parting") == parting
    assert tab.locator(".lens-badge").all_inner_texts() == ["", "× wrong", ""]


def test_an_exact_lane_differs_by_its_weights(mount: Mount, play: Any) -> None:
    tab = mount()
    start(tab, play, "ac")
    play.feed(
        tab, stream.Difference(kind="difference", tokens={"a": 0, "c": 0}, baseline="a"), stream.state("done", ".")
    )
    expected = "Texts first differ at token 1: other weights."
    assert tab.text_content(".lens-parting") == expected


def test_a_lane_says_why_it_is_slow(mount: Mount, play: Any) -> None:
    tab = mount()
    inactive = play.lane("a", "masks", texts={"inactive": "Block size 1."})
    play.start(tab, inactive, play.lane("b", "masks", problem="No such checkpoint."))
    assert tab.inner_text("[data-lane=a] .lens-lane-inactive") == "Block size 1."
    assert tab.inner_text("[data-lane=b] .lens-lane-problem") == "No such checkpoint."


@pytest.mark.parametrize(("width", "large"), [(1280, False), (1024, False), (1024, True), (880, False)])
def test_three_lanes_stand_side_by_side(mount: Mount, play: Any, width: int, large: bool) -> None:
    tab = mount(width, 768)
    tab.evaluate("large => document.documentElement.classList.toggle('lens-projector', large)", large)
    start(tab, play)
    words, ghosts = [play.token(" word")] * 3, [play.token("x", 0.5, "mask")]
    for number in range(1, 60):
        play.feed(tab, *(play.passed(key, number, words, ghosts, threshold=0.9) for key in "abc"))
    tab.wait_for_selector("[data-lane=b] .lens-cost-said")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [tab.locator(f"[data-lane={key}]").bounding_box() for key in "abc"]
    assert len({box["y"] for box in boxes if box}) == 1
    fits = "node => node.clientWidth / parseFloat(getComputedStyle(node).fontSize) / 0.6 >= 22"
    assert tab.locator("[data-lane=c] .lens-text").evaluate(fits)
    tab.evaluate("document.querySelector('.lens-lanes').classList.add('lens-recorded')")
    assert tab.locator("[data-lane=b] .lens-speedup").is_visible() != large, "a figure without its unit"
    tab.evaluate("scrollTo(0, 700)")
    parts = ".lens-controls", ".lens-lane-top", ".lens-board"
    bar, head, board = (tab.locator(part).first.bounding_box() for part in parts)
    assert None not in (bar, head, board)
    assert board["y"] + board["height"] <= 768.5
    assert head["y"] == pytest.approx(bar["y"] + bar["height"], abs=1)


def test_frames_survive_how_gradio_puts_styles_in(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    frame = "node => ['Top', 'Right', 'Bottom', 'Left'].map(side => getComputedStyle(node)[`border${side}Width`])"
    assert tab.locator("[data-lane=a]").evaluate(frame) == ["3px", "1px", "1px", "1px"]


def test_a_moving_slider_leaves_marks_where_it_stops(mount: Mount, play: Any) -> None:
    tab = mount()
    start(tab, play, "b")
    thresholds = [0.95] * 3 + [0.9, 0.85, 0.8, 0.7] + [0.7] * 6 + [0.75, 0.8] + [0.8] * 3
    for number, threshold in enumerate(thresholds, 1):
        play.feed(tab, play.passed("b", number, [play.token("x")], threshold=threshold))
    marks = tab.locator(".lens-turned").evaluate_all("all => all.map(each => [each.dataset.pass, each.dataset.turned])")
    assert marks == [["7", "τ 0.70"], ["15", "τ 0.80"]]
    assert tab.inner_text(".lens-lane-tau") == "τ 0.80"
    play.feed(tab, play.passed("b", len(thresholds) + 1, [play.token("x")], threshold=None))
    assert tab.inner_text(".lens-lane-tau") == "one token per pass"


def test_a_finished_run_plays_again_and_nothing_moves(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    play_button, time = tab.locator(".lens-play"), tab.locator(".lens-time")
    assert play_button.is_disabled()
    tab.wait_for_selector("[data-lane=b] .lens-cost-said")  # the foot follows the text by a frame
    before = tab.evaluate(PLACES)
    play.finish(tab, "a", "b")
    assert tab.evaluate(PLACES) == before
    assert tab.locator(".lens-tick:not([d=''])").count() == 4
    time.fill("0")
    assert tab.locator(".lens-text .lens-pass.later").count() == 4
    assert not tab.locator(".lens-ending").first.is_visible(), "the end is not yet"
    assert tab.evaluate(PLACES) == before
    tab.evaluate(DRAWN)
    assert tab.evaluate(PLACES) == before
    time.press("End")
    assert tab.locator(".lens-text .lens-pass.later").count() == 0
    play_button.click()
    tab.wait_for_selector(".lens-pass.later", state="attached")
    tab.wait_for_function("!document.querySelector('.lens-pass.later')")
    assert play_button.inner_text() == "Play"


def test_a_new_run_draws_its_prompt(mount: Mount, play: Any) -> None:
    tab = mount()
    play.sample(tab)
    play.finish(tab, "a", "b")
    tab.locator(".lens-time").fill("300")
    start(tab, play, "a", identity="second")
    play.feed(tab, {**play.passed("a", 1, [play.token("One")]), "seconds": 0.25, "at": 1.0})
    play.finish(tab, "a")
    assert tab.locator(".lens-time").input_value() == "1000"
    tab.wait_for_selector(".lens-tick.prompt[d='M0 4h0.75000v2H0z']", state="attached")


WATCH = """() => {
    window.read = [];
    const watch = (type, name) => {
        const { get, value } = Object.getOwnPropertyDescriptor(type.prototype, name);
        const noted = function (...rest) { read.push(name); return (get ?? value).apply(this, rest); };
        Object.defineProperty(type.prototype, name, get ? { get: noted } : { value: noted });
    };
    for (const name of ["offsetTop", "offsetHeight", "offsetWidth", "offsetParent"]) watch(HTMLElement, name);
    for (const name of ["getBoundingClientRect", "getClientRects", "clientWidth"]) watch(Element, name);
    window.removed = 0;
    const count = (changes) => changes.forEach((change) => { removed += change.removedNodes.length; });
    const observer = new MutationObserver(count);
    const watched = { childList: true, subtree: true };
    document.querySelectorAll(".lens-text").forEach((text) => observer.observe(text, watched));
    window.changed = [];
    const classes = new MutationObserver((all) => changed.push(...all.map(({ target }) => target.className)));
    for (let node = document.querySelector(".lens-text"); node; node = node.parentElement) {
        classes.observe(node, { attributeFilter: ["class"] });
    }
}"""


def test_streaming_only_appends_and_measures_nothing(mount: Mount, play: Any) -> None:
    tab = mount(reduced_motion="no-preference")
    play.start(tab, play.lane("a", "ar"), play.lane("b", "masks"), play.lane("c", "exact"))
    tab.evaluate(WATCH)
    for number in range(1, 30):
        ghosts = [play.token("ghost", 0.6, "mask")]
        play.feed(tab, *(play.passed(key, number, [play.token("x")] * 3, ghosts, threshold=0.9) for key in "abc"))
    tab.wait_for_timeout(600)
    assert tab.evaluate("[read, removed]") == [[], 0]
    assert tab.locator("[data-lane=c] .lens-text .lens-token").count() == 87
    moving = "all => all.map(each => getComputedStyle(each).animationName)"
    assert set(tab.locator(".lens-text .lens-pass").evaluate_all(moving)) == {"none"}
    play.finish(tab, "a", "b", "c")
    tab.wait_for_selector("[data-state=done]")
    assert tab.evaluate("changed") == [], "no class around a text"
