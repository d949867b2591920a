"""The generate command, run as its user does."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mars.checkpoint import Checkpoint
from mars.generate import COLOURS, RESET, Painter, main
from mars.metrics import output_ids
from mars.records import read_jsonl
from mars.text import printable

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
        records = list(read_jsonl(file))
    ids = output_ids(records)
    assert whole(out) == whole(tiny.decode(ids)) + "\n"
    assert len(records[1].rows[0].proposals) == 4, "the block size is the checkpoint's"
    assert "\x1b" not in out
    assert re.fullmatch(
        rf"tiny-mars: {len(ids)} tokens in {len(records) - 1} passes, [\d.]+ tokens/forward, \d+ tok/s, ended by .+\n",
        err,
    )


def test_one_token_mode_writes_what_autoregressive_does(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for decoder in (["sliding_window", "--threshold", "none"], ["autoregressive"]):
        assert main([*options, "--decoder", *decoder]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].endswith("\n")


@pytest.mark.parametrize(
    ("extra", "proposals"),
    [
        (["--block-size", "6"], 6),
        (["--extra-proposal"], 5),
        (["--score", "entropy"], 4),
        (["--score", "margin", "--threshold", "0.5"], 4),
        (["--dtype", "bfloat16", "--device", "cpu"], 4),
    ],
)
def test_options(options: list[str], extra: list[str], proposals: int, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert main([*options, "--decoder", "sliding_window", "--records", str(path), *extra]) == 0
    with path.open(encoding="utf-8") as file:
        assert len(list(read_jsonl(file))[1].rows[0].proposals) == proposals


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--decoder", "magic"], "--decoder must be one of autoregressive, sliding_window, got 'magic'"),
        (["--prompt", " \n"], "--prompt is empty"),
        (["--prompt", "x" * 100_000], "at most 360 fit with max_new_tokens=24"),
        (["--threshold", "1.5"], "threshold must be between 0 and 1 for probability"),
        (["--score", "luck"], "score must be one of probability, margin, entropy, got 'luck'"),
        (["--block-size", "0"], "block_size must be between 1 and 64, got 0"),
        (["--max-new-tokens", "0"], "max_new_tokens must be >= 1, got 0"),
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


@pytest.mark.parametrize("wrong", [["--threshold", "high"], ["--thresh", "1"], ["--dtype", "float16"]])
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
    ("stream", "environment"),
    [(io.StringIO(), {}), (Terminal(), {"NO_COLOR": "1"}), (Terminal(), {"TERM": "dumb"})],
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


def test_a_reader_that_leaves_is_no_error(tiny_folder: Path) -> None:
    command = [sys.executable, "-m", "mars.generate", "--checkpoint", str(tiny_folder), "--prompt", "x"]
    process = subprocess.Popen(
        [*command, "--decoder", "autoregressive"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert err == ""
