"""Agreement of exact decoding with the baseline, on scripted models, and the command on a tiny checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from analysis.__main__ import main
from analysis.decoding import answers
from analysis.decoding.answers import Answer
from analysis.evaluations.agreement import EXACT, LARGEST_GAP, Agreement, agreements, gaps
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding.base import Prompts
from mars.engine import Engine
from mars.scripted import ReadingModel

SETTINGS = DecodingSettings(block_size=4, max_new_tokens=12)


def reader(tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
    """Counts up to 9 and ends with 2; masks foresee it."""
    token = tokens[-1] + 1 + masks if tokens[-1] + masks < 9 else 2
    return token, 0.9


def model() -> ReadingModel:
    return ReadingModel(reader, vocab_size=12, mask_token_id=11)


def found(**changes: object) -> Agreement:
    base = {"layout": "linear", "batch_size": 1, "n": 3, "identical": 3, "tokens": 9, "best": 9}
    return Agreement(**{**base, "wide": 0, "largest_gap": 0.0, "widest": (0, 0), **changes})  # type: ignore[arg-type]


def test_every_layout_agrees_at_every_batch_size() -> None:
    done: list[int] = []
    prompts = [[3], [3, 5], [7, 4, 6], [3, 8]]
    results = list(agreements(model(), prompts, SETTINGS, ("linear", "quadratic"), (1, 3), done.append))
    assert [(result.layout, result.batch_size) for result in results] == [
        (layout, size) for size in (1, 3) for layout in (None, "linear", "quadratic")
    ]
    assert sum(done) == 6
    tokens = 7 + 5 + 4 + 2  # up to 9, then the end
    for result in results:
        assert (result.n, result.identical, result.tokens, result.best, result.wide) == (4, 4, tokens, tokens, 0)
        assert result.largest_gap == 0
        assert result.holds("float32")
        assert result.holds("bfloat16")


def test_a_token_that_is_not_the_best_has_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact decoder's last token is another one than the model's."""

    def broken(
        engine: Engine, decoder: str, settings: DecodingSettings, prompts: Prompts, places: int
    ) -> Iterator[tuple[int, Answer]]:
        wrong = [[*prompt[:-1], prompt[-1] + (decoder == EXACT)] for prompt in prompts]
        return right(engine, decoder, settings, wrong, places)

    right = answers.answers
    monkeypatch.setattr(answers, "answers", broken)
    baseline, exact = agreements(model(), [[3], [9]], SETTINGS, ("linear",), (2,))
    assert baseline.holds("float32")
    assert (exact.identical, exact.best, exact.wide, exact.widest) == (1, exact.tokens - 1, 1, (0, 0))
    assert exact.largest_gap == pytest.approx(torch.tensor(0.9 / (0.1 / 10)).log().item(), rel=1e-4)
    assert not exact.holds("float32")
    assert not exact.holds("bfloat16")


def test_what_is_promised() -> None:
    assert found().holds("float32")
    assert not found(identical=2).holds("float32")
    assert found(identical=2, largest_gap=LARGEST_GAP).holds("bfloat16")
    assert not found(wide=1).holds("bfloat16")
    assert found(wide=1, layout=None).holds("bfloat16")
    assert not found(identical=2).holds("bfloat16", same_bits=True)
    assert not found(identical=2, layout=None).holds("bfloat16", same_bits=True)


def test_gaps_are_those_of_the_model_itself(tiny: Checkpoint, tiny_model: PreTrainedModel) -> None:
    """The slow twin: transformers reads prompt and text; the mask token is never the best one."""
    prompt, text = [5, 6, 7], [40, 41, 42, 9]
    with torch.no_grad():
        logits_QV = tiny_model(torch.tensor([[*prompt, *text]])).logits[0, 2:-1]
    logits_QV[:, tiny.engine.mask_token_id] = -torch.inf
    scores_QV = logits_QV.log_softmax(1)
    expected = [(row.max() - row[token]).item() for row, token in zip(scores_QV, text, strict=True)]
    assert gaps(tiny.engine, prompt, text) == pytest.approx(expected, abs=1e-4)


def words(folder: Path, *more: str) -> list[str]:
    small = ["--problems", "1", "--max-new-tokens", "6", "--device", "cpu", "--batch-sizes", "1,4"]
    return ["agree", "--checkpoint", str(folder), *small, *more]


def test_the_command(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(tiny_folder, "--json")) == 0
    output = capsys.readouterr()
    *table, last = output.out.splitlines()
    assert [line.split("  ")[0] for line in table[1:5]] == [
        "autoregressive", f"{EXACT}/linear", f"{EXACT}/quadratic", f"{EXACT}/lookup"
    ]  # fmt: skip
    assert len({len(line) for line in table[:9]}) == 1
    assert "Exact: every text is identical." in table
    described = json.loads(last)
    assert described["holds"] is True
    assert len(described["results"]) == 10
    assert all(result["identical"] == result["n"] == 6 for result in described["results"])
    assert (described["dtype"], described["seed"], described["settings"]["block_size"]) == ("float32", 0, 4)
    assert "10/10" in output.err


@pytest.mark.parametrize(
    ("more", "change", "sentence"),
    [
        ("float32", {"identical": 2}, "NOT exact: self_speculative/linear at batch size 1."),
        ("bfloat16", {"identical": 2}, "NOT exact: self_speculative/linear at batch size 1."),
        (
            "bfloat16 --no-invariant",
            {"wide": 1},
            "NOT exact: gaps above 0.05 in self_speculative/linear at batch size 1.",
        ),
    ],
)
def test_a_broken_promise_is_exit_code_1(
    tiny_folder: Path,
    more: str,
    change: dict[str, int],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("analysis.commands.agree.agreements", lambda *_: [found(**change)])
    assert main(words(tiny_folder, "--dtype", *more.split())) == 1
    assert sentence in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--layouts", "linear,round"], "layouts must be some of auto, linear, quadratic, tree, lookup, each once"),
        (["--layouts", "auto,auto"], "each once"),
        (["--batch-sizes", "0"], "batch sizes must be whole numbers >= 1"),
        (["--problems", "0"], "problems must be between 1"),
        (["--max-new-tokens", "0"], "max_new_tokens must be >= 1"),
        (["--max-new-tokens", "100000"], "max_new_tokens must be < the context length"),
        (["--checkpoint", "no/such/folder"], "no/such/folder"),
    ],
)
def test_bad_input_is_one_sentence(
    tiny_folder: Path, more: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(tiny_folder, *more)) == 2
    output = capsys.readouterr()
    assert sentence in output.err.splitlines()[-1]
    assert output.out == ""
