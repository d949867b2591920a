"""Loaded by `make test`: with CI=true a skipped browser test fails, lest a missing browser look like success."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

BROWSER_TESTS = Path(__file__).parent / "app"


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("true", "1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Turn the skip of a test marked `browser` into a failure."""
    report = yield
    if _in_ci() and report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("browser"):
        report.outcome = "failed"
        report.longrepr = f"a browser test may not be skipped in CI: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """The same for a whole module of tests/app that skips itself."""
    report = yield
    if _in_ci() and report.skipped and BROWSER_TESTS in collector.path.parents:
        report.outcome = "failed"
        report.longrepr = f"a browser test may not be skipped in CI: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
