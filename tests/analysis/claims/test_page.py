"""The verdicts as a page and as JSON, and the page in the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.claims import CLAIMS, Claim, Evidence, Finding, judge, read_evidence, to_json, to_markdown
from analysis.runs import read_runs

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "assets" / "runs"
GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shipped() -> tuple[Evidence, dict[Claim, Finding]]:
    """The runs in the repository, judged."""
    evidence = read_evidence(read_runs(RUNS), RUNS)
    return evidence, judge(evidence)


def test_page_has_a_row_and_folded_details_for_each_claim(evidence_of: Any, one_token: Any, exact_runs: Any) -> None:
    evidence = evidence_of([*one_token(0.9), *exact_runs()])
    found = judge(evidence)
    page = to_markdown(found, evidence.published, Path("runs"), ["runs/x.parquet: column tokens is missing"])
    lines = page.splitlines()
    table = [line for line in lines if line.startswith(tuple(f"| {claim.number} | " for claim in CLAIMS))]
    assert len(table) == len(CLAIMS)
    assert all(line.count(" | ") == 4 for line in table)
    summaries = [line for line in lines if line.startswith("<summary>")]
    assert [
        f"<summary>{claim.number}. {claim.title.replace('`', '')}: {finding.verdict.value}</summary>"
        for claim, finding in found.items()
    ] == summaries
    assert lines.count("<details>") == lines.count("</details>") == len(CLAIMS)
    assert "- runs/x.parquet: column tokens is missing" in lines
    assert table[0].endswith("| 600 | **undecided at this n** |")
    assert " runs on a machine, 2 cores, commit 0000000000: `python -m analysis sweep …`." in page


def test_json_says_the_same(evidence_of: Any, one_token: Any) -> None:
    evidence = evidence_of(one_token(0.9))
    described = to_json(judge(evidence), evidence.published)
    assert [each["number"] for each in described] == list(range(1, 13))
    first = described[0]
    assert (first["verdict"], first["n"], first["parameters"]) == ("holds", [600], [1000])
    assert len(first["runs"]) == 3
    assert described[1]["verdict"] == "not measured"
    assert json.loads(json.dumps(described, allow_nan=False)) == described


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: str(golden["number"]))
def test_verdicts_and_numbers_stay_the_same(golden: dict[str, Any], shipped: tuple[Evidence, Any]) -> None:
    """golden.json holds them as they were before the claims became tables of comparisons."""
    evidence, found = shipped
    claim = CLAIMS[golden["number"] - 1]
    [described] = to_json({claim: found[claim]}, evidence.published)
    assert found[claim].verdict.name == golden["verdict"]
    assert (described["n"] or [48], described["runs"], described["commands"]) == (
        golden["n"] or [48],
        golden["runs"],
        golden["commands"],
    )
    words, place = " ".join(described["measured"]), 0
    for number in golden["measured"]:
        place = words.find(number, place) + 1
        assert place, f"{number} is missing or out of order"


def test_the_page_in_the_repository_is_of_the_runs_in_it(shipped: tuple[Evidence, Any]) -> None:
    """`python -m analysis claims` brings it up to date."""
    evidence, found = shipped
    committed = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert committed == to_markdown(found, evidence.published, Path("assets/runs"), ())


def test_the_overview_fits_on_a_screen_and_reasons_are_short(shipped: tuple[Evidence, Any]) -> None:
    evidence, found = shipped
    page = to_markdown(found, evidence.published, RUNS, ())
    assert len(page.partition("<details>")[0].split()) < 550
    assert all(len(finding.why) <= 2 for finding in found.values())
