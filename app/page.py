"""The page: tabs inside one Blocks, and how it is served. Everything it needs comes from this machine."""

from collections.abc import Sequence

import gradio as gr

from app import api
from app.compare.runner import Runner
from app.models.pairs import Pair
from app.tabs import about, address, board, compare, learn, step, tradeoffs
from app.tabs.parts import drawn
from app.tradeoffs.run_cache import RunCache

_MASTHEAD = """<header class="lens-masthead"><h1>MARS Lens</h1>
<p>One prompt, several decoders, every forward pass visible</p>
<div class="lens-tools" role="group" aria-label="This page">
<button type="button" class="lens-tool lens-link">Copy link</button>
<button type="button" class="lens-tool lens-theme">Dark</button>
<button type="button" class="lens-tool lens-projecting" aria-pressed="false">Projector</button>
<button type="button" class="lens-tool lens-keys" title="Keys" aria-label="? Keys" aria-haspopup="dialog">?</button>
</div></header>
<div class="lens-notes"></div>"""


MOST_EVENTS = 10_000
"""Events of all visitors that may wait."""


def build(runner: Runner, pairs: Sequence[Pair], note: str = "") -> gr.Blocks:
    """The page, with these pairs to choose between and a `note` about that."""
    run_cache = RunCache()
    with gr.Blocks(title="MARS Lens", analytics_enabled=False, fill_width=True) as page:
        masthead = drawn("masthead", _MASTHEAD, elem_id="masthead", codes="code.svg")
        kept = step.keeper()
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as tabs:
            with gr.Tab("Compare", id="compare", elem_id="tab-compare"):
                comparing = compare.Tab(runner, pairs, note)
                comparing.connect(kept)
                board.Board(comparing)
            with gr.Tab("Step through", id="step", elem_id="tab-step"):
                step.build()
            with gr.Tab("Trade-offs", id="tradeoffs", elem_id="tab-tradeoffs"):
                tradeoffs.build(page, runner, run_cache)
            with gr.Tab("Learn", id="learn", elem_id="tab-learn"):
                learn.build()
            with gr.Tab("About", id="about", elem_id="tab-about"):
                about.build(runner.models.sources)
        step.build_sharing()
        # Those that an address may name:
        masthead.props["tabs"] = [tab.id for tab in tabs.children if isinstance(tab, gr.Tab)]
        address.connect(page, masthead, comparing)
        api.register(runner, pairs[0].mars, run_cache)
    # Runs wait in a line of their own (app/scheduling.py). Without a number Gradio would let one event wait on ZeroGPU.
    page.queue(default_concurrency_limit=None, api_open=False, max_size=MOST_EVENTS)
    return page
