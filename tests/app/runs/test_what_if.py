"""The tokens that other thresholds would have accepted, against the decoders' own rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from app.runs.run import Run, RunLane, read
from app.runs.stored import shipped
from app.runs.what_if import HUNDREDTHS, page_document, what_if, would_accept
from mars.acceptance import threshold_prefix, thresholds
from mars.config import SCORES, DecodingSettings, ScoreName
from mars.metrics import COUNTED
from mars.records import Proposal, RowPass, Trace
from tests.readers import STOP, clear
from tests.scripted import ReadingModel
from tests.standins import Rows, run_lane

TWICE: Rows = [("prefill", None, 0, ()), ("decode", 0.9, 2, (1, 0.95, 0.5, 0.99)), ("decode", 0.9, 1, (1, 0.2))]


def lane_of(rows: Rows, **options: Any) -> RunLane:
    run = {"schema": 1, "kind": "mars-lens-run", "id": "x", "date": "2026-01-31"}
    question = {"prompt": "?", "max_new_tokens": 9}
    return read(json.dumps({**run, "question": question, "lanes": [run_lane(rows, **options)]})).lanes[0]


def at(steps: list[tuple[int, int]], hundredths: int) -> int:
    return [accepted for start, accepted in steps if start <= hundredths][-1]


def test_a_rule_beside_the_threshold_hides_others() -> None:
    """A decoder of one's own (docs/extending.md) may refuse what meets the threshold: no other can be worked out."""
    lane = lane_of(TWICE)
    [row] = lane.records[1].rows
    trace = Trace(cached=1, spans=(), columns=(0, 1, 2, 3), reasons=("first", "met", "rule", "behind"))
    ruled = replace(lane.records[1], rows=(replace(row, trace=trace),))
    assert what_if(lane)["none"] == ""
    assert "a rule beside the threshold" in what_if(replace(lane, records=(lane.records[0], ruled)))["none"]


@pytest.mark.parametrize("score", SCORES)
def test_thresholds_are_judged_as_decoders_do(score: ScoreName) -> None:
    rows, columns = 40, 6
    random = torch.Generator().manual_seed(0)
    scores = torch.rand(rows, columns, generator=random).double()
    scores[::2] = (scores[::2] * HUNDREDTHS).round() / HUNDREDTHS  # equal to a threshold
    ids = torch.randint(1, 8, (rows, columns), generator=random)
    found = []
    for row in range(rows):
        proposals = zip(ids[row].tolist(), scores[row].tolist(), ["clean", *["mask"] * (columns - 1)], strict=True)
        part = RowPass(0, 0, tuple(Proposal(*each) for each in proposals), 1, 0.5)
        found.append([would_accept(part, each / HUNDREDTHS, score, {STOP}) for each in range(HUNDREDTHS + 1)])
    for hundredths in range(HUNDREDTHS + 1):
        expected = threshold_prefix(
            ids,
            scores,
            thresholds_R=thresholds([hundredths / HUNDREDTHS] * rows, score, "cpu"),
            score=score,
            stop_ids=torch.tensor([STOP]),
            room_R=torch.full((rows,), columns),
        )
        assert [row[hundredths] for row in found] == expected.tolist()


def test_steps_say_in_short_what_each_threshold_accepts() -> None:
    for run in shipped().values():
        for lane in run.lanes:
            told = what_if(lane)
            for record, steps in zip(lane.records, told["passes"], strict=not told["none"]):
                row = record.rows[0]
                expected = [
                    would_accept(row, each / HUNDREDTHS, lane.settings.score, lane.stop_ids)
                    if record.phase in COUNTED
                    else 0
                    for each in range(told["highest"] + 1)
                ]
                assert [at(steps, each) for each in range(told["highest"] + 1)] == expected
                if row.threshold is not None:
                    assert at(steps, round(row.threshold * HUNDREDTHS)) == row.accepted


def test_a_run_at_that_threshold_accepts_so_many(write_lane: Callable[..., Any]) -> None:
    def lane(threshold: float) -> RunLane:
        known: dict[str, Any] = {"vocab_size": 60, "mask_token_id": 59, "stop_token_ids": frozenset({STOP})}
        settings = DecodingSettings(block_size=4, max_new_tokens=12, threshold=threshold)
        written = write_lane(ReadingModel(clear, **known), "sliding_window", [5, 9, 4, 30, 17], settings)
        run = {"schema": 1, "kind": "mars-lens-run", "id": "x", "date": "2026-01-31"}
        question = {"prompt": "?", "max_new_tokens": 12}
        return read(json.dumps({**run, "question": question, "lanes": [written]})).lanes[0]

    steps = what_if(lane(0.7))["passes"][1]
    accepted = [lane(hundredths / HUNDREDTHS).records[1].rows[0].accepted for hundredths in (0, 50, 85, 95, 100)]
    assert accepted == [at(steps, hundredths) for hundredths in (0, 50, 85, 95, 100)]
    assert len(set(accepted)) > 1


def test_nothing_is_accepted_behind_the_end() -> None:
    assert what_if(lane_of(TWICE))["passes"] == [[(0, 0)], [(0, 4), (51, 2), (96, 1)], [(0, 2), (21, 1)]]
    assert what_if(lane_of(TWICE, stop=11))["passes"][1] == [(0, 2), (96, 1)]


def test_for_entropy_higher_thresholds_accept_more() -> None:
    told = what_if(lane_of([("decode", 0.5, 2, (0.1, 0.4, 1.9))], score="entropy", threshold=0.5))
    assert (told["highest"], told["passes"]) == (200, [[(0, 1), (40, 2), (190, 3)]])


def test_one_token_passes_and_right_drafts_stay() -> None:
    lane = lane_of([*TWICE, ("decode", None, 1, (1,))])
    assert what_if(lane)["passes"][-1] == [(0, 1)]
    drafted = RowPass(0, 0, (Proposal(5, 0.1, "clean"), Proposal(6, 0.1, "draft"), Proposal(7, 0.6, "mask")), 2, 0.9)
    assert [would_accept(drafted, each, "probability", ()) for each in (0.5, 0.6, 0.7)] == [3, 3, 2]


@pytest.mark.parametrize(
    ("rows", "decoder", "words"),
    [
        ([("verify", None, 1, (1, 0.5))], "self_speculative", "a draft is kept only if"),
        ([("decode", None, 1, (1,))], "sliding_window", "every pass proposes one token"),
        ([("denoise", 0.5, 2, (1, 0.9))], "block_diffusion", "Another τ is not shown here"),
        ([("verify", 0.5, 2, (1, 0.9))], "relaxed", "how near a refused draft was"),
        ([("verify", None, 2, (1, 0.9))], "relaxed", "a draft is kept only if"),
    ],
)
def test_a_lane_without_threshold_says_why(rows: Rows, decoder: str, words: str) -> None:
    told = what_if(lane_of(rows, decoder=decoder))
    assert words in told["none"]
    assert told["passes"] == []


def test_an_unknown_decoder_is_no_obstacle() -> None:
    assert what_if(replace(lane_of(TWICE), decoder="invented"))["none"] == ""


def test_the_page_gets_document_and_tables(finished_run: Run) -> None:
    opened = json.loads(page_document(finished_run))
    assert read(json.dumps(opened["run"])) == finished_run
    assert set(opened["what_if"]) == {lane.key for lane in finished_run.lanes}
    assert "<" not in page_document(finished_run)
