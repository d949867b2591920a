"""Learn: six short pages on multi-token decoding, drawn from recorded runs and measured times; no model is loaded."""

import json
from pathlib import Path

import gradio as gr

from app.runs.run import read
from app.tabs.parts import drawn
from mars.schema import as_json, page_json

FOLDER = Path(__file__).parents[2] / "assets" / "lessons"
REFERENCE = Path(__file__).parents[2] / "mars" / "reference.py"
REAL, SMALL = "real-model.json", "small-model.json"
SWEEP = ("high-thresholds.json", "low-thresholds.json")
RUNS = (REAL, SMALL, *SWEEP)
TIMES = "pass-times.json"
"""What `python -m analysis columns` wrote."""


def build() -> None:
    drawn("course", '<div class="lens-learn"></div>', material(), elem_id="learn")
    with gr.Accordion("The method on one page of Python", open=False, elem_id="learn-reference"):
        gr.Markdown(f"```python\n{REFERENCE.read_text(encoding='utf-8')}```", elem_classes="lens-prose")


def material() -> str:
    """The recorded runs, and the times of passes, as JSON without a tag; ValueError if a file is damaged."""
    real, small, *sweep = (as_json(read((FOLDER / name).read_bytes())) for name in RUNS)
    times = page_json(json.loads((FOLDER / TIMES).read_text(encoding="utf-8")))
    return f'{{"real":{real},"small":{small},"sweep":[{",".join(sweep)}],"passTimes":{times}}}'
