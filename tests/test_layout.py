"""The layout of the repository: imports run one way, records need no torch, nothing is put into a page as HTML."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FORBIDDEN = {"mars": {"app", "analysis", "tests"}, "analysis": {"app", "tests"}, "app": {"tests"}}
WITHOUT_TORCH = ("mars/records.py", "mars/metrics.py", "mars/config.py", "mars/control.py", "mars/tasks/*.py")
TORCH = {"torch", "transformers", "accelerate", "tokenizers"}
HTML_SINKS = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|srcdoc")
TEXT_SUFFIXES = {".py", ".js", ".css", ".html", ".json", ".md", ".svg"}


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import in line {node.lineno}"
            yield str(node.module)


def packages(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_run_one_way(folder: str) -> None:
    files = python_files(folder)
    assert files
    backwards = {str(path.relative_to(ROOT)): found for path in files if (found := packages(path) & FORBIDDEN[folder])}
    assert not backwards


def test_records_and_tasks_do_not_name_torch() -> None:
    files = [path for pattern in WITHOUT_TORCH for path in ROOT.glob(pattern)]
    assert {path.name for path in files} >= {"records.py", "metrics.py", "config.py", "sandbox.py"}
    assert not {str(path.relative_to(ROOT)): found for path in files if (found := packages(path) & TORCH)}


@pytest.mark.parametrize(
    "module",
    [
        *("mars.records", "mars.metrics", "mars.config", "mars.tasks", "mars.tasks.sandbox"),
        *("analysis.figures", "analysis.report.page"),
    ],
)
def test_importing_it_does_not_import_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_analysis_does_not_need_the_page() -> None:
    assert not {path.name for path in python_files("analysis") if packages(path) & {"gradio", "playwright"}}


def test_nothing_is_put_into_a_page_as_html() -> None:
    files = [path for path in sorted((ROOT / "app").rglob("*")) if path.suffix in TEXT_SUFFIXES]
    found = {str(path.relative_to(ROOT)) for path in files if HTML_SINKS.search(path.read_text(encoding="utf-8"))}
    assert not found


def test_top_level_is_what_the_readme_describes() -> None:
    folders = {"app", "mars", "analysis", "assets", "tests", "docs", "custom_generate", ".ci"}
    assert folders <= {path.name for path in ROOT.iterdir() if path.is_dir()}
