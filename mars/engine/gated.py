"""The masks of one pass, and what a gated adapter (mars/engine/adapter.py) adds in their columns; others stay as is.

Masks have the id `vocab_size`, for which the vocabulary has no row. Shapes: R rows, Q columns, N of all rows that are
computed, M of them are masks, E hidden size, I and O input and output features, S summed ranks, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from mars.engine.adapter import Adapter, LowRank
from mars.engine.window import Columns, Window

# The linear layers that read the same and are computed in one product, in the order of their outputs.
PRODUCTS = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))

# A GPU holds B A of at most so many adapted weights, half a gigabyte in bfloat16: to read them takes less time than to
# start one more product.
MOST_JOINED = 250_000_000


def is_mask(ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Which ids are masks of an adapter, bool."""
    return ids >= vocab_size


def mask_numbers(masks_RQ: torch.Tensor, seen_RQQ: torch.Tensor) -> torch.Tensor:
    """Which mask of its group each column is [R, Q], counted from 0: so many masks of the window it sees before it."""
    return (seen_RQQ & masks_RQ[:, None]).sum(-1).sub_(1).clamp_min_(0)


@dataclass(frozen=True, slots=True)
class Gate:
    """The masks of one pass. `where` are their columns: a slice where they are the last ones, numbers [M] otherwise.

    Where no value on the device may be looked at, it is the number of rows and of masks at the end of each; None, where
    that is not known, computes all columns, times 0 where `masks_N` is false.
    """

    masks_N: torch.Tensor
    where: slice | torch.Tensor | tuple[int, int] | None

    @classmethod
    def at(cls, masks_N: torch.Tensor) -> Gate | None:
        """The masks of these columns; None if there are none."""
        where_M = masks_N.nonzero()[:, 0]
        count, total = len(where_M), len(masks_N)
        if count == 0:
            return None
        last = count == total or int(where_M[0]) == total - count
        return cls(masks_N, slice(total - count, total) if last else where_M)

    @classmethod
    def open(
        cls,
        embeddings_KE: torch.Tensor,
        embedding_VE: torch.Tensor,
        vocab_size: int,
        window: Window,
        columns: Columns,
        *,
        static: bool,
    ) -> tuple[torch.Tensor, Gate | None]:
        """The states [N, E] that a pass with mask embeddings begins with, and its masks; None where it has none.

        `static` looks at no value on the device: all windows but those without `masks` have a gate then.
        """
        ids_N = columns.pick(window.ids_RQ.flatten())
        if window.masks == 0:
            return embedding_VE.index_select(0, ids_N), None
        masks_RQ = is_mask(window.ids_RQ, vocab_size)
        masks_N = columns.pick(masks_RQ.flatten())
        last = None if window.masks is None else (window.rows, window.masks)
        gate = cls(masks_N, last) if static else cls.at(masks_N)
        if gate is None:
            return embedding_VE.index_select(0, ids_N), None
        numbers_N = columns.pick(mask_numbers(masks_RQ, window.seen).clamp_max_(len(embeddings_KE) - 1).flatten())
        hidden_NE = embedding_VE.index_select(0, ids_N.clamp_max(vocab_size - 1))
        masked_NE = embeddings_KE.index_select(0, numbers_N)
        return torch.where(masks_N[:, None], masked_NE, hidden_NE), gate

    def last(self, columns: Columns, keep: int) -> Gate | None:
        """Those of the last `keep` columns of each row, of all that `columns` says are computed."""
        masks_N = columns.last(keep, self.masks_N[:, None])[1][:, 0]
        looks = isinstance(self.where, slice | torch.Tensor)
        return Gate.at(masks_N) if looks else replace(self, masks_N=masks_N)


class Pairs:
    """A and B of linear layers that are one product: the As one below the other, the Bs blocks of a block diagonal.

    They are held in the type of the hidden states, the scale in B; with `joined`, B A is held instead, so that one
    product is computed, not two. There must be at least one pair.
    """

    def __init__(self, pairs: Sequence[LowRank | None], outputs: Sequence[int], dtype: torch.dtype, *, joined: bool):
        a_SI = torch.cat([pair.a_SI for pair in pairs if pair is not None])
        blocks = [
            a_SI.new_zeros(size, 0) if pair is None else pair.b_OS * pair.scale
            for pair, size in zip(pairs, outputs, strict=True)
        ]
        b_OS = torch.block_diag(*blocks)
        self._dtype = dtype
        factors = [b_OS.float() @ a_SI.float()] if joined else [a_SI, b_OS]
        *self._inner, self._last = (factor.to(dtype).t().contiguous() for factor in factors)

    def add(self, gate: Gate, sum_NO: torch.Tensor, x_NI: torch.Tensor) -> None:
        """Add scale · B (A x) to the sum at masks, in place."""
        where = gate.where
        if isinstance(where, slice):
            self._add(sum_NO[where], x_NI[where])
        elif isinstance(where, torch.Tensor):
            sum_MO = sum_NO.index_select(0, where)
            self._add(sum_MO, x_NI.index_select(0, where))
            sum_NO.index_copy_(0, where, sum_MO)
        elif where is None:
            self._add(sum_NO, x_NI * gate.masks_N[:, None])
        else:
            self._add_to_last(sum_NO, x_NI, *where)

    def _add(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        x_TI = x_TI.to(self._dtype)
        for factor in self._inner:
            x_TI = x_TI.mm(factor)
        if sum_TO.dtype == self._dtype:
            sum_TO.addmm_(x_TI, self._last)
        else:
            sum_TO.add_(x_TI.mm(self._last))

    def _add_to_last(self, sum_NO: torch.Tensor, x_NI: torch.Tensor, rows: int, count: int) -> None:
        """The same for the last `count` columns of each row."""
        if rows == 1:
            self._add(sum_NO[-count:], x_NI[-count:])
            return
        sum_RMO, x_RMI = (part.unflatten(0, (rows, -1))[:, -count:] for part in (sum_NO, x_NI))
        x_RMI = x_RMI.to(self._dtype)
        for factor in self._inner:
            x_RMI = x_RMI.bmm(factor.expand(rows, -1, -1))
        last = self._last.expand(rows, -1, -1)
        if sum_RMO.dtype == self._dtype:
            sum_RMO.baddbmm_(x_RMI, last)
        else:
            sum_RMO.add_(x_RMI.bmm(last))


def pairs_of(adapter: Adapter, outputs: Sequence[Sequence[int]], dtype: torch.dtype) -> list[list[Pairs | None]]:
    """Those of each product of `PRODUCTS` with these outputs, layer by layer; None where the adapter adds nothing."""
    weights = sum(pair.b_OS.shape[0] * pair.a_SI.shape[1] for layer in adapter.layers for pair in layer.values())
    joined = adapter.mask_embeddings.is_cuda and weights <= MOST_JOINED
    layers = []
    for layer in adapter.layers:
        several = [[layer.get(name) for name in names] for names in PRODUCTS]
        layers.append(
            [
                Pairs(pairs, sizes, dtype, joined=joined) if any(pairs) else None
                for pairs, sizes in zip(several, outputs, strict=True)
            ]
        )
    return layers
