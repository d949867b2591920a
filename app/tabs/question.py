"""What the lanes are asked: a prompt, examples, and problems by family and seed whose answers are known."""

from __future__ import annotations

from functools import partial
from typing import Any

import gradio as gr
from gradio.components import Component

from app import problems
from app.tabs.parts import QUIET, plain
from mars.tasks import Problem


class Asking:
    """The components, laid out in the current Blocks; `shown` are those that `pick` makes the values of."""

    def __init__(self) -> None:
        self.problem = gr.State(None)
        with gr.Row(elem_classes="lens-ask"):
            with gr.Column(scale=3, min_width=320, elem_classes="lens-prompt"):
                self.prompt = gr.Textbox(
                    label="Prompt", lines=3, max_lines=8, elem_id="prompt", placeholder="Ask, or choose a problem"
                )
                with gr.Row(elem_classes="lens-examples"):
                    self._examples = [
                        (gr.Button(label, size="sm", min_width=10), task, seed)
                        for label, task, seed in problems.EXAMPLES
                    ]
            with gr.Column(scale=2, min_width=300, elem_classes="lens-problem"):
                self._draw()

    @property
    def shown(self) -> list[Component]:
        """Prompt, problem, family, seed and known answer."""
        return [self.prompt, self.problem, self.family, self.seed, self.answer]

    def wire(self) -> None:
        """Connect the controls with each other."""
        for button, task, seed in self._examples:
            button.click(partial(pick, task, seed), outputs=self.shown, **QUIET)
        self._new.click(_new, self.family, self.shown, **QUIET)
        for changed in (self.family, self.seed):
            changed.input(pick, [self.family, self.seed], self.shown, trigger_mode="always_last", **QUIET)
        self.prompt.change(  # Gradio's input event does not come when text is pasted or cut
            _answer, [self.prompt, self.problem], self.answer, queue=False, trigger_mode="always_last", **QUIET
        )

    def _draw(self) -> None:
        families = problems.family_choices()
        with gr.Row(elem_classes="lens-draw"):
            self.family = gr.Dropdown(
                families, value=families[0][1], label="Family", elem_id="family", scale=3, min_width=120
            )
            self.seed = gr.Number(0, label="Seed", precision=0, elem_id="seed", scale=2, min_width=80)
            self._new = gr.Button("New problem", elem_id="new-problem", size="lg", scale=2, min_width=140)
        self.answer = plain("known-answer", label="Known answer")


def pick(task: Any, seed: object) -> tuple[Any, ...]:
    """The values that show a problem; or only why there is none, in place of its answer."""
    try:
        problem = problems.find(task, seed)
    except ValueError as error:
        return gr.skip(), gr.skip(), gr.skip(), gr.skip(), str(error)
    return problem.prompt, problem, problem.task, problem.seed, problems.known_answer(problem)


def _answer(prompt: str, problem: Problem | None) -> str:
    return problems.known_answer(problem) if problem is not None and problem.prompt == prompt else ""


def _new(task: str) -> tuple[Any, ...]:
    return pick(task, problems.new_seed())
