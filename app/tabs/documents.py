"""The text of the About tab, read from the repository's own documents, so that each fact is written once."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from app.models import libraries

ROOT = Path(__file__).parents[2]
LONGEST_CARD = 100_000
PACKAGES = ("mars-lens", "torch", "transformers", "gradio", "plotly", "pandas")
_HEADER = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")


def document(name: str) -> str:
    """The text of a document of the repository, such as `docs/metrics.md`; empty where the file is not there."""
    path = ROOT / name
    return readable(path.read_text(encoding="utf-8")) if path.is_file() else ""


def section(name: str, heading: str) -> str:
    """The text under `## heading` of a document, without the heading; empty where there is none."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", document(name), re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def cards(sources: Mapping[str, str]) -> dict[str, str]:
    """The model card of every checkpoint that lies in a folder and has one, without the header for machines."""
    found = {}
    for name, source in sources.items():
        path = Path(source) / "README.md"
        try:
            text = path.read_text(encoding="utf-8") if path.stat().st_size <= LONGEST_CARD else ""
        except (OSError, ValueError):
            continue
        if text:
            found[name] = readable(_HEADER.sub("", text))
    return found


def readable(markdown: str) -> str:
    """Markdown for the page: no first heading, no pictures, and of links into the repository only their text."""
    text = re.sub(r"\A# [^\n]*\n+", "", markdown)
    return _RELATIVE.sub(r"\1", _IMAGE.sub(r"\1", text)).strip()


def machine() -> str:
    """Versions and hardware, as a Markdown table; reads torch, so ask for it when the page is up."""
    libraries.read()
    import torch

    from mars.provenance import commit, hardware

    rows = {
        "hardware": hardware("cuda" if torch.cuda.is_available() else "cpu"),
        "threads": str(torch.get_num_threads()),
        "Python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := _version(name))},
        "commit": (commit() or "not a repository")[:12],
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
