"""The page: tabs inside one Blocks, and how it is served. Everything it needs comes from this machine."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import api, assets, masthead, restoring, theme
from app.runner import Runner
from app.tabs import about, board, compare, learn, step, tradeoffs

TITLE = "MARS Lens"
SUBTITLE = "One prompt, several decoders, every forward pass visible"


def build(runner: Runner, choice: dict[str, str]) -> gr.Blocks:
    """The page for `runner`; `choice` is the checkpoint of each lane at the start."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        bar = masthead.build(TITLE, SUBTITLE)
        kept = step.keeper()
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as tabs:
            with gr.Tab("Compare", id="compare", elem_id="tab-compare"):
                comparing = compare.build(page, runner, choice)
                board.build(comparing)
            with gr.Tab("Step through", id="step", elem_id="tab-step"):
                step.build()
            with gr.Tab("Trade-offs", id="tradeoffs", elem_id="tab-tradeoffs"):
                tradeoffs.build(runner)
            with gr.Tab("Learn", id="learn", elem_id="tab-learn"):
                learn.build()
            with gr.Tab("About", id="about", elem_id="tab-about"):
                about.build(page, runner.models.sources)
        masthead.know(bar, tabs)
        restoring.wire(page, bar, comparing)
        step.keep(kept, comparing.ended, comparing.history)
        api.register(runner, choice["mars"])
    page.queue(default_concurrency_limit=None, api_open=False)
    return page


def looks() -> dict[str, Any]:
    """Theme and style sheet, as Gradio's `launch` takes them."""
    return {"theme": theme.build(), "css": assets.styles()}
