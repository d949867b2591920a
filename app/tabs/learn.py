"""Learn: nine short pages on multi-token decoding, each with something to do. No model is loaded for it."""

from __future__ import annotations

import gradio as gr

from app.browser import bundle
from app.tabs import lessons


def build() -> None:
    """Lay out the tab inside the current Blocks."""
    gr.HTML(
        lessons.material(),
        html_template='<div class="lens-learn"></div>',
        js_on_load=bundle.mount("course"),
        apply_default_css=False,
        elem_id="learn",
    )
