"""The served page over HTTP, and what a browser makes of its headers."""

import inspect
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest
from playwright.sync_api import Browser, Page

from app.server import serving

pytestmark = pytest.mark.browser  # like the other tests that serve the page, seconds each


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The page with accounts, behind a proxy that shows it at /lens, on Hugging Face, which frames it."""
    accounts = tmp_path_factory.mktemp("accounts") / "file"
    accounts.write_text("eva:secret\n")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GRADIO_ROOT_PATH", "/lens")
        environment.setenv("SPACE_HOST", "lens.hf.space")
        return serve("--auth-file", str(accounts), "--max-new-tokens-limit", "64")


def get(page: Any, path: str, **options: Any) -> httpx.Response:
    return httpx.get(page.url.rstrip("/") + path, timeout=60, **options)


def test_health_answers_with_names_only(served: Any) -> None:
    found = get(served, "/healthz")
    assert found.status_code == 200
    assert set(found.json()) == {"status", "models", "runs"}
    assert "/" not in json.dumps(found.json())


def test_a_script_added_to_the_page_is_dead(served: Any, chromium: Browser) -> None:
    context = chromium.new_context()
    tab = context.new_page()
    tab.goto(served.url)
    tab.wait_for_selector("[data-state=idle]")
    tab.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = "document.title = 'gone'";
            document.body.append(script);
            const image = document.createElement('img');
            image.setAttribute('onerror', "document.title = 'gone'");
            image.src = 'data:,';
            document.body.append(image);
            const link = document.createElement('a');
            link.href = "javascript:document.title = 'gone'";
            document.body.append(link);
            link.click();
        }"""
    )
    sent = tab.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')")
    tab.wait_for_timeout(200)
    assert tab.title() == "MARS Lens"
    assert sent == "refused"
    context.close()


def test_with_accounts_only_health_is_open(guarded: Any) -> None:
    assert get(guarded, "/healthz").status_code == 200
    assert get(guarded, "/config").status_code == 401
    assert get(guarded, "/gradio_api/info").status_code == 401
    joined = httpx.post(guarded.url + "gradio_api/queue/join", json={"data": [], "fn_index": 0, "session_hash": "x"})
    assert joined.status_code == 401
    assert "components" not in get(guarded, "/").text.replace('"components":[]', "")


def test_a_person_logs_in_and_runs(guarded: Any, chromium: Browser) -> None:
    context = chromium.new_context()
    complaints: list[str] = []
    tab = context.new_page()
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.goto(guarded.url + "?pace=0")
    _log_in(tab, "wrong")
    tab.wait_for_selector("text=Incorrect")
    complaints.clear()  # the browser tells of the refused login
    _log_in(tab, "secret")
    tab.wait_for_selector("[data-state=idle]")
    tab.click(".lens-settings-button")
    tab.fill("#limit input", "65")
    tab.click("#run")
    tab.wait_for_selector("[data-state=failed]")
    assert "a whole number between 16 and 64" in tab.inner_text(".lens-status")
    tab.fill("#limit input", "16")
    tab.click("#run")
    tab.wait_for_selector("[data-state=done]")
    assert complaints == []
    context.close()


def test_framing_is_open_to_the_named_site_only(guarded: Any, served: Any) -> None:
    policy = get(guarded, "/").headers["content-security-policy"]
    assert policy.endswith("frame-ancestors 'self' https://huggingface.co")
    assert get(served, "/").headers["content-security-policy"].endswith("frame-ancestors 'self'")


def test_the_terminal_shows_no_trace(served: Any, guarded: Any) -> None:
    assert "Traceback" not in served.log.read_text()
    assert "Traceback" not in guarded.log.read_text()


def _log_in(tab: Page, password: str) -> None:
    tab.fill("input[type=text], label:has-text('username') input", "eva")
    tab.fill("input[type=password]", password)
    tab.click("button:has-text('Login')")


def test_a_signal_before_the_wait_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    blocks: Any = SimpleNamespace(close=lambda verbose: closed.append(verbose))

    def at_once(number: int, handler: Any) -> None:
        if number == signal.SIGTERM:
            handler(number, None)

    monkeypatch.setattr(signal, "signal", at_once)
    serving.stay(blocks)
    assert closed == [False]


def test_the_page_is_built_before_torch_is_read() -> None:
    """Its libraries take seconds, in which nobody could look at the page."""
    code = """
import sys
from app.server import options, serving
def launch(*_):
    raise SystemExit("torch" in sys.modules or "transformers" in sys.modules)
serving.launch = launch
serving.host(options.read(["--ar", "assets/checkpoints/ar-sft", "--mars", "assets/checkpoints/mars-b8"]))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_gradio_can_be_told_how_often_to_look() -> None:
    with gr.Blocks() as blocks:
        queue = blocks.queue()._queue
    assert {"sleep_when_free", "progress_update_sleep_when_free"} <= vars(queue).keys()
    assert "sleep(self.sleep_when_free)" in inspect.getsource(type(queue).start_processing)
