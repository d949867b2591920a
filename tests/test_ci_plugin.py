"""In CI a skipped browser test is a failure, elsewhere a skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SKIPPED = """
import pytest

@pytest.mark.browser
def test_page():
    pytest.skip("no Chromium here")

@pytest.mark.gpu
def test_card():
    pytest.skip("no GPU here")
"""


@pytest.mark.parametrize(("ci", "code", "counts"), [("true", 1, "1 failed, 1 skipped"), ("", 0, "2 skipped")])
def test_skipped_browser_test(tmp_path: Path, ci: str, code: int, counts: str) -> None:
    (tmp_path / "test_page.py").write_text(SKIPPED)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    browser: page\n    gpu: card\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "ci_plugin", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "CI": ci, "PYTHONPATH": str(TESTS)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == code, run.stdout
    assert counts in run.stdout
    assert ("may not be skipped in CI: " in run.stdout) == (ci == "true")
    assert ci == "" or "no Chromium here" in run.stdout
