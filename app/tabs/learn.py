"""Learn: six short pages on multi-token decoding, drawn from recorded runs and measured times; no model is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from app.runs.run import Run, RunLane, read
from app.tabs.parts import drawn
from mars.decoders import BASELINE, EXACT, USUAL
from mars.records import ForwardPass, Source
from mars.schema import StrictDict, as_json

FOLDER = Path(__file__).parents[2] / "assets" / "lessons"
REFERENCE = Path(__file__).parents[2] / "mars" / "reference.py"
REAL, SMALL = "real-model.json", "small-model.json"
SWEEP = ("high-thresholds.json", "low-thresholds.json")
RUNS = (REAL, SMALL, *SWEEP)
TIMES = "pass-times.json"
BUSY = 1.0
"""From this load on (the mean number of processes that want to run), other programs took part of the measured time."""


class LessonPass(StrictDict):
    """`proposals` are [text, score, source, true if it ends the turn].

    Of `drafts` that the pass verified, so many were `right`.
    """

    start: int
    accepted: int
    drafts: int
    right: int
    proposals: list[tuple[str, float, Source, bool]]


class LessonLane(StrictDict):
    """A lane of a recorded run."""

    checkpoint: str
    threshold: float | None
    right: bool | None
    written: list[str]
    passes: list[LessonPass]


class LessonProblem(StrictDict):
    """The problem that the lanes answer."""

    task: str
    seed: int


class PassTimes(StrictDict):
    """Median seconds of a pass by its number of columns, ascending from 1, and the machine that they come from.

    With `busy`, other programs ran at the same time.
    """

    checkpoint: str
    machine: str
    date: str
    context: int
    busy: bool
    times: list[tuple[int, float]]


class Material(StrictDict):
    """All data of the pages.

    `ar`, `mars` and `exact` are lanes of the real model. `small` and `sweep`, from the lowest threshold up, are lanes
    of the small model, whose answers can be checked. It answers `prompt`; Compare can ask it `problem` again.
    """

    prompt: str
    problem: LessonProblem
    ar: LessonLane
    mars: LessonLane
    exact: LessonLane
    small: LessonLane
    sweep: list[LessonLane]
    passTimes: PassTimes


def build() -> None:
    """Lay out the tab inside the current Blocks."""
    drawn("course", '<div class="lens-learn"></div>', material(), elem_id="learn")
    with gr.Accordion("The method on one page of Python", open=False, elem_id="learn-reference"):
        gr.Markdown(f"```python\n{REFERENCE.read_text(encoding='utf-8')}```", elem_classes="lens-prose")


def material() -> str:
    """Everything the pages need, as JSON without a tag; ValueError if the file of a lesson is damaged."""
    small = _run(SMALL)
    problem = small.question.problem
    if problem is None:
        raise ValueError(f"{SMALL} must name its problem")
    lanes = {lane.decoder: lane for lane in _run(REAL).lanes}
    found: Material = {
        "prompt": small.question.prompt,
        "problem": {"task": problem.task, "seed": problem.seed},
        "ar": _lane(lanes[BASELINE]),
        "mars": _lane(lanes[USUAL]),
        "exact": _lane(lanes[EXACT]),
        "small": _lane(small.lanes[0]),
        "sweep": sorted(
            (_lane(lane) for name in SWEEP for lane in _run(name).lanes), key=lambda lane: lane["threshold"] or 0.0
        ),
        "passTimes": pass_times(json.loads((FOLDER / TIMES).read_text(encoding="utf-8"))),
    }
    return as_json(found)


def pass_times(measured: dict[str, Any]) -> PassTimes:
    """The times that `python -m analysis columns` wrote."""
    threads = measured["threads"]
    return {
        "checkpoint": measured["checkpoint"],
        "machine": f"{measured['hardware']}, {measured['dtype']}, {threads} thread{'' if threads == 1 else 's'}",
        "date": measured["date"][:10],
        "context": measured["context"],
        "busy": measured["load"] >= BUSY,
        "times": [(each["columns"], each["seconds"]) for each in measured["times"]],
    }


def _run(name: str) -> Run:
    return read((FOLDER / name).read_bytes())


def _lane(lane: RunLane) -> LessonLane:
    return {
        "checkpoint": lane.checkpoint,
        "threshold": lane.settings.threshold,
        "right": lane.right,
        "written": list(lane.written),
        "passes": [_pass(lane, record) for record in lane.records if record.rows[0].proposals],
    }


def _pass(lane: RunLane, record: ForwardPass) -> LessonPass:
    row = record.rows[0]
    drafts = sum(proposal.source == "draft" for proposal in row.proposals)
    return {
        "start": row.start,
        "accepted": row.accepted,
        "drafts": drafts,
        "right": min(drafts, row.accepted - 1),
        "proposals": [
            (
                lane.pieces[proposal.token_id],
                round(proposal.score, 4),
                proposal.source,
                proposal.token_id in lane.stop_ids,
            )
            for proposal in row.proposals
        ],
    }
