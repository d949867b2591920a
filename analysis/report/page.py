"""The report: one HTML page that needs no network, and a CSV file for every figure with the very numbers drawn.

The template escapes all text except our own style and scripts, and JSON without `<`, `>` and `&`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from plotly.io.json import to_json_plotly

from analysis import plotly_script
from analysis.figures import template
from analysis.figures.words import PUBLISHED, cut, decoder_words, measure_words, model_words, threshold_words
from analysis.report.sections import Evidence, Section
from analysis.text_table import to_csv

PAGE = "index.html"
"""The file that a server of static files, such as GitHub Pages, shows for the folder."""
TITLE = "MARS Lens: the evidence"
COLUMNS = (
    *("model", "decoder", "threshold", "batch size", "n", "accuracy (%)", "tokens per forward", "speed-up over AR"),
    *("where", "date", "id"),
)
_HYPHEN = "\u2011"
"""At which no line breaks."""
_BROWSER = Path(__file__).parent / "browser"
_ORDER = ["model", "series", "batch_size", "threshold", "id"]
_ORIGINS = {
    "timed groups": "group",
    "plans": "plan",
    "commands": "command",
    "commits": "commit",
    "hardware": "hardware",
    "torch": "torch",
    "transformers": "transformers",
    "Python": "python",
}


def write_report(folder: Path, evidence: Evidence, sections: Sequence[Section]) -> list[Path]:
    """Write the page and the CSV files of figures with numbers into `folder`, which is made if need be.

    Returns their paths, the page first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = {f"{section.name}.csv": to_csv(section.points) for section in sections if len(section.points)}
    files = {PAGE: page(evidence, sections), **tables}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def page(evidence: Evidence, sections: Sequence[Section]) -> str:
    """The page, complete: style, scripts, figures and all."""
    script, plotly = (_BROWSER / "report.js").read_text(encoding="utf-8"), plotly_script.script()
    measured = evidence.table[evidence.table["source"] != PUBLISHED].sort_values(_ORDER)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, loader=jinja2.FileSystemLoader(_BROWSER)
    )
    return environment.get_template("report.html").render(
        title=TITLE,
        policy=_policy(plotly, script),
        style=(_BROWSER / "report.css").read_text(encoding="utf-8"),
        script=script,
        plotly=plotly,
        templates=_json({name: template(dark=name == "dark").to_plotly_json() for name in ("light", "dark")}),
        summary=_summary(measured),
        sections=[_shown(section) for section in sections],
        columns=COLUMNS,
        runs=[_cells(row) for row in measured.to_dict("records")],
        skipped=list(evidence.runs.problems),
        provenance=_provenance(measured),
    )


def _shown(section: Section) -> dict[str, str | bool]:
    """The parts of a section for the template; the page sets the Plotly template."""
    drawn = section.figure.to_plotly_json()
    drawn["layout"].pop("template", None)
    return {
        "name": section.name,
        "title": section.title,
        "chapter": section.chapter,
        "caption": " ".join(section.caption.split()),
        "counts": _counts(section.points),
        "has_numbers": bool(len(section.points)),
        "data": _json(drawn),
    }


def _counts(points: pd.DataFrame) -> str:
    counts = points["n"].dropna() if "n" in points else pd.Series(dtype=float)
    if counts.empty:
        return ""
    if "mean_score" in points:
        return f"n = {int(counts.sum()):,} proposals."
    return f"n = {_range(counts)} problems a mark."


def _summary(measured: pd.DataFrame) -> str:
    if measured.empty:
        return "No runs."
    models, decoders = measured["model"].nunique(), measured["decoder"].nunique()
    return (
        f"{len(measured)} runs of {models} models with {decoders} decoders, {_range(measured['n'])} problems each, "
        f"{_range(measured['date'].str[:10]).replace('-', _HYPHEN)}."
    )


def _range(values: pd.Series) -> str:
    low, high = (end if isinstance(end, str) else f"{int(end):,}" for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        cut(model_words(row)),
        decoder_words(row),
        threshold_words(row),
        f"{int(row['batch_size'])}",
        f"{int(row['n']):,}",
        measure_words(row, "accuracy", ".1f", 100),
        measure_words(row, "tokens_per_forward", ".2f"),
        measure_words(row, "speedup", ".2f"),
        f"{row['device']}, {row['dtype']}, {row['hardware']}",
        row["date"][:10],
        row["id"],
    ]


def _provenance(measured: pd.DataFrame) -> dict[str, list[str]]:
    """Every value of each field, once."""
    found = {name: [str(value) for value in measured[field].dropna().unique()] for name, field in _ORIGINS.items()}
    return {name: sorted(values) for name, values in found.items() if values}


def _policy(*scripts: str) -> str:
    """No network at all, and no scripts but these."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{found}'" for found in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _json(value: Any) -> str:
    """JSON that can stand in a page: nothing in it ends the element."""
    text = to_json_plotly(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
