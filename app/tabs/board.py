"""The score board at the foot of Compare: its lanes answer many problems with known answers. The browser draws it."""

from typing import Any

import gradio as gr

from app.compare import problems
from app.compare.board import ALL, FEWEST, MOST, USUAL, Plan, start
from app.tabs import compare
from app.tabs.parts import QUIET, begun, drawn, ended, refusal

_INTRO = """<header class="board-heading"><h2>Score board</h2>
<p>The lanes above solve new problems whose answers are known. You can move τ while they write.</p>
</header>"""


class Board:
    """The components of the board, laid out in the current Blocks, for the lanes of `comparing`."""

    def __init__(self, comparing: compare.Tab) -> None:
        self._comparing = comparing
        families = [("All families", ALL), *problems.family_choices()]
        with gr.Column(elem_classes="board-section", elem_id="board-section"):
            gr.HTML(html_template=_INTRO, js_on_load=None, apply_default_css=False)
            with gr.Row(elem_classes="board-knobs"):
                self.family = gr.Dropdown(
                    families, value=ALL, label="Family", elem_id="board-family", filterable=False, min_width=10
                )
                self.count = gr.Slider(
                    FEWEST, MOST, value=USUAL, step=FEWEST, label="Problems", elem_id="board-count", buttons=[]
                )
                with gr.Row(elem_classes="lens-go"):
                    self.score = gr.Button("Score", variant="primary", size="lg", elem_id="board-score", min_width=10)
                    self.stop = gr.Button("Stop", size="lg", interactive=False, elem_id="board-stop", min_width=10)
            self.view = drawn("board", '<div class="board lens-stack"></div>', elem_id="board")
        shown = [self.view, self.score, self.stop, comparing.run]
        lanes = [self._comparing.threshold, self._comparing.limit, *self._comparing.row.inputs]
        given = [self.family, self.count, *lanes]
        queue = comparing.runner.elsewhere
        gr.on([self.score.click, self.view.submit], self._start, given, shown, queue=queue, **QUIET)
        self.view.select(lambda: (*ended(), gr.update(interactive=True)), None, shown[1:], queue=False, **QUIET)
        self.stop.click(comparing.end_run, queue=False, **QUIET)

    def _start(
        self,
        event: gr.EventData,
        request: gr.Request,
        task: str,
        count: int,
        threshold: float,
        limit: int | None,
        *lanes: Any,
    ) -> tuple[Any, ...]:
        """Score new problems, or those that the board's own event names."""
        found: dict[str, Any] = {"task": task, "count": count, "first": problems.new_seed()}
        if isinstance(event._data, dict):
            found = {name: event._data.get(name) for name in found}
        try:
            plan = Plan(**found, max_new_tokens=limit or 0, limits=self._comparing.runner.limits)
            choices = self._comparing.row.read(*lanes)
            tau = compare.threshold_of(threshold)
            identity = start(self._comparing.runner, str(request.session_hash), plan, choices, tau)
        except ValueError as error:
            return refusal(error), gr.skip(), gr.skip(), gr.skip()
        return *begun(identity), gr.update(interactive=False)
