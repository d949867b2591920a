"""The verdicts as a page and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analysis.claims import CLAIMS, judge, read_evidence, to_json, to_markdown
from analysis.runs import read_runs

ROOT = Path(__file__).parents[3]


def test_page_has_a_row_and_a_section_for_each_claim(evidence_of: Any, one_token: Any, exact_runs: Any) -> None:
    evidence = evidence_of([*one_token(0.9), *exact_runs()])
    found = judge(evidence)
    page = to_markdown(found, evidence.published, Path("runs"), ["runs/x.parquet: column tokens is missing"])
    lines = page.splitlines()
    table = [line for line in lines if line.startswith("| [")]
    assert len(table) == len(CLAIMS)
    assert all(line.count(" | ") == 6 for line in table)
    sections = [line for line in lines if line.startswith("## ")]
    assert [
        f"## {claim.number}. {claim.title}: {finding.verdict.value}" for claim, finding in found.items()
    ] == sections
    assert "- runs/x.parquet: column tokens is missing" in lines
    assert "0.001 M parameters, n = 600" in table[0]
    assert "`python -m analysis sweep …`" in table[0]
    for run in found[CLAIMS[0]].runs:
        assert f"`{run.id}`" in page
    assert max(len(line) for line in lines if not line.startswith(("|", "Rule:", "Claimed"))) < 2_000


def test_json_says_the_same(evidence_of: Any, one_token: Any) -> None:
    evidence = evidence_of(one_token(0.9))
    described = to_json(judge(evidence), evidence.published)
    assert [each["number"] for each in described] == list(range(1, 13))
    first = described[0]
    assert (first["verdict"], first["n"], first["parameters"]) == ("holds", [600], [1000])
    assert len(first["runs"]) == 3
    assert described[1]["verdict"] == "not measured"
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_the_page_in_the_repository_is_of_the_runs_in_it() -> None:
    """`python -m analysis claims` brings it up to date."""
    committed = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    folder = ROOT / "assets" / "runs"
    found = judge(read_evidence(read_runs(folder), folder))
    verdicts = [f"## {claim.number}. {claim.title}: {finding.verdict.value}" for claim, finding in found.items()]
    assert [line for line in committed.splitlines() if line.startswith("## ")] == verdicts
    named = {run.id for finding in found.values() for run in finding.runs}
    assert {word for word in committed.split("`") if word in named} == named
