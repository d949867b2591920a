"""Scripted checkpoints, the page that shows them, and a real Chromium to look at it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from app.browser import bundle
from app.compare import problems
from app.compare.comparison import Entry, Question, enter
from app.compare.lane import Lane, keep
from app.compare.lane_choice import LaneChoice
from app.compare.lane_request import requested
from app.scheduling import AdmissionQueue, LiveRun
from mars import decoders
from mars.config import DecodingSettings
from mars.control import Control
from mars.records import ForwardPass, from_json
from mars.schema import as_json
from tests.app.page_process import Forked, fork

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from app.compare.runner import Runner
    from mars.checkpoint import Checkpoint

PAIR = (LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars"))
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def scriptorium() -> Any:
    """What makes scripted checkpoints and runners; see `scripted_pair.py`."""
    from tests.app.scripted_pair import Scriptorium

    return Scriptorium.open()


@pytest.fixture(scope="session")
def make_checkpoint(scriptorium: Any) -> Callable[..., Checkpoint]:
    """`make_checkpoint("name", "what it writes")`."""
    return scriptorium.checkpoint


@pytest.fixture(scope="session")
def make_runner(scriptorium: Any) -> Callable[..., Runner]:
    """`make_runner(places=1)`: a runner with the scripted checkpoints ar, mars, markup and broken."""
    return scriptorium.runner


@pytest.fixture(scope="session")
def make_entries() -> Callable[..., list[Entry]]:
    """`make_entries({"ar": checkpoint, …}, question, live, device)`: lanes at their starts, by default `PAIR`."""

    def make(
        checkpoints: dict[str, Checkpoint],
        question: Question,
        live: LiveRun,
        queue: AdmissionQueue,
        choices: Sequence[LaneChoice] = PAIR,
    ) -> list[Entry]:
        requests = [replace(found, checkpoint=checkpoints[found.choice.checkpoint]) for found in requested(choices)]
        return [enter(request, question, live, queue, number) for number, request in enumerate(requests)]

    return make


@pytest.fixture
def example() -> Any:
    """The problem that the page opens with."""
    return problems.find(*problems.EXAMPLES[0][1:])


@dataclass(frozen=True, slots=True)
class ServedLane:
    """A lane of a finished run, as the server kept it."""

    key: str
    text: str
    records: list[ForwardPass]


@dataclass(frozen=True, slots=True)
class Served:
    """A page that is up: its address, the file of its finished runs, and what its terminal says."""

    url: str
    results: Path
    log: Path

    def last_run(self) -> list[ServedLane]:
        """The lanes of the run that ended last."""
        lanes = json.loads(self.results.read_text().splitlines()[-1])
        return [ServedLane(lane["key"], lane["text"], [from_json(line) for line in lane["records"]]) for lane in lanes]


class Pages:
    """Pages, each in a process of its own."""

    def __init__(self) -> None:
        self._started: dict[str, Forked] = {}

    def start(self, folder: Path, script: Path, *arguments: Path | str) -> str:
        """The address of a new page; the script writes it as its first line, what it says besides is in FOLDER/log."""
        page = fork(script, [*map(str, arguments)], folder / "log")
        url = page.line()
        self._started[url] = page
        assert url.startswith("http://127.0.0.1"), (folder / "log").read_text()
        return url

    @contextmanager
    def awake(self, url: str) -> Iterator[None]:
        """Until the context ends this page answers; after that it does nothing until the next."""
        self._started[url].go_on()
        yield
        self._started[url].pause()

    def end(self) -> None:
        """End all."""
        for page in self._started.values():
            page.end()


@contextmanager
def _pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.end()


@pytest.fixture(scope="module")
def start_page() -> Iterator[Callable[..., str]]:
    """`start_page(folder, script, *arguments)`: a page of this file's own; one that is up takes time, asked or not."""
    with _pages() as pages:
        yield pages.start


@pytest.fixture(scope="session")
def _shared_pages() -> Iterator[Pages]:
    """Pages that several files share; each is paused while a file runs that does not ask for it."""
    with _pages() as pages:
        yield pages


def _serve(start_page: Callable[..., str], folder: Path, *options: str) -> Served:
    url = start_page(folder, HERE / "scripted_pair.py", folder / "runs.jsonl", *options)
    return Served(url, folder / "runs.jsonl", folder / "log")


@pytest.fixture(scope="module")
def serve(start_page: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Served]:
    """`serve("--places", "2")`: the page with the scripted checkpoints, in a process of its own."""
    return lambda *options: _serve(start_page, tmp_path_factory.mktemp("served"), *options)


@pytest.fixture(scope="session")
def _served(_shared_pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return _serve(_shared_pages.start, tmp_path_factory.mktemp("served"), "--places", "2")


@pytest.fixture(scope="module")
def served(_served: Served, _shared_pages: Pages) -> Iterator[Served]:
    """The page that most tests share; two runs at once, the others wait."""
    with _shared_pages.awake(_served.url):
        yield _served


OPEN_SETTINGS = "localStorage.getItem('mars-lens:settings') ?? localStorage.setItem('mars-lens:settings', 'open')"


@dataclass(frozen=True, slots=True)
class Site:
    """A page that is up, and the folder of its small store of runs."""

    url: str
    runs: Path


@pytest.fixture(scope="session")
def _site(_shared_pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("stored")
    return Site(_shared_pages.start(folder, HERE / "tradeoffs" / "serve.py", folder), folder / "runs")


@pytest.fixture(scope="module")
def site(_site: Site, _shared_pages: Pages) -> Iterator[Site]:
    """The page with the scripted checkpoints over a small store of fabricated runs: Trade-offs is there at once."""
    with _shared_pages.awake(_site.url):
        yield _site


@dataclass(frozen=True, slots=True)
class Pairs:
    """A page that is up, and the file that lets its first pair be loaded."""

    url: str
    ready: Path


@pytest.fixture(scope="module")
def two_pairs(start_page: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """The page with two pairs of scripted checkpoints to choose between, and the recorded run before anything else."""
    folder = tmp_path_factory.mktemp("pairs")
    return Pairs(start_page(folder, HERE / "serve_pairs.py", folder), folder / "ready")


@pytest.fixture(scope="session")
def _sessions() -> list[BrowserContext]:
    """Sessions of the browser in which no page is: a page takes a fifth less time there than in a new one."""
    return []


@pytest.fixture
def visit(chromium: Browser, _sessions: list[BrowserContext]) -> Iterator[Callable[..., Page]]:
    """Open an address in a session without a past, with the panel of settings open or not.

    What the test waits for may take so many seconds. Fails the test if the page logs an error or asks another host for
    anything.
    """
    with _visits(chromium, _sessions) as visit:
        yield visit


@pytest.fixture(scope="module")
def visit_once(chromium: Browser, _sessions: list[BrowserContext]) -> Iterator[Callable[..., Page]]:
    """The same for a page that tests of a file share, each of which leaves it as it was: it fails the last of them."""
    with _visits(chromium, _sessions) as visit:
        yield visit


@pytest.fixture
def new_tab(chromium: Browser, _sessions: list[BrowserContext]) -> Iterator[Callable[[str], Page]]:
    """`new_tab(url)`: an empty tab in a session without a past at this address, for what `visit` does not open."""
    with _tabs(chromium, _sessions) as new_tab:
        yield new_tab


@contextmanager
def _tabs(chromium: Browser, sessions: list[BrowserContext]) -> Iterator[Callable[[str], Page]]:
    """Tabs, each in a session of its own; at the end they are closed."""
    taken: list[BrowserContext] = []

    def new_tab(url: str) -> Page:
        taken.append(sessions.pop() if sessions else chromium.new_context(reduced_motion="reduce"))
        tab = taken[-1].new_page()
        _forget(tab, url)
        tab.set_viewport_size({"width": 1280, "height": 800})
        return tab

    yield new_tab
    for session in taken:
        for tab in session.pages:
            tab.close()
        session.unroute_all()
        session.clear_permissions()
    sessions.extend(taken)


@contextmanager
def _visits(chromium: Browser, sessions: list[BrowserContext]) -> Iterator[Callable[..., Page]]:
    complaints: list[str] = []
    with _tabs(chromium, sessions) as new_tab:

        def visit(
            url: str,
            width: int = 1280,
            height: int = 800,
            state: str = "idle",
            *,
            settings: bool = True,
            seconds: int = 60,
        ) -> Page:
            tab = new_tab(url)
            tab.set_viewport_size({"width": width, "height": height})
            if settings:
                tab.add_init_script(OPEN_SETTINGS)
            tab.set_default_timeout(1000 * seconds)
            _listen(tab, complaints)
            tab.on("request", lambda request: None if _local(request.url) else complaints.append(request.url))
            tab.goto(url)
            tab.wait_for_selector(f"[data-state={state}]", state="attached")  # another tab may be in front
            tab.wait_for_function("document.querySelector('#prompt textarea').value.length > 0")
            return tab

        yield visit
    assert complaints == []


def _forget(tab: Page, url: str) -> None:
    """Remove what earlier pages of this address have left in the session: now, for they also write as they close."""
    parts = urlsplit(url)
    devtools = tab.context.new_cdp_session(tab)
    devtools.send("Storage.clearDataForOrigin", {"origin": f"{parts.scheme}://{parts.netloc}", "storageTypes": "all"})
    devtools.detach()


LEAVE = """() => {
    console.error = () => {};
    for (const kind of ["error", "unhandledrejection"]) addEventListener(kind, (event) => event.preventDefault());
}"""


def _listen(tab: Page, complaints: list[str]) -> None:
    """Collect what the page logs as an error, except while it is left by `tab.reload` or `tab.goto`.

    Gradio closes its streams in `beforeunload` and logs each stream cut off as an error. Nobody is there to read it.
    The page itself is silenced: its last messages can arrive when the next page is already there.
    """

    def leave_by(load: Callable[..., object]) -> Callable[..., None]:
        def leave(*address: str) -> None:
            tab.evaluate(LEAVE)  # every error logged so far has been heard once this is answered
            load(*address)

        return leave

    tab.reload, tab.goto = leave_by(tab.reload), leave_by(tab.goto)
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))


IN_NODE = """
import { readFileSync } from "node:fs";
const [names, act, argument, table] = JSON.parse(readFileSync(0, "utf8"));
globalThis.document = { getElementById: (id) => (id === "lens-decoders" ? { textContent: table } : null) };
const modules = await Promise.all(names.map((name) => import(name)));
process.stdout.write(JSON.stringify((0, eval)(act)(Object.assign({}, ...modules), argument)));
"""


@pytest.fixture(scope="session")
def in_node(node: str) -> Callable[..., Any]:
    """`in_node("step/lane.js shared/tokens.js", "({ seenBy }, given) => …", given)`: what it makes of modules."""

    def in_node(modules: str, act: str, argument: object = None) -> Any:
        paths = [(bundle.ROOT / "app/browser" / name).as_uri() for name in modules.split()]
        asked = json.dumps([paths, act, argument, decoders.as_json()])
        command = [node, "--input-type=module", "--eval", IN_NODE]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return in_node


@pytest.fixture(scope="session")
def write_lane(make_checkpoint: Callable[..., Checkpoint]) -> Callable[..., dict[str, Any]]:
    """`write_lane(engine, decoder, prompt, settings)`: what it writes, as the lane of a run file."""

    def write_lane(engine: Any, decoder: str, prompt: list[int], settings: DecodingSettings) -> dict[str, Any]:
        from mars.checkpoint import Checkpoint
        from mars.decoding import DECODERS

        tokenizer = make_checkpoint("any", "text").tokenizer
        checkpoint = Checkpoint(name="watched", engine=engine, tokenizer=tokenizer, block_size=4, record={})
        lane = Lane("lane", "Lane", decoder, checkpoint, settings=settings, prompt_tokens=len(prompt))
        control = Control(settings.threshold, settings.score, trace=True)
        for record in DECODERS[decoder](engine, [prompt], settings, control):
            lane.add(record)
        lane.end()
        run = keep("run", "?", settings.max_new_tokens, [lane])
        found: dict[str, Any] = json.loads(as_json(run))["lanes"][0]
        return found

    return write_lane


@pytest.fixture(scope="session")
def open_tab() -> Callable[[Page, str], None]:
    """`open_tab(tab, "step")`: the tab of this name, with something in it."""

    def open_tab(tab: Page, name: str) -> None:
        tab.click(f"#tab-{name}-button")
        if name == "step":
            tab.wait_for_selector(".step-top[data-ready]")
            tab.select_option(".step-choice", index=1)
            tab.wait_for_selector(".step-column")
        elif name == "tradeoffs":
            tab.wait_for_selector(".trade[data-ready][data-state=shown]")
        tab.wait_for_function("name => document.getElementById(`tab-${name}`)?.innerText.length > 99", arg=name)

    return open_tab


def _local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1", "data:", "blob:"))
