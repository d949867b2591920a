import json
import os

import pytest

from app.compare import stream
from mars.metrics import Tally
from mars.records import ForwardPass, Proposal, RowPass
from tests.performance.load import main
from tests.performance.memory import Watch, resident_megabytes
from tests.performance.visitor import Shown


def test_a_visitor_sees_the_texts_and_thresholds_of_each_lane() -> None:
    def written(lane: str, pieces: list[str], threshold: float | None) -> stream.Message:
        proposals = tuple(Proposal(7, 0.9, "clean") for _ in pieces)
        record = ForwardPass(1, "decode", 0.1, 1, (RowPass(0, 0, proposals, len(pieces), threshold),))
        counts = stream.counts(Tally.of([record]), shared=False)
        return stream.forward_pass(lane, 1, record, texts=pieces, pieces={}, stop_ids=(), counts=counts)

    messages = [
        stream.opening("id", []),
        stream.state("running", "Writing."),
        written("a", ["a"], None),
        written("b", ["a", "b"], 0.9),
        written("b", ["c"], 0.8),
        stream.lane_end("b", "stop", "d"),
        stream.state("done", "Done."),
    ]
    shown = Shown.of("".join(map(stream.line, messages)))
    assert (shown.state, shown.sentence) == ("done", "Done.")
    assert shown.texts == {"a": "a", "b": "abcd"}
    assert shown.thresholds == {"a": {None}, "b": {0.9, 0.8}}


def test_a_refusal_is_no_end() -> None:
    assert Shown.of(json.dumps(stream.refusal("id", "Busy."))).state == "refused"


def test_growth_leaves_the_start_out() -> None:
    watch = Watch(0, [100.0, 500.0, 500.0, 510.0, 505.0, 505.0, 507.0, 506.0, 520.0, 530.0])
    assert watch.growth() == (505.0, 525.0)


def test_the_memory_of_a_process_is_read() -> None:
    assert 1 < resident_megabytes(os.getpid()) < 100_000


@pytest.mark.slow
@pytest.mark.browser  # like the other tests that serve the page
def test_a_few_visitors_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    pair = ["--ar", "assets/checkpoints/ar-sft", "--mars", "assets/checkpoints/mars-b8"]
    assert main(["--sessions", "3", "--minutes", "0.1", *pair]) == 0, capsys.readouterr().out
