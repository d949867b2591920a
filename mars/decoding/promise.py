"""A promise to users, the time per output token (TPOT), and the rows that are about to break it.

The price of a column (mars/decoding/trees.py) makes a pool write as many tokens a second as it can, no matter in which
rows. While one row repeats its text, it gets 17 columns in each pass, and the others wait three times as long for their
next token. With a promise, the tokens of row r count w_r times:

    w_r = 1 + MOST clip(1 - a_r / (SAFE tpot), 0, 1)
    λ_r = λ mean(w) / w_r                                the price of a column of row r, λ without a promise

a_r are the seconds by which the row is ahead of the promise: tpot for each token after its first ones, minus the time
since these, in which other prompts were read, too. A row alone pays λ. One that can hardly catch up weighs 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from mars.decoding.method import Row

MOST = 3.0
SAFE = 6.0  # tokens: to read a chunk of another prompt takes about as long as the promise allows for four
HOPELESS = 0.5  # of the promise, for all tokens that it may still write: faster than that no row is for long


class Promise:
    """How much the tokens of rows weigh under a promise of `tpot` seconds; without one, all alike."""

    def __init__(self, tpot: float | None) -> None:
        self._tpot = tpot
        self._now = 0.0
        self._began: dict[int, tuple[float, int]] = {}  # by row: when its first tokens came, and how many these were
        self._weights: dict[int, float] = {}

    def passed(self, rows: Sequence[Row], seconds: float) -> None:
        """A pass took so long, whether these rows, all in the pool, wrote in it or prompts were read."""
        if self._tpot is None:
            return
        self._now += seconds
        self._began = {row.number: self._began.get(row.number, (self._now, row.written)) for row in rows if row.written}

    def weigh(self, rows: Sequence[Row]) -> None:
        """Weigh these rows, which write in the next pass."""
        if self._tpot is not None:
            self._weights = {row.number: self._weight(row, self._tpot) for row in rows}

    def price(self, row: Row, price: float) -> float:
        """What a column of this row costs, in its tokens, where one costs `price` without a promise."""
        return price * fmean(self._weights.values()) / self._weights[row.number] if self._weights else price

    def _weight(self, row: Row, tpot: float) -> float:
        since, first = self._began.get(row.number, (self._now, row.written))
        ahead = tpot * (row.written - first) - (self._now - since)
        if -ahead > HOPELESS * tpot * row.room:
            return 1.0
        return 1 + MOST * min(max(1 - ahead / (SAFE * tpot), 0.0), 1.0)
