"""The score board at the foot of Compare: its lanes answer many problems with known answers. The browser draws it."""

from typing import Any

import gradio as gr

from app.board import scoring
from app.board.messages import ALL, FEWEST, MOST, USUAL, Plan
from app.compare import problems
from app.tabs import compare
from app.tabs.parts import QUIET, begun, drawn, ended, refusal
from mars.schema import checked

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
            self.view = drawn("board", '<div class="board"></div>', elem_id="board")
        shown = [self.view, self.score, self.stop]
        lanes = [self._comparing.threshold, self._comparing.limit, *self._comparing.row.inputs]
        run: dict[str, Any] = {"queue": comparing.runner.elsewhere, **QUIET}
        self.score.click(self._new, [self.family, self.count, *lanes], shown, **run)
        self.view.submit(self._again, lanes, shown, **run)
        self.view.select(ended, None, shown[1:], queue=False, **QUIET)
        self.stop.click(comparing.end_run, queue=False, **QUIET)

    def _new(self, request: gr.Request, task: str, count: int, *lanes: Any) -> tuple[Any, ...]:
        return self._start({"task": task, "count": count, "first": problems.new_seed()}, lanes, request)

    def _again(self, event: gr.EventData, request: gr.Request, *lanes: Any) -> tuple[Any, ...]:
        return self._start(event._data, lanes, request)

    def _start(self, data: object, lanes: tuple[Any, ...], request: gr.Request) -> tuple[Any, ...]:
        threshold, limit, *values = lanes
        try:
            found: dict[str, Any] = checked(dict[str, Any], data, "The problems")
            which = {key: value for key, value in found.items() if key in _FIELDS}
            plan = Plan(**{"first": None, **which}, max_new_tokens=limit or 0, limits=self._comparing.runner.limits)
            choices = self._comparing.row.read(*values)
            tau = compare.threshold_of(threshold)
            identity = scoring.start(self._comparing.runner, str(request.session_hash), plan, choices, tau)
        except ValueError as error:
            return refusal(error), gr.skip(), gr.skip()
        return begun(identity)


_FIELDS = ("task", "count", "first")
