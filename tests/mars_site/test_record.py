from pathlib import Path

import pytest

from app.runs.run import read
from mars_site.record import main


def test_lanes_are_recorded_with_their_settings(tiny_folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "run.json"
    lanes = [
        ["--lane", "AR", str(tiny_folder), "autoregressive"],
        ["--lane", "Low τ", str(tiny_folder), "sliding_window", "threshold=0.1", "extra_proposal=true"],
    ]
    question = ["--task", "logic", "--seed", "1", "--max-new-tokens", "12", "--device", "cpu"]
    assert main([*lanes[0], *lanes[1], *question, "--title", "A run", "--output", str(output)]) == 0
    run = read(output.read_bytes())
    assert (run.title, run.question.problem.task, run.question.problem.seed) == ("A run", "logic", 1)
    assert [(lane.key, lane.title, lane.decoder) for lane in run.lanes] == [
        ("ar", "AR", "autoregressive"),
        ("low", "Low τ", "sliding_window"),
    ]
    settings = run.lanes[1].settings
    assert (settings.threshold, settings.extra_proposal) == (0.1, True)
    assert (settings.block_size, settings.max_new_tokens) == (4, 12)
    assert all(len(lane.written) <= 12 and lane.right is False for lane in run.lanes)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--lane", "AR", "x"], "--lane needs TITLE CHECKPOINT DECODER"),
        (["--lane", "AR", "x", "autoregressive", "blocksize=3"], "blocksize is unknown"),
        (["--lane", "AR", "x", "autoregressive", "block_size=many"], "--lane AR: block_size must be a whole number"),
        (["--lane", "AR", "x", "guessing"], "a lane's decoder must be one of autoregressive"),
        (["--lane", "AR", "/nowhere", "autoregressive"], "there is no folder /nowhere"),
        (
            ["--lane", "AR", "x", "autoregressive", "--output", "no/where.json"],
            "--output no/where.json cannot be written",
        ),
    ],
)
def test_what_cannot_be_recorded_is_said(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--prompt", "Hello", "--output", str(tmp_path / "run.json"), *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run.json").exists()
