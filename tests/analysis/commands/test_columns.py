"""`python -m analysis columns`: a file of times that the lesson about wide passes can draw."""

import json
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.benches.columns import column_times
from mars.checkpoint import Checkpoint

CHECKPOINT = "assets/checkpoints/draft-ar"


def test_the_file_has_times_by_width_and_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "times.json"
    given = ["--columns", "1,2,4", "--context", "8", "--repeats", "1", "--output", str(file)]
    assert main(["columns", "--checkpoint", CHECKPOINT, *given]) == 0
    found = json.loads(file.read_text())
    assert [each["columns"] for each in found["times"]] == [1, 2, 4]
    assert all(0 < each["low"] <= each["seconds"] <= each["high"] for each in found["times"])
    drawn = {"checkpoint", "context", "hardware", "dtype", "threads", "date", "load"}  # by the lesson
    assert drawn | {"command", "commit"} <= found.keys()
    assert capsys.readouterr().out.startswith("columns  ms/pass  × the first\n1 ")


def test_widths_take_turns_behind_the_context(tiny: Checkpoint) -> None:
    done: list[int] = []
    assert list(column_times(tiny.engine, (1, 3), 4, 2, done.append)) == [1, 3]
    assert sum(done) == 2 * 3
    with pytest.raises(ValueError, match=r"context \+ columns must be <= the context length"):
        column_times(tiny.engine, (1, 10**9), 4, 2)
