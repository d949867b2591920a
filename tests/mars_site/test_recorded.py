"""The lines of the recorded run are those that a live run would send, made from the run that comes with the app."""

import json
from dataclasses import replace

from app.runs.run import Turn, shipped
from mars.metrics import Tally
from mars_site import recorded

LINES = [json.loads(line) for line in recorded.first_run().decode().splitlines()]
RUN = shipped()[recorded.NAME]


def test_the_real_model_ran_its_question() -> None:
    assert LINES[0]["kind"] == "open"
    assert LINES[0]["prompt"] == RUN.question.prompt
    assert [lane["checkpoint"] for lane in LINES[0]["lanes"]] == ["smollm2-135m-sft", *["smollm2-135m-mars"] * 2]
    assert len(recorded.first_run()) < 100_000


def test_each_pass_stands_at_its_number() -> None:
    for lane in RUN.lanes:
        passes = [line for line in LINES if line["kind"] == "pass" and line["lane"] == lane.key]
        assert [each["at"] for each in passes] == list(range(1, Tally.of(lane.records).passes + 1))
        assert "".join(token[0] for each in passes for token in each["tokens"]) == "".join(lane.written)


def test_texts_that_part_and_thresholds_that_move_are_named() -> None:
    lines = [json.loads(line) for line in recorded.played(shipped()["4-python"]).splitlines()]
    assert {"ar": 12, "mars-0-9": 12} in [line["tokens"] for line in lines if line["kind"] == "difference"]
    lane, end = RUN.lanes[1], RUN.lanes[1].records[-1]
    moved = replace(end, rows=(replace(end.rows[0], threshold=None),))
    told = recorded.played(replace(RUN, lanes=(replace(lane, records=(*lane.records[:-1], moved)),)))
    assert json.loads(told.splitlines()[0])["lanes"][0]["note"] == "MARS, threshold, τ moved · recorded"


def test_a_decoder_that_is_gone_is_played() -> None:
    """An old run of block diffusion opens, also as a page of its own."""
    lanes = tuple(
        replace(lane, decoder="block_diffusion", earlier=(Turn(prompt="Hi", answer="Yes?"),)) for lane in RUN.lanes
    )
    opening, *others = map(json.loads, recorded.played(replace(RUN, lanes=lanes)).splitlines())
    told = [(lane["note"], lane["family"]) for lane in opening["lanes"]]
    notes = [f"block_diffusion{threshold} · recorded" for threshold in ("", ", τ 0.95", "")]
    assert told == [(note, "masks") for note in notes]
    assert [lane["earlier"] for lane in opening["lanes"]] == [[["Hi", "Yes?"]]] * 3
    assert [line["lanes"] for line in others if line["kind"] == "same"] == [["ar", "mars-0-95"], ["ar", "mars-exact"]]
    assert others[-1]["state"] == "done"
