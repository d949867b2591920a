"""The choice between pairs of models for the lanes, and the parts of the page that belong to each pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.compare import problems
from app.models.pairs import Pair
from app.tabs.parts import HIDDEN, plain


class ModelsControl:
    """The control, laid out in the current Blocks and shown where there is a choice; `pairs[0]` is chosen at first.

    `note` is a sentence for the person; without one there is none.
    """

    def __init__(self, pairs: Sequence[Pair], note: str = "") -> None:
        self.pairs = tuple(pairs)
        with gr.Row(elem_classes="lens-models", visible=len(pairs) > 1 or bool(note) or HIDDEN):
            self.choice = gr.Radio(
                [(pair.title, pair.key) for pair in pairs],
                value=pairs[0].key,
                label="Models",
                elem_id="models",
                min_width=10,
                visible=len(pairs) > 1 or HIDDEN,
            )
            if note:
                plain("models-note", note)

    def pair(self, key: object) -> Pair:
        """The pair of this key, or the first."""
        return next((pair for pair in self.pairs if pair.key == key), self.pairs[0])

    def without_tasks(self) -> Pair | None:
        """The first pair that answers any question."""
        return next((pair for pair in self.pairs if not pair.tasks), None)

    def with_tasks(self) -> Pair | None:
        """The first pair whose examples are problems with known answers."""
        return next((pair for pair in self.pairs if pair.tasks), None)


def shown(pair: Pair) -> list[dict[str, Any]]:
    """Updates that show or hide the questions, the problems, their chooser and the score board, as fits this pair."""
    return [gr.update(visible=HIDDEN if pair.tasks else True), *[gr.update(visible=pair.tasks or HIDDEN)] * 3]


def prompts(pair: Pair) -> list[str]:
    """The prompts of the buttons for a pair; the page starts with the first."""
    if pair.tasks:
        return [problems.find(task, seed).prompt for _, task, seed in problems.EXAMPLES]
    return [prompt for _, prompt in problems.QUESTIONS]
