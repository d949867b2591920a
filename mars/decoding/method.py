"""What sets one decoder apart from another: the window it forwards, and how it judges what comes back.

A `Method` holds settings and no state of a run, so that rows may join and leave between passes, and rows with equal
methods share a batch. `Pool` (mars/decoding/pool.py) does the rest: prompts, passes, records.

Shapes: R rows, Q columns of a window, W proposals a row, V vocabulary, K slots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import torch

from mars.acceptance import Read, read
from mars.config import ScoreName
from mars.decoding.sequences import Batch, Row
from mars.records import Phase, Source
from mars.window import Window

MASK: Final[Source] = "mask"
DRAFT: Final[Source] = "draft"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The proposals of each row in the order of their positions, and how many are accepted [R], on the device.

    `left_RW` is what to leave behind the row's last token for the next pass, the accepted tokens first; None: the
    proposals. `drafts_R` is how many drafts are among it, for methods that count them.
    """

    read: Read
    accepted_R: torch.Tensor
    left_RW: torch.Tensor | None = None
    drafts_R: torch.Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A decoder, pass by pass. Subclasses are frozen dataclasses: rows with equal methods share a batch.

    `phase` is what its passes are recorded as. `uses_threshold` is false where no threshold decides: then records carry
    None. `caches_accepted` says that the accepted tokens but the last were read, as drafts, by the pass that accepted
    them.
    """

    phase: ClassVar[Phase] = "decode"
    uses_threshold: ClassVar[bool] = False
    caches_accepted: ClassVar[bool] = False

    score: ScoreName = "probability"
    alternatives: int = 0

    @property
    @abstractmethod
    def lookahead(self) -> int:
        """How many slots past a row's last token its windows and proposals may reach."""

    @property
    def pending(self) -> int:
        """The most tokens of a row that one pass can leave uncached."""
        return 1

    def begin(self, row: Row, tokens_K: torch.Tensor) -> None:
        """Prepare the slots past the prompt of a new row, in place."""

    @abstractmethod
    def window(self, batch: Batch) -> Window:
        """What the next pass forwards."""

    @abstractmethod
    def judge(self, batch: Batch, logits_RWV: torch.Tensor) -> Verdict:
        """What the predictions of this window's last columns mean."""

    @abstractmethod
    def sources(self, row: Row, threshold: float | None, accepted: int, columns: int) -> Sequence[Source]:
        """What each proposal of a row that is recorded read, in order.

        `row` is as before the pass, `columns` the number of predictions that its window asked for.
        """

    def own(self, row: Row, columns: int) -> int:
        """How many of the `columns` predictions that its window asks for are of this row; those before are padding."""
        return columns

    def observe(self, rows: int, columns: int, seconds: float, accepted: int) -> None:
        """Learn what a pass of this method alone took, and how many tokens its rows accepted together.

        `columns` is the number of predictions that its window asked for.
        """

    def read(self, batch: Batch, logits_RWV: torch.Tensor, offsets_W: torch.Tensor | None = None) -> Read:
        """Tokens and scores of the columns; they predict the next positions in order, or those at `offsets_W`.

        Offsets are [W], the same for all rows, or [R, W].
        """
        if offsets_W is None:
            offsets_W = torch.arange(logits_RWV.shape[1], device=logits_RWV.device)
        positions_RW = batch.written_R[:, None] + offsets_W
        return read(logits_RWV, positions_RW, score=self.score, sampling=batch.sampling, alternatives=self.alternatives)


def slots_of(batch: Batch, extra: int, shift_R: torch.Tensor | None = None) -> torch.Tensor:
    """Slots [R, pending + extra], from the tokens that are not cached yet to `extra` slots past the last token.

    With `shift_R`, each row's columns begin and end so many slots earlier. Columns in front of what a row has to read
    are padding, slot 0.
    """
    offsets_Q = torch.arange(1 - batch.pending, extra + 1, device=batch.length_R.device)
    if shift_R is not None:
        offsets_RQ = offsets_Q - shift_R[:, None]
        slots_RQ = batch.length_R[:, None] + offsets_RQ
        return slots_RQ.masked_fill_(offsets_RQ <= -batch.pending_R[:, None], 0)
    slots_RQ = batch.length_R[:, None] + offsets_Q
    if batch.pending > 1:
        slots_RQ.masked_fill_(offsets_Q <= -batch.pending_R[:, None], 0)
    return slots_RQ
