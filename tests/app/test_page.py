"""The page in a real Chromium. `visit` also fails a test whose page logs an error or asks another host."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page

from app.compare.lane import Lane
from mars.metrics import COUNTED, Tally
from tests.app.driving import begin, choose, finish, run, set_pace

Visit = Callable[..., Page]
pytestmark = pytest.mark.browser
LANES = "abc"  # as many as fit beside each other at the width of most of these visits

GROUPS = """lane => [...document.querySelectorAll(`[data-lane=${lane}] .lens-pass`)].map(group => ({
    pass: Number(group.dataset.pass),
    threshold: group.dataset.threshold,
    tokens: [...group.querySelectorAll('.lens-token')].map(token => token.textContent),
    kinds: [...group.querySelectorAll('.lens-token')].map(token => token.classList.contains('first')),
}))"""


def passes(tab: Page, lane: str) -> int:
    return tab.locator(f"[data-lane={lane}] .lens-pass").count()


def wait_for_passes(tab: Page, lane: str, count: int) -> None:
    tab.wait_for_function(
        "([key, n]) => document.querySelectorAll(`[data-state=running] [data-lane=${key}] .lens-pass`).length >= n",
        arg=[lane, count],
    )


def status(tab: Page) -> str:
    return tab.locator(".lens-status[role=status]").inner_text()


def move_slider(tab: Page, threshold: str) -> None:
    tab.fill("#threshold input[type=range]", threshold)


@pytest.fixture(scope="module")
def bench(served: Any, visit_once: Visit) -> Page:
    """A page for tests that run it themselves and leave its settings as they were."""
    return visit_once(served.url)


def test_the_page_loads_with_problem_and_lanes(bench: Page, example: Any) -> None:
    tab = bench
    assert tab.title() == "MARS Lens"
    assert tab.input_value("#prompt textarea") == example.prompt
    assert tab.inner_text("#known-answer") == f"Known answer\n{example.answer}"
    assert not tab.is_visible("#models"), "one pair leaves no choice"
    assert not tab.is_visible("#follow")
    assert not tab.is_visible(".lens-models")
    assert tab.locator(".lens-lane-about").all_inner_texts() == [
        "ar · AR · CPU",
        "mars · MARS, threshold, block size 8, as many masks as pay, so runs may differ · CPU",
        "mars · MARS, exact, block size 8, drafts with masks behind likely drafts · CPU",
    ]


def test_all_lanes_stream_at_the_same_time(bench: Page) -> None:
    tab = bench
    begin(tab, "Readable")
    for lane in LANES:
        wait_for_passes(tab, lane, 2)
    early = {lane: passes(tab, lane) for lane in LANES}
    assert tab.locator("[data-state=running]").count() == 1
    set_pace(tab, "Real time")
    finish(tab)
    assert all(passes(tab, lane) > early[lane] for lane in LANES)


def test_the_ends_of_long_texts_stay_in_view(bench: Page) -> None:
    tab = bench
    tab.set_viewport_size({"width": 1024, "height": 490})
    begin(tab, "Readable")
    finish(tab)
    assert tab.evaluate("scrollY") > 0
    tab.evaluate("scrollTo(0, document.body.scrollHeight); document.activeElement.blur()")
    tab.keyboard.press("r")  # far below where texts begin
    tab.wait_for_function("document.querySelector('[data-lane=b] .lens-token')?.getBoundingClientRect().top > 0")
    set_pace(tab, "Real time")
    finish(tab)
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.evaluate("window.scrollTo(0, 0)")


def test_bands_and_counters_are_those_of_records(served: Any, bench: Page) -> None:
    tab, lanes = bench, served.last_run()
    for lane in lanes:
        rows = [record.rows[0] for record in lane.records if record.phase in COUNTED]
        groups = tab.evaluate(GROUPS, lane.key)
        assert [group["pass"] for group in groups] == list(range(1, len(rows) + 1))
        assert [len(group["tokens"]) for group in groups] == [row.accepted for row in rows]
        assert "".join(token for group in groups for token in group["tokens"]) == lane.text
        assert all(group["kinds"] == [True] + [False] * (len(group["kinds"]) - 1) for group in groups)
        tally = Tally.of(lane.records)
        shown = tab.locator(f"[data-lane={lane.key}] dd[data-counter]").all_inner_texts()
        assert shown[0] == str(tally.tokens)
        assert float(shown[1]) == pytest.approx(tally.tokens_per_forward, abs=0.0051)
        assert float(shown[3].replace(",", "")) == pytest.approx(tally.tokens_per_second, abs=0.51)
        passes, seconds = tab.inner_text(f"[data-lane={lane.key}] .lens-lane-sum").split(" · ")
        assert passes.startswith(f"{tally.passes} pass")
        assert float(seconds.removesuffix(" s")) == pytest.approx(tally.seconds, abs=0.0051)
    ar, *others = (SimpleNamespace(records=lane.records, tally=Tally.of(lane.records)) for lane in lanes)
    ratios = [float(ratio.rstrip("×")) for ratio in tab.locator(".lens-ratio").all_inner_texts()]
    assert ratios == [pytest.approx(Lane.speed_over(other, ar), abs=0.0056) for other in others]


def test_verdicts_and_first_differences_are_marked(bench: Page) -> None:
    assert bench.locator(".lens-badge").all_inner_texts() == ["✓ right", "× wrong", "× wrong"]
    marked = [bench.locator(f"[data-lane={lane}] .lens-token.differs").inner_text() for lane in LANES]
    assert marked == ["5", "4", "4"]
    assert "B and A first differ at token " in bench.inner_text(".lens-parting")


def test_a_slider_acts_on_later_passes_only(served: Any, bench: Page) -> None:
    tab = bench
    begin(tab, "Slow")
    wait_for_passes(tab, "b", 2)
    before = tab.evaluate(GROUPS, "b")
    move_slider(tab, "0.7")
    tab.wait_for_selector("[data-lane=b] [data-threshold='0.7']")
    move_slider(tab, "1")
    tab.wait_for_selector("[data-lane=b] [data-threshold=none]")
    assert tab.inner_text("#threshold-reading strong") == "one token per pass"
    set_pace(tab, "Real time")
    finish(tab)
    after = tab.evaluate(GROUPS, "b")
    assert after[: len(before)] == before
    assert {group["threshold"] for group in before} == {"0.95"}
    lane = served.last_run()[1]
    recorded = [r.rows[0].threshold for r in lane.records if r.phase == "decode"]
    assert [None if g["threshold"] == "none" else float(g["threshold"]) for g in after] == recorded
    assert recorded[-1] is None
    assert all(len(group["tokens"]) == 1 for group in after if group["threshold"] == "none")
    assert max(len(group["tokens"]) for group in after if group["threshold"] == "0.7") > 3
    assert {group["threshold"] for group in tab.evaluate(GROUPS, "a")} == {"none"}
    move_slider(tab, "0.95")


def test_stop_works_and_another_run_starts(bench: Page) -> None:
    tab = bench
    begin(tab, "Slow")
    wait_for_passes(tab, "b", 2)
    assert all(tab.is_disabled(start) for start in ("#follow", "#sweep-run", "#board-score"))
    tab.click("#stop")
    finish(tab, "stopped")
    stopped = passes(tab, "a")
    tab.wait_for_function("document.activeElement.id === 'run'")
    assert status(tab) == "Stopped."
    assert tab.locator(".lens-ending").all_inner_texts() == ["stopped"] * 3
    assert tab.locator(".lens-badge").all_inner_texts() == [""] * 3
    run(tab)
    assert 2 * stopped < passes(tab, "a")


def test_a_follow_up_goes_on_in_every_lane(served: Any, bench: Page) -> None:
    tab = bench
    run(tab)
    first = {lane.key: lane.text for lane in served.last_run()}
    assert not tab.is_visible("#stop")
    tab.fill("#prompt textarea", "Now shorter, please")
    tab.wait_for_timeout(800)  # who meant Stop does not press it
    tab.click("#follow")
    tab.wait_for_selector(".lens-earlier")
    finish(tab)
    for lane in LANES:
        before = tab.locator(f"[data-lane={lane}] .lens-earlier")
        assert before.locator("summary").inner_text().startswith("Question 2 · after “")
        assert before.locator("p").last.text_content() == first[lane]
    tab.evaluate("scrollTo(0, 200)")
    tab.click(".lens-step-through")
    tab.wait_for_selector(".step-asked summary")
    assert tab.inner_text(".step-asked summary") == "Question 2: Now shorter, please"
    assert tab.evaluate("scrollY") == 0
    tab.click("#tab-compare-button")
    run(tab)
    assert tab.locator(".lens-earlier").count() == 0


def test_two_people_run_and_steer_on_their_own(served: Any, bench: Page, visit: Visit) -> None:
    first, second = bench, visit(served.url)
    begin(first, "Slow")
    begin(second, "Slow")
    wait_for_passes(first, "b", 1)
    wait_for_passes(second, "b", 1)
    move_slider(first, "0.75")
    move_slider(second, "1")
    first.wait_for_selector("[data-lane=b] [data-threshold='0.75']")
    second.wait_for_selector("[data-lane=b] [data-threshold=none]")
    for tab in (first, second):
        set_pace(tab, "Real time")
        finish(tab)
    seen = [{group["threshold"] for group in tab.evaluate(GROUPS, "b")} for tab in (first, second)]
    assert "none" not in seen[0]
    assert "0.75" not in seen[1]
    assert first.inner_text("[data-lane=a] .lens-text") == second.inner_text("[data-lane=a] .lens-text")
    move_slider(first, "0.95")


def test_markup_and_control_tokens_stay_text(served: Any, bench: Page) -> None:
    tab = bench
    choose(tab, "lane-b-checkpoint", "markup")
    hostile = "<script>document.title='gone'</script><img src=x onerror=alert(1)><|im_end|><|mask|><b>x</b>"
    tab.fill("#prompt textarea", hostile + "{{value}}${value}")
    run(tab)
    assert tab.title() == "MARS Lens"
    text = tab.locator("[data-lane=b] .lens-text")
    assert text.locator("script, img, b").count() == 0
    assert text.text_content() == served.last_run()[1].text
    assert "<script>document.title = 'gone'</script>" in text.text_content()
    assert "😀" in text.text_content()
    tab.click(".lens-step-through")
    tab.click(".step-lane[data-lane=b]")
    tab.keyboard.press("End")
    assert tab.locator(".step :is(script, img, b b)").count() == 0
    assert "<script>document.title = 'gone'</script>" in (tab.locator(".step-passage").text_content() or "")
    assert "😀" in (tab.locator(".step-passage").text_content() or "")
    assert tab.title() == "MARS Lens"
    tab.click("#tab-compare-button")
    choose(tab, "lane-b-checkpoint", "mars")
    tab.wait_for_selector(".lens-answers:has-text('with other settings')")


def test_what_cannot_run_gets_a_sentence(bench: Page) -> None:
    tab = bench
    set_pace(tab, "Real time")
    prompt, limit = "#prompt textarea", "#limit input"
    usual = {prompt: "How many sheep?", limit: tab.input_value(limit)}
    allowed = "The length limit must be a whole number between 16 and 512."
    for field, value, sentence in (
        (prompt, "", "The prompt is empty."),
        (limit, "64.5", allowed),
        (prompt, "x" * 100_000, "The prompt has 100,000 characters; at most 20,000 are read."),
        (limit, "5000", allowed),
        (prompt, "", "The prompt is empty."),
        (limit, "", allowed),
    ):
        tab.fill(field, value)
        tab.locator(field).blur()
        tab.click("#run")
        tab.wait_for_selector(f":is([data-state=failed], [data-refused]) .lens-status:has-text('{sentence}')")
        tab.fill(field, usual[field])
    choose(tab, "lane-b-checkpoint", "broken")
    tab.wait_for_selector(".lens-status:has-text('config.json of broken is missing')")
    assert tab.locator("[data-lane=b] .lens-pass").count() > 0, "the answers stay"
    choose(tab, "lane-b-checkpoint", "mars")
    run(tab)
    tab.fill(prompt, "")
    tab.click("#run")
    tab.wait_for_selector(".lens-stage[data-state=done][data-refused] .lens-status:has-text('The prompt is empty.')")
    assert tab.is_visible(".lens-step-through")
    assert tab.is_visible("#follow")


def test_new_problems_bring_their_known_answers(bench: Page, example: Any) -> None:
    tab = bench
    tab.click(".lens-examples button >> nth=0")
    tab.wait_for_selector(f"#known-answer strong:text-is('{example.answer}')")
    prompt = tab.locator("#prompt textarea")
    before, answer = prompt.input_value(), tab.inner_text("#known-answer strong")
    assert answer
    for pasted, wanted in (("another question", ""), (before, answer)):
        prompt.select_text()
        prompt.evaluate("(box, text) => document.execCommand('insertText', false, text)", pasted)  # no key is pressed
        tab.wait_for_function("text => document.querySelector('#known-answer strong').textContent === text", arg=wanted)
    prompt.blur()  # a long prompt lies over the settings while it is edited
    before = tab.input_value("#prompt textarea")
    tab.click("#new-problem")
    tab.wait_for_function("before => document.querySelector('#prompt textarea').value !== before", arg=before)
    tab.fill("#seed input", "2")
    tab.wait_for_function("before => document.querySelector('#prompt textarea').value === before", arg=before)
    tab.fill("#seed input", "-5")
    tab.wait_for_selector("#known-answer:has-text('whole number between 0 and 999,999')")
    assert tab.input_value("#seed input") == "-5", "no answer takes back what is typed"
    tab.locator("#prompt textarea").press_sequentially("!")
    tab.wait_for_function("document.querySelector('#known-answer strong').textContent === ''")
    own = tab.input_value("#prompt textarea")
    tab.focus("#family input")
    tab.keyboard.press("Tab")  # leaves the list, and chooses nothing
    tab.wait_for_load_state("networkidle")
    assert tab.input_value("#prompt textarea") == own


def test_a_phone_shows_one_lane_unscrolled(bench: Page) -> None:
    tab = bench
    tab.set_viewport_size({"width": 390, "height": 844})
    run(tab)
    tab.locator("#stage [data-lane=b] .lens-token").last.hover()
    widths = tab.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]")
    assert max(widths) <= 390
    assert [tab.locator(f"#stage [data-lane={lane}]").is_visible() for lane in ("a", "b")] == [False, True]
    tab.click(".lens-pick-one >> nth=0")
    assert [tab.locator(f"#stage [data-lane={lane}]").is_visible() for lane in ("a", "b")] == [True, False]
    for selector in ("#run", "#stop", "#threshold input", "#pace .wrap:last-child", "#limit input"):
        box = tab.locator(selector).last.bounding_box()
        assert box is not None
        assert 16 <= box["x"] <= 374.5 - box["width"], selector
    assert tab.locator("#prompt textarea").evaluate("field => getComputedStyle(field).fontSize") == "16px"  # no zoom
    tab.set_viewport_size({"width": 1280, "height": 800})


def test_enter_runs_and_shift_enter_breaks_the_line(bench: Page) -> None:
    tab = bench
    set_pace(tab, "Real time")
    prompt = tab.locator("#prompt textarea")
    before = tab.get_attribute(".lens-stage", "data-run")
    prompt.fill("How many sheep")
    prompt.press("Shift+Enter")
    prompt.press_sequentially("are there?")
    assert tab.get_attribute(".lens-stage", "data-run") == before
    prompt.press("Enter")
    tab.wait_for_selector(f".lens-stage:not([data-run='{before}'])")
    finish(tab)
    assert prompt.input_value() == "How many sheep\nare there?"
    tab.locator("[data-lane=a] .lens-token").first.click()
    prompt.fill("And goats?")
    tab.wait_for_selector(".lens-card", state="hidden")
    tab.wait_for_selector(".lens-answers:text-is('The answers below are to “How many sheep are there?”')")
    tab.click("#lanes label >> nth=0")
    tab.wait_for_selector(".lens-answers:empty", state="attached")  # new lanes have answered nothing
    tab.click("#lanes label >> nth=1")
