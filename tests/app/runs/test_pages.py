"""A run as a page of its own has all of it but, where it is long, alternatives."""

import pytest

from app.export import shell
from app.runs.run import Run, read, thinner, to_json
from mars.metrics import output_ids


def test_a_thinner_run_lacks_alternatives_alone(finished_run: Run) -> None:
    sizes = [len(to_json(run)) for run in thinner(finished_run)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
    for run in thinner(finished_run):
        assert read(to_json(run)) == run
        for lane, before in zip(run.lanes, finished_run.lanes, strict=True):
            assert output_ids(lane.records) == output_ids(before.records)
            assert lane.written == before.written


def test_a_run_too_long_says_so(finished_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "LARGEST", 1_000)
    with pytest.raises(ValueError, match=r"^This run is too long for one page: [\d,]+ of at most 1,000 bytes\.$"):
        shell.single(finished_run)
