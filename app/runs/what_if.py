"""The tokens that another threshold would have accepted in each pass of a run, from the recorded scores. No torch here.

The page draws them (app/browser/step/player.js) and knows no rule of acceptance itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import takewhile

from app.runs.run import Run, RunLane, to_json
from mars import decoders
from mars.config import ScoreName, meets_threshold
from mars.metrics import COUNTED
from mars.records import ForwardPass, RowPass
from mars.schema import StrictDict, as_json

HUNDREDTHS = 100
_FILLED = "Another τ is not shown here: later passes would have read other tokens."
_VERIFIED = "No threshold: a draft is kept only if it equals the model's own choice."
_NEAR = "Another τ is not shown here: the run does not record how near a refused draft was to the best token."
_OWN_RULE = "Another τ is not shown here: this decoder has a rule beside the threshold."
_ONE_TOKEN = "No threshold: every pass proposes one token, and it is accepted."

Steps = list[tuple[int, int]]
"""Tokens accepted by threshold: [a threshold in hundredths, the number from there on], ascending, the first from 0."""


class WhatIf(StrictDict):
    """The tokens that other thresholds, from 0 to `highest` hundredths, would have accepted in a lane.

    `none` says why no threshold decides there, "" where one does. `passes` has the steps of each record.
    """

    none: str
    highest: int
    passes: list[Steps]


def page_document(run: Run) -> str:
    """The run as the page opens it: {"run": its document, "what_if": {key of a lane: `WhatIf`}}."""
    return f'{{"run":{to_json(run)},"what_if":{tables(run)}}}'


def tables(run: Run) -> str:
    """The `WhatIf` of each lane by its key, as JSON."""
    return as_json({lane.key: what_if(lane) for lane in run.lanes})


def what_if(lane: RunLane) -> WhatIf:
    """The tokens that other thresholds would have accepted, each pass being taken as it was recorded."""
    none = thresholdless(lane)
    if none:
        return {"none": none, "highest": 0, "passes": []}
    score, stop_ids = lane.settings.score, frozenset(lane.stop_ids)
    scores = (proposal.score for record in lane.records for proposal in record.rows[0].proposals)
    highest = HUNDREDTHS * (math.ceil(max(scores, default=1.0)) or 1 if score == "entropy" else 1)
    passes = [_steps(record, highest, score, stop_ids) for record in lane.records]
    return {"none": "", "highest": highest, "passes": passes}


def thresholdless(lane: RunLane) -> str:
    """The reason why no threshold decides in this lane, "" where one does."""
    info = decoders.TABLE.get(lane.decoder)  # a file may name one that is not in the table
    if info is not None and info.needs == "diffusion":
        return _FILLED
    rows = [record.rows[0] for record in lane.records if record.phase in COUNTED]
    if any(row.threshold is not None for row in rows):
        if info is not None and info.verifies:
            return _NEAR
        return _OWN_RULE if any(row.trace and "rule" in row.trace.reasons for row in rows) else ""
    return _VERIFIED if any(len(row.proposals) > 1 for row in rows) else _ONE_TOKEN


def would_accept(row: RowPass, threshold: float, score: ScoreName, stop_ids: Collection[int]) -> int:
    """Tokens that this pass would have accepted at `threshold`: those that need none, and then masks that meet it.

    The slow twin of `threshold_prefix` (mars/acceptance.py).
    """
    if row.threshold is None:
        return row.accepted
    need_none = takewhile(lambda proposal: proposal.source != "mask", row.proposals)
    accepted = min(row.accepted, len(list(need_none)))
    for proposal in row.proposals[accepted:]:
        ended = row.proposals[accepted - 1].token_id in stop_ids
        if ended or not meets_threshold(proposal.score, threshold, score):
            break
        accepted += 1
    return accepted


def _steps(record: ForwardPass, highest: int, score: ScoreName, stop_ids: Collection[int]) -> Steps:
    row = record.rows[0]
    if record.phase not in COUNTED:
        return [(0, 0)]
    turns = {0, *(_turn(proposal.score, highest, score) for proposal in row.proposals)}
    found: Steps = []
    for turn in sorted(turns):
        accepted = would_accept(row, turn / HUNDREDTHS, score, stop_ids)
        if not found or found[-1][1] != accepted:
            found.append((turn, accepted))
    return found


def _turn(value: float, highest: int, score: ScoreName) -> int:
    """The first threshold, in hundredths, at which this score is judged otherwise than at 0; `highest` if none."""
    at_zero = meets_threshold(value, 0, score)
    hundredths: Sequence[int] = range(highest)
    return bisect_left(hundredths, True, key=lambda each: meets_threshold(value, each / HUNDREDTHS, score) != at_zero)
