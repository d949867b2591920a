"""Our texts against those of `generate` and of our AR: identical in float32, gaps of differences, the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from analysis.__main__ import main
from analysis.benchmarks.against_reference import Comparison, Difference, compare, top_gap
from analysis.benchmarks.lanes import BenchmarkLane
from analysis.benchmarks.questions import Question
from analysis.decoding.timed import Generate
from analysis.harness.journal import Journal
from mars.checkpoint import Checkpoint


class Parrot:
    """In place of `generate`: says what it was told to."""

    def __init__(self, texts: list[tuple[int, ...]]) -> None:
        self.said = iter(texts)

    def texts(self, _: object) -> list[tuple[int, ...]]:
        return [next(self.said)]


def found(
    generate: Any, lanes: list[BenchmarkLane], questions: list[Question], sizes: tuple[int, ...] = (1,)
) -> list[Any]:
    return list(compare(generate.texts, lanes, questions, sizes, Journal(), lambda _: None))


def test_every_lossless_decoder_writes_what_generate_writes(
    lanes: Callable[..., list[BenchmarkLane]], questions: list[Question], tiny: Checkpoint, tiny_model: PreTrainedModel
) -> None:
    generate = Generate(tiny_model, tiny.engine.stop_token_ids, 10)
    exact = lanes("autoregressive,self_speculative/linear,self_speculative/quadratic,jacobi", 10)
    for each in found(generate, exact, questions, (1, 3)):
        assert (each.n, each.identical, each.wide) == (4, 4, 0), each.label


def test_a_difference_has_its_place_and_its_gap(
    lanes: Callable[..., list[BenchmarkLane]], questions: list[Question], tiny: Checkpoint, tiny_model: PreTrainedModel
) -> None:
    [lane], asked = lanes("autoregressive"), questions[2:]
    prompts = [tiny.encode(question.turns[0]) for question in asked]
    right = [Generate(tiny_model, tiny.engine.stop_token_ids, 6).texts([prompt])[0] for prompt in prompts]
    told = [(*right[0][:3], right[0][3] + 1), right[1]]
    [each] = found(Parrot(told), [lane], asked)
    assert each.identical == 1
    [difference] = each.differences
    assert (difference.question, difference.token) == (201, 3)
    assert (difference.ours, difference.theirs) == (right[0][3], right[0][3] + 1)
    assert difference.gap == top_gap(tiny.engine, [*prompts[0], *right[0][:3]]) > 0
    [each] = found(Parrot([right[0][:2], right[1]]), [lane], asked)
    assert (each.differences[0].token, each.differences[0].theirs) == (2, None)


def test_the_gap_is_that_of_the_model_itself(tiny: Checkpoint, tiny_model: PreTrainedModel) -> None:
    """The slow twin: transformers reads the same ids; the mask token is never the best one."""
    ids = [5, 6, 7, 40, 41]
    with torch.no_grad():
        logits_V = tiny_model(torch.tensor([ids])).logits[0, -1]
    logits_V[tiny.engine.mask_token_id] = -torch.inf
    best, second = logits_V.topk(2).values.tolist()
    assert top_gap(tiny.engine, ids) == pytest.approx(best - second, abs=1e-4)


def test_what_the_journal_has_is_not_written_again(
    lanes: Callable[..., list[BenchmarkLane]],
    questions: list[Question],
    tiny: Checkpoint,
    tiny_model: PreTrainedModel,
    tmp_path: Path,
) -> None:
    generate, exact = Generate(tiny_model, tiny.engine.stop_token_ids, 6), lanes("autoregressive")
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        list(compare(generate.texts, exact, questions, (1,), journal, lambda _: None))
    done: list[int] = []
    with Journal(path) as journal:
        [each] = compare(Parrot([]).texts, exact, questions, (1,), journal, done.append)
    assert (each.identical, sum(done)) == (4, 8)


@pytest.fixture
def words(tiny_folder: Path, question_file: Path) -> Callable[..., list[str]]:
    """The words of the command, on the tiny checkpoint."""

    def of(*more: str) -> list[str]:
        given = ["agree", "--checkpoint", str(tiny_folder), "--questions", str(question_file)]
        return [*given, "--max-new-tokens", "6", "--device", "cpu", "--batch-sizes", "1,3", *more]

    return of


def test_the_command(words: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("--layouts", "linear", "--json", "--journal", str(tmp_path))) == 0
    output = capsys.readouterr().out
    assert "Exact: every text is that of generate." in output.splitlines()
    told = json.loads(output.splitlines()[-1])
    assert told["holds"] is True
    assert [(each["label"], each["batch_size"], each["identical"]) for each in told["results"]] == [
        ("autoregressive", 1, 4),
        ("self_speculative/linear", 1, 4),
        ("autoregressive", 3, 4),
        ("self_speculative/linear", 3, 4),
    ]
    assert list(tmp_path.glob(".agree*")) == [], "a complete run leaves no journal"


def test_in_bfloat16_invariant_passes_write_the_texts_of_our_ar(
    words: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = words("--reference", "autoregressive", "--dtype", "bfloat16", "--layouts", "linear,lookup", "--json")
    assert main(asked) == 0
    output = capsys.readouterr().out
    assert "Exact: every text is that of autoregressive." in output.splitlines()
    told = json.loads(output.splitlines()[-1])
    assert told["invariant"] is True
    assert {each["identical"] for each in told["results"]} == {4}


def test_only_this_code_goes_on_with_a_journal(
    words: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Texts of another commit, or of other passes, are not taken for those of this one."""
    stop = RuntimeError("interrupted")

    def interrupted(*_: Any) -> None:
        raise stop

    monkeypatch.setattr("analysis.commands.agree.compare", interrupted)
    for commit, more in (("a", []), ("b", []), ("b", ["--no-invariant"]), ("b", [])):
        monkeypatch.setattr("analysis.commands.agree.commit", lambda commit=commit: commit)
        with pytest.raises(RuntimeError):
            main(words("--journal", str(tmp_path), *more))
    assert len(list(tmp_path.glob(".agree*"))) == 3


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        ("--dtype float32", 1, "NOT exact: 2 texts differ from those of generate."),
        ("--dtype bfloat16", 0, "2 texts differ from those of generate, 1 of them at a near-tie."),
        (
            "--dtype bfloat16 --reference autoregressive --no-invariant",
            0,
            "2 texts differ from those of autoregressive, 1 of them at a near-tie.",
        ),
        (
            "--dtype bfloat16 --reference autoregressive",
            1,
            "NOT exact: 2 texts differ from those of autoregressive.",
        ),
    ],
)
def test_differences_are_listed(
    more: str,
    code: int,
    sentence: str,
    words: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    differences = tuple(
        Difference(question=number, token=2, ours=7, theirs=None, gap=gap) for number, gap in ((81, 0.1), (201, 0.9))
    )
    made = Comparison(label="jacobi", batch_size=1, n=4, tokens=24, differences=differences)
    monkeypatch.setattr("analysis.commands.agree.compare", lambda *_: [made])
    assert main(words(*more.split())) == code
    lines = capsys.readouterr().out.splitlines()
    assert sentence in lines
    listed = [line.split() for line in lines if line.startswith("jacobi")]
    assert [line[-1] for line in listed[1:]] == ["0.9", "0.1"], "the widest first"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("--questions no/such.jsonl", "no/such.jsonl cannot be read"),
        ("--decoders generate", "decoders must be decoders of one checkpoint"),
        ("--against no/such/folder", "no/such/folder"),
        ("--max-new-tokens 380", "does not fit"),
    ],
)
def test_bad_input_is_one_sentence(
    more: str, sentence: str, words: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(*more.split())) == 2
    output = capsys.readouterr()
    assert sentence in output.err.splitlines()[-1]
    assert output.out == ""
