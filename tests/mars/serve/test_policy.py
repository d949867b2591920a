"""The policies of a server: what the budget allows, that `exact` changes no text, and that `knob` leaves the others."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mars.decoding.controller import Controller
from mars.decoding.experience import EXACT, Goodput
from mars.decoding.method import Row
from mars.decoding.promise import Promise
from mars.serve import budget

ROOT = Path(__file__).parents[3]
CHECKPOINT, RUNS = "assets/checkpoints/mars-b8", ROOT / "assets" / "runs"
TEXTS = ["Tom has 3 apples.", "Repeat the word pear 4 times.", "Hi", "Write a function that adds two numbers."]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("points", "allowed"), [(3, (0.99,)), (5, (0.99, 0.95)), (10, (0.99, 0.95, 0.9, 0.8)), (100, 7)]
)
def test_a_budget_allows_the_thresholds_above_the_first_that_may_lose_more(points: float, allowed: Any) -> None:
    found = budget.within(points, CHECKPOINT, 8, RUNS)
    assert len(found) == allowed if isinstance(allowed, int) else found == allowed


@pytest.mark.parametrize(
    ("points", "source", "block_size", "says"),
    [
        (1, CHECKPOINT, 8, "may lose 2.55 points"),
        (5, CHECKPOINT, 5, "no runs of assets/checkpoints/mars-b8"),
        (5, "assets/adapters/smollm2-135m-mars", 8, "measure them with python -m analysis sweep"),
        (0, CHECKPOINT, 8, "must be above 0"),
    ],
)
def test_what_no_run_supports_is_refused(points: float, source: str, block_size: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        budget.within(points, source, block_size, RUNS)


def test_runs_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        budget.within(5, CHECKPOINT, 8, tmp_path)


def test_the_loss_is_an_upper_limit_of_paired_answers() -> None:
    base = {number: number < 80 for number in range(100)}
    assert 0 < budget.loss_at_most(base, base) < 3, "no difference in 100 problems is no proof of none"
    worse = {number: number < 70 for number in range(100)}
    assert 10 < budget.loss_at_most(base, worse) < 20
    assert budget.loss_at_most(worse, base) < 0
    with pytest.raises(ValueError, match="other problems"):
        budget.loss_at_most(base, {1: True})


def test_relaxed_verification_has_a_budget_of_its_own(tmp_path: Path) -> None:
    """Runs of windows that become runs of `relaxed`: their thresholds are then its own, and windows are not tried."""
    index = json.loads((RUNS / "index.json").read_text())
    windows = budget.within(10, CHECKPOINT, 8, RUNS)
    for others in (True, False):
        relaxed = [run | {"decoder": "relaxed"} for run in index["runs"] if run.get("decoder") == "sliding_window"]
        found = [*(index["runs"] if others else ()), *relaxed]
        (tmp_path / "index.json").write_text(json.dumps({"runs": found}))
        for run in relaxed:
            file = tmp_path / f"{run['id']}.parquet"
            if not file.exists() and (RUNS / file.name).exists():
                file.symlink_to(RUNS / file.name)
        assert budget.allowed(10, CHECKPOINT, 8, tmp_path) == (windows, True)
    assert budget.allowed(10, CHECKPOINT, 8, RUNS) == (windows, False)
    with pytest.raises(ValueError, match="may lose"):
        budget.allowed(1, CHECKPOINT, 8, RUNS)


def ask_all(server: Any, times: int, **options: Any) -> list[str]:
    def ask(text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 40, **options}
        found = server.post(json=body)
        assert found.status_code == 200, found.text
        return str(found.json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(ask, TEXTS * times))


def test_the_exact_policy_changes_no_text_under_load(served: Any, serve: Callable[..., Any]) -> None:
    server = serve(places=3, queue=64, controller=Controller())
    assert ask_all(server, 3) == ask_all(served, 1, decoder="autoregressive") * 3
    passes = [line for line in server.get("/metrics").text.splitlines() if line.startswith("mars_passes_total")]
    assert len(passes) > 1, passes


class Dice(Controller):
    """Lets any rows spend anything."""

    def __init__(self) -> None:
        super().__init__()
        self._dice = random.Random(3)

    def _choose(self, rows: Sequence[Row], others: int, *, hurry: bool) -> Goodput:
        self.choice = self._dice.choice(EXACT)
        self._drafts = 7
        found = self._best(self.choice, rows, others)
        return replace(found, spending={row.number for row in rows if self._dice.random() < 0.7})


def test_texts_are_the_same_whatever_is_chosen(served: Any, serve: Callable[..., Any]) -> None:
    server = serve(places=3, queue=64, controller=Dice())
    assert ask_all(server, 3) == ask_all(served, 1, decoder="autoregressive") * 3
    metrics = server.get("/metrics").text
    assert all(f'mars_passes_total{{layout="{choice.layout}"}}' in metrics for choice in EXACT), metrics


def test_the_knob_turns_under_load_and_only_for_those_who_leave_it_open(served: Any, serve: Callable[..., Any]) -> None:
    controller = Controller((0.99, 0.5))
    server = serve(places=1, queue=64, controller=controller)
    exact = ask_all(served, 1, decoder="autoregressive")
    ask_all(server, 3)
    assert controller.threshold == 0.5
    assert ask_all(server, 1, decoder="self_speculative") == exact, "asked for"


def test_the_knob_relaxes_verification_only_of_those_who_leave_it_open(serve: Callable[..., Any]) -> None:
    controller = Controller((0.5,), relaxed=True)
    server = serve(places=1, queue=64, controller=controller, loose="relaxed")
    exact = ask_all(server, 1, decoder="autoregressive")
    ask_all(server, 3)
    assert controller.threshold == 0.5
    assert ask_all(server, 1, decoder="self_speculative") == ask_all(server, 1, block_size=4) == exact, "asked for"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policy", "knob"], "needs --accuracy-budget"),
        (["--accuracy-budget", "3"], "which no other policy takes"),
        (["--policy", "knob", "--accuracy-budget", "3", "--decoder", "autoregressive"], "decodes by self_speculative"),
        (["--policy", "knob", "--accuracy-budget", "0.1"], "may lose"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from mars.serve.__main__ import main

    assert main(["--checkpoint", CHECKPOINT, "--port", "0", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_the_policies_make_controllers() -> None:
    from mars.serve.__main__ import parser
    from mars.serve.application import application

    def policy(*arguments: str) -> Any:
        app, _ = application(parser().parse_args(["--checkpoint", CHECKPOINT, *arguments]))
        [text] = [line for line in _metrics(app).splitlines() if line.startswith("mars_threshold{")]
        return text

    assert policy("--policy", "none") == policy() == 'mars_threshold{model="mars-b8"} 1.0'
    assert policy("--policy", "knob", "--accuracy-budget", "5") == 'mars_threshold{model="mars-b8"} 1.0'


def test_the_policies_know_what_is_promised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mars.serve.__main__ import parser
    from mars.serve.application import application

    told: list[float | None] = []
    monkeypatch.setattr("mars.decoding.controller.Promise", lambda tpot: told.append(tpot) or Promise(tpot))
    for arguments in ([], ["--tpot", "0.025"], ["--tpot", "0.05", "--policy", "knob", "--accuracy-budget", "5"]):
        application(parser().parse_args(["--checkpoint", CHECKPOINT, *arguments]))
    assert told == [None, 0.025, 0.05]
    with pytest.raises(SystemExit):
        parser().parse_args(["--checkpoint", CHECKPOINT, "--tpot", "0"])
    assert "argument --tpot: must be a number of seconds above 0" in capsys.readouterr().err


def _metrics(app: Any) -> str:
    from starlette.testclient import TestClient

    with TestClient(app) as client:
        return str(client.get("/metrics").text)
