"""Plotly's script for browsers, with the kinds of traces that our figures have (docs/library.md says why this one)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PATH = Path(__file__).parent / "figures" / "plotly-cartesian.min.js"


@cache
def script() -> str:
    """The script, which begins with its licence."""
    return PATH.read_text(encoding="utf-8")


@cache
def version() -> str:
    """The version of the script, which must be the one that the Python package `plotly` writes figures for."""
    found = re.search(r"plotly\.js \(cartesian - minified\) v([\d.]+)", script()[:200])
    if found is None:
        raise ValueError(f"{PATH.name} must name its version in its first lines")
    return found[1]
