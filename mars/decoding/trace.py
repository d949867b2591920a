"""The trace of a pass for one row, taken from the window that the model was given: nothing here knows a decoder.

Shapes: R rows, Q columns of a window, C those of one row, without padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch

from mars.config import ScoreName, meets_threshold
from mars.engine.window import Window
from mars.records import Proposal, Reads, Reason, Span, Trace


def trace(
    window: Window,
    place: int,
    *,
    known: int,
    text: int,
    behind: Sequence[Reads] = (),
    proposals: Sequence[Proposal] = (),
    reasons: Sequence[Reason] = (),
) -> Trace:
    """The trace of row `place` of a window.

    The model knew `known` tokens of the row, prompt included; all but the first `text` of them are drafts. The columns
    `behind` the last of them read this. ValueError where a column sees other columns than itself and those that one
    column before it sees.
    """
    slots: list[int] = window.slots_RQ[place].tolist()
    padding = slots.count(0)  # on the left
    ids: list[int] = window.ids_RQ[place].tolist()[padding:]
    tree = window.sees_RQQ is not None
    positions = window.positions[place].tolist()[padding:] if tree else [slot - 1 for slot in slots[padding:]]
    cached = slots[padding] - 1
    root = known - 1 - cached
    reads: list[Reads] = ["clean" if position < text else "draft" for position in positions[: root + 1]]
    reads += behind
    if tree:
        after = _followed(window.seen[place, padding:, padding:].cpu(), positions)
        columns = list(_path(after, reads, root, proposals))
    else:
        after = [None, *range(len(ids) - 1)]
        columns = [root + number for number in range(len(proposals))]
    return Trace(
        cached=cached,
        spans=tuple(_spans(ids, reads, after)),
        columns=tuple(columns),
        reasons=tuple(reasons),
    )


def _followed(sees_CC: torch.Tensor, positions: Sequence[int]) -> list[int | None]:
    """For each column the one that it stands behind: it sees the same columns, and itself."""
    itself_CC = torch.eye(len(positions), dtype=torch.bool)
    next_C = (sees_CC[1:] == (sees_CC[:-1] | itself_CC[1:])).all(1).tolist()
    after: list[int | None] = [None if sees_CC[0].sum() == 1 else _behind(sees_CC, positions, 0)]
    for column, follows in enumerate(next_C, start=1):
        after.append(column - 1 if follows else _behind(sees_CC, positions, column))
    return after


def _behind(sees_CC: torch.Tensor, positions: Sequence[int], column: int) -> int | None:
    others_C = sees_CC[column].clone()
    others_C[column] = False
    if not others_C.any():
        return None
    for other in range(column):
        if positions[other] == positions[column] - 1 and torch.equal(sees_CC[other], others_C):
            return other
    raise ValueError(f"column {column} must see itself and what one column before it sees, to be traced")


def _path(after: list[int | None], reads: Sequence[Reads], root: int, proposals: Sequence[Proposal]) -> Iterator[int]:
    """The columns that gave the proposals: each stands behind the one before, and read the proposal's source."""
    column = root
    for number, proposal in enumerate(proposals):
        if number:
            column = next(at for at, other in enumerate(after) if other == column and reads[at] == proposal.source)
        yield column


def _spans(ids: Sequence[int], reads: Sequence[Reads], after: Sequence[int | None]) -> Iterator[Span]:
    """The columns in runs: neighbours that read the same kind of token and stand one behind the other."""
    starts = [0, *(here for here in range(1, len(ids)) if reads[here] != reads[here - 1] or after[here] != here - 1)]
    for start, end in pairwise([*starts, len(ids)]):
        yield Span(reads[start], tuple(ids[start:end]), after[start])


def reasons_of(
    proposals: Sequence[Proposal],
    accepted: int,
    threshold: float | None,
    *,
    score: ScoreName,
    kept: int,
    stop_ids: frozenset[int],
) -> Iterator[Reason]:
    """The reasons why the first `accepted` proposals were accepted, and the others were not.

    The next pass verifies `kept` of the others as drafts.
    """
    ended = accepted > 0 and proposals[accepted - 1].token_id in stop_ids
    for place, proposal in enumerate(proposals):
        by_score = proposal.source == "mask" and threshold is not None
        meets = by_score and threshold is not None and meets_threshold(proposal.score, threshold, score)
        if place < accepted:
            yield "first" if place == 0 else "right" if not by_score else "met" if meets else "rule"
        elif ended:
            yield "ended"
        elif place < accepted + kept:
            yield "kept"
        elif by_score:
            yield "behind" if place > accepted else "rule" if meets else "below"
        else:
            yield "unsure" if proposal.source == "mask" else "wrong draft"
