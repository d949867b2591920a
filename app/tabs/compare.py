"""Compare: one prompt, an AR lane and a MARS lane, a threshold that acts while they write."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import gradio as gr

from app import assets, problems, stream
from app.comparison import Question
from app.runner import Picture, Runner
from app.runs.checks import number
from app.runs.run import Run
from app.sentences import complete
from app.sessions import FULL_SPEED
from app.tabs.parts import plain, refusing
from mars.config import DEFAULT_THRESHOLD
from mars.tasks import Problem

LOWEST_THRESHOLD, ONE_TOKEN = 0.5, 1.0
PACES = [("Slow", 3.0), ("Readable", 12.0), ("Full speed", FULL_SPEED)]
KEPT_RUNS = 20
_ENDS = '<div class="lens-ends"><span>0.50 · more per pass</span><span>one token per pass</span></div>'
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


def build(page: gr.Blocks, runner: Runner, choice: dict[str, str]) -> Tab:
    """Lay out the tab inside the current Blocks and wire it to `runner`."""
    tab = Tab(runner, choice)
    tab.wire(page)
    return tab


class Tab:
    """The components of the tab, and the functions behind them.

    `history` holds the finished runs, the newest last; `ended` is the event after which it may have grown.
    """

    def __init__(self, runner: Runner, choice: dict[str, str]) -> None:
        self.runner = runner
        self.problem = gr.State(None)
        self.history = gr.State([])
        with gr.Row(elem_classes="lens-ask"):
            self._ask()
        with gr.Row(elem_classes="lens-controls"):
            self._controls()
        self.stage = gr.HTML(
            html_template='<div class="lens-stage"></div>',
            js_on_load=assets.script(*assets.STAGE_SCRIPTS),
            apply_default_css=False,
            elem_id="stage",
        )
        with gr.Accordion("Checkpoints", open=False, elem_classes="lens-checkpoints"), gr.Row():
            names = runner.models.names
            self.ar = gr.Dropdown(names, value=choice["ar"], label="AR lane", elem_id="checkpoint-ar")
            self.mars = gr.Dropdown(names, value=choice["mars"], label="MARS lane", elem_id="checkpoint-mars")

    def _ask(self) -> None:
        with gr.Column(scale=3, min_width=320, elem_classes="lens-prompt"):
            self.prompt = gr.Textbox(
                label="Prompt", lines=3, max_lines=8, elem_id="prompt", placeholder="Ask, or choose a problem"
            )
            with gr.Row(elem_classes="lens-examples"):
                self.examples = [
                    (gr.Button(label, size="sm", min_width=10), task, seed) for label, task, seed in problems.EXAMPLES
                ]
        with gr.Column(scale=2, min_width=300, elem_classes="lens-problem"):
            families = problems.family_choices()
            with gr.Row(elem_classes="lens-draw"):
                self.family = gr.Dropdown(
                    families, value=families[0][1], label="Family", elem_id="family", scale=3, min_width=120
                )
                self.seed = gr.Number(0, label="Seed", precision=0, elem_id="seed", scale=2, min_width=80)
                self.new = gr.Button("New problem", elem_id="new-problem", size="lg", scale=2, min_width=140)
            self.answer = plain("known-answer", label="Known answer")

    def _controls(self) -> None:
        with gr.Column(scale=1, min_width=240, elem_classes="lens-threshold"):
            self.reading = plain("threshold-reading", _reading(DEFAULT_THRESHOLD), "MARS threshold")
            self.threshold = gr.Slider(
                LOWEST_THRESHOLD,
                ONE_TOKEN,
                value=DEFAULT_THRESHOLD,
                step=0.01,
                label="Threshold τ of the MARS lane",
                buttons=[],
                elem_id="threshold",
            )
            gr.HTML(html_template=_ENDS, js_on_load=None, apply_default_css=False)
        with gr.Row(elem_classes="lens-knobs"):
            self.pace = gr.Radio(
                PACES, value=PACES[1][1], label="Pace · clocks count model time", elem_id="pace", min_width=10
            )
            self.limit = gr.Number(192, label="Length limit", precision=0, elem_id="limit", min_width=10)
        with gr.Row(elem_classes="lens-go"):
            self.run = gr.Button("Run", variant="primary", size="lg", elem_id="run", min_width=10)
            self.stop = gr.Button("Stop", size="lg", interactive=False, elem_id="stop", min_width=10)

    def wire(self, page: gr.Blocks) -> None:
        """Connect every event."""
        shown = [self.prompt, self.problem, self.family, self.seed, self.answer]
        for button, task, seed in self.examples:
            button.click(partial(_pick, task, seed), outputs=shown, **_QUIET)
        self.new.click(_draw, self.family, shown, **_QUIET)
        for changed in (self.family, self.seed):
            changed.input(_pick, [self.family, self.seed], shown, trigger_mode="always_last", **_QUIET)
        self.prompt.input(None, outputs=self.answer, js="() => ''", **_QUIET)
        self.ended = self.run.click(
            self._run,
            [self.prompt, self.threshold, self.pace, self.limit, self.problem, self.history, self.ar, self.mars],
            [self.stage, self.run, self.stop, self.history],
            concurrency_limit=None,
            **_QUIET,
        )
        self.stop.click(self._stop, queue=False, **_QUIET)
        self.threshold.input(
            self._steer, self.threshold, self.reading, queue=False, trigger_mode="always_last", **_QUIET
        )
        self.pace.input(self._set_pace, self.pace, queue=False, trigger_mode="always_last", **_QUIET)
        lanes = [self.ar, self.mars]
        for changed in lanes:
            changed.input(self._introduce, lanes, self.stage, concurrency_limit=None, **_QUIET)
        page.load(self._introduce, lanes, self.stage, concurrency_limit=None, **_QUIET)
        page.load(partial(_pick, *problems.EXAMPLES[0][1:]), outputs=shown, **_QUIET)
        page.unload(self._leave)

    def _introduce(self, ar: str, mars: str, request: gr.Request) -> Iterator[Any]:
        if self.runner.sessions.running(str(request.session_hash)):
            yield gr.skip()
            return
        yield from self.runner.introduce({"ar": ar, "mars": mars})

    def _run(
        self,
        prompt: str,
        threshold: float,
        pace: float,
        limit: int | None,
        problem: Problem | None,
        history: list[Run],
        ar: str,
        mars: str,
        request: gr.Request,
    ) -> Iterator[tuple[Any, ...]]:
        choice = {"ar": ar, "mars": mars}
        try:
            pace = number(pace, "The pace", FULL_SPEED, max(value for _, value in PACES))
            known = problem if problem is not None and problem.prompt == prompt else None
            question = Question(
                prompt=prompt,
                threshold=_threshold(threshold),
                max_new_tokens=limit or 0,
                problem=known,
                limits=self.runner.limits,
            )
        except ValueError as error:
            yield stream.line(stream.refusal(uuid4().hex, complete(str(error)))), gr.skip(), gr.skip(), gr.skip()
            return
        buttons: tuple[Any, ...] = (gr.update(interactive=False), gr.update(interactive=True))
        for picture in self.runner.run(str(request.session_hash), question, choice, pace):
            if not picture.running:
                buttons = (gr.update(interactive=True), gr.update(interactive=False))
            yield picture.value, *buttons, _kept(history, picture)
            buttons = (gr.skip(), gr.skip())

    def _stop(self, request: gr.Request) -> None:
        self.runner.sessions.stop(str(request.session_hash))

    def _steer(self, value: float, request: gr.Request) -> str:
        with refusing():
            self.runner.sessions.set_threshold(str(request.session_hash), _threshold(value))
            return _reading(value)

    def _set_pace(self, value: float, request: gr.Request) -> None:
        with refusing():
            pace = number(value, "The pace", FULL_SPEED, max(value for _, value in PACES))
            self.runner.sessions.set_pace(str(request.session_hash), pace)

    def _leave(self, request: gr.Request) -> None:
        self.runner.sessions.leave(str(request.session_hash))


def _pick(task: str, seed: object) -> tuple[Any, ...]:
    try:
        problem = problems.find(task, seed)
    except ValueError as error:
        return gr.skip(), gr.skip(), gr.skip(), gr.skip(), str(error)
    return problem.prompt, problem, problem.task, problem.seed, problems.known_answer(problem)


def _draw(task: str) -> tuple[Any, ...]:
    return _pick(task, problems.new_seed())


def _threshold(value: float) -> float | None:
    threshold = number(value, "The threshold", LOWEST_THRESHOLD, ONE_TOKEN)
    return None if threshold == ONE_TOKEN else threshold


def _reading(value: float) -> str:
    threshold = _threshold(value)
    return "one token per pass" if threshold is None else f"τ = {threshold:.2f}"


def _kept(history: list[Run], picture: Picture) -> Any:
    return [*history, picture.result][-KEPT_RUNS:] if picture.result else gr.skip()
