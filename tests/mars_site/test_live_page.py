"""Live in the browser: the exported page with the tiny pair, in Chromium, and what it says where that fails."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

from playwright.sync_api import Page
from pydantic import TypeAdapter

from app.compare import problems, stream
from app.models import pairs
from app.runs.run import Run, read
from mars.checkpoint import load_checkpoint
from mars.config import DecodingSettings
from mars_site import command, live, onnx, records
from tests.app.test_axe import MODES, complaints
from tests.forked import LIMIT, forked
from tests.mars_site.test_live import Asked, written
from tests.mars_site.test_page import Quiet, file_server

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
CHECKPOINTS = Path(__file__).parents[2] / "assets/checkpoints"
OVER = """() => {
  const { run, state } = document.querySelector("#stage .lens-stage").dataset;
  return run.startsWith("live-") && ["done", "failed", "stopped"].includes(state);
}"""
HEARD = """
window.heard = [];
const plain = Worker.prototype.postMessage;
const Given = Worker;
window.Worker = class extends Given {
  constructor(...given) {
    super(...given);
    this.addEventListener("message", ({ data }) => data.messages && window.heard.push(...data.messages));
    window.worker = this;
  }
};
"""
"""Keeps the messages of the engine, and the engine, for the tests to look at."""


@pytest.fixture(scope="module")
def folder(runtime: object, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The exported page with the tiny pair, and with SmolLM2 where it is installed."""
    pair = None if pairs.real_missing() else request.getfixturevalue("pair_folder")
    place = tmp_path_factory.mktemp("server")
    found, told = place / "site", place / "told"
    process = forked(partial(write_site, found, pair), out=place / "out", err=told)
    process.join(LIMIT)
    assert process.exitcode == 0, told.read_text()
    return found


def write_site(folder: Path, pair: Path | None) -> int:
    """Export without Trade-offs, which take most of the time, and with the pair that is exported already."""
    records._tradeoffs = lambda _: {}
    onnx.write = partial(given, pair, write=onnx.write)
    return command.main(["--output", str(folder), "--live"])


def given(pair: Path | None, sources: Sequence[str], output: Path, *, write: Any) -> Any:
    if pair is None or sources != [*pairs.REAL_SOURCES.values()]:
        return write(sources, output)
    shutil.copytree(pair, output, dirs_exist_ok=True)
    return json.loads((pair / "manifest.json").read_text())


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with file_server(folder) as address:
        yield address


@pytest.fixture
def look(new_tab: Callable[[str], Page], address: str) -> Callable[..., Page]:
    """`look(before)`: the page, with a script that runs before it."""

    def look(before: str = "") -> Page:
        tab = new_tab(address)
        tab.emulate_media(reduced_motion="reduce")
        tab.add_init_script(HEARD + before)
        tab.goto(address)
        tab.wait_for_selector("#stage [data-state=done]", state="attached")
        return tab

    return look


def written_here(prompt: str, tokens: int, threshold: float) -> dict[str, list[list[int]]]:
    """The groups of tokens of each lane, in Python."""
    found = {}
    settings = DecodingSettings(block_size=4, layout="linear", max_new_tokens=tokens, threshold=threshold)
    for lane, _, decoder in live.TITLES:
        checkpoint = load_checkpoint(CHECKPOINTS / ("ar-sft" if lane == "a" else "mars-b8"), dtype="float32")
        groups = (
            record.rows[0].accepted_ids for record in written(Asked(prompt, decoder, settings, [threshold]), checkpoint)
        )
        found[lane] = [[*group] for group in groups if group]
    return found


def last_run(tab: Page) -> Run:
    return read(tab.evaluate("localStorage.getItem('mars-lens:last-run')"))


def test_it_writes_what_python_writes(look: Callable[..., Page]) -> None:
    wrong, number = list[str](), 3
    tab = look()
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    assert "Run live (loads 18 MB, once)" in tab.inner_text(".lens-live-run")
    tab.fill("#prompt textarea", " ")
    tab.click(".lens-live-run")
    assert tab.inner_text(".lens-live-status") == "The prompt is empty. Write one, or choose an example."
    label, task, seed = problems.EXAMPLES[number]
    tab.click(f".lens-live .lens-examples button:has-text('{label}')")
    tab.click(".lens-live-run")
    tab.wait_for_function(OVER, timeout=240_000)
    assert complaints(tab, MODES["light"]) == []
    said = tab.inner_text(".lens-live-status")
    assert "WebAssembly, 1 thread, in this browser. Fewer passes need not be fewer seconds" in said
    prompt = problems.find(task, seed).prompt
    run = last_run(tab)
    assert (run.question.prompt, [lane.key for lane in run.lanes]) == (prompt, ["a", "b", "c"])
    rows = {lane.key: [record.rows[0] for record in lane.records] for lane in run.lanes}
    groups = {key: [list(row.accepted_ids) for row in passes if row.accepted] for key, passes in rows.items()}
    assert groups == written_here(prompt, run.question.max_new_tokens, 0.95)
    for message in tab.evaluate("window.heard"):
        TypeAdapter(stream.Message).validate_json(json.dumps(message))
    tab.set_viewport_size({"width": 390, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.click(".lens-step-through")
    tab.wait_for_selector(f".step[data-run={run.id}] .step-column")
    assert wrong == []


def patch(tab: Page, before: str, after: str) -> None:
    """Change this in the script of the engine."""
    script = tab.evaluate("fetch('live.js').then((answer) => answer.text())")
    assert before in script
    changed = {"body": script.replace(before, after), "content_type": "text/javascript"}
    tab.route("**/live.js", lambda route: route.fulfill(**changed))


ALONE = "Object.defineProperty(navigator, 'serviceWorker', { value: undefined });"
# By the page itself: a fast machine has ended the tiny pair's run before a test presses anything.
MOVE = """() => {
    const tau = document.querySelector(".lens-live-tau");
    if (window.heard.filter(({ lane, kind }) => lane === "b" && kind === "pass").length < 2) return false;
    return (tau.value = 10) && tau.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@pytest.mark.parametrize("pair", ["tiny", "smollm2"])
def test_the_threshold_moves_while_it_writes(look: Callable[..., Page], pair: str) -> None:
    tab = look(ALONE)
    # Else a run of the tiny pair may end before a busy page moves the slider.
    patch(tab, "port2.postMessage(null)", "setTimeout(() => port2.postMessage(null), 40)")
    if pair == "smollm2":
        if missing := pairs.real_missing():
            pytest.skip(missing)
        tab.select_option(".lens-live-pair", pair)
        assert "8 bits here, which may change the text" in tab.inner_text(".lens-live-status")
    tab.click(".lens-live-run")
    tab.wait_for_function(MOVE, timeout=240_000)
    if pair == "smollm2":  # whose run takes long, and ends like the other's
        tab.wait_for_function("() => window.heard.some(({ threshold }) => threshold === 0.1)", timeout=240_000)
        tab.click(".lens-live-stop")
    tab.wait_for_function(OVER, timeout=240_000)
    lane = next(lane for lane in last_run(tab).lanes if lane.key == "b")
    rows = [record.rows[0] for record in lane.records if record.rows[0].accepted]
    thresholds = [row.threshold for row in rows]
    moved = thresholds.index(0.1)
    assert moved >= 2
    assert set(thresholds[:moved]) == {0.95}
    assert set(thresholds[moved:]) == {0.1}
    for row in rows:
        scores = [proposal.score for proposal in row.proposals[1 : row.accepted]]
        assert all(score >= row.threshold for score in scores)


def test_it_writes_without_a_network_once_loaded(look: Callable[..., Page]) -> None:
    tab = look()
    tab.click(".lens-live-run")
    tab.wait_for_function(OVER, timeout=240_000)
    tab.wait_for_function("() => navigator.serviceWorker.controller !== null")
    tab.context.set_offline(True)
    try:
        tab.reload()
        tab.wait_for_selector("#stage [data-state=done]")
        tab.click(".lens-live-run")
        tab.wait_for_function(OVER, timeout=240_000)
    finally:
        tab.context.set_offline(False)
    assert "Fewer passes" in tab.inner_text(".lens-live-status")


CREATE = 'return ort.InferenceSession.create(files["model.onnx"], { ...options, externalData });'
FAILURES = {
    "cut off": "The download of the model was cut off",
    "two tabs": "Another tab of this page writes",
    "no script": "could not start in this browser",
    "memory": "too little memory",
    "lost device": "The graphics device was lost",
    "other file": "is not the one that this page was made with",
}


def spoil(tab: Page, kind: str) -> None:
    """Let a live run fail in this way."""

    def change(old: str, new: str) -> None:
        def answer(route: Any) -> None:
            text = route.fetch().text()
            assert old in text
            route.fulfill(body=text.replace(old, new), content_type="text/javascript")

        tab.route("**/live.js", answer)

    if kind == "two tabs":
        held = "navigator.locks.request('mars-lens live', () => (held(), new Promise(() => {})))"
        tab.evaluate(f"new Promise((held) => void {held})")
    elif kind == "no script":
        tab.route("**/live.js", lambda route: route.abort())
    elif kind == "memory":
        change(CREATE, 'throw new RangeError("Array buffer allocation failed");')
    elif kind == "lost device":
        change(CREATE, 'return { run: () => Promise.reject(new Error("the GPUDevice was lost")) };')
    elif kind == "other file":
        tab.route("**/tokenizer.json", lambda route: route.fulfill(body=route.fetch().text().replace("!", "?", 1)))


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_one_sentence_and_the_recording(look: Callable[..., Page], kind: str) -> None:
    tab = look(ALONE)
    shown = tab.get_attribute("#stage .lens-stage", "data-run")
    spoil(tab, kind)
    Quiet.cut = "weights-0" if kind == "cut off" else ""
    try:
        tab.click(".lens-live-run")
        said = "text => document.querySelector('.lens-live-status').textContent.includes(text)"
        tab.wait_for_function(said, arg=FAILURES[kind], timeout=120_000)
    finally:
        Quiet.cut = ""
    tab.wait_for_selector(f"#stage .lens-stage[data-run='{shown}'][data-state=done]")
    assert tab.is_enabled(".lens-live-run")


def test_a_hidden_tab_without_storage_writes_on(look: Callable[..., Page]) -> None:
    tab = look(ALONE)

    refused = 'Promise.reject(new DOMException("no", "SecurityError"))'
    patch(tab, 'globalThis.caches?.open("mars-lens live")', refused)
    hidden = "Object.defineProperty(document, 'visibilityState', { value: 'hidden' })"
    tab.evaluate(f"{hidden}; window.requestAnimationFrame = () => 0;")
    tab.click(".lens-live-run")
    said = "() => document.querySelector('.lens-live-status').textContent.includes('Fewer passes')"
    tab.wait_for_function(said, timeout=240_000, polling=200)
    assert {lane.finish_reason for lane in last_run(tab).lanes} <= {"stop", "length"}
    assert "the next visit loads the model again" in tab.inner_text(".lens-live-status")
