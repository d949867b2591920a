"""The question for the lanes: a prompt, examples, problems with known answers; and the pair of models that it suits."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gradio as gr
from gradio.components import Component

from app.compare import problems
from app.models.pairs import Pair
from app.tabs.parts import HIDDEN, LATEST, QUIET, plain

_GIVEN = "(prompt) => { lens.address()?.settings.give('prompt', prompt); }"
"""In the browser: no family and seed names a question, so the address has its text."""
_STARTED = "(prompt, start) => lens.answerStart(prompt, start)"
"""In the browser: the start of an answer belongs to its prompt."""
_HELD = "(task) => { lens.held = task; }"
_CHOSEN = "(task, seed) => { const same = task === lens.held; lens.held = task; return [same ? null : task, seed]; }"
"""In the browser: a list's input event comes when it is left, too, where nothing was chosen."""
_IN_ORDER = {"concurrency_id": "question", "concurrency_limit": 1, **LATEST}  # the last asked is the last answered


class QuestionForm:
    """The prompt and its examples, laid out in the current Blocks; `choose` lays out the chooser of problems elsewhere.

    `shown` are the components whose values `pick` gives, `start` is the beginning of the answer, shown where there is
    one.
    """

    def __init__(self, tasks: bool = True, questions: bool = False) -> None:
        """`tasks` shows the problems and their chooser at first; without `questions` there are no questions at all."""
        self._tasks = tasks
        self._questions: list[tuple[gr.Button, str]] = []
        with gr.Column(scale=3, min_width=320, elem_classes="lens-prompt"):
            self.prompt = gr.Textbox(
                label="Prompt", lines=1, max_lines=8, elem_id="prompt", placeholder="Ask, or choose an example"
            )
            self.start = gr.Textbox(
                "", label="Answer starts with", lines=1, max_lines=3, elem_id="answer-start", placeholder="nothing"
            )
            with _row("lens-examples lens-questions", shown=not tasks) as question_row:
                for label, prompt in problems.QUESTIONS if questions else ():
                    self._questions.append((gr.Button(label, size="sm", min_width=10), prompt))
            with _row("lens-examples", shown=tasks) as problem_row:
                self._examples = [
                    (gr.Button(label, size="sm", min_width=10), task, seed) for label, task, seed in problems.EXAMPLES
                ]
                self._new = gr.Button("New problem", elem_id="new-problem", size="sm", min_width=10)
        self._rows = [question_row, problem_row]

    @property
    def shown(self) -> list[Component]:
        return [self.prompt, self.family, self.seed, self.answer]

    def connect(self) -> None:
        for button, prompt in self._questions:
            asked = button.click(partial(_ask, prompt), outputs=self.shown, **QUIET)
            asked.then(None, self.prompt, js=_GIVEN, **QUIET)
        for button, task, seed in self._examples:
            button.click(partial(pick, task, seed), outputs=self.shown, **QUIET)
        self._new.click(lambda task: pick(task, problems.new_seed()), self.family, self.shown, **QUIET)
        about = [self.family, self.seed]
        self.family.focus(None, self.family, js=_HELD, queue=False, **QUIET)
        self.family.input(pick, about, self.shown, js=_CHOSEN, **_IN_ORDER)
        self.seed.input(lambda *asked: pick(*asked)[::3], about, self.shown[::3], **_IN_ORDER)  # more may be typed
        self.prompt.change(_answer, [self.prompt, *about], self.answer, **_IN_ORDER)  # of pasted text, too
        texts = [self.prompt, self.start]
        gr.on([part.change for part in texts], None, texts, self.start, js=_STARTED, queue=False, **QUIET)

    def choose(self) -> None:
        """Lay out the chooser of problems inside the current Blocks."""
        families = problems.family_choices()
        with gr.Row(elem_classes="lens-draw lens-problem", visible=self._tasks or HIDDEN) as chooser:
            self.family = gr.Dropdown(
                families, value=families[0][1], label="Family", elem_id="family", scale=3, min_width=120
            )
            self.seed = gr.Number(0, label="Seed", elem_id="seed", scale=2, min_width=80)
            self.answer = plain("known-answer", label="Known answer")
        self.sections = [*self._rows, chooser]
        """Questions, problems, and the chooser of problems."""


def pick(task: Any, seed: object) -> tuple[Any, ...]:
    """The values that show a problem; if there is none, the reason in place of its answer and no other change."""
    if task is None:  # nothing was chosen
        return (gr.skip(),) * 4
    try:
        problem = problems.find(task, seed)
    except ValueError as error:
        return gr.skip(), gr.skip(), gr.skip(), str(error)
    return problem.prompt, problem.task, problem.seed, problems.known_answer(problem)


def _row(name: str, *, shown: bool) -> gr.Row:
    """A row of these classes; one that is hidden at first has another, since Gradio draws it for a moment."""
    return gr.Row(elem_classes=name if shown else f"{name} lens-later", visible=shown or HIDDEN)


def _ask(prompt: str) -> tuple[Any, ...]:
    problem = problems.known(prompt)
    return pick(problem.task, problem.seed) if problem else (prompt, gr.skip(), gr.skip(), "")


def _answer(prompt: str, task: str, seed: float) -> str:
    problem = problems.asked(prompt, task, seed)
    return problems.known_answer(problem) if problem else ""


def build_models(pairs: Sequence[Pair], note: str) -> gr.Radio:
    """The choice of a pair, shown where there is one; the first is chosen at first, `note` is a sentence about it."""
    several = len(pairs) > 1
    with gr.Row(elem_classes="lens-models", visible=several or bool(note) or HIDDEN):
        choices = [(pair.title, pair.key) for pair in pairs]
        visible = several or HIDDEN
        models = gr.Radio(choices, value=pairs[0].key, label="Models", elem_id="models", min_width=10, visible=visible)
        if note:
            plain("models-note", note)
    return models


def shown(pair: Pair) -> list[dict[str, Any]]:
    """Updates that show or hide the questions, the problems and their chooser, as fits this pair."""
    return [gr.update(visible=HIDDEN if pair.tasks else True), *[gr.update(visible=pair.tasks or HIDDEN)] * 2]
