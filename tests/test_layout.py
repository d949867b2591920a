"""The layout of the repository: imports run one way, records need no torch, nothing is put into a page as HTML."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mars import decoders
from tests.import_graph import PAGE, TOPS, circle, drawn, imported, module_graph, modules, upward, written_in

ROOT = Path(__file__).parent.parent

WITHOUT_TORCH = ("mars/records.py", "mars/metrics.py", "mars/config.py", "mars/control.py", "mars_tasks/*.py")
TORCH = {"torch", "transformers", "accelerate", "tokenizers"}
HTML_SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTML|document\.write|createContextualFragment|DOMParser|srcdoc"
)
TEXT_SUFFIXES = {".py", ".js", ".css", ".html", ".json", ".md", ".svg"}


graph = cache(module_graph)


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


@pytest.mark.parametrize("folder", TOPS)
def test_no_part_of_the_product_imports_its_tests(folder: str) -> None:
    files = python_files(folder)
    assert files
    assert not [str(path.relative_to(ROOT)) for path in files if "tests" in packages(path)]


def test_no_import_runs_up() -> None:
    assert upward(graph()) == []


def test_no_import_goes_in_a_circle() -> None:
    assert circle(graph()) == []


@pytest.mark.parametrize(
    ("module", "line", "up", "round_trip"),
    [
        ("mars.engine.engine", "def f():\n    from mars.decoding.service import service_of", True, True),
        ("mars.decoding.method", "if TYPE_CHECKING:\n    from mars.decoding.pool import Pool", False, True),
        ("app.runs.run", "from app import page", True, True),
        ("app.scheduling", "import app.compare.stream", True, False),
        ("mars.config", "from analysis.stats import intervals", True, False),
    ],
)
def test_an_import_up_or_circular_is_found(module: str, line: str, up: bool, round_trip: bool) -> None:
    changed = {**graph(), module: graph()[module] | imported(line, modules())}
    assert bool(upward(changed)) is up
    assert bool(circle(changed)) is round_trip


def test_a_package_that_no_layer_names_is_found() -> None:
    assert upward({"app.attic.chest": set()}) == ["app.attic.chest is in no layer: name it in tests/import_graph.py"]


@pytest.mark.parametrize(("extra", "place"), [("mars_kernels", "mars.engine.backends"), ("mars_site", "app.site")])
def test_one_place_picks_an_extra_package(extra: str, place: str) -> None:
    """By name, when it is asked; so the rest works without it."""
    users = {name for name, targets in graph().items() if any(extra in target for target in targets)}
    assert {name.partition(".")[0] for name in users} == {extra}
    codes = {name: file.read_text(encoding="utf-8") for name, file in modules().items()}
    assert {name for name, code in codes.items() if "import_module(" in code and extra in code} == {place}


def test_the_architecture_page_draws_the_true_graph() -> None:
    assert written_in(PAGE.read_text(encoding="utf-8")) == drawn(graph()), (
        "draw it again: python -m tests.import_graph --write"
    )


def test_records_and_tasks_do_not_name_torch() -> None:
    files = [path for pattern in WITHOUT_TORCH for path in ROOT.glob(pattern)]
    assert {path.name for path in files} >= {"records.py", "metrics.py", "config.py", "sandbox.py"}
    assert not {str(path.relative_to(ROOT)): found for path in files if (found := packages(path) & TORCH)}


def test_importing_them_does_not_import_torch() -> None:
    """One process for all, the smallest first: it ends with the first that does."""
    modules = [
        *("mars.records", "mars.metrics", "mars.config", "mars.decoders", "mars.decoding", "mars.options"),
        *("mars.checkpoint.sources", "mars_tasks", "mars_tasks.sandbox", "app.runs.run"),
        *("analysis.runs", "analysis.claims", "analysis.figures", "analysis.measured"),
    ]
    code = (
        "import sys, importlib\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name\n"
        "sys.modules['mars.checkpoint.sources'].unavailable('smollm2-135m')\n"
        "assert 'torch' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code, *modules], cwd=ROOT, check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_analysis_does_not_need_the_page() -> None:
    assert not {path.name for path in python_files("analysis") if packages(path) & {"gradio", "playwright"}}


def test_nothing_is_put_into_a_page_as_html() -> None:
    files = [path for top in ("app", "mars_site") for path in (ROOT / top).rglob("*") if path.suffix in TEXT_SUFFIXES]
    found = {str(path.relative_to(ROOT)) for path in files if HTML_SINKS.search(path.read_text(encoding="utf-8"))}
    assert not found


def test_no_script_of_the_page_names_a_decoder() -> None:
    """Names that are also plain words aside; facts come from the table (app/browser/shared/decoders.js)."""
    names = re.compile(r"\b(" + "|".join(name for name in decoders.TABLE if "_" in name) + r")\b")
    files = sorted(ROOT.glob("*/browser/**/*.js"))
    assert len(files) > 30
    assert not [str(path.relative_to(ROOT)) for path in files if names.search(path.read_text(encoding="utf-8"))]


def test_top_level_is_what_the_readme_describes() -> None:
    _, _, places = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Where things are\n")
    told = set(re.findall(r"(\w+)/(?=[, ])", places.split("```")[1]))
    assert told == {*TOPS, "assets", "tests", "docs", "custom_generate"}
    assert {*told, ".ci"} <= {path.name for path in ROOT.iterdir() if path.is_dir()}
