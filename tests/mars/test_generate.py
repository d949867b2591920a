"""The generate command, run as its user does."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from mars.checkpoint import Checkpoint
from mars.decoding import DECODERS
from mars.generate import COLOURS, RESET, Painter, main
from mars.metrics import output_ids
from mars.records import from_json
from mars.text import printable
from tests.forked import LIMIT, forked

ROOT = Path(__file__).parents[2]


@pytest.fixture
def options(tiny_folder: Path) -> list[str]:
    return ["--checkpoint", str(tiny_folder), "--prompt", "Tom has 3 apples.", "--max-new-tokens", "24"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def whole(text: str) -> str:
    """Without what stands for bytes that are no character, which random weights write."""
    return printable(text).replace("\ufffd", "")


def test_text_records_and_summary(
    options: list[str], tiny: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    assert main([*options, "--decoder", "sliding_window", "--threshold", "0.3", "--records", str(path)]) == 0
    out, err = capsys.readouterr()
    with path.open(encoding="utf-8") as file:
        records = [from_json(line) for line in file]
    ids = output_ids(records)
    assert whole(out) == whole(tiny.decode(ids)) + "\n"
    assert len(records[1].rows[0].proposals) == 4, "the block size is the checkpoint's"
    assert "\x1b" not in out
    assert re.fullmatch(
        rf"tiny-mars: {len(ids)} tokens in {len(records) - 1} passes, [\d.]+ tokens/forward, \d+ tok/s, ended by .+\n",
        err,
    )


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_is_reached(
    decoder: str, options: list[str], tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    draft = ["--draft", str(tiny_folder)] if decoder == "speculative" else []
    assert main([*options, "--decoder", decoder, "--records", str(path), "--trace", *draft]) == 0
    with path.open(encoding="utf-8") as file:
        records = [from_json(line) for line in file]
    phases = [record.phase for record in records]
    assert all(row.trace is not None for record in records for row in record.rows)
    passes = sum(phase in ("decode", "verify") for phase in phases)
    more = "".join(f" (+ {phases.count(name)} {name})" for name in ("commit", "draft") if name in phases)
    assert f" in {passes} passes{more}, " in capsys.readouterr().err


def test_a_draft_must_have_the_target_s_tokens(
    options: list[str], tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(tiny_folder, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    assert main([*options, "--decoder", "speculative", "--draft", str(other)]) == 2
    error = capsys.readouterr().err
    assert re.search(r"the draft other has another vocabulary than tiny-mars: '[ab]' is \d+ in one and \d+ in", error)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--decoder", "magic"], f"--decoder must be one of {', '.join(DECODERS)}, got 'magic'"),
        (["--prompt", " \n"], "--prompt is empty"),
        (["--prompt", "x" * 100_000], "at most 360 fit with max_new_tokens=24"),
        (["--threshold", "1.5"], "threshold must be between 0 and 1 for probability"),
        (["--trace"], "--trace needs --records FILE.jsonl"),
        (["--draft", "no/such/folder"], "--draft is for --decoder speculative, got --decoder sliding_window"),
        (["--decoder", "speculative"], "--decoder speculative needs --draft DIR"),
        (["--max-new-tokens", "9999"], "max_new_tokens must be < the context length of 384, got 9999"),
        (["--checkpoint", "no/such/folder"], "there is no folder no/such/folder"),
        (
            ["--records", "no/such/folder/run.jsonl"],
            "--records no/such/folder/run.jsonl cannot be written: there is no folder",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    options: list[str],
    wrong: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*options, "--decoder", "sliding_window", *wrong]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert sentence in err


def test_bad_input_leaves_earlier_records_alone(options: list[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("earlier")
    for wrong in (["--decoder", "magic"], ["--decoder", "autoregressive", "--max-new-tokens", "9999"]):
        assert main([*options, "--records", str(path), *wrong]) == 2
    assert path.read_text() == "earlier"


@pytest.mark.parametrize(
    "wrong", [["--threshold", "high"], ["--thresh", "1"], ["--dtype", "float16"], ["--layout", "round"]]
)
def test_wrong_options_exit_with_2(options: list[str], wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*options, "--decoder", "autoregressive", *wrong])
    assert stop.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_colours_change_with_every_pass_on_a_terminal() -> None:
    stream = Terminal()
    painter = Painter(stream, {"TERM": "xterm"})
    for number, text in enumerate(("one", "", "three")):
        painter.write(text, number)
    assert stream.getvalue() == f"{COLOURS[0]}one{RESET}{COLOURS[0]}three{RESET}"


@pytest.mark.parametrize(
    ("stream", "environment"), [(io.StringIO(), {}), (Terminal(), {"NO_COLOR": "1"}), (Terminal(), {"TERM": "dumb"})]
)
def test_no_colours_elsewhere_and_never_control_characters(stream: io.StringIO, environment: dict[str, str]) -> None:
    Painter(stream, environment).write("a\x1b[2Jb", 0)
    assert stream.getvalue() == "a\ufffd[2Jb"


def test_interrupted(options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Painter, "write", interrupt)
    assert main([*options, "--decoder", "autoregressive"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_help_teaches_and_needs_no_torch() -> None:
    code = "import sys, mars.generate\ntry: mars.generate.main(['--help'])\nfinally: assert 'torch' not in sys.modules"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "examples:" in shown.stdout


def write_to_a_reader_that_left(words: list[str]) -> int:
    reads, writes = os.pipe()
    os.close(reads)
    os.dup2(writes, sys.stdout.fileno())
    return main(words)


def test_a_full_disk_is_one_sentence(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*options, "--decoder", "autoregressive", "--records", "/dev/full"]) == 2
    assert "cannot be written: No space left on device" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*options, "--decoder", "autoregressive"]
    process = forked(partial(write_to_a_reader_that_left, words), out=tmp_path / "out", err=tmp_path / "err")
    process.join(LIMIT)
    assert process.exitcode == 141
    assert (tmp_path / "err").read_text() == ""
    monkeypatch.setattr(sys, "stdout", None)  # as with >&-
    assert main(words) == 0
