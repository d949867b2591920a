"""Loaded by `make test`: with CI=true a skip fails where it means that browser, harness or clients are missing.

Files with most tests run first, as pytest-xdist has it, but a test marked `slow` or `browser` counts as many: else a
file with a few such tests comes last, and all processes but its own have nothing to do. Files that share what takes
long to make run in one process (`TOGETHER`).
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
NEEDED = {
    "app/*": "a browser test",
    "mars_site/*": "a browser test",
    "performance/*": "a browser test",
    "analysis/benchmarks/test_ifeval.py": "a test of the evaluation harness",
    "mars/serve/test_clients.py": "a test of a real client",
    "mars/serve/test_conformance.py": "a test of a real client",
}
"""Modules that may not be skipped in CI, nor any of their tests, and what these are."""
COSTS = {"slow": 80, "browser": 20}
"""How many other tests take as long as one with this mark, about."""
TOGETHER = {
    "mars_kernels/test_*.py": "functions that numba compiles",
    "mars/engine/test_*.py": "functions that numba compiles",
    "mars/checkpoint/test_shipped.py": "functions that numba compiles",
    "mars/serve/test_clients.py": "functions that numba compiles",
    "mars_site/test_live*.py": "the exported pair",
    **dict.fromkeys((f"app/test_{name}.py" for name in "axe modes shortcuts tradeoffs".split()), "the page `site`"),
    "app/tabs/test_about.py": "the page `site`",
    **dict.fromkeys((f"app/test_{name}.py" for name in "page lanes board branch share".split()), "the page `served`"),
    **dict.fromkeys(
        (f"app/{name}.py" for name in "test_hostile test_api test_address_page test_learn test_step".split()),
        "the page `served` in another process",
    ),
    "app/server/test_serving.py": "the page `served` in another process",
}
"""What files share, by their names."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay to the end: to look for garbage among them takes each process a second and more."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files, or what runs in one process, by what their tests cost, most first; the order within stays."""
    costs: Counter[str] = Counter()
    for item in items:
        costs[_together(item.path)] += max([COSTS.get(mark.name, 1) for mark in item.iter_markers()], default=1)
    items.sort(key=lambda item: -costs[_together(item.path)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """That of `--dist loadfile`, with several files for one process where `_together` says so."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _together(config.rootpath / super()._split_scope(nodeid))

    return Together(config, log) if config.getoption("dist") == "loadfile" else None


def _together(path: Path) -> str:
    """A name that files of one process share."""
    if not path.is_relative_to(TESTS):
        return str(path)
    name = path.relative_to(TESTS).as_posix()
    return next((shared for pattern, shared in TOGETHER.items() if fnmatch(name, pattern)), name)


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("true", "1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn the skip of a test that is marked `browser`, or is in a module that may not skip itself, into a failure."""
    report = yield
    what = "a browser test" if item.get_closest_marker("browser") else _needed(item.path)
    if _in_ci() and report.skipped and what and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{what} may not be skipped in CI: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """The same for a whole module that skips itself."""
    report = yield
    what = _needed(collector.path)
    if _in_ci() and report.skipped and what:
        report.outcome = "failed"
        report.longrepr = f"{what} may not be skipped in CI: {_reason(report)}"
    return report


def _needed(path: Path) -> str | None:
    if not path.is_relative_to(TESTS):
        return None
    name = path.relative_to(TESTS).as_posix()
    return next((what for pattern, what in NEEDED.items() if fnmatch(name, pattern)), None)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
