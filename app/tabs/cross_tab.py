"""Requests of other tabs to Compare: put these settings into a lane, or pick this problem.

A tab sends an event of the document (app/browser/compare/controls.js), which arrives here as an event of a component.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from gradio.components import Component

from app.compare.lane_choice import LaneChoice
from app.tabs.lanes import LaneControls
from app.tabs.parts import QUIET, drawn, refusing
from mars.schema import Strict, checked, shown

Pick = Callable[[Any, Any], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemRequest(Strict):
    """A problem by its family and seed."""

    task: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRequest(ProblemRequest):
    """Settings for a lane, the fields of a `LaneChoice`, and perhaps a problem."""

    choice: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TabRequest(Strict):
    """A request from another tab: one of these two."""

    use: SettingsRequest | None = None
    problem: ProblemRequest | None = None


def build(lane: LaneControls, problem: Sequence[Component], pick: Pick) -> Any:
    """Lay out the listener inside the current Blocks; returns the event after which the lane or problem has changed.

    `pick` gives the values of the components `problem` for a family and a seed.
    """
    listener = drawn("tabRequests", '<div class="lens-asks"></div>', elem_classes="lens-kept")

    def take(event: gr.EventData) -> list[Any]:
        with refusing():
            return answer(event._data, lane, len(problem), pick)

    return listener.submit(take, None, [*lane.components, *problem], **QUIET)


def answer(data: object, lane: LaneControls, problem: int, pick: Pick) -> list[Any]:
    """The updates of the lane's and the `problem` components, for {"use": …} or {"problem": …}; ValueError if wrong."""
    wanted: TabRequest = checked(TabRequest, data, "what was asked")
    lane_updates, problem_updates = [gr.skip()] * len(lane.components), [gr.skip()] * problem
    place = wanted.use or wanted.problem
    if wanted.use is not None:
        lane_updates = lane.updates(_offered(checked(LaneChoice, wanted.use.choice, lane.name), lane))
    if place is not None and place.task is not None:
        problem_updates = list(pick(place.task, place.seed))
    return [*lane_updates, *problem_updates]


def _offered(choice: LaneChoice, lane: LaneControls) -> LaneChoice:
    """The same choice with a checkpoint that is offered here; a measured run may have used another one."""
    if choice.draft is not None and choice.draft not in lane.names:
        raise ValueError(f"The draft {shown(choice.draft)} is not offered here: start the app with --checkpoint.")
    if choice.checkpoint in lane.names:
        return choice
    usual = lane.pair.ar if choice.family == "ar" else lane.pair.mars
    gr.Warning(
        f"There is no checkpoint {shown(choice.checkpoint)} here, so {usual} takes its place. To compare with the "
        "other one, start the app with --checkpoint FOLDER."
    )
    return replace(choice, checkpoint=usual)
