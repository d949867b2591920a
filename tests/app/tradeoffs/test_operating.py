from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.tradeoffs.library import Library
from app.tradeoffs.operating import Finding, findings

RunOf = Callable[..., str]


@pytest.fixture
def find(library: Library) -> Callable[..., list[Finding]]:
    def found(points: float, against: str = "tokens_per_forward", **where: Any) -> list[Finding]:
        table = library.table()
        rows = table[table["source"] == "measured"]
        for column, value in where.items():
            rows = rows[rows[column.replace("_of_", ".")] == value]
        return findings(library.store(), table, rows, points=points, against=against)

    return found


def test_the_fastest_setting_that_surely_loses_less(find: Callable[..., list[Finding]], run_of: RunOf) -> None:
    (finding,) = find(2.0, decoder="sliding_window", batch_size=16)
    assert finding.chosen == run_of("mars", threshold=0.95)
    assert finding.sentence.startswith("The fastest is mars · sliding_window · τ 0.95, with 1.60 [")
    assert "tokens per forward; against AR (ar) it loses nothing, with 95 % confidence less than" in finding.sentence
    assert finding.sentence.endswith(" points (6 settings tried on 400 problems).")


def test_more_points_allow_a_faster_one(find: Callable[..., list[Finding]], run_of: RunOf) -> None:
    (finding,) = find(10.0, decoder="sliding_window")
    assert finding.chosen == run_of("mars", threshold=0.7)
    assert "it loses 2.5 points" in finding.sentence


def test_where_nothing_is_sure_the_sentence_says_so(find: Callable[..., list[Finding]]) -> None:
    (finding,) = find(0.1, decoder="sliding_window")
    assert finding.chosen is None
    assert finding.sentence.startswith("No setting of the selection surely loses less than 0.1 points to AR (ar)")
    assert "Stay with AR" in finding.sentence


def test_on_the_clock_every_batch_size_has_its_own(find: Callable[..., list[Finding]], run_of: RunOf) -> None:
    found = find(5.0, "speedup")
    assert [finding.sentence.split(",")[0] for finding in found] == ["At batch size 1", "At batch size 4"]
    assert [finding.chosen for finding in found] == [run_of("mars", "block_cached", 0.95, size) for size in (1, 4)]
    assert all("times the speed of AR" in finding.sentence for finding in found)


def test_ar_itself_is_no_candidate(find: Callable[..., list[Finding]]) -> None:
    (finding,) = find(2.0, decoder="autoregressive")
    assert finding == Finding(
        sentence="The selection has no run on the same problems as AR, so there is no operating point."
    )


@pytest.mark.parametrize("against", ["tokens_per_forward", "tokens_per_second"])
def test_a_run_with_a_draft_model_is_compared_on_the_clock_alone(library: Library, run_of: RunOf, against: str) -> None:
    table = library.table()
    rows = table[(table["source"] == "measured") & (table["decoder"] == "sliding_window")].copy()
    drafted = run_of("mars", threshold=0.95)
    assert len(rows[rows["id"] == drafted])
    rows.loc[rows["id"] == drafted, "decoder"] = "speculative"
    found = findings(library.store(), table, rows, points=2.0, against=against)
    left_out = against == "tokens_per_forward"
    assert all("a draft model is left out" in finding.sentence for finding in found) == left_out
    assert not (left_out and drafted in [finding.chosen for finding in found])
