"""From the lanes of a comparison to the run that is kept: everything needed to look at it without the checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.lane import Lane
from app.runs.run import Asked, Run, RunLane, token_ids

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


def keep(identity: str, asked: Asked, lanes: Sequence[Lane], *, title: str = "", note: str = "") -> Run:
    """The run of these lanes, which are over; lanes without a pass are left out."""
    return Run(
        identity=identity,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        question=asked,
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
        pieces={token: piece_of(lane.checkpoint, token) for token in token_ids(records)},
        records=records,
    )


def piece_of(checkpoint: Checkpoint, token_id: int) -> str:
    """The text of one token alone; the name of one that stands for no text, nothing where it has none."""
    text = checkpoint.decode([token_id])
    if text or token_id >= len(checkpoint.tokenizer):
        return text
    return str(checkpoint.tokenizer.decode([token_id], skip_special_tokens=False))
