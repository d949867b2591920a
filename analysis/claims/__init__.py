"""The paper's claims and our own, each judged by a declared rule from the run store alone. No torch here.

`read_evidence` gathers what there is, `judge` finds each claim's verdict, `to_markdown` and `to_json` write them down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analysis.claims import baseline, caching, drafting, exact, extra, one_token, scores, thresholds, training
from analysis.claims.book import Book
from analysis.claims.finding import Claim, Evidence, Finding, Verdict
from analysis.claims.page import to_json, to_markdown
from analysis.claims.published import Published
from analysis.published import read_published
from analysis.runs import RunStore
from analysis.runs.files import INDEX

__all__ = ["CLAIMS", "Claim", "Evidence", "Finding", "Verdict", "judge", "read_evidence", "to_json", "to_markdown"]

_MODULES = (one_token, training, thresholds, scores, caching, drafting, exact, extra, baseline)
CLAIMS: tuple[Claim, ...] = tuple(
    sorted((claim for module in _MODULES for claim in module.CLAIMS), key=lambda claim: claim.number)
)


def read_evidence(store: RunStore, folder: Path) -> Evidence:
    """The runs of a store, the benchmarks that lie beside them in `folder`, and the paper's tables.

    Raises:
        ValueError: a table of the paper is missing or damaged.
    """
    return Evidence(book=Book(store), published=Published(read_published()), benches=read_benches(folder))


def read_benches(folder: Path) -> dict[str, dict[str, Any]]:
    """The files of `analysis bench --json` in a folder, by name; whatever else lies there is left alone."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        if path.name == INDEX:
            continue
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(data, dict) and {"results", "contestants", "hardware", "command", "n"} <= data.keys():
            found[path.name] = data
    return found


def judge(evidence: Evidence) -> dict[Claim, Finding]:
    """Every claim with what was found, in their order."""
    return {claim: claim.find(evidence) for claim in CLAIMS}
