import json
from pathlib import Path
from typing import Any

from app.runs.run import Run, read, token_ids
from mars.metrics import output_ids
from mars.records import to_json as record_to_json
from mars.schema import as_json

ROOT = Path(__file__).parents[3]
TEXTS = {"ar": "So 3 * 18 = 54. 😀\n#### 54", "mars": "So 3 * 18 = 54.\n#### 45"}


def test_a_run_survives_its_document(finished_run: Run) -> None:
    assert read(as_json(finished_run)) == finished_run
    assert read(as_json(finished_run).encode()) == finished_run


def test_the_document_holds_the_records_of_mars(finished_run: Run, document: Any) -> None:
    for lane, written in zip(finished_run.lanes, document["lanes"], strict=True):
        assert written["records"] == [json.loads(record_to_json(record)) for record in lane.records]
        assert {len(p["alternatives"]) for r in written["records"] for p in r["rows"][0]["proposals"]} == {5}


def test_what_the_tokens_added_is_the_text(finished_run: Run) -> None:
    for lane in finished_run.lanes:
        assert len(lane.written) == len(output_ids(lane.records))
        assert "".join(lane.written) == lane.text == TEXTS[lane.checkpoint]


def test_every_token_has_its_text(finished_run: Run) -> None:
    for lane in finished_run.lanes:
        assert set(lane.pieces) == set(token_ids(lane.records))
        last = output_ids(lane.records)[-1]
        assert last in lane.stop_ids
        assert lane.pieces[last] == "<|im_end|>"


def test_a_document_can_stand_inside_a_page(finished_run: Run) -> None:
    text = as_json(finished_run)
    assert "<" not in text
    assert json.loads(text)["question"]["prompt"] == "How many sheep? <b>"


def test_an_older_file_is_read_with_defaults(document: Any) -> None:
    for lane in document["lanes"]:
        del lane["settings"]["draft_tokens"]
    assert read(json.dumps(document)).lanes[0].settings.draft_tokens == 4
