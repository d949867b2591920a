"""The input of one forward pass: for each row a few columns of tokens, their slots, and who sees whom.

Slot p + 1 of a row holds position p when it holds a real token; slot 0 takes padding, which only padding sees, so that
its attention stays finite. A pass computes all columns, or only those that are no padding (`Columns`).

Shapes: R rows, Q columns (queries), T = R * Q, N of them are computed, M of those are among the last `keep` of their
rows, K slots, E hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch.nn import functional

# At least so large a part must be padding: to leave out less costs more than it saves, as measured on two Zen 4 cores.
_WORTH_LEAVING_OUT = 1 / 8


@dataclass(frozen=True, kw_only=True)
class Window:
    """The columns of one pass, on the model's device.

    `ids_RQ` are token ids, `slots_RQ` where their keys and values go: ascending in a row, 0 where a column is padding,
    which stands on the left. `extent` is 1 + the furthest slot in use, known to the host. Predictions are wanted for
    the last `keep` columns; 0 skips the vocabulary projection. `first` is the cached row that the first row is.

    A window is causal unless `sees_RQQ` is given: a query sees the slots 1 to its own. With `sees_RQQ`, bool
    [R or 1, Q, Q], it sees every slot before the first column of its row that is not padding, and of the window what
    this says (row: query, column: key); a column must see itself. `positions_RQ` are those of the columns where they
    are not slot - 1, as in a tree whose branches stand side by side.
    """

    ids_RQ: torch.Tensor
    slots_RQ: torch.Tensor
    extent: int
    keep: int
    first: int = 0
    positions_RQ: torch.Tensor | None = None
    sees_RQQ: torch.Tensor | None = None

    @property
    def rows(self) -> int:
        """The number of rows, R."""
        return self.ids_RQ.shape[0]

    @property
    def columns(self) -> int:
        """The number of columns, Q."""
        return self.ids_RQ.shape[1]

    @cached_property
    def positions(self) -> torch.Tensor:
        """Position of each column [R, Q]; 0 for padding."""
        return (self.slots_RQ - 1).clamp_min(0) if self.positions_RQ is None else self.positions_RQ

    @property
    def seen(self) -> torch.Tensor:
        """Which columns of the window each column sees, bool [R, Q, Q], causal windows included; padding sees any."""
        if self.sees_RQQ is not None:
            return self.sees_RQQ.expand(self.rows, -1, -1)
        return self.slots_RQ[:, None] <= self.slots_RQ[..., None]


def merge(parts: Sequence[tuple[Sequence[int], Window]]) -> Window:
    """One window of several, whose rows go to the places given with each; narrower ones are padded on the left.

    Predictions come for the last columns of the widest `keep`; each part's are the last of them. Places up to the
    highest one that no part names become rows of padding.
    """
    if len(parts) == 1 and list(parts[0][0]) == list(range(parts[0][1].rows)):
        return parts[0][1]
    columns = max(window.columns for _, window in parts)
    rows = 1 + max(max(places) for places, _ in parts)
    places_N = torch.tensor([place for places, _ in parts for place in places], device=parts[0][1].ids_RQ.device)

    def joined(of: Callable[[Window], torch.Tensor], axes: int = 1) -> torch.Tensor:
        """The tensors that `of` gives for each window, the last `axes` padded on the left, row by row in place."""
        padded = torch.cat([functional.pad(of(window), (columns - window.columns, 0) * axes) for _, window in parts])
        return padded.new_zeros(rows, *padded.shape[1:]).index_copy_(0, places_N, padded)

    causal = all(window.sees_RQQ is None for _, window in parts)
    return Window(
        ids_RQ=joined(lambda window: window.ids_RQ),
        slots_RQ=joined(lambda window: window.slots_RQ),
        extent=max(window.extent for _, window in parts),
        keep=max(window.keep for _, window in parts),
        positions_RQ=joined(lambda window: window.positions),
        sees_RQQ=None if causal else joined(lambda window: window.seen, axes=2),
    )


@dataclass(frozen=True, slots=True)
class Columns:
    """The computed ones of `rows` times `columns`, row by row: `real_N` are their numbers, ascending; None is all."""

    rows: int
    columns: int
    real_N: torch.Tensor | None = None

    def pick(self, x_T: torch.Tensor) -> torch.Tensor:
        """The entries of the computed columns, [N, ...], out of those of all columns, [T, ...]."""
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


@lru_cache(maxsize=512)
def verification_tree(
    pending: int, masks: tuple[int, ...], device: torch.device | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Columns of a pass that verifies K drafts and goes on with `masks[j]` masks behind the first j of them, j = 0 … K.

    Section 4.6: first the chain, `pending` real tokens, the last of which is the root, then the drafts; then the groups
    of masks. The chain is causal and sees no mask; a group sees the real tokens, the first j drafts, and itself
    causally.

    Returns: depths [Q] behind the root (0: the root itself) and who sees whom, bool [Q, Q] (row: query), Q = pending +
    K + the sum of `masks`. They are shared: do not write to them.
    """
    drafts = len(masks) - 1
    chain = torch.arange(1 - pending, drafts + 1)
    prefixes = torch.arange(drafts + 1).repeat_interleave(torch.tensor(masks))
    within = torch.cat([torch.arange(1, count + 1) for count in masks])
    depths_Q = torch.cat([chain, prefixes + within])
    # A column of the chain has group -1; a mask's group is the number of drafts that its prefix holds.
    group_Q = torch.cat([torch.full_like(chain, -1), prefixes])
    query_group, key_group = group_Q[:, None], group_Q[None]
    query_depth, key_depth = depths_Q[:, None], depths_Q[None]
    on_chain = key_group < 0
    sees_chain = on_chain & torch.where(query_group < 0, key_depth <= query_depth, key_depth <= query_group)
    sees_own = ~on_chain & (key_group == query_group) & (key_depth <= query_depth)
    return depths_Q.to(device), (sees_chain | sees_own).to(device)
