"""What becomes of the harness's samples: right or wrong where the metric says so, rows with what the answers cost."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="requirements-eval.txt is not installed")

from analysis.harness.evaluation import COLUMNS, Finding, Planned
from analysis.harness.evaluation import _found as found
from analysis.harness.journal import Journal
from analysis.harness.model import GenerationRequest, key_of
from analysis.text_table import table_of
from mars.config import DecodingSettings

KWARGS = {"until": ["Q:"]}


def plan(*, writes: bool = True) -> Planned:
    asked = GenerationRequest(settings=DecodingSettings(), until=("Q:",)) if writes else None
    harness = {"metric": "em", "filter": "strict"}
    return Planned(name="sums", task=None, problems=2, request=asked, harness=harness)


def results(*values: Any, requests: int = 1) -> dict[str, Any]:
    """Two filters; those of the other one are all right."""
    samples = [
        {"doc_id": number, "filter": name, "arguments": [(f"question {number}", KWARGS)] * requests, "em": score}
        for name, scores in (("loose", [1.0] * len(values)), ("strict", values))
        for number, score in enumerate(scores)
    ]
    return {"samples": {"sums": samples}, "results": {"sums": {"em,strict": 0.25, "em,loose": 1.0}}}


def journal(count: int) -> Journal:
    kept = Journal()
    for number in range(count):
        result = {
            "tokens": 4 + number,
            "passes": 2,
            "seconds": 0.5,
            "model_seconds": 0.25,
            "finish_reason": "stop",
            "acceptance_lengths": [0, 2],
            "text": f"text {number}",
        }
        kept.add(key_of((f"question {number}", KWARGS)), result)
    return kept


@pytest.mark.parametrize("values", [(1.0, 0.0), (True, False), (1, 0)])
def test_each_answer_is_a_row(values: tuple[Any, Any]) -> None:
    finding = found(plan(), results(*values), journal(2))
    assert (finding.n, finding.correct, finding.score) == (2, 1, 0.25)
    assert finding.rows is not None
    assert list(finding.rows["correct"]) == [True, False]
    assert finding.rows["correct"].dtype == bool
    assert list(finding.rows["text"]) == ["text 0", "text 1"]
    assert (finding.over("passes"), finding.over("seconds")) == (9 / 4, 9.0)


@pytest.mark.parametrize("values", [(0.5, 1.0), ((0.1, 2), (0.3, 2)), ([True, False], [True])])
def test_a_metric_without_right_answers_is_not_stored(values: tuple[Any, Any]) -> None:
    finding = found(plan(), results(*values), journal(2))
    assert (finding.correct, finding.accuracy) == (None, None)
    assert finding.score == 0.25, "as the harness sums it up"
    assert finding.over("passes") == 9 / 4
    assert table_of([finding], COLUMNS).splitlines()[1].split() == ["sums", "em,strict", "2", "0.25", "2.25", "9"]


def test_where_nothing_is_written_there_is_no_row() -> None:
    finding = found(plan(writes=False), results(1.0, 0.0, requests=3), Journal())
    assert (finding.correct, finding.rows, finding.over("passes")) == (1, None, None)
    assert table_of([finding], COLUMNS).splitlines()[1].endswith("–      –")
    assert finding.told()["tokens_per_second"] is None


def test_a_question_in_several_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="task sums asks a question in 2 requests"):
        found(plan(), results(1.0, 0.0, requests=2), journal(2))


def test_the_interval_is_that_of_the_share() -> None:
    found = Finding(task="a", metric="em,strict", n=10, score=0.5, correct=5).accuracy
    assert found is not None
    assert found.low < found.value == 0.5 < found.high
