"""Compare: one prompt, two or three lanes, a threshold that acts while they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import gradio as gr
from gradio.components import Component

from app import assets, stream
from app.comparison import Question
from app.lane_choice import LaneChoice
from app.runner import Picture, Runner
from app.runs.checks import number
from app.runs.run import Run
from app.sentences import complete
from app.sessions import FULL_SPEED, PACES
from app.tabs import asked, lane_row, threshold
from app.tabs.lane_row import LaneRow
from app.tabs.lane_settings import LaneControls
from app.tabs.parts import QUIET, refusing
from app.tabs.question import Asking, pick
from mars.tasks import Problem

KEPT_RUNS = 20


def build(page: gr.Blocks, runner: Runner, choice: dict[str, str]) -> Tab:
    """Lay out the tab inside the current Blocks and wire it to `runner`; `choice` names the AR and MARS checkpoints."""
    tab = Tab(runner, choice)
    tab.wire(page)
    return tab


class Tab:
    """The components of the tab, and the functions behind them.

    `history` holds the finished runs, the newest last; `ended` is the event after which it may have grown.
    """

    def __init__(self, runner: Runner, choice: dict[str, str]) -> None:
        self.runner = runner
        self.history = gr.State([])
        self.asking = Asking()
        self.prompt, self.problem, self.family, self.seed, self.answer = self.asking.shown
        with gr.Row(elem_classes="lens-controls"):
            self._controls()
        self.row = LaneRow(self.count, runner.models.names, choice["ar"], choice["mars"])
        self.stage = gr.HTML(
            html_template='<div class="lens-stage"></div>',
            js_on_load=assets.script(*assets.STAGE_SCRIPTS),
            apply_default_css=False,
            elem_id="stage",
        )

    @property
    def lane_inputs(self) -> list[Component]:
        """What `read_lanes` takes, in order."""
        return self.row.inputs

    def read_lanes(self, *values: Any) -> list[LaneChoice]:
        """The lanes that take part. Raises ValueError with one sentence about the control at fault."""
        return self.row.read(*values)

    @property
    def lanes(self) -> list[LaneControls]:
        """The controls of each lane."""
        return self.row.lanes

    @property
    def addressable(self) -> dict[str, Component]:
        """What an address may hold, by short names that stay."""
        found: dict[str, Component] = {
            "task": self.family,
            "seed": self.seed,
            "prompt": self.prompt,
            "tau": self.threshold,
            "limit": self.limit,
            "pace": self.pace,
            "lanes": self.count,
        }
        return found | {f"{lane.key}.{name}": part for lane in self.lanes for name, part in lane.named.items()}

    def _controls(self) -> None:
        with gr.Column(scale=1, min_width=240, elem_classes="lens-threshold"):
            self.reading, self.threshold = threshold.build()
        with gr.Row(elem_classes="lens-knobs"):
            self.pace = gr.Radio(
                list(PACES.items()),
                value=PACES["Readable"],
                label="Pace · clocks count model time",
                elem_id="pace",
                min_width=10,
            )
            self.count = lane_row.build_count()
            self.limit = gr.Number(192, label="Length limit", precision=0, elem_id="limit", min_width=10)
        with gr.Row(elem_classes="lens-go"):
            self.run = gr.Button("Run", variant="primary", size="lg", elem_id="run", min_width=10)
            self.stop = gr.Button("Stop", size="lg", interactive=False, elem_id="stop", min_width=10)

    def wire(self, page: gr.Blocks) -> None:
        """Connect every event; `settle` comes after those that set the controls, when the page is loaded and later."""
        self.asking.wire()
        self.ended = self.run.click(
            self._run,
            [self.prompt, self.threshold, self.pace, self.limit, self.problem, self.history, *self.lane_inputs],
            [self.stage, self.run, self.stop, self.history],
            concurrency_limit=None,
            **QUIET,
        )
        self.stop.click(self._stop, queue=False, **QUIET)
        self.threshold.input(self.steer, self.threshold, self.reading, queue=False, trigger_mode="always_last", **QUIET)
        self.pace.input(self._set_pace, self.pace, queue=False, trigger_mode="always_last", **QUIET)
        for changed in self.row.wire(self.threshold, self.steer, self.reading):
            self._introduce_after(changed.then)
        self._introduce_after(asked.build(self.lanes[1], self.asking.shown, pick).then)
        self._introduce_after(self.count.input)
        page.unload(self._leave)

    def settle(self, event: Any) -> None:
        """After `event`, which has set the controls, let the browser choose how many lanes fit, and introduce them."""
        self._introduce_after(event.then(None, outputs=self.count, js=lane_row.CHOOSE_COUNT, **QUIET).then)

    def _introduce_after(self, listen: Callable[..., Any]) -> None:
        inputs = [self.threshold, *self.lane_inputs]
        listen(self._introduce, inputs, self.stage, concurrency_limit=None, **QUIET)

    def _introduce(self, request: gr.Request, slider: float, *lanes: Any) -> Iterator[Any]:
        if self.runner.sessions.running(str(request.session_hash)):
            yield gr.skip()
            return
        try:
            yield from self.runner.introduce(self.read_lanes(*lanes), threshold.threshold_of(slider))
        except ValueError as error:
            yield _refusal(error)

    def _run(
        self,
        request: gr.Request,
        prompt: str,
        slider: float,
        pace: float,
        limit: int | None,
        problem: Problem | None,
        history: list[Run],
        *lanes: Any,
    ) -> Iterator[tuple[Any, ...]]:
        try:
            pace = number(pace, "The pace", FULL_SPEED, max(PACES.values()))
            choices = self.read_lanes(*lanes)
            known = problem if problem is not None and problem.prompt == prompt else None
            question = Question(
                prompt=prompt,
                threshold=threshold.threshold_of(slider),
                max_new_tokens=limit or 0,
                problem=known,
                limits=self.runner.limits,
            )
        except ValueError as error:
            yield _refusal(error), gr.skip(), gr.skip(), gr.skip()
            return
        buttons: tuple[Any, ...] = (gr.update(interactive=False), gr.update(interactive=True))
        for picture in self.runner.run(str(request.session_hash), question, choices, pace):
            if not picture.running:
                buttons = (gr.update(interactive=True), gr.update(interactive=False))
            shown = gr.skip() if picture.value is None else picture.value
            yield shown, *buttons, _kept(history, picture)
            buttons = (gr.skip(), gr.skip())

    def _stop(self, request: gr.Request) -> None:
        self.runner.sessions.stop(str(request.session_hash))

    def steer(self, value: float, request: gr.Request) -> str:
        with refusing():
            self.runner.sessions.set_threshold(str(request.session_hash), threshold.threshold_of(value))
            return threshold.words(value)

    def _set_pace(self, value: float, request: gr.Request) -> None:
        with refusing():
            pace = number(value, "The pace", FULL_SPEED, max(PACES.values()))
            self.runner.sessions.set_pace(str(request.session_hash), pace)

    def _leave(self, request: gr.Request) -> None:
        self.runner.sessions.leave(str(request.session_hash))


def _refusal(error: ValueError) -> str:
    sentence = complete(str(error))
    return stream.line(stream.refusal(uuid4().hex, sentence[:1].upper() + sentence[1:]))


def _kept(history: list[Run], picture: Picture) -> Any:
    return [*history, picture.result][-KEPT_RUNS:] if picture.result else gr.skip()
