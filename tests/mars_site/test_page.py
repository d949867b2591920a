"""The exported page, on a plain file server below a path: everything works there, and nothing else is asked for."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page

from app.runs.run import read, shipped
from app.tradeoffs import run_cache
from mars.metrics import output_ids
from mars.schema import as_json
from mars_site import command, page, records
from tests.app.page_process import ROOT, fork
from tests.app.test_axe import MODES, change, complaints
from tests.app.tradeoffs import fabricated
from tests.forked import LIMIT, forked

browser = pytest.mark.browser
TABS = ["compare", "step", "tradeoffs", "learn", "about"]
OpenTab = Callable[[Page, str], None]
Visit = Callable[..., Page]
HOSTILE = "</script><script>document.title='gone'</script><img src=x onerror=\"document.title='gone'\">{title}"
SHORT = "4-function"
"""The shortest of the recorded runs."""


def write_site(folder: Path, runs: Path) -> int:
    """Export with few measured runs, and of the figures the first alone."""
    records.FIGURES, records.BUDGETS, run_cache.RUNS = list(records.FIGURES)[:1], records.BUDGETS[:2], runs
    return command.main(["--output", str(folder)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("server")
    found, told = place / "below" / "site", place / "told"
    process = forked(partial(write_site, found, fabricated.store(place / "runs")), out=place / "out", err=told)
    process.join(LIMIT)
    assert (process.exitcode, told.read_text()) == (0, "")
    return found


class Quiet(SimpleHTTPRequestHandler):
    cut = ""
    """Files with this in their name end in the middle."""

    def log_message(self, *_: Any) -> None: ...

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        outputfile.write(content[: len(content) // 2] if self.cut and self.cut in self.path else content)


@contextmanager
def file_server(root: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with file_server(folder.parents[1]) as root:
        yield f"{root}below/site/"


@pytest.fixture
def look(new_tab: Callable[[str], Page], address: str) -> Iterator[Visit]:
    """`look("?run=…", width, motion)`: the page with a run on the stage; fails on a complaint or a foreign request."""
    wrong: list[str] = []

    def look(search: str = "", width: int = 1280, motion: str = "reduce") -> Page:
        tab = new_tab(address)
        tab.set_viewport_size({"width": width, "height": 800})
        tab.emulate_media(reduced_motion=motion)
        tab.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
        tab.on(
            "request",
            lambda asked: None if asked.url.startswith((address, "data:", "blob:")) else wrong.append(asked.url),
        )
        tab.goto(address + search)
        tab.wait_for_selector("#stage [data-state=done]", state="attached")
        return tab

    yield look
    assert wrong == []


def test_the_folder_is_small_and_self_contained(folder: Path) -> None:
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 4_000_000
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'self'; " in text
    assert re.findall(r"""<script(?! type="application/json")[^>]*>""", text) == ['<script src="lens.js" defer>']
    fetched = re.findall(r"<(?:link|img|iframe|source)[^>]+(?:src|href)=([^ >]+)", text)
    assert fetched == ['"data:,"', '"lens.css"']
    assert "://" not in re.sub(r"https?://www\.w3\.org/", "", (folder / "lens.css").read_text(encoding="utf-8"))


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert command.main(["--output", str(tmp_path)]) == 2
    assert "is not empty; name a new folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_it_is_a_static_space(folder: Path) -> None:
    header, words = (folder / "README.md").read_text(encoding="utf-8").removeprefix("---\n").split("---\n", 1)
    said = dict(line.split(": ", 1) for line in header.splitlines() if not line.startswith(("custom_headers:", " ")))
    assert said["sdk"] == "static"
    assert (folder / said["app_file"]).is_file()
    assert "app_port" not in said
    assert len(said["short_description"]) <= 60  # as the Hub asks
    assert "# MARS Lens" in words
    assert "Docker" not in words


def test_the_workflow_exports_what_it_uploads() -> None:
    steps = (command.DOCKER.parent / "pages.yml").read_text(encoding="utf-8")
    [output] = re.findall(r"python -m app export --output (\S+)", steps)
    assert f"path: {output}\n" in steps


def test_a_run_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LARGEST", 1_000)
    with pytest.raises(ValueError, match=r"^This run is too long for one page: [\d,]+ of at most 1,000 bytes\.$"):
        page.single(records.runs()[SHORT])


def test_every_prompt_has_its_recorded_run() -> None:
    offers = records.offers(records.runs())
    assert sum(offer["question"] for offer in offers) == 8
    assert len(offers) == len({offer["name"] for offer in offers}) == 16


@browser
@pytest.mark.parametrize("width", [1280, 390])
def test_every_tab_fits_and_is_accessible(look: Visit, open_tab: OpenTab, width: int) -> None:
    """To axe in light, and on a wide page Compare alone: the rest is the app's, which has a test of all."""
    tab, found = look(width=width), []
    for mode in ("light", "projector"):
        change(tab, "light", mode)
        for name in TABS:
            open_tab(tab, name)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (mode, name)
            if mode == "light" and (width == 390 or name == "compare"):
                found += [f"{name}: {complaint}" for complaint in complaints(tab, MODES[mode])]
    assert found == []
    assert tab.locator("#tabs [role=tab]").evaluate_all("tabs => tabs.map(tab => tab.dataset.tabId)") == TABS


@browser
def test_an_example_plays_to_its_end(look: Visit) -> None:
    run = records.runs()[SHORT]
    tab = look(f"?run={SHORT}", motion="no-preference")
    longest = max(len(lane.written) for lane in run.lanes)
    early = """() => /^pass [2-9] /.test(document.querySelector('.lens-clock').textContent)
        && ['.lens-ratio', '[data-counter=tokensPerForward]'].map(part =>
            [...document.querySelectorAll(`#stage ${part}`)].map(node => node.textContent))"""
    heads, feet = tab.wait_for_function(early).json_value()
    assert heads == feet, "of what it shows so far"
    tab.wait_for_function("n => document.querySelector('.lens-clock').textContent === `pass ${n} of ${n}`", arg=longest)
    assert tab.input_value("#prompt textarea") == run.question.prompt
    for lane in run.lanes:
        assert lane.text.strip() in tab.inner_text(f"#stage [data-lane={lane.key}] .lens-text")


@browser
def test_it_works_without_a_network(look: Visit, open_tab: OpenTab) -> None:
    tab = look("?tab=learn&lesson=threshold")
    tab.evaluate("navigator.serviceWorker.ready.then(() => true)")
    tab.wait_for_function("() => navigator.serviceWorker.controller !== null")
    tab.context.set_offline(True)
    try:
        tab.reload()
        tab.wait_for_selector(".lens-learn-entry[aria-current]:has-text('3.')")
        for name in TABS:
            open_tab(tab, name)
        tab.click("#tab-compare-button")
        tab.locator(".lens-examples button:not([aria-pressed=true])").last.click()
        tab.wait_for_selector("#stage .lens-stage[data-state=done]:not([data-run='5-first-look'])")
    finally:
        tab.context.set_offline(False)


@browser
def test_links_open_runs_or_are_partly_refused(look: Visit) -> None:
    tab = look("?task=python_functions&seed=2&models=tiny&lanes=3")
    assert tab.get_attribute("#stage .lens-stage", "data-run") == "4-python"
    tab.click(".lens-step-through")
    tab.wait_for_selector(".step[data-run='4-python']")
    tab.wait_for_function("() => location.search.includes('tab=step&run=4-python')")
    assert not tab.is_visible(".lens-refused")
    tab = look("?run=none&tau=0.7")
    tab.wait_for_selector(".lens-refused")
    assert "run=none" in tab.inner_text(".lens-refused")
    assert tab.get_attribute("#stage .lens-stage", "data-run") == "5-first-look"


@browser
def test_saved_files_open_or_say_why(look: Visit) -> None:
    run = as_json(replace(records.runs()[SHORT], id="a-run"))
    tab = look("?tab=step")
    tab.wait_for_selector(".step-top[data-ready]")

    def give(text: str) -> None:
        tab.set_input_files(".step-file", {"name": "run.json", "mimeType": "application/json", "buffer": text.encode()})

    give(run)
    tab.wait_for_selector(".step[data-run=a-run] .step-column")
    with tab.expect_download() as saved:
        tab.click(".step-save")
    assert json.loads(Path(saved.value.path()).read_text()) == json.loads(run)
    cut = re.sub(r'"query_tokens": ?\d+,', "", run)
    for broken, reason in (
        ("{", "it is not JSON"),
        ('{"kind": "other"}', "it is no run that MARS Lens saved"),
        (cut, "lane 1 says of a pass what cannot be"),
    ):
        give(broken)
        tab.wait_for_function("text => document.querySelector('.step-notice').textContent.includes(text)", arg=reason)


@browser
def test_a_single_file_explains_its_run(new_tab: Callable[[str], Page], address: str, tmp_path: Path) -> None:
    source, target = tmp_path / "run.json", tmp_path / "hand-out.html"
    run = replace(records.runs()["4-python"], id="a-run", title=HOSTILE, note=HOSTILE)
    source.write_text(as_json(run), encoding="utf-8")
    told = tmp_path / "told"
    app = fork(ROOT / "app" / "__main__.py", ["export", "--run", str(source), "--output", str(target)], told)
    app.process.join(LIMIT)
    app.end()
    assert (app.process.exitcode, told.read_text()) == (0, "")
    assert target.stat().st_size <= 1_000_000
    tab, wrong = new_tab(address), list[str]()
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda asked: None if asked.url in (target.as_uri(), "data:,") else wrong.append(asked.url))
    kept = json.dumps(as_json(replace(run, id="another")))
    tab.add_init_script(f"localStorage.setItem('mars-lens:last-run', {kept})")
    tab.goto(target.as_uri())
    tab.wait_for_selector("#stage [data-state=done]")
    for lane in run.lanes:
        assert lane.text.strip() in tab.inner_text(f"#stage [data-lane={lane.key}] .lens-text")
    tab.click("#tab-step-button")
    tab.wait_for_selector(".step[data-run=a-run] .step-column")
    for name in ("learn", "about"):
        tab.click(f"#tab-{name}-button")
        assert len(tab.inner_text(f"#tab-{name}")) > 99
    assert tab.locator("#tabs [role=tab]").count() == 4
    assert tab.locator("img:not([alt='QR code of this link'])").count() == 0
    assert tab.title() == "MARS Lens"
    assert wrong == []


@browser
def test_late_answers_are_not_shown(look: Visit, open_tab: OpenTab) -> None:
    tab = look("?tab=step")
    tab.wait_for_selector(".step-top[data-ready]")
    tab.evaluate("""() => { const [real, wait] = [fetch, () => new Promise((go) => setTimeout(go, window.late))];
        window.fetch = async (what) => { await wait(); return real(what); }; }""")

    def choose(field: str, first: str, then: str) -> None:
        for option, milliseconds in ((first, 500), (then, 0)):
            tab.evaluate("late => { window.late = late; }", milliseconds)
            tab.locator(field).select_option(option)
        tab.wait_for_timeout(2000)

    choose(".step-choice", "1-side-by-side", "3-exact")
    assert tab.get_attribute(".step", "data-run") == tab.input_value(".step-choice") == "3-exact"
    open_tab(tab, "tradeoffs")
    tab.get_by_label("Horizontal axis").select_option("tokens_per_forward")
    tab.click("summary:has-text('The numbers as a table')")
    tab.locator(".trade-open").first.click()
    tab.wait_for_selector(".trade-sample")
    choose(".trade-written select", "Right", "Wrong")
    assert set(tab.locator(".trade-sample .lens-badge").all_inner_texts()) <= {"× wrong"}


@browser
def test_figures_answer_their_lists(look: Visit, open_tab: OpenTab) -> None:
    tab = look("?tab=tradeoffs")
    open_tab(tab, "tradeoffs")
    tab.get_by_label("Horizontal axis").select_option("tokens_per_forward")
    tab.wait_for_function("() => document.querySelector('.trade-sentence').textContent.includes('tokens per forward')")
    for points, place, said in (
        ("1", ".trade-sentence", "ithin 1 point"),
        ("1.5", ".trade-status", "answers for 1, 2 points;"),
        ("2", ".trade-sentence", "Within 2 points"),
    ):
        tab.fill(".trade-points", points)
        tab.press(".trade-points", "Enter")
        tab.wait_for_selector(f"{place}:has-text('{said}')")
    tab.click("summary:has-text('The numbers as a table')")
    tab.locator(".trade-open").first.click()
    tab.wait_for_selector(".trade-sample")
    tab.click("text=Show more")
    tab.wait_for_selector("text=Show more", state="hidden")
    with tab.expect_download() as saved:
        tab.click("text=Save the numbers as CSV")
    assert len(Path(saved.value.path()).read_text().splitlines()) > 3


def test_a_thinner_run_lacks_alternatives_alone() -> None:
    run = shipped()["1-side-by-side"]
    sizes = [len(as_json(each)) for each in page.thinner(run)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
    for each in page.thinner(run):
        assert read(as_json(each)) == each
        for lane, before in zip(each.lanes, run.lanes, strict=True):
            assert output_ids(lane.records) == output_ids(before.records)
            assert lane.written == before.written
