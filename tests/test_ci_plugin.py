"""In CI a skipped test of the browser or of the evaluation harness is a failure, as is a module that skips itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "ci_plugin.py"
FILES = {
    "pytest.ini": "[pytest]\nmarkers =\n    browser: page\n    gpu: card\n",
    "test_marked.py": """
import pytest

@pytest.mark.browser
def test_page():
    pytest.skip("no Chromium here")

@pytest.mark.gpu
def test_card():
    pytest.skip("no GPU here")
""",
    "analysis/benchmarks/test_ifeval.py": """
import pytest

@pytest.fixture
def table():
    pytest.skip("no table")

def test_it(table):
    pass
""",
    **dict.fromkeys(
        ("app/test_page.py", "analysis/test_other.py"), "import pytest\n\npytest.importorskip('no_such')\n"
    ),
}


@pytest.mark.parametrize(("ci", "code", "counts"), [("true", 1, "1 failed, 2 skipped, 2 errors"), ("", 0, "5 skipped")])
def test_skips_that_mean_something_is_missing(tmp_path: Path, ci: str, code: int, counts: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(PLUGIN, tmp_path)
    options = ["-p", "ci_plugin", "-p", "no:cacheprovider", "--continue-on-collection-errors", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        env={**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == code, run.stdout
    assert counts in run.stdout
    for what in (
        "a browser test may not be skipped in CI: Skipped: no Chromium here",
        "a test of the evaluation harness may not",
    ):
        assert (what in run.stdout) == (ci == "true"), run.stdout
