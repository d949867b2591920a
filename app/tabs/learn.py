"""Learn: eight short pages on multi-token decoding, each with something to do. No model is loaded for it."""

from __future__ import annotations

import gradio as gr

from app import assets, lessons

PAGES = ("one-token", "obvious", "window", "threshold", "low-threshold", "training", "cache", "exact")


def build() -> None:
    """Lay out the tab inside the current Blocks."""
    scripts = ("dom.js", "learn/parts.js", *(f"learn/{page}.js" for page in PAGES), "learn/course.js")
    gr.HTML(
        lessons.material(),
        html_template='<div class="lens-learn"></div>',
        js_on_load=assets.script(*scripts),
        apply_default_css=False,
        elem_id="learn",
    )
