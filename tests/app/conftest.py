"""Scripted checkpoints, the page that shows them, and a real Chromium to look at it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app import problems
from app.comparison import Entry, Question, enter
from app.device import Device
from app.entrants import announced
from app.lane import Lane
from app.lane_choice import LaneChoice
from app.runs.keeping import keep
from app.runs.run import Asked, to_json
from app.sessions import LiveRun
from mars.config import DecodingSettings
from mars.records import ForwardPass, from_json

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from app.runner import Runner
    from mars.checkpoint import Checkpoint

PAIR = (LaneChoice(checkpoint="ar", decoder="autoregressive"), LaneChoice(checkpoint="mars"))
HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]


@pytest.fixture(scope="session")
def scriptorium() -> Any:
    """What makes scripted checkpoints and runners; see `scripted_pair.py`."""
    spec = importlib.util.spec_from_file_location("scripted_pair", HERE / "scripted_pair.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["scripted_pair"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Scriptorium.open()


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
        device: Device,
        choices: Sequence[LaneChoice] = PAIR,
    ) -> list[Entry]:
        entrants = [replace(found, checkpoint=checkpoints[found.choice.checkpoint]) for found in announced(choices)]
        return [enter(entrant, question, live, device, number) for number, entrant in enumerate(entrants)]

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


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """`serve("--places", "2")`: the page with the scripted checkpoints, in a process of its own."""
    processes: list[subprocess.Popen[str]] = []

    def serve(*options: str) -> Served:
        folder = tmp_path_factory.mktemp("served")
        command = [sys.executable, str(HERE / "scripted_pair.py"), str(folder / "runs.jsonl"), *options]
        surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "GRADIO_ANALYTICS_ENABLED": "False"}
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=surroundings, text=True, stdout=subprocess.PIPE, stderr=log
            )
        processes.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1"), (folder / "log").read_text()
        return Served(url, folder / "runs.jsonl", folder / "log")

    yield serve
    for process in processes:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def served(serve: Callable[..., Served]) -> Served:
    """The page that most tests share; two runs at once, the others wait."""
    return serve("--places", "2")


@dataclass(frozen=True, slots=True)
class Site:
    """A page that is up, and the folder of its small store of runs."""

    url: str
    runs: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The page with the scripted checkpoints over a small store of fabricated runs: Trade-offs is there at once."""
    folder = tmp_path_factory.mktemp("stored")
    command = [sys.executable, str(HERE / "tradeoffs" / "serve.py"), str(folder)]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "GRADIO_ANALYTICS_ENABLED": "False"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=surroundings, text=True, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1"), (folder / "log").read_text()
    yield Site(url, folder / "runs")
    process.terminate()
    process.communicate(timeout=30)


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Open an address in a new session; fails the test if the page logs an error or asks another host for anything."""
    contexts, complaints = [], []

    def visit(url: str, width: int = 1280, height: int = 800, state: str = "idle") -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: None if _local(request.url) else complaints.append(request.url))
        tab.goto(url)
        tab.wait_for_selector(f"[data-state={state}]", state="attached")  # another tab may be in front
        tab.wait_for_function("document.querySelector('#prompt textarea').value.length > 0")
        return tab

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def run_scripts(chromium: Browser) -> Iterator[Callable[[str, str], Page]]:
    """`run_scripts(source, "name, name")`: a blank page, no server, where these names of the source are at hand."""
    tabs: list[Page] = []

    def run_scripts(source: str, names: str) -> Page:
        tab = chromium.new_page()
        tabs.append(tab)
        tab.evaluate(f"window.eval({json.dumps(f'{source};Object.assign(window, {{{names}}})')})")
        return tab

    yield run_scripts
    for tab in tabs:
        tab.close()


@pytest.fixture(scope="session")
def write_lane(make_checkpoint: Callable[..., Checkpoint]) -> Callable[..., dict[str, Any]]:
    """`write_lane(engine, decoder, prompt, settings)`: what it writes, as the lane of a run file."""

    def write_lane(engine: Any, decoder: str, prompt: list[int], settings: DecodingSettings) -> dict[str, Any]:
        from mars.checkpoint import Checkpoint
        from mars.decoding import DECODERS

        tokenizer = make_checkpoint("any", "text").tokenizer
        checkpoint = Checkpoint(name="watched", engine=engine, tokenizer=tokenizer, block_size=4, record={})
        lane = Lane("lane", "Lane", decoder, checkpoint, settings=settings, prompt_tokens=len(prompt))
        for record in DECODERS[decoder](engine, [prompt], settings):
            lane.add(record)
        lane.end()
        run = keep("run", Asked(prompt="?", max_new_tokens=settings.max_new_tokens), [lane])
        found: dict[str, Any] = json.loads(to_json(run))["lanes"][0]
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
