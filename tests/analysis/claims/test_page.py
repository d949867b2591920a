"""The verdicts as a page and as JSON, and the page in the repository."""

from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.claims import CLAIMS, Claim, Evidence, Finding, judge, read_evidence, to_markdown
from analysis.runs import RunStore, read_runs, write_run
from analysis.studies import behind_claim, study_of

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "assets" / "runs"
TINY = "fails holds fails fails holds holds fails holds holds holds fails holds"
REAL = "fails open fails fails open holds fails missing holds holds holds holds"


@pytest.fixture(scope="module")
def runs() -> RunStore:
    """The runs in the repository, all of them."""
    found = read_runs(RUNS)
    assert not found.problems
    return found


@pytest.fixture(scope="module")
def shipped(runs: RunStore) -> tuple[Evidence, dict[Claim, Finding]]:
    """Those of tiny models, judged."""
    evidence = read_evidence(runs, RUNS)
    return evidence, judge(evidence)


@pytest.fixture(scope="module")
def real(runs: RunStore) -> dict[Claim, Finding]:
    """Those of a real model, judged."""
    return judge(read_evidence(runs, RUNS, real=True))


def test_verdicts_stay_the_same(shipped: tuple[Evidence, Any], real: dict[Claim, Finding]) -> None:
    """Whoever changes a rule or a run sees here what it changes."""
    for found, verdicts in ((shipped[1], TINY), (real, REAL)):
        assert " ".join(finding.verdict.name.lower() for finding in found.values()) == verdicts


def test_the_shipped_page_is_of_the_shipped_runs(shipped: tuple[Evidence, Any], real: dict[Claim, Finding]) -> None:
    """`python -m analysis claims` brings it up to date."""
    committed = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert committed == to_markdown(shipped[1], Path("assets/runs"), (), real)


def test_runs_behind_a_verdict_are_of_its_studies(
    shipped: tuple[Evidence, dict[Claim, Finding]], real: dict[Claim, Finding]
) -> None:
    """By their plan, and by the commands that benchmark files name; and every study of a claim is behind it."""
    for claim in CLAIMS:
        findings = [shipped[1][claim], real[claim]]
        behind = {run.plan for finding in findings for run in finding.runs}
        behind |= {study_of(line) for finding in findings for line in finding.commands}
        assert behind == set(behind_claim(claim.number)), claim.title


def test_command_writes_the_page(one_token: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for entry, rows in one_token(0.9):
        write_run(tmp_path / "runs", entry, rows)
    page = tmp_path / "new" / "claims.md"
    arguments = ["claims", "--runs", str(tmp_path / "runs"), "--out", str(page)]
    assert main(arguments) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0].split() == ["claim", "tiny", "models", "real", "model"]
    assert output[1].split() == [*f"1. {CLAIMS[0].title}".split(), "holds", "not", "measured"]
    assert output[-1] == f"3 runs, {page}"
    first = page.read_text(encoding="utf-8")
    assert "<summary>1. " in first
    assert main(arguments) == 0
    assert page.read_text(encoding="utf-8") == first, "the same runs give the same page"


def test_command_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--runs", str(tmp_path / "none"), "--out", str(tmp_path / "x.md")]) == 2
    assert "there is no folder" in capsys.readouterr().err
