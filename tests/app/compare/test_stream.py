import json

import pytest

from app.compare import stream
from mars.records import ForwardPass, Proposal, RowPass, Span, Trace


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "two\nlines", "τ ≥ 0.95", "\u2028 \u202e", '"quoted"'])
def test_a_message_is_one_line_without_tags(text: str) -> None:
    line = stream.line(stream.state("failed", text))
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert "<" not in line
    assert json.loads(line)["sentence"] == text


def test_a_pass_carries_what_the_page_shows() -> None:
    proposals = (Proposal(5, 0.61234, "clean"), Proposal(6, 0.97, "mask"), Proposal(7, 0.2, "mask"))
    trace = Trace(11, (Span("clean", (4,), None), Span("mask", (9, 9), 0)), (0, 1, 2), ("first", "met", "below"))
    record = ForwardPass(3, "decode", 0.01, 3, (RowPass(0, 12, proposals, 2, 0.9, trace=trace),))
    tokens, ghosts = [("a", 0.6123, "clean", False, "clean", [])], [("x", 0.2, "mask")]
    known, counts = {7: "x"}, {"tokens": 14, "seconds": 0.5}
    message = stream.forward_pass("b", 3, record, texts=["a"], pieces=known, stop_ids=(), counts=counts)
    assert message == {
        "kind": "pass",
        "lane": "b",
        "number": 3,
        "start": 12,
        "threshold": 0.9,
        "window": 3,
        "phase": "decode",
        "tokens": tokens,
        "ghosts": ghosts,
        "reasons": ["first", "met", "below"],
        "masks": 2,
        "seconds": 0.01,
        "at": 0.5,
        "counts": {"tokens": 14, "seconds": 0.5},
    }


def test_numbers_that_json_lacks_are_refused() -> None:
    with pytest.raises(ValueError):
        stream.line(stream.SpeedUp(kind="speedup", ratios={"b": float("nan")}, baseline="a"))
