"""What the Learn tab shows: recorded runs of one problem, shortened to what its pages draw. No model is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.runs.reading import read
from app.runs.run import Run, RunLane
from mars.records import ForwardPass

FOLDER = Path(__file__).parents[1] / "assets" / "lessons"
WAYS = "three-ways.json"
SWEEP = ("high-thresholds.json", "low-thresholds.json")
AR, MARS, EXACT = "autoregressive", "sliding_window", "self_speculative"


def material() -> str:
    """Everything the pages need, as JSON in which nothing looks like a tag.

    Raises:
        ValueError: a lesson's file is damaged.
    """
    ways = _run(WAYS)
    lanes = {lane.decoder: lane for lane in ways.lanes}
    found = {
        "prompt": ways.question.prompt,
        "ar": _lane(lanes[AR]),
        "mars": _lane(lanes[MARS]),
        "exact": _lane(lanes[EXACT]),
        "sweep": sorted(
            (_lane(lane) for name in SWEEP for lane in _run(name).lanes), key=lambda lane: -lane["threshold"]
        ),
    }
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def _run(name: str) -> Run:
    return read((FOLDER / name).read_bytes())


def _lane(lane: RunLane) -> dict[str, Any]:
    passes = [record for record in lane.records if record.rows[0].proposals]
    return {
        "checkpoint": lane.checkpoint,
        "promptTokens": lane.prompt_tokens,
        "blockSize": lane.settings.block_size,
        "threshold": lane.settings.threshold,
        "right": lane.right,
        "written": list(lane.written),
        "passes": [_pass(lane, record) for record in passes],
    }


def _pass(lane: RunLane, record: ForwardPass) -> dict[str, Any]:
    """`proposals` are [text, score, what was read, whether it ends the turn]; `positions` were forwarded in all."""
    row = record.rows[0]
    return {
        "start": row.start,
        "accepted": row.accepted,
        "positions": record.query_tokens,
        "proposals": [
            [
                lane.pieces[proposal.token_id],
                round(proposal.score, 4),
                proposal.source,
                proposal.token_id in lane.stop_ids,
            ]
            for proposal in row.proposals
        ],
    }
