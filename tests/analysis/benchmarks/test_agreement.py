"""Agreement with one-token mode, and the command on a tiny checkpoint."""

import json
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from analysis.__main__ import main
from analysis.benchmarks.agreement import Judge, gaps_of
from analysis.commands import agree
from analysis.decoding.answers import texts
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoders import BASELINE, EXACT
from tests.scripted import ReadingModel

SETTINGS = DecodingSettings(block_size=4, max_new_tokens=12)
PROMPTS = [[3], [3, 5], [7, 4, 6], [3, 8]]


def reader(tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
    """Counts up to 9 and ends with 2; masks foresee it."""
    token = tokens[-1] + 1 + masks if tokens[-1] + masks < 9 else 2
    return token, 0.9


@pytest.fixture
def model() -> ReadingModel:
    return ReadingModel(reader, vocab_size=12, mask_token_id=11)


def test_exact_texts_agree_token_by_token(model: ReadingModel) -> None:
    judge = Judge(model, PROMPTS, texts(model, BASELINE, SETTINGS, PROMPTS, 1))
    found = judge.agreement("exact", 3, texts(model, EXACT, SETTINGS, PROMPTS, 3), lossless=True)
    assert (found.n, found.identical, found.tokens, found.wide, found.largest_gap) == (4, 4, 7 + 5 + 4 + 2, 0, 0)
    assert found.share.value == 1
    assert found.holds(same_bits=True)
    assert found.holds(same_bits=False)


def test_a_token_below_the_best_has_a_gap(model: ReadingModel) -> None:
    expected = texts(model, BASELINE, SETTINGS, PROMPTS, 1)
    changed = [(5, *expected[0][1:]), *expected[1:]]
    found = Judge(model, PROMPTS, expected).agreement("exact", 1, changed, lossless=True)
    assert (found.identical, found.wide) == (3, 2), "the next one reads a 5, too"
    assert found.share.value == 16 / 18
    assert found.largest_gap == pytest.approx(torch.tensor(0.9 / (0.1 / 10)).log().item(), rel=1e-4)
    assert not found.holds(same_bits=True)
    assert not found.holds(same_bits=False)
    assert Judge(model, PROMPTS, expected).agreement("τ", 1, changed, lossless=False).holds(same_bits=True)


def test_gaps_are_those_of_the_model_itself(tiny: Checkpoint, tiny_model: PreTrainedModel) -> None:
    """The slow twin: transformers reads prompt and text; the mask token is never the best one."""
    prompt, text = [5, 6, 7], [40, 41, 42, 9]
    with torch.no_grad():
        logits_QV = tiny_model(torch.tensor([[*prompt, *text]])).logits[0, 2:-1]
    logits_QV[:, tiny.engine.mask_token_id] = -torch.inf
    scores_QV = logits_QV.log_softmax(1)
    expected = [(row.max() - row[token]).item() for row, token in zip(scores_QV, text, strict=True)]
    assert gaps_of(tiny.engine, prompt, text) == pytest.approx(expected, abs=1e-4)


def words(folder: Path, *more: str) -> list[str]:
    small = ["--problems", "1", "--max-new-tokens", "6", "--device", "cpu", "--batch-sizes", "1,4"]
    return ["agree", "--checkpoint", str(folder), *small, *more]


def test_the_command_compares_with_one_token_mode(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decoders = f"sliding_window@0.05,{EXACT}/linear"
    assert main(words(tiny_folder, "--decoders", decoders, "--json")) == 0
    *table, last = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in table[1:3]] == decoders.split(",")
    assert "Exact: every text of an exact decoder is identical." in table
    window, exact, *_ = json.loads(last)["results"]
    assert 0 <= window["share"]["low"] <= window["share"]["value"] < 1
    assert (exact["identical"], exact["share"]["value"], exact["holds"]) == (6, 1.0, True)


def test_questions_are_compared_with_generate(
    tiny_folder: Path, question_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--questions", str(question_file), "--reference", "generate", "--decoders", f"{EXACT}/lookup"]
    assert main(words(tiny_folder, *given)) == 0
    assert "4 first turns of" in capsys.readouterr().out


def test_a_broken_promise_is_exit_code_1(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*given: object) -> list[tuple[int, ...]]:
        return [(text[0] + (given[1] == EXACT), *text[1:]) for text in texts(*given)]  # type: ignore[arg-type]

    monkeypatch.setattr(agree, "texts", broken)
    assert main(words(tiny_folder, "--decoders", f"{EXACT}/linear", "--batch-sizes", "4")) == 1
    assert f"NOT exact: {EXACT}/linear at batch size 4." in capsys.readouterr().out.splitlines()
