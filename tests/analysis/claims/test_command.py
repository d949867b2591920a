"""`python -m analysis claims`."""

from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.claims import CLAIMS
from analysis.runs import write_run


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
