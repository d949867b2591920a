"""The model `mars` against the harness's own `hf` model: the same questions, the same texts, the same answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="requirements-eval.txt is not installed")

import lm_eval.evaluator
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from analysis.harness.journal import Journal
from analysis.harness.model import MarsLM
from mars.checkpoint import Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.decoding.pair import Pair

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "assets" / "checkpoints" / "mars-b8"
TASKS = ["local_sums", "local_colours"]
PLAIN: dict[str, Any] = {}
TURNS = {"apply_chat_template": True, "gen_kwargs": {"until": ["\n\n", " so "], "max_gen_toks": 30}}
TIGHT = {"gen_kwargs": {"until": [".", "Q:"], "max_gen_toks": 1000}}  # leaves 24 of the prompt's tokens
GenerationRequest = dict[str, list[tuple[Any, Any]]]

pytestmark = pytest.mark.usefixtures("one_thread", "local_data")


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint(FOLDER, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def manager() -> TaskManager:
    return TaskManager(include_path="tests/data/lm_eval", include_defaults=False)


@pytest.fixture(scope="module")
def ask(manager: TaskManager) -> Callable[..., GenerationRequest]:
    """What a model answers in each task: its responses, and what was extracted from them."""

    def of(lm: Any, options: dict[str, Any], tasks: list[str] = TASKS) -> GenerationRequest:
        found = lm_eval.simple_evaluate(lm, tasks=tasks, task_manager=manager, bootstrap_iters=0, **options)
        return {
            task: [(sample["resps"], sample["filtered_resps"]) for sample in samples]
            for task, samples in found["samples"].items()
        }

    return of


@pytest.fixture(scope="module")
def expected(ask: Callable[..., GenerationRequest]) -> dict[str, GenerationRequest]:
    hf = HFLM(pretrained=str(FOLDER), dtype="float32", device="cpu", batch_size=1)
    return {"plain": ask(hf, PLAIN), "turns": ask(hf, TURNS)}


def texts(request: GenerationRequest) -> list[str]:
    return [responses[0][0] for responses, _ in request["local_sums"]]


@pytest.mark.parametrize(
    ("decoder", "way", "options"),
    [
        *((name, "plain", PLAIN) for name in ("autoregressive", "jacobi", "block_cached", "speculative")),
        *((name, "turns", TURNS) for name in ("sliding_window", "self_speculative")),
    ],
)
def test_exact_decoding_answers_as_hf_does(
    decoder: str,
    way: str,
    options: dict[str, Any],
    checkpoint: Checkpoint,
    ask: Callable[..., GenerationRequest],
    expected: dict[str, GenerationRequest],
) -> None:
    if decoder == "speculative":
        checkpoint = replace(checkpoint, engine=Pair(checkpoint.engine, checkpoint.engine))
    lm = MarsLM(checkpoint, decoder, DecodingSettings(threshold=None), batch_size=4)
    found = ask(lm, options, TASKS[:1])
    assert found["local_sums"] == expected[way]["local_sums"]
    assert len(texts(found)) == 12  # six questions, two filters
    assert len(set(texts(found))) > 1


def test_answers_really_ended_at_stop_strings(expected: dict[str, GenerationRequest], checkpoint: Checkpoint) -> None:
    """Else the comparison above would say nothing about them."""
    lengths = [len(checkpoint.tokenizer(text)["input_ids"]) for text in texts(expected["plain"])]
    assert min(lengths) < 20
    assert all(stop not in text for text in texts(expected["plain"]) for stop in ("Q:", "\n\n", ". "))


@pytest.mark.parametrize(("way", "options"), [("plain", PLAIN), ("turns", TURNS)])
def test_likelihoods_are_those_of_hf(
    way: str,
    options: dict[str, Any],
    checkpoint: Checkpoint,
    ask: Callable[..., GenerationRequest],
    expected: dict[str, GenerationRequest],
) -> None:
    options = {name: value for name, value in options.items() if name != "gen_kwargs"}
    lm = MarsLM(checkpoint, "autoregressive", DecodingSettings(), batch_size=1)
    assert ask(lm, options, TASKS[1:])["local_colours"] == expected[way]["local_colours"]


def test_prompts_that_do_not_fit_are_refused(checkpoint: Checkpoint, ask: Callable[..., GenerationRequest]) -> None:
    lm = MarsLM(checkpoint, "autoregressive", DecodingSettings(), batch_size=3)
    with pytest.raises(ValueError, match="6 of 6 prompts do not fit the context of 1024 tokens and answers of 1000"):
        ask(lm, TIGHT, TASKS[:1])
    assert lm.journal.results == {}


def test_stopping_early_changes_no_text(checkpoint: Checkpoint, ask: Callable[..., GenerationRequest]) -> None:
    def written(until: list[str]) -> tuple[list[str], int]:
        lm = MarsLM(checkpoint, "sliding_window", DecodingSettings(threshold=0.6), batch_size=2)
        found = ask(lm, {"gen_kwargs": {"until": until, "max_gen_toks": 40}}, TASKS[:1])
        return texts(found), sum(result["passes"] for result in lm.journal.results.values())

    whole, passes = written([])
    stopped, fewer = written(["Q:", "4"])
    assert stopped == [text.split("Q:")[0].split("4")[0] for text in whole] != whole
    assert fewer < passes


def test_a_journal_spares_what_it_holds(
    checkpoint: Checkpoint, ask: Callable[..., GenerationRequest], tmp_path: Path
) -> None:
    settings = DecodingSettings(threshold=0.9)
    lm = MarsLM(checkpoint, "sliding_window", settings, batch_size=2, journal=Journal(tmp_path / "journal"))
    first = ask(lm, PLAIN, TASKS[:1])
    lm = MarsLM(checkpoint, "sliding_window", settings, batch_size=2, journal=Journal(tmp_path / "journal"))
    lm._engine = lm._model = None  # whoever needs a model now fails
    assert texts(ask(lm, PLAIN, TASKS[:1])) == texts(first)


def test_drawn_answers_depend_on_the_seed_alone(checkpoint: Checkpoint, ask: Callable[..., GenerationRequest]) -> None:
    options = {"gen_kwargs": {"do_sample": True, "temperature": 1.0, "top_p": 0.9, "max_gen_toks": 12}}

    def drawn(seed: int, batch_size: int) -> list[str]:
        settings = DecodingSettings(threshold=None, seed=seed)
        return texts(ask(MarsLM(checkpoint, "sliding_window", settings, batch_size=batch_size), options, TASKS[:1]))

    assert drawn(1, 1) == drawn(1, 4) != drawn(2, 4)


def test_what_it_refuses(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError, match="decoder must be one of"):
        MarsLM(checkpoint, "beam", DecodingSettings())
    with pytest.raises(ValueError, match="batch_size must be >= 1"):
        MarsLM(checkpoint, "autoregressive", DecodingSettings(), batch_size=0)
    with pytest.raises(ValueError, match="max_gen_toks must be < the context length of 1024, got 1024"):
        MarsLM(checkpoint, "autoregressive", DecodingSettings()).request({"max_gen_toks": 1024})
