"""The page: tabs inside one Blocks, and how it is served. Everything it needs comes from this machine."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import api, assets, theme
from app.runner import Runner
from app.tabs import about, compare, learn, step

TITLE = "MARS Lens"
SUBTITLE = "One prompt, two checkpoints, every forward pass visible"

_MASTHEAD = """<header class="lens-masthead"><h1>{title}</h1><p>{subtitle}</p>
<button type="button" class="lens-theme">Dark</button></header>"""


def build(runner: Runner, choice: dict[str, str]) -> gr.Blocks:
    """The page for `runner`; `choice` is the checkpoint of each lane at the start."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.HTML(
            html_template=_MASTHEAD.format(title=TITLE, subtitle=SUBTITLE),
            js_on_load=assets.script("masthead.js"),
            apply_default_css=False,
        )
        kept = step.keeper()
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Compare", id="compare", elem_id="tab-compare"):
                comparing = compare.build(page, runner, choice)
            with gr.Tab("Step through", id="step", elem_id="tab-step"):
                step.build()
            with gr.Tab("Learn", id="learn", elem_id="tab-learn"):
                learn.build()
            with gr.Tab("About", id="about", elem_id="tab-about"):
                about.build(page, runner.models.sources)
        step.keep(kept, comparing.ended, comparing.history)
        api.register(runner, choice["mars"])
    page.queue(default_concurrency_limit=None, api_open=False)
    return page


def looks() -> dict[str, Any]:
    """Theme and style sheet, as Gradio's `launch` takes them."""
    return {"theme": theme.build(), "css": assets.styles()}
