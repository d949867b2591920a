"""Folds over records: tokens, passes, tokens per forward, speed. No torch here.

Tokens per forward divides the tokens of a row by the passes that this row took part in; for several rows it divides the
sums, so that a batch of equal rows measures what one row does. One rule says which passes count, whatever the decoder:
those in which the model that writes proposes tokens. Passes of a smaller draft model are counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from mars.records import FinishReason, ForwardPass

GAINING = frozenset({"decode", "verify"})
"""Phases in which every row gains a token."""

COUNTED = GAINING | {"denoise"}
"""Phases that count in tokens per forward: prefill and commit passes propose nothing, drafts are another model's."""


@dataclass(slots=True)
class Count:
    """Counts of a text: accepted tokens (end of sequence included), the row passes it took, the seconds.

    `passes` leaves those of a draft model out. `acceptance_lengths` says how many row passes accepted 1, 2, … tokens.
    """

    tokens: int = 0
    passes: int = 0
    seconds: float = 0.0
    acceptance_lengths: Counter[int] = field(default_factory=Counter)

    @property
    def tokens_per_forward(self) -> float:
        """Accepted tokens / passes; 0 before the first of them."""
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Accepted tokens / device seconds, prefill included; 0 before any time has passed."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def _take(self, phase: str, accepted: int) -> None:
        self.tokens += accepted
        self.passes += phase in COUNTED
        if accepted:
            self.acceptance_lengths[accepted] += 1


@dataclass(slots=True)
class RowCount(Count):
    """The share of one row; `seconds` are those of every pass it took part in, which other rows may share."""

    finish_reason: FinishReason | None = None


@dataclass(slots=True)
class Tally(Count):
    """All rows together, and each in `rows`.

    `passes` counts row passes, `query_tokens` the positions forwarded; `seconds` is the sum over records.
    """

    rows: dict[int, RowCount] = field(default_factory=dict)
    query_tokens: int = 0

    @classmethod
    def of(cls, records: Iterable[ForwardPass]) -> Self:
        """The tally of a whole run."""
        tally = cls()
        for record in records:
            tally.add(record)
        return tally

    def add(self, record: ForwardPass) -> None:
        """Take in one more record."""
        self.seconds += record.seconds
        self.query_tokens += record.query_tokens
        for row in record.rows:
            count = self.rows.setdefault(row.row, RowCount())
            count.seconds += record.seconds
            count.finish_reason = row.finish_reason or count.finish_reason
            count._take(record.phase, row.accepted)
            self._take(record.phase, row.accepted)


def output_ids(records: Iterable[ForwardPass], row: int = 0) -> list[int]:
    """The token ids that a row wrote: its accepted prefixes, one after the other."""
    return [token for record in records for part in record.rows if part.row == row for token in part.accepted_ids]
