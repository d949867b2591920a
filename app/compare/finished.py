"""From the lanes of a comparison to the run that is kept: everything needed to look at it without the checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from app.compare.lane import Lane
from app.runs.run import KIND, SCHEMA, Run, RunLane, RunQuestion, token_ids


def keep(identity: str, question: RunQuestion, lanes: Sequence[Lane], *, title: str = "", note: str = "") -> Run:
    """The run of these lanes, which are over; lanes without a pass are left out."""
    return Run(
        schema=SCHEMA,
        kind=KIND,
        id=identity,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        question=question,
        lanes=tuple(_lane(lane) for lane in lanes if lane.records),
        title=title,
        note=note,
    )


def _lane(lane: Lane) -> RunLane:
    records = tuple(lane.records)
    return RunLane(
        key=lane.key,
        title=lane.title,
        checkpoint=lane.checkpoint.name,
        decoder=lane.decoder,
        settings=lane.settings,
        prompt_tokens=lane.prompt_tokens,
        text=lane.text,
        written=tuple(lane.written),
        right=lane.right,
        finish_reason=lane.finish_reason or "cancelled",
        stop_ids=tuple(sorted(lane.checkpoint.engine.stop_token_ids)),
        pieces={token: lane.pieces[token] for token in token_ids(records)},
        records=records,
        earlier=lane.earlier,
    )
