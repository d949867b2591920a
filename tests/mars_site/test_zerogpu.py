"""The Space of `python -m app export --space zerogpu`, with a stand-in for the package that ZeroGPU has."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from mars_site import command

HERE = Path(__file__).parent / "zerogpu"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("zerogpu") / "space"
    assert command.main(["--space", "zerogpu", "--output", str(found)]) == 0
    return found


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """The calls of decorated functions."""
    return lambda: [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`run("app.py")`: Python there, on the CPU, as ZeroGPU runs it."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        about = {"PYTHONPATH": f"{folder}:{HERE}", "SPACES_ZERO_GPU": "true", "SPACES_LOG": str(tmp_path / "log")}
        given = [sys.executable, *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(given, cwd=folder, env=os.environ | about, **pipes))
        return started[-1]

    yield run
    for process in started:
        process.terminate()
        process.communicate(timeout=30)


def test_it_is_a_gradio_space(folder: Path) -> None:
    header = (folder / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    said = dict(line.split(": ", 1) for line in header.splitlines())
    assert (said["sdk"], said["app_file"]) == ("gradio", "app.py")
    pinned = dict(line.split("==") for line in (folder / "requirements.txt").read_text().splitlines())
    assert (2, 8) <= tuple(map(int, pinned["torch"].split(".")))[:2] <= (2, 11)  # what ZeroGPU has
    assert "gradio" not in pinned
    assert "pytest" not in pinned


def test_runs_are_written_where_the_gpu_is(
    run: Callable[..., subprocess.Popen[str]], calls: Callable[[], list[dict[str, Any]]]
) -> None:
    told, errors = run(str(HERE / "runs.py")).communicate(timeout=250)
    assert told, errors
    found = json.loads(told)
    assert found["whole"] == found["here"]
    (_, thresholds, _), (_, _, reasons) = found["steered"], found["stopped"]
    assert thresholds == [None, 0.99], "τ acts while the lane writes"
    assert "cancelled" in reasons
    assert (found["sweep"], found["board"]) == ("done", "done")
    assert found["loaded"] == []
    assert "outside" in found["outside"]
    touched, *others = reversed(calls())
    assert touched.keys() == {"touched"}, "by this test alone"
    assert {call["visitor"] for call in others} == {"visitor"}
    assert len({call["seconds"] for call in others}) > 1, "the longer the answer, the longer it has the GPU"


@pytest.mark.browser
def test_the_space_answers_a_visitor(
    run: Callable[..., subprocess.Popen[str]], calls: Callable[[], list[dict[str, Any]]], visit: Callable[..., Page]
) -> None:
    process = run("app.py")
    assert process.stdout is not None
    url = process.stdout.readline().split()[-1].replace("localhost", "127.0.0.1")
    tab = visit(url + "?models=tiny")
    tab.set_extra_http_headers({"x-ip-token": "a visitor"})
    tab.locator("#pace label", has_text="Real time").click()
    tab.click("#run")
    tab.wait_for_selector("#stage [data-state=done]")
    tab.wait_for_selector("#run:not([disabled])")
    tokens = tab.inner_text("[data-lane=b] [data-counter=tokens]")
    assert int(tokens) > int(tab.inner_text("[data-lane=b] .lens-lane-sum").split()[0]) > 0
    assert tab.inner_text("[data-lane=a] [data-counter=tokensPerForward]") == "1.00"
    assert tab.locator(".lens-badge").first.inner_text() in {"✓ right", "× wrong"}
    assert [call.get("visitor", call) for call in calls()] == ["a visitor"]
