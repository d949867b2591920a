"""The reasons that claims find for their verdicts, on runs made for one reason each."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.claims import CLAIMS, Finding, Verdict, read_evidence, to_markdown
from analysis.claims.finding import Table
from analysis.claims.needed import about, problems_needed, problems_needed_between
from analysis.stats.intervals import Interval

NOWHERE = Path(__file__).parents[3] / "tests" / "data" / "nowhere"
OPEN = Interval(-0.5, -2.1, 1.0)


def find(fabricate: Any, claim: int, runs: list[Any], kept: dict[str, pd.DataFrame] | None = None) -> Finding:
    evidence = read_evidence(fabricate.store(runs, kept), NOWHERE)
    return next(each for each in CLAIMS if each.number == claim).find(evidence)


def sentences(finding: Finding) -> list[str]:
    return [part for part in finding.why if isinstance(part, str)]


def tables(finding: Finding) -> list[Table]:
    return [part for part in finding.why if isinstance(part, Table)]


def proposals(agreeing: dict[int, float], score: float = 0.97, each: int = 400) -> pd.DataFrame:
    """Proposals of one score; the share that agrees by how many masks they read."""
    frames = []
    for depth, share in agreeing.items():
        agrees = np.arange(each) < share * each
        frame = {"task": "logic", "number": 0, "depth": np.int8(depth), "score": np.float32(score), "agrees": agrees}
        frames.append(pd.DataFrame(frame))
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize(
    ("interval", "above", "below", "expected"),
    [
        (OPEN, -1.0, 0.0, 1200 * (1.5 / 0.5) ** 2),
        (OPEN, -1.0, -inf, 1200 * (1.6 / 0.5) ** 2),
        (OPEN, 0.5, -1.0, inf),
        (Interval(4.0, 2.0, 6.0), 0.0, -inf, 300),
    ],
)
def test_problems_needed(interval: Interval, above: float, below: float, expected: float) -> None:
    assert problems_needed(1200, interval, above=above, below=below) == pytest.approx(expected)


def test_problems_needed_to_lie_between() -> None:
    assert problems_needed_between(100, Interval(1.0, -5.0, 9.0), 5.0) == pytest.approx(100 * (8 / 4) ** 2)
    assert problems_needed_between(100, Interval(9.0, 1.0, 17.0), 5.0) == pytest.approx(100 * (8 / 4) ** 2)
    assert problems_needed_between(100, Interval(5.0, 1.0, 9.0), 5.0) == inf


def test_about() -> None:
    assert [about(each) for each in (7.2, 88, 1201, 10_800, inf)] == ["8", "88", "1,300", "11,000", "no number"]


# Claim 1


def test_an_open_comparison_says_how_many_problems_it_would_take_and_where_it_differs(fabricate: Any) -> None:
    start, masked = fabricate.model("plain", "sft", None, None), fabricate.model("mars-b8")
    double = {**fabricate.model("double", "sft", None, None), "examples": 200}
    runs = [
        *(fabricate.run(model, accuracy=accuracy) for model, accuracy in ((start, 0.9), (double, 0.8))),
        fabricate.run(start, batch_size=1, group="g"),
        fabricate.run(masked, accuracy=0.95),
    ]
    finding = find(fabricate, 1, runs)
    assert finding.verdict is Verdict.OPEN
    needed, families = tables(finding)
    assert [row[:2] for row in needed.rows] == [("mars-b8", "plain")]
    assert int(needed.rows[0][-1].replace(",", "")) > 0
    assert families.rows == [("mars-b8", "80", "+2 −0", "+2 −0")]
    assert "double against plain is −10.0 [" in sentences(finding)[0]


# Claim 3


def thresholds(fabricate: Any, **texts: str) -> list[Any]:
    """Runs of one model, of which τ = 0.95 loses word problems only, and an exact one to keep proposals."""
    masked = fabricate.model("mars-b8")
    exact = fabricate.run(masked, "self_speculative", layout="quadratic")
    runs = [exact]
    for threshold, accuracy, gain in ((None, 0.9, 1), (0.95, 0.9, 2), (0.5, 0.5, 3)):
        entry, rows = fabricate.run(
            masked, "sliding_window", threshold=threshold, accuracy=accuracy, gain=gain, problems=100
        )
        if threshold == 0.95:
            changed = (rows["task"] == "word_problems") & (rows["number"] < 30)
            rows = rows.assign(
                correct=rows["correct"] & ~(changed & (rows["number"] < 24)),
                text=changed.map({True: "other", False: ""}),
            )
        runs.append((entry, rows))
    return runs


def test_what_a_threshold_loses_and_where(fabricate: Any) -> None:
    finding = find(fabricate, 3, thresholds(fabricate))
    assert finding.verdict is Verdict.FAILS
    cost, families = tables(finding)
    assert cost.rows[0][2:] == ("15.0 % [10.7, 20.6]", "30", "6", "0")
    assert "Of 30 problems" in sentences(finding)[0]
    assert "6 are still right: what follows a wrong token" in sentences(finding)[0]
    assert [row[0] for row in families.rows] == ["logic", "word_problems"]
    assert [row[1] for row in families.rows] == ["0.0", "24.0*"]
    assert "surely lost in word_problems 24.0 [" in sentences(finding)[1]
    assert "logic" not in sentences(finding)[1]


@pytest.mark.parametrize(
    ("agreeing", "words"),
    [({1: 0.99, 2: 0.9, 3: 0.8}, "too sure by 7.3 points"), ({1: 0.97, 2: 0.97, 3: 0.97}, "as right as they say")],
)
def test_whether_scores_are_too_sure(fabricate: Any, agreeing: dict[int, float], words: str) -> None:
    runs = thresholds(fabricate)
    unsure = proposals({1: 0.5}, score=0.6)
    kept = pd.concat([proposals(agreeing), unsure], ignore_index=True)
    finding = find(fabricate, 3, runs, {runs[0][0]["id"]: kept})
    assert words in sentences(finding)[0]
    calibration = tables(finding)[0]
    assert [row[1:4] for row in calibration.rows] == [("1", "400", "800"), ("2–3", "800", "800")]
    assert runs[0][0]["id"] in {run.id for run in finding.runs}


# Claim 5


def test_scores_that_cannot_be_told_apart_say_what_would_tell(fabricate: Any) -> None:
    masked = fabricate.model("mars-b8")
    runs = [fabricate.run(masked, "sliding_window", threshold=None)]
    for score, strict, loose in (("probability", 0.9, 0.6), ("margin", 0.8, 0.5), ("entropy", 0.3, 1.2)):
        for threshold, accuracy, gain in ((strict, 0.89, 2), (loose, 0.86, 3)):
            options = {"threshold": threshold, "accuracy": accuracy, "gain": gain, "score": score}
            runs.append(fabricate.run(masked, "sliding_window", **options))
    finding = find(fabricate, 5, runs)
    assert "A loss of 2 points is 2 of 80 problems" in sentences(finding)[0]
    assert [row[0] for row in tables(finding)[0].rows] == ["1", "2", "5", "10", "20"]


# Claim 7


def test_a_speed_up_of_speculative_decoding_is_taken_apart(fabricate: Any) -> None:
    plain, masked = fabricate.model("plain", "sft", None, None), fabricate.model("mars-b8")
    options = {"draft": plain, "batch_size": 1, "group": "g"}
    runs = [
        fabricate.run(plain, "speculative", gain=2, speed=100, **options),
        fabricate.run(masked, "speculative", gain=4, speed=80, continuation=True, threshold=0.9, **options),
    ]
    finding = find(fabricate, 7, runs)
    assert finding.verdict is Verdict.FAILS
    (before, after), (tokens, tokens_after) = (
        [rows[name].sum() / rows["passes"].sum() for _, rows in runs] for name in ("seconds", "tokens")
    )
    [sentence] = sentences(finding)
    assert f"gains {tokens_after / tokens:.2f}× [" in sentence
    assert f"{after / before:.2f}× the time: {1000 * after:.2f} ms against {1000 * before:.2f} ms" in sentence


# Claim 11


def test_how_many_passes_get_as_far_as_the_last_mask(fabricate: Any) -> None:
    masked = fabricate.model("mars-b4", block_size=4)
    runs = [fabricate.run(masked, "sliding_window", threshold=None, problems=2)]
    for extra, counts in ((False, [3, 0, 0, 2]), (True, [3, 0, 0, 1, 1])):
        entry, rows = fabricate.run(masked, "sliding_window", threshold=0.9, extra_proposal=extra, problems=2)
        lengths = [np.array(counts)] * len(rows)
        runs.append((entry, rows.assign(acceptance_lengths=lengths, passes=5, tokens=11)))
    exact = fabricate.run(masked, "self_speculative", layout="quadratic", problems=2)
    kept = {exact[0]["id"]: pd.concat([proposals({1: 0.9}), proposals({3: 0.5}, score=0.5)], ignore_index=True)}
    finding = find(fabricate, 11, [*runs, exact], kept)
    reached, depths = tables(finding)
    assert reached.rows[0][2] == "20"
    assert reached.rows[0][3].startswith("40.0 % [")
    assert reached.rows[0][4].startswith("50.0 % [")
    [sentence] = sentences(finding)
    assert sentence.startswith("mars-b4: 40.0 % of 20 passes accept all that stands before it, and 50.0 % of these ")
    assert sentence.endswith(": 0.200 tokens a pass.")
    assert [(row[1], row[4]) for row in depths.rows] == [("1", "100 % at τ = 0.9"), ("3", "0 % at τ = 0.9")]


def test_where_no_pass_gets_as_far_the_last_mask_gains_nothing(fabricate: Any) -> None:
    masked = fabricate.model("mars-b16", block_size=16)
    runs = [
        fabricate.run(masked, "sliding_window", threshold=t, extra_proposal=e) for t, e in ((0.9, False), (0.9, True))
    ]
    finding = find(fabricate, 11, runs)
    passes = int(runs[1][1]["passes"].sum())
    assert sentences(finding)[0].startswith(f"mars-b16: none of {passes:,} passes accepts all")


def test_the_page_has_the_reasons_below_the_numbers(fabricate: Any) -> None:
    evidence = read_evidence(fabricate.store(thresholds(fabricate)), NOWHERE)
    claim = next(each for each in CLAIMS if each.number == 3)
    page = to_markdown({claim: claim.find(evidence)}, evidence.published, NOWHERE, ())
    assert (
        page.index("| τ | accuracy |") < page.index("### Why it does not hold") < page.index("| family | 0.95 | 0.5 |")
    )
