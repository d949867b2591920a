"""Slow files run early; in CI a skipped test of the browser or of the evaluation harness is a failure."""

import os
import shutil
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


def run_pytest(folder: Path, ci: str, plugin: Path | None = None, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder with this value of CI; the plugin is there, or in a folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "ci_plugin", "-p", "no:cacheprovider", str(folder), *more],
        env={**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(plugin or folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("ci", "code", "counts"), [("true", 1, "1 failed, 1 skipped"), ("", 0, "2 skipped")])
def test_skipped_browser_test(tmp_path: Path, ci: str, code: int, counts: str) -> None:
    (tmp_path / "test_page.py").write_text(SKIPPED)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    browser: page\n    gpu: card\n")
    run = run_pytest(tmp_path, ci, TESTS)
    assert run.returncode == code, run.stdout
    assert counts in run.stdout
    assert ("may not be skipped in CI: " in run.stdout) == (ci == "true")
    assert ci == "" or "no Chromium here" in run.stdout


@pytest.mark.parametrize(("ci", "code", "counts"), [("true", 1, "1 error"), ("", 0, "1 skipped")])
def test_fixture_that_skips_a_test_of_the_harness(tmp_path: Path, ci: str, code: int, counts: str) -> None:
    path = tmp_path / "analysis" / "benchmarks" / "test_ifeval.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import pytest\n\n@pytest.fixture\ndef table():\n    pytest.skip('no table')\n\ndef test_it(table):\n    pass\n"
    )
    shutil.copy(TESTS / "ci_plugin.py", tmp_path)
    run = run_pytest(tmp_path, ci)
    assert run.returncode == code, run.stdout
    assert counts in run.stdout
    assert ("a test of the evaluation harness may not be skipped in CI: " in run.stdout) == (ci == "true")


@pytest.mark.parametrize(("ci", "code", "skipped"), [("true", 2, 1), ("", 5, 3)])
def test_module_that_skips_itself(tmp_path: Path, ci: str, code: int, skipped: int) -> None:
    for name in ("app/test_page.py", "analysis/benchmarks/test_ifeval.py", "analysis/test_other.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import pytest\n\npytest.importorskip('no_such_package')\n")
    shutil.copy(TESTS / "ci_plugin.py", tmp_path)
    run = run_pytest(tmp_path, ci)
    assert run.returncode == code, run.stdout
    assert f"{skipped} skipped" in run.stdout
    for what in ("a browser test", "a test of the evaluation harness"):
        assert (f"{what} may not be skipped in CI: " in run.stdout) == (ci == "true")
