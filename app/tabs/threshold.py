"""The slider of the live threshold, with marks at the thresholds of the paper."""

from __future__ import annotations

import csv
from pathlib import Path

import gradio as gr

from app.tabs.parts import drawn, plain
from mars.config import DEFAULT_THRESHOLD
from mars.schema import between, checked

PUBLISHED = Path(__file__).parents[2] / "assets" / "published" / "threshold_sweep.csv"
LOWEST, ONE_TOKEN = 0.5, 1.0
_ENDS = '<div class="lens-ends"><span>◂ more per pass</span><span>one per pass ▸</span></div>'


def build() -> tuple[gr.HTML, gr.Slider]:
    """The slider and its value in words, laid out in the current Blocks."""
    reading = plain("threshold-reading", words(DEFAULT_THRESHOLD), "Threshold")
    gr.HTML(html_template=_ENDS, apply_default_css=False)
    slider = gr.Slider(
        LOWEST,
        ONE_TOKEN,
        value=DEFAULT_THRESHOLD,
        step=0.01,
        label="Live threshold τ: acts on the lanes that follow it",
        buttons=[],
        elem_id="threshold",
    )
    drawn("marks", '<div class="lens-marks" aria-hidden="true"></div>', marks=published(), lowest=LOWEST)
    return reading, slider


def published() -> list[float]:
    """The thresholds of the paper that the slider has, ascending; one token per pass is its end."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        found = {float(row["threshold"]) for row in csv.DictReader(file) if row["threshold"]}
    return sorted(value for value in found if LOWEST <= value < ONE_TOKEN)


def threshold_of(value: object) -> float | None:
    """The threshold at this value of the slider.

    Raises:
        ValueError: it has no such value.
    """
    threshold: float = checked(between(float, LOWEST, ONE_TOKEN), value, "The threshold")
    return None if threshold == ONE_TOKEN else threshold


def words(value: object) -> str:
    """The value of the slider in words."""
    threshold = threshold_of(value)
    return "one token per pass" if threshold is None else f"τ = {threshold:.2f}"
