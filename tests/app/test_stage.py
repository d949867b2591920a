"""What the Compare tab draws of the messages that it gets: the stage alone in a real Chromium, without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from app import assets, stream

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

Mount = Callable[..., "Page"]
Message = dict[str, Any]

# The page puts style sheets in by the text of their rules, as Gradio does, in which some shorthands would be lost.
PAGE = """<!doctype html><html lang="en"><head><title>stage</title></head><body><div class="gradio-container">
<div class="contain"><div class="keeping"><div class="lens-keeper"></div></div><div class="lens-controls">knobs</div>
<div class="staging"><div class="lens-stage"></div></div></div></div><script>
const sheet = new CSSStyleSheet();
sheet.replaceSync(%s);
const style = document.createElement("style");
style.textContent = [...sheet.cssRules].map((rule) => rule.cssText).join("\\n");
document.head.append(style);
const mounted = (selector, body) => {
  const props = { value: "" };
  const watchers = [];
  const element = document.querySelector(selector);
  new Function("element", "props", "watch", "trigger", body)(element, props, (_, act) => watchers.push(act), () => {});
  return (text) => { props.value += text; watchers.forEach((act) => act()); };
};
window.told = [];
document.addEventListener("lens:counts", (event) => told.push(event.detail));
document.addEventListener("lens:step", (event) => { window.wish = event.detail; });
mounted(".keeping", %s);
window.feed = mounted(".staging", %s);
</script></body></html>"""


def quoted(text: str) -> str:
    return stream.line({"text": text})[len('{"text":') : -2]


@pytest.fixture
def mount(chromium: Browser) -> Iterator[Mount]:
    """`mount(width=1280)`: the stage, ready for `feed`; fails the test if a script does."""
    contexts, complaints = [], []
    page = PAGE % (
        quoted(assets.styles(*assets.STYLES)),
        quoted(assets.script("remember.js", "keeper.js")),
        quoted(assets.script(*assets.STAGE_SCRIPTS)),
    )

    def mount(width: int = 1280, height: int = 800, **options: Any) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, **{"reduced_motion": "reduce", **options}
        )
        contexts.append(context)
        context.route("**/*", lambda route: route.fulfill(body=page, content_type="text/html; charset=utf-8"))
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto("http://stage.test/")
        return tab

    yield mount
    for context in contexts:
        context.close()
    assert complaints == []


def lane(key: str, family: str, **more: Any) -> Message:
    decoder = {"ar": "autoregressive", "masks": "sliding_window", "exact": "self_speculative"}[family]
    titles = {"ar": "AR", "masks": "MARS", "exact": "MARS exact"}
    known = {"key": key, "family": family, "title": titles[family], "checkpoint": f"small-{family}", "decoder": decoder}
    return {**known, "note": "CPU", "hint": "Nothing yet.", "problem": None, "inactive": None, "choice": {}, **more}


def token(piece: str, score: float = 0.99, kind: str = "clean", *, ends: bool = False) -> list[Any]:
    return [piece, score, kind, ends, kind, [[piece, score], ["other", 0.0004]]]


def passed(key: str, number: int, tokens: Sequence[Any], ghosts: Sequence[Any] = (), **more: Any) -> Message:
    """One pass; the counts are those of passes that all accepted as many tokens."""
    count = len(tokens)
    lengths = [0] * (count - 1) + [number]
    counts: Message = {"tokens": count * number, "passes": number, "tokensPerForward": count, "seconds": 0.5 * number}
    counts |= {"tokensPerSecond": 2.0 * count, "shared": False, "lengths": lengths}
    known: Message = {"kind": "pass", "lane": key, "number": number, "start": count * (number - 1), "threshold": None}
    known |= {"window": count + len(ghosts), "phase": "decode", "tokens": list(tokens), "ghosts": list(ghosts)}
    return {**known, "refused": "threshold" if ghosts else None, "counts": counts, **more}


def feed(tab: Page, *messages: Message) -> None:
    tab.evaluate("text => feed(text)", "".join(map(stream.line, messages)))


def start(tab: Page, *lanes: Message, identity: str = "run") -> None:
    feed(tab, stream.opening(identity, lanes), stream.state("running", "They write."))


def finish(tab: Page, *keys: str) -> None:
    feed(tab, *(stream.lane_end(key, "stop", "") for key in keys), stream.state("done", "Done."))


def sample(tab: Page) -> None:
    """Two lanes, two passes each; that with masks rejects two proposals a pass."""
    start(tab, lane("a", "ar"), lane("b", "masks"))
    ghosts = [["ghost", 0.6, "mask"], [" two", 0.3, "mask"]]
    for number in (1, 2):
        two = [token("One"), token(" two", 0.97, "mask")]
        feed(tab, passed("a", number, [token("One")]), passed("b", number, two, ghosts, threshold=0.95))


def ghosts_shown(tab: Page) -> list[list[str]]:
    """The rejected proposals of each pass of lane b that are in view."""
    rows = tab.locator("[data-lane=b] .lens-pass + .lens-ghosts").all()
    shown = [[ghost for ghost in row.locator(".lens-ghost").all() if ghost.is_visible()] for row in rows]
    return [[ghost.get_attribute("data-piece") or "" for ghost in row] for row in shown]


def test_a_pass_is_a_band_whose_depth_is_its_number_of_tokens(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("b", "masks"))
    for number, count in enumerate((1, 2, 3, 4, 5, 6, 8, 9, 30), 1):
        feed(tab, passed("b", number, [token("x")] * count))
    shares = (
        "[...document.querySelectorAll('.lens-text .lens-pass')].map(pass => getComputedStyle(pass).backgroundColor)"
    )
    depths = tab.evaluate(shares)
    shown = [sorted(set(depths), key=depths.index).index(depth) for depth in depths]
    assert shown == [0, 1, 2, 3, 3, 4, 4, 5, 5]
    marks = (
        "[...document.querySelectorAll('.lens-text .lens-token')].map(each => getComputedStyle(each).borderLeftWidth)"
    )
    assert tab.evaluate(marks)[:6] == ["2px", "2px", "0px", "2px", "0px", "0px"]


def test_kinds_of_token_differ_in_shape_and_their_score_is_the_length_of_the_line(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("b", "masks"))
    feed(tab, passed("b", 1, [token("clean", 1.0), token("mask", 0.5, "mask"), token("draft", 0.5, "draft")]))
    look = "node => ['backgroundImage', 'backgroundSize'].map(name => getComputedStyle(node)[name])"
    looks = [each.evaluate(look) for each in tab.locator(".lens-text .lens-token").all()]
    assert len({image for image, _ in looks}) == 3
    assert "1 * (100% - 3px)" in looks[0][1] or looks[0][1].startswith("calc(100% - 3px)")
    assert all("50%" in size or "0.5 *" in size for _, size in looks[1:])


def test_entropy_is_surer_when_it_is_lower(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("b", "masks", choice={"score": "entropy"}))
    feed(tab, passed("b", 1, [token("sure", 0.0), token("unsure", 2.0, "mask")], threshold=2.5))
    sure = [
        each.evaluate("node => Number(node.style.getPropertyValue('--sure'))")
        for each in tab.locator(".lens-text .lens-token").all()
    ]
    assert sure == [1.0, 0.135]
    tab.locator(".lens-text .lens-token").last.hover()
    assert "Entropy 2.0000 nats · τ 2.50" in tab.inner_text(".lens-card")
    assert "its entropy is not above τ" in tab.inner_text(".lens-card")


def test_rejected_proposals_are_those_of_the_newest_pass_and_afterwards_the_first_of_each(mount: Mount) -> None:
    tab = mount()
    sample(tab)
    assert ghosts_shown(tab) == [[], ["ghost", "·two"]]
    assert tab.text_content("[data-lane=b] .lens-text") == "One twoOne two"
    finish(tab, "a", "b")
    assert ghosts_shown(tab) == [["ghost"], ["ghost"]]
    tab.locator("[data-lane=b] .lens-token").first.click()
    assert ghosts_shown(tab) == [["ghost", "·two"], ["ghost"]]
    assert tab.locator(".lens-ghosts:not([aria-hidden=true])").count() == 0


def test_the_switch_for_rejected_proposals_is_remembered(mount: Mount) -> None:
    tab = mount()
    for shown in (True, False):
        sample(tab)
        assert ghosts_shown(tab) == [[], ["ghost", "·two"] if shown else []]
        tab.get_by_role("switch", name="Show rejected proposals").click()
        assert ghosts_shown(tab) == [[], [] if shown else ["ghost", "·two"]]
        tab.reload()
    assert tab.get_by_role("switch").is_checked()


def test_a_token_opens_a_card_with_what_else_was_likely(mount: Mount) -> None:
    tab = mount()
    sample(tab)
    tab.locator("[data-lane=b] .lens-pass").first.locator(".lens-token").last.hover()
    card = tab.locator(".lens-card")
    assert card.locator("p").all_inner_texts() == [
        "Pass 1 · position 2 of 4",
        "Score 0.9700 · τ 0.95",
        "Read from masks; kept because its score reached τ. The pass ends here: “ghost” had 0.6000 < τ.",
    ]
    assert [item.split() for item in card.locator("li").all_inner_texts()] == [
        ["·two", "0.970"],
        ["other", "<", "0.001"],
    ]
    assert card.locator("li.said").inner_text().startswith("·two")
    wide, narrow = (
        item.evaluate("node => getComputedStyle(node).getPropertyValue('--share')") for item in card.locator("li").all()
    )
    assert (wide, narrow) == ("97%", "0.04%")
    tab.mouse.move(0, 0)
    assert card.is_hidden()


@pytest.mark.parametrize(
    ("family", "refused", "more", "reasons"),
    [
        (
            "masks",
            "threshold",
            {"threshold": 0.9},
            ("Refused: its score does not reach τ.", "Behind a refused proposal: acceptance goes from left to right."),
        ),
        ("masks", None, {}, ("Refused: one token per pass is in force.",) * 2),
        ("masks", "end", {"threshold": 0.9}, ("Not needed: the turn had ended before it.",) * 2),
        ("masks", "limit", {"threshold": 0.9}, ("Not needed: the length limit was reached before it.",) * 2),
        (
            "exact",
            "draft",
            {},
            (
                "Refused: it read a draft that is not what the model itself says.",
                "Kept as a draft: the next pass verifies it.",
            ),
        ),
    ],
    ids=["threshold", "one-token", "end", "limit", "draft"],
)
def test_a_rejected_proposal_says_why(
    mount: Mount, family: str, refused: str | None, more: Message, reasons: tuple[str, str]
) -> None:
    tab = mount()
    start(tab, lane("b", family))
    ghosts = [["no", 0.5, "draft" if refused == "draft" else "mask"], ["nor this", 0.99, "mask"]]
    feed(tab, passed("b", 1, [token("yes")], ghosts, refused=refused, **more))
    for place, reason in enumerate(reasons):
        tab.locator(".lens-text .lens-ghost").nth(place).click()
        assert tab.inner_text(".lens-card-where") == f"Pass 1 · position {place + 2} of 3 · not accepted"
        assert tab.inner_text(".lens-card-reason") == reason
        assert tab.locator(".lens-alternatives").is_hidden()


def test_arrow_keys_walk_through_tokens_and_the_rejected_that_are_shown(mount: Mount) -> None:
    tab = mount()
    sample(tab)
    tab.focus("[data-lane=b] .lens-text")
    walked = []
    for key in ["Home", *["ArrowRight"] * 7]:
        tab.keyboard.press(key)
        walked.append(tab.inner_text(".lens-card-where"))
    places = [(number, place) for number in (1, 2) for place in (1, 2, 3, 4)]
    assert walked == [f"Pass {one} · position {two} of 4" + " · not accepted" * (two > 2) for one, two in places]
    assert tab.evaluate("document.activeElement.closest('[aria-hidden=true]')") is None
    tab.keyboard.press("Home")
    assert tab.locator(".lens-ghosts:not([aria-hidden=true])").count() == 0
    tab.keyboard.press("Escape")
    assert tab.locator(".lens-card").is_hidden()
    tab.get_by_role("switch").click()
    tab.focus("[data-lane=b] .lens-text")
    tab.keyboard.press("End")
    assert tab.inner_text(".lens-card-where") == "Pass 2 · position 2 of 4"


def test_a_tapped_token_leads_to_step_through_once_the_run_is_over(mount: Mount) -> None:
    tab = mount()
    sample(tab)
    tab.locator("[data-lane=b] .lens-token").last.click()
    assert tab.locator(".lens-card-step").is_hidden()
    finish(tab, "a", "b")
    tab.locator("[data-lane=b] .lens-token").first.click()
    tab.click(".lens-card-step")
    assert tab.evaluate("window.wish") == {"run": "run", "lane": "b", "number": 1}


@pytest.mark.parametrize("way", ["hover", "focus", "click"])
def test_a_counter_says_its_formula(mount: Mount, way: str) -> None:
    tab = mount()
    sample(tab)
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


def test_counters_and_speed_up(mount: Mount) -> None:
    tab = mount()
    sample(tab)
    feed(tab, stream.speed_up({"b": 1.704}, "a"))
    assert tab.locator("[data-lane=b] dd").all_inner_texts()[:6] == ["4", "2", "2.00", "1.00", "4", "1.70×"]
    assert tab.locator("[data-counter=speedup]").all_inner_texts() == ["1.00×", "1.70×"]
    assert tab.locator(".lens-speedup").all_inner_texts() == ["1.70×\nMARS over AR, in tokens per second"]


def test_acceptance_lengths_are_bars_and_words(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("b", "masks"))
    message = passed("b", 10, [token("x")])
    message["counts"]["lengths"] = [2, 4, 0, 1, 0, 0, 0, 0, 0, 3]
    feed(tab, message)
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


def test_the_history_of_the_threshold_has_a_step_for_each_change(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("a", "ar"), lane("b", "masks"))
    for number, threshold in enumerate((0.95, 0.95, 0.7, None), 1):
        feed(tab, passed("a", number, [token("x")]), passed("b", number, [token("x")], threshold=threshold))
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


def test_first_differences_are_marked_in_every_lane(mount: Mount) -> None:
    tab = mount(1600)
    start(tab, lane("a", "ar"), lane("b", "masks"), lane("c", "exact"))
    for key in "abc":
        feed(tab, passed(key, 1, [token("zero"), token("one"), token("two")]))
    feed(tab, stream.difference({"a": 1, "b": 2}, "a"), stream.same(["a", "c"]))
    marked = tab.locator(".lens-text .differs").evaluate_all(
        "all => all.map(each => [each.textContent, each.dataset.differs])"
    )
    assert marked == [["one", "B"], ["two", "A"]]
    assert (
        tab.inner_text(".lens-parting") == "B and A first differ at token 2 of A, 3 of B. C and A wrote the same text."
    )
    feed(tab, stream.verdict("a", right=True), stream.verdict("b", right=False))
    assert tab.locator(".lens-badge").all_inner_texts() == ["✓ right", "× wrong", ""]


def test_a_lane_says_why_it_is_inactive_and_why_it_cannot_write(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("a", "masks", inactive="Block size 1."), lane("b", "masks", problem="No such checkpoint."))
    assert tab.inner_text("[data-lane=a] .lens-lane-inactive") == "Block size 1."
    assert tab.locator("[data-lane=b] .lens-lane-inactive").is_hidden()
    assert tab.inner_text("[data-lane=b] .lens-lane-problem") == "No such checkpoint."
    feed(tab, stream.inactive("a", None))
    assert tab.locator("[data-lane=a] .lens-lane-inactive").is_hidden()


def test_word_of_the_counts_goes_round_once_for_many_updates_and_the_keeper_has_the_last(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("a", "ar"), lane("b", "masks", choice={"block_size": 8}))
    tab.wait_for_timeout(600)  # until a beat is over
    updates = [stream.line(passed("b", number, [token("x")], threshold=0.9)) for number in range(1, 41)]
    tab.evaluate("texts => { told.length = 0; texts.forEach(feed); }", updates)
    tab.wait_for_function("told.length > 0")
    finish(tab, "a", "b")
    tab.wait_for_timeout(600)
    told = tab.evaluate("told")
    assert [(each["lane"], each["counts"]["passes"]) for each in told] == [("b", 40)]
    live = tab.evaluate("[...document.querySelector('.lens-keeper').keeper.live]")
    assert live == [["b", told[0]]]
    assert told[0]["settings"] == {"block_size": 8}
    assert (told[0]["run"], told[0]["family"], told[0]["threshold"]) == ("run", "masks", 0.9)
    start(tab, lane("a", "ar"), identity="next")
    feed(tab, passed("a", 1, [token("x")]))
    tab.wait_for_function("[...document.querySelector('.lens-keeper').keeper.live.keys()].join() === 'a'")


def test_streaming_only_appends_and_measures_nothing(mount: Mount) -> None:
    tab = mount()
    start(tab, lane("a", "ar"), lane("b", "masks"), lane("c", "exact"))
    tab.evaluate(
        """() => {
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
        }"""
    )
    for number in range(1, 30):
        ghosts = [["ghost", 0.6, "mask"]]
        feed(tab, *(passed(key, number, [token("x")] * 3, ghosts, threshold=0.9) for key in "abc"))
    tab.wait_for_timeout(600)
    assert tab.evaluate("[read, removed]") == [[], 0]
    assert tab.locator("[data-lane=c] .lens-text .lens-token").count() == 87


def test_markup_stays_text_in_tokens_ghosts_and_cards(mount: Mount) -> None:
    tab = mount()
    evil = "<img src=x onerror=\"document.title='gone'\"><b>bold</b>"
    start(tab, lane("b", "masks", title=evil, inactive=evil))
    feed(tab, passed("b", 1, [token(evil), token(evil, 0.9, "mask")], [[evil, 0.5, "mask"]], threshold=0.8))
    tab.locator(".lens-text .lens-token").last.hover()
    assert tab.text_content(".lens-text") == evil * 2
    assert tab.locator(".lens-stage :is(img, b, script)").count() == 0
    assert tab.title() == "stage"


@pytest.mark.parametrize(
    ("width", "count", "beside"), [(1280, 2, True), (1280, 3, True), (1000, 3, False), (390, 3, False)]
)
def test_lanes_stand_side_by_side_where_there_is_room(mount: Mount, width: int, count: int, beside: bool) -> None:
    tab = mount(width, 844)
    start(tab, *(lane(key, family) for key, family in list(zip("abc", ("ar", "masks", "exact"), strict=True))[:count]))
    for number in range(1, 60):
        feed(
            tab,
            *(passed(key, number, [token(" word")] * 3, [["x", 0.5, "mask"]], threshold=0.9) for key in "abc"[:count]),
        )
    tab.wait_for_timeout(400)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [tab.locator(f"[data-lane={key}]").bounding_box() for key in "abc"[:count]]
    assert (boxes[0]["y"] == boxes[-1]["y"]) is beside  # type: ignore[index]
    for strip in tab.locator(".lens-counters").all():
        assert strip.evaluate("node => node.scrollWidth <= node.clientWidth")
    tab.evaluate("scrollTo(0, 700)")
    legend, counters = tab.locator(".lens-legend").bounding_box(), tab.locator(".lens-counters").first.bounding_box()
    assert legend is not None
    assert counters is not None
    assert legend["y"] + legend["height"] <= 844.5
    assert counters["y"] >= 0


def test_the_frame_of_a_lane_survives_the_way_gradio_puts_styles_in(mount: Mount) -> None:
    tab = mount()
    sample(tab)
    frame = "node => ['Top', 'Right', 'Bottom', 'Left'].map(side => getComputedStyle(node)[`border${side}Width`])"
    assert tab.locator("[data-lane=a]").evaluate(frame) == ["4px", "1px", "1px", "1px"]


def test_passes_arrive_without_motion_which_would_draw_the_page_sixty_times_a_second(mount: Mount) -> None:
    tab = mount(reduced_motion="no-preference")
    sample(tab)
    names = tab.locator("[data-lane=b] .lens-text .lens-pass").evaluate_all(
        "all => all.map(each => getComputedStyle(each).animationName)"
    )
    assert names == ["none", "none"]
