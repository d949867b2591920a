"""Learn: six short pages on multi-token decoding, drawn from recorded runs and measured times; no model is loaded."""

import json
from pathlib import Path
from typing import Any

import gradio as gr

from app.runs.run import read, to_json
from app.tabs.parts import drawn
from mars.schema import page_json

FOLDER = Path(__file__).parents[2] / "assets" / "lessons"
REFERENCE = Path(__file__).parents[2] / "mars" / "reference.py"
REAL, SMALL = "real-model.json", "small-model.json"
SWEEP = ("high-thresholds.json", "low-thresholds.json")
RUNS = (REAL, SMALL, *SWEEP)
TIMES = "pass-times.json"
BUSY = 1.0
"""From this load on (the mean number of processes that want to run), other programs took part of the measured time."""


def build() -> None:
    drawn("course", '<div class="lens-learn"></div>', material(), elem_id="learn")
    with gr.Accordion("The method on one page of Python", open=False, elem_id="learn-reference"):
        gr.Markdown(f"```python\n{REFERENCE.read_text(encoding='utf-8')}```", elem_classes="lens-prose")


def material() -> str:
    """The recorded runs, and the times of passes, as JSON without a tag; ValueError if a file is damaged."""
    real, small, *sweep = (to_json(read((FOLDER / name).read_bytes())) for name in RUNS)
    times = page_json(pass_times(json.loads((FOLDER / TIMES).read_text(encoding="utf-8"))))
    return f'{{"real":{real},"small":{small},"sweep":[{",".join(sweep)}],"passTimes":{times}}}'


def pass_times(measured: dict[str, Any]) -> dict[str, Any]:
    """What `python -m analysis columns` wrote: median seconds by number of columns, and where; `busy` beside others."""
    threads = measured["threads"]
    return {
        "checkpoint": measured["checkpoint"],
        "machine": f"{measured['hardware']}, {measured['dtype']}, {threads} thread{'' if threads == 1 else 's'}",
        "date": measured["date"][:10],
        "context": measured["context"],
        "busy": measured["load"] >= BUSY,
        "times": [(each["columns"], each["seconds"]) for each in measured["times"]],
    }
