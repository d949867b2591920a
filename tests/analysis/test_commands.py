"""What the commands refuse, on a tiny checkpoint: one sentence of the command, and nothing is run."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from analysis.__main__ import main

USUAL = {
    "bench": "--problems 1 --max-new-tokens 4 --batch-sizes 6",
    "evaluate": "--problems 2 --seed 3 --max-new-tokens 6",
    "agree": "--problems 1 --max-new-tokens 6 --batch-sizes 1,4",
    "spec-bench": "--max-new-tokens 6",
    "ifeval": "--max-new-tokens 8",
}
HARNESS = pytest.mark.skipif(find_spec("lm_eval") is None, reason="requirements-eval.txt is not installed")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("bench --decoders beam", "decoders must be some of: generate; autoregressive;"),
        ("bench --decoders sliding_window@2", "threshold must be between 0 and 1"),
        ("bench --batch-sizes 1,x", "batch sizes must be whole numbers >= 1, separated by commas, got '1,x'"),
        ("bench --batch-sizes 7", "batch sizes must be from 1 to the 6 prompts"),
        ("bench --repeats 2", "repeats must be >= 5, got 2"),
        ("bench --max-new-tokens 100000", "max_new_tokens must be < the context length"),
        ("evaluate --decoders beam", "decoders must be some of"),
        ("evaluate --tasks cooking", "tasks must be all or some of"),
        ("evaluate --batch-size 0", "batch_size must be >= 1"),
        ("evaluate --threshold high", "a threshold must be a number or none"),
        ("evaluate --max-new-tokens 100000", "does not fit"),
        ("evaluate --checkpoint no/such/folder", "no/such/folder"),
        ("evaluate --runs README.md", "README.md/work cannot be read or written: Not a directory"),
        ("columns --output no/such/x.json", "--output no/such/x.json cannot be written: there is no folder no/such"),
        ("agree --decoders self_speculative/round", "decoders must be some of"),
        ("agree --max-new-tokens 100000", "max_new_tokens must be < the context length"),
        ("spec-bench --decoders generate", "decoders must be decoders of ours, got generate"),
        ("spec-bench --decoders speculative", "speculative needs --draft SOURCE"),
        ("spec-bench --threads 0", "threads must be >= 1, got 0"),
        ("spec-bench --max-new-tokens 380", "question 81 of spec_bench does not fit"),
        pytest.param("ifeval --max-new-tokens 380", "question 1000 of ifeval does not fit", marks=HARNESS),
        pytest.param("ifeval --task own --prompts no/such.jsonl", "file no/such.jsonl does not exist", marks=HARNESS),
        pytest.param("ifeval --task ifeval --prompts x", "task must be a name of your own for ", marks=HARNESS),
    ],
)
def test_bad_input_is_one_sentence(
    words: str, sentence: str, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *more = words.split()
    places = [] if command in ("bench", "agree", "columns") else ["--runs", str(tmp_path / "runs")]
    usual = ["--checkpoint", str(tiny_folder), "--device", "cpu", *places, *USUAL.get(command, "").split()]
    assert main([command, *usual, *more]) == 2
    output = capsys.readouterr()
    last = output.err.splitlines()[-1]
    assert last.startswith(f"analysis {command}: ")
    assert sentence in last
    assert "Traceback" not in output.err
    assert output.out == ""
