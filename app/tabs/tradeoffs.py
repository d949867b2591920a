"""Trade-offs: the measured runs as figures. Python selects the runs and answers questions; the browser draws."""

import gradio as gr

from analysis.figures import FIGURES, template
from app.browser import bundle
from app.compare.runner import Runner
from app.tabs.parts import QUIET, drawn
from app.tradeoffs.answers import RequestHandler
from app.tradeoffs.run_cache import RunCache
from app.tradeoffs.view import FEWEST_POINTS, MOST_POINTS, POINTS


def build(page: gr.Blocks, runner: Runner, run_cache: RunCache) -> None:
    """Lay out the tab inside `page`; its first figure is drawn in advance."""
    handler = RequestHandler(run_cache, runner)
    view = drawn(
        "tradeoffs",
        '<div class="trade"></div>',
        elem_id="tradeoffs",
        plotly=bundle.plotly(),
        templates={name: template(dark=name == "dark").to_plotly_json() for name in ("light", "dark")},
        figures=[{"value": name, "label": figure.question} for name, figure in FIGURES.items()],
        points={"value": POINTS, "least": FEWEST_POINTS, "most": MOST_POINTS},
    )

    def answer(event: gr.EventData) -> str:
        return handler.answer(event._data)

    page.load(handler.warm, concurrency_limit=1, **QUIET)
    # The next question may come before Gradio has closed the books on the one before.
    view.submit(answer, None, view, concurrency_limit=None, trigger_mode="multiple", **QUIET)
