import json

import pytest

from app.compare import stream


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "two\nlines", "τ ≥ 0.95", "\u2028 \u202e", '"quoted"'])
def test_a_message_is_one_line_without_tags(text: str) -> None:
    line = stream.line(stream.state("failed", text))
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert "<" not in line
    assert json.loads(line)["sentence"] == text


def test_numbers_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValueError):
        stream.line(stream.SpeedUp(kind="speedup", ratios={"b": float("nan")}, baseline="a"))
