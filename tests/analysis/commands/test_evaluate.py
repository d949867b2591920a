"""`python -m analysis evaluate` on a tiny checkpoint: output, errors, and the batch size that changes nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.evaluations.evaluate import Plan, evaluate
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.tasks import TASKS

ROOT = Path(__file__).parents[3]
SMALL = ["--problems", "1", "--seed", "3", "--max-new-tokens", "6", "--device", "cpu", "--dtype", "float32"]


def command(folder: Path, *more: str) -> list[str]:
    options = ["evaluate", "--checkpoint", str(folder), "--decoder", "sliding_window", *SMALL]
    return [*options, *more]


def test_json_is_the_last_line_of_stdout(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tiny_folder, "--threshold", "0.5", "--batch-size", "2", "--json")) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["task", *TASKS, "mean"]
    found = json.loads(lines[-1])
    assert set(found["accuracy"]) == {"mean", *TASKS}
    assert found["tokens_per_forward"] == found["tokens"] / found["passes"] >= 1
    assert found["tokens_per_second"] > 0
    assert (found["n"], found["seed"], found["threshold"], found["batch_size"]) == (6, 3, 0.5, 2)
    assert (found["decoder"], found["device"], found["dtype"]) == ("sliding_window", "cpu", "float32")
    assert found["checkpoint"] == str(tiny_folder)
    assert found["settings"]["block_size"] == 4  # from the training record
    assert {"hardware", "date", "commit", "command"} <= set(found)
    assert "6/6" in output.err


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_is_reached_with_its_options(
    decoder: str, tiny_folder: Path, tiny_diffusion_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_diffusion_folder if decoder == "block_diffusion" else tiny_folder
    draft = ["--draft", str(tiny_folder)] if decoder == "speculative" else []
    given = "--layout linear --cache-block-size 12 --draft-tokens 3 --temperature 0.5 --top-p 0.9 --sampling-seed 11"
    more = ["--decoder", decoder, "--tasks", "logic", "--json", *draft, *given.split()]
    assert main(command(folder, *more)) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["decoder"], found["draft"]) == (decoder, draft[1] if draft else None)
    settings = found["settings"]
    assert (settings["layout"], settings["cache_block_size"], settings["draft_tokens"]) == ("linear", 12, 3)
    assert (settings["temperature"], settings["top_p"], settings["seed"]) == (0.5, 0.9, 11)
    assert settings["continuation"] is False
    assert found["seed"] == 3, "the problems' seed is another one"


def test_some_tasks_one_token_mode_no_json(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(tiny_folder, "--tasks", "table_lookup, logic", "--threshold", "none")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["task", "table_lookup", "logic", "mean"]
    assert {line.split()[-2] for line in lines[1:]} == {"1.00"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--tasks", "chess"], "tasks must be all or some of word_problems"),
        (["--tasks", ""], "tasks must be"),
        (["--decoder", "beam"], "decoder must be one of autoregressive"),
        (["--problems", "0"], "problems must be between 1 and 1000000, got 0"),
        (["--problems", "-3"], "got -3"),
        (["--seed", "-1"], "seed must be >= 0"),
        (["--batch-size", "0"], "batch_size must be >= 1, got 0"),
        (["--threshold", "1.5"], "threshold must be between 0 and 1"),
        (["--score", "luck"], "score must be one of"),
        (["--max-new-tokens", "0"], "max_new_tokens must be >= 1, got 0"),
        (["--max-new-tokens", "100000"], "max_new_tokens must be < the context length"),
        (["--temperature", "-1"], "temperature must be a finite number >= 0"),
        (["--top-p", "2"], "top_p must be above 0 and at most 1"),
        (["--sampling-seed", "-1"], "seed must be between 0 and"),
        (["--cache-block-size", "0"], "cache_block_size must be between 1 and"),
        (["--draft", "no/such/folder"], "--draft is for --decoder speculative"),
        (["--block-size", "0"], "block_size must be between 1 and"),
        (["--checkpoint", "no/such/folder"], "no/such/folder"),
    ],
)
def test_bad_input_is_one_sentence(
    tiny_folder: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(tiny_folder, *more)) == 2
    output = capsys.readouterr()
    sentence = output.err.splitlines()[-1]
    assert sentence.startswith("analysis evaluate: ")
    assert words in sentence
    assert "Traceback" not in output.err
    assert output.out == ""


@pytest.mark.parametrize(
    "more", [["--problems", "many"], ["--threshold", "high"], ["--problem", "3"], ["--dtype", "float16"]]
)
def test_bad_options_exit_with_2(tiny_folder: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(command(tiny_folder, *more))
    assert stop.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_batch_size_changes_no_outcome(tiny: Checkpoint, threshold: float | None) -> None:
    settings = DecodingSettings(block_size=4, threshold=threshold, max_new_tokens=8)
    plans = [Plan(problems=3, seed=1, tasks=("logic", "multiple_choice"), batch_size=size) for size in (1, 2, 3)]
    first, *others = (evaluate(tiny, "sliding_window", settings, plan).overall for plan in plans)
    for other in others:
        assert (other.correct, other.tokens, other.passes) == (first.correct, first.tokens, first.passes)


@pytest.mark.slow
def test_runs_without_the_page_s_libraries(tiny_folder: Path) -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('gradio', 'plotly', 'playwright')))\n"
        "from analysis.__main__ import main\n"
        f"sys.exit(main({command(tiny_folder, '--tasks', 'logic')!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("task")
