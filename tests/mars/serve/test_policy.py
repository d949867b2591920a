"""A busy server: exact decoding changes no text, and `--thresholds` leave τ to those who ask for one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mars.checkpoint.checkpoint import load_checkpoint
from mars.decoding.policy import Policy
from mars.serve.__main__ import main

ROOT = Path(__file__).parents[3]
CHECKPOINT = "assets/checkpoints/mars-b8"
TEXTS = ["Tom has 3 apples.", "Repeat the word pear 4 times.", "Hi", "Write a function that adds two numbers."]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def ask_all(server: Any, times: int, **options: Any) -> list[str]:
    def ask(text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 40, **options}
        found = server.post(json=body)
        assert found.status_code == 200, found.text
        return str(found.json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(ask, TEXTS * times))


def test_the_exact_policy_changes_no_text_under_load(served: Any, serve: Callable[..., Any]) -> None:
    server = serve(places=3, queue=64)
    assert ask_all(server, 3) == ask_all(served, 1, decoder="autoregressive") * 3
    passes = [line for line in server.get("/metrics").text.splitlines() if line.startswith("mars_passes_total")]
    assert len(passes) > 1, passes


def test_the_knob_moves_only_the_open_threshold(serve: Callable[..., Any]) -> None:
    checkpoint = load_checkpoint(CHECKPOINT)
    policy = Policy(checkpoint.engine, (0.5,))
    server = serve(places=1, queue=64, policy=policy, loose="relaxed")
    exact = ask_all(server, 1, decoder="autoregressive")
    ask_all(server, 3)
    assert policy.threshold == 0.5
    assert ask_all(server, 1, decoder="self_speculative") == ask_all(server, 1, block_size=4) == exact, "asked for"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--thresholds", "0.5,0.9"], "must descend, got 0.5,0.9"),
        (["--thresholds", "1.5"], "must be between 0 and 1"),
        (
            ["--thresholds", "0.9", "--decoder", "self_speculative"],
            "which self_speculative has not",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--checkpoint", CHECKPOINT, "--port", "0", *arguments]) == 2
    assert says in capsys.readouterr().err
