"""The columns of a window that a pass computes: all of them, or only those that are no padding.

Shapes: R rows, Q columns, T = R * Q, N of them are computed, M of those are among the last `keep` of their rows,
E hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mars.engine.window import Window

# At least so large a part must be padding: to leave out less costs more than it saves, as measured on two Zen 4 cores.
_WORTH_LEAVING_OUT = 1 / 8


@dataclass(frozen=True, slots=True)
class Columns:
    """The computed ones of `rows` times `columns`, row by row: `real_N` are their numbers, ascending; None is all."""

    rows: int
    columns: int
    real_N: torch.Tensor | None = None

    def pick(self, x_T: torch.Tensor) -> torch.Tensor:
        """What belongs to the computed columns, [N, ...], of something for all of them, [T, ...]."""
        return x_T if self.real_N is None else x_T.index_select(0, self.real_N)

    def spread(self, x_N: torch.Tensor) -> torch.Tensor:
        """The inverse, in rows [R, Q, ...]; 0 for columns that are not computed."""
        if self.real_N is not None:
            x_N = x_N.new_zeros(self.rows * self.columns, *x_N.shape[1:]).index_copy_(0, self.real_N, x_N)
        return x_N.view(self.rows, self.columns, *x_N.shape[1:])

    def last(self, keep: int, hidden_NE: torch.Tensor) -> tuple[Columns, torch.Tensor]:
        """The last `keep` columns of each row, and the hidden states [M, E] of the computed ones of them, of [N, E]."""
        first = self.columns - keep
        if self.real_N is None:
            return Columns(self.rows, keep), hidden_NE.view(self.rows, self.columns, -1)[:, first:].flatten(0, 1)
        columns_N = self.real_N % self.columns - first
        chosen_M = (columns_N >= 0).nonzero()[:, 0]
        if len(chosen_M) == self.rows * keep:
            return Columns(self.rows, keep), hidden_NE.index_select(0, chosen_M)
        real_N = self.real_N // self.columns * keep + columns_N
        return Columns(self.rows, keep, real_N.index_select(0, chosen_M)), hidden_NE.index_select(0, chosen_M)


def columns_of(window: Window, *, static: bool) -> Columns:
    """The columns to compute of a window on the CPU; elsewhere, and with `static`, all, for only the device knows."""
    everything = Columns(window.rows, window.columns)
    if static or window.rows == 1 or window.columns == 1 or window.slots_RQ.device.type != "cpu":
        return everything
    real_N = window.slots_RQ.flatten().nonzero()[:, 0]
    count, total = len(real_N), window.rows * window.columns
    return Columns(window.rows, window.columns, real_N) if 0 < count <= total * (1 - _WORTH_LEAVING_OUT) else everything
