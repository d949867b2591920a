import json
from pathlib import Path

import pytest

from app.runs.run import REPLAYS, Run, shipped
from mars.metrics import output_ids
from mars.schema import as_json


def test_the_shipped_runs_are_complete_and_small() -> None:
    files = sorted(REPLAYS.glob("*.json"))
    assert [path.stem for path in files] == list(shipped())
    assert 3 <= len(files)
    assert sum(path.stat().st_size for path in files) < 500_000
    for run in shipped().values():
        assert run.title
        assert run.note
        for lane in run.lanes:
            assert lane.finish_reason == "stop"
            assert (lane.right is None) == (run.question.problem is None)
            alternatives = lane.records[-1].rows[0].proposals[0].alternatives
            assert len(alternatives) == lane.settings.alternatives


def test_they_show_what_they_say() -> None:
    runs = shipped()
    low = {lane.title: lane.right for lane in runs["2-threshold-too-low"].lanes}
    assert low == {"MARS τ 0.95": True, "MARS τ 0.6": False}
    exact = runs["3-exact"].lanes
    assert len({tuple(output_ids(lane.records)) for lane in exact}) == 1
    assert len(exact[0].records) > 2 * len(exact[1].records) > 2 * len(exact[2].records)


def test_how_they_were_made_is_written_beside_them() -> None:
    text = (REPLAYS / "README.md").read_text(encoding="utf-8")
    for name in shipped():
        assert f"python -m mars_site.record --output assets/replays/{name}.json" in text.replace("\\\n    ", "")


def test_a_broken_file_is_left_out(finished_run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "good.json").write_text(as_json(finished_run))
    (tmp_path / "bad.json").write_text(json.dumps({"kind": "something"}))
    assert list(shipped(tmp_path)) == ["good"]
    assert "bad.json is not offered. This file cannot be opened" in caplog.text
