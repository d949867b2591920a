"""The masks of one pass, and what a gated adapter (mars/engine/adapter.py) adds in their columns; others stay as is.

Masks have the id `vocab_size`, for which the vocabulary has no row. Shapes: R rows, Q columns, N of all rows that are
computed, M of them are masks, E hidden size, I and O input and output features, S summed ranks, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch.nn import functional

from mars.engine.adapter import Adapter, LowRank
from mars.engine.columns import Columns
from mars.engine.linear import Linear, Product, steady_rows, widening_keeps_bits
from mars.engine.window import Window

# The linear layers that read the same and are computed in one product, in the order of their outputs.
PRODUCTS = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))
_WIDE = (torch.float32, torch.float64)
_WORTH_PADDING = 16  # rows; oneDNN's products are steady from one or two on, and slower to call


def is_mask(ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Which ids are masks of an adapter, bool."""
    return ids >= vocab_size


def mask_numbers(masks_RQ: torch.Tensor, seen_RQQ: torch.Tensor) -> torch.Tensor:
    """Which mask of its group each column is [R, Q], counted from 0: so many masks of the window it sees before it."""
    return (seen_RQQ & masks_RQ[:, None]).sum(-1).sub_(1).clamp_min_(0)


class _Pair:
    """A and B of linear layers that are one product: the As one below the other, the Bs `blocks` of a block diagonal.

    They are held in the type of the hidden states, float32 on a CPU: there a call of so small a product takes half the
    time that it takes in bfloat16, through oneDNN (measured on Zen 5). `steady` gives a mask the same bits whatever
    other masks share the pass: few masks are padded with zeros to as many rows as the kernel for more of them takes.
    """

    def __init__(self, a_SI: torch.Tensor, blocks: Sequence[torch.Tensor], dtype: torch.dtype, *, steady: bool):
        self._dtype = dtype
        self._least: int = 1
        self._most: float = math.inf
        alike = len({block.shape for block in blocks}) == 1
        self._parts = len(blocks) if alike else 1
        b_OS = torch.block_diag(*blocks)
        if steady and dtype in _WIDE:
            threads = torch.get_num_threads()
            bounds = [_bounds(a_SI.shape, 1, dtype, threads), _bounds(b_OS.shape, self._parts, dtype, threads)]
            self._least, self._most = max(least for least, _ in bounds), min(most for _, most in bounds)
        self._a: Product
        self._b: Product
        self._b_SO: torch.Tensor | None = None
        if dtype in _WIDE and self._least <= _WORTH_PADDING:
            self._a = _small(a_SI.to(dtype), 1)
            self._b = _small(b_OS.to(dtype), self._parts)
            if not steady and self._parts == 1:
                self._b_SO = b_OS.to(dtype).t().contiguous()
        else:
            self._least, self._most = 1, math.inf
            self._a, self._b = (Linear(weight.to(dtype), pack=True, steady=steady) for weight in (a_SI, b_OS))

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        """B (A x) [T, O]."""
        x_TI, rows = x_TI.to(self._dtype), len(x_TI)
        if rows > self._most:
            return torch.cat([self(part_TI) for part_TI in x_TI.split(int(self._most))])
        if rows >= self._least:
            return self._b(self._a(x_TI))
        return self._b(self._a(functional.pad(x_TI, (0, 0, 0, self._least - rows))))[:rows]

    def add_to(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        """Add B (A x) to the sum, in place."""
        if self._b_SO is None or sum_TO.dtype != self._dtype:
            sum_TO.add_(self(x_TI))
        else:
            sum_TO.addmm_(self._a(x_TI.to(self._dtype)), self._b_SO)


class _Widened:
    """The base's product and the adapter's in one: [W | B] [x; A x], where A x counts at masks and is 0 elsewhere.

    It takes a second packed copy of the base's weights, and saves small products whose calls take longer than their
    sums. Columns that are no masks add zeros, which changes no bit of theirs (`widening_keeps_bits`).
    """

    def __init__(self, linear: Linear, a_SI: torch.Tensor, blocks: Sequence[torch.Tensor]):
        self._a = Linear(a_SI, pack=True, steady=True)
        wide_OJ = torch.cat((linear.plain_weight(), torch.block_diag(*blocks)), 1)
        self._product = Linear(wide_OJ, linear.bias, pack=True, steady=True)
        for part in (self._a, self._product):
            part.shed()

    def __call__(self, x_NI: torch.Tensor, masks_N: torch.Tensor) -> torch.Tensor:
        """[N, O]; `masks_N` is true at masks."""
        return self._product(torch.cat((x_NI, self._a(x_NI).mul_(masks_N[:, None])), 1))


def _small(weight_OI: torch.Tensor, parts: int) -> Product:
    """The product x Wᵀ with the blocks of a block diagonal, `parts` of the same shape; with all of W for one part."""
    if parts == 1:
        weight_IO = weight_OI.t().contiguous()
        return lambda x_TI: x_TI.mm(weight_IO)
    outputs, inputs = (size // parts for size in weight_OI.shape)
    blocks = [
        weight_OI[part * outputs : (part + 1) * outputs, part * inputs : (part + 1) * inputs].t()
        for part in range(parts)
    ]
    weight_PIO = torch.stack(blocks).contiguous()

    def product(x_TI: torch.Tensor) -> torch.Tensor:
        found_PTO = torch.bmm(x_TI.view(len(x_TI), parts, inputs).transpose(0, 1), weight_PIO)
        return found_PTO.transpose(0, 1).reshape(len(x_TI), -1)

    return product


@cache
def _bounds(shape: torch.Size, parts: int, dtype: torch.dtype, threads: int) -> tuple[int, int]:
    """`steady_rows` of `_small` products of this shape; `threads` are those that torch has now."""
    return steady_rows(lambda weight_OI: _small(weight_OI, parts), shape, dtype)


class Gated:
    """An adapter in the layout of `Network`.

    `linears` are the products of `PRODUCTS`, layer by layer, `outputs` those of the linear layers of each, `dtype` the
    type of the hidden states; `steady` as for `Network`.
    """

    def __init__(
        self,
        adapter: Adapter,
        linears: Sequence[Sequence[Linear]],
        outputs: Sequence[Sequence[int]],
        dtype: torch.dtype,
        vocab_size: int,
        *,
        steady: bool = False,
    ):
        self._embeddings = adapter.mask_embeddings
        self._vocab_size = vocab_size
        empty: list[dict[str, LowRank]] = [{}] * (len(linears) - len(adapter.layers))
        self._added = [
            [
                _stacked(linear, [pairs.get(name) for name in names], sizes, dtype, steady)
                for linear, names, sizes in zip(products, PRODUCTS, outputs, strict=True)
            ]
            for pairs, products in zip((*adapter.layers, *empty), linears, strict=True)
        ]

    def open(
        self, window: Window, columns: Columns, embedding_VE: torch.Tensor, *, static: bool
    ) -> tuple[torch.Tensor, Gate | None]:
        """The hidden states [N, E] that a pass begins with, and its masks; None where it has none.

        `static` looks at no value on the device: then there is always a gate.
        """
        masks_RQ = is_mask(window.ids_RQ, self._vocab_size)
        ids_N, masks_N = columns.pick(window.ids_RQ.flatten()), columns.pick(masks_RQ.flatten())
        gate = Gate(self._added, masks_N, None) if static else Gate.at(self._added, masks_N)
        if gate is None:
            return embedding_VE.index_select(0, ids_N), None
        numbers_N = columns.pick(mask_numbers(masks_RQ, window.seen).clamp_max_(len(self._embeddings) - 1).flatten())
        hidden_NE = embedding_VE.index_select(0, ids_N.clamp_max(self._vocab_size - 1))
        masked_NE = self._embeddings.index_select(0, numbers_N)
        return torch.where(masks_N[:, None], masked_NE, hidden_NE), gate


@dataclass(frozen=True, slots=True)
class Gate:
    """The masks of one pass. `where` are their columns: a slice where they are the last ones, numbers [M] otherwise.

    None computes all columns, times 0 where `masks_N` is false: no value on the device is looked at.
    """

    added: Sequence[Sequence[_Pair | _Widened | None]]
    masks_N: torch.Tensor
    where: slice | torch.Tensor | None

    @classmethod
    def at(cls, added: Sequence[Sequence[_Pair | _Widened | None]], masks_N: torch.Tensor) -> Gate | None:
        """The masks of these columns; None if there are none."""
        where_M = masks_N.nonzero()[:, 0]
        count, total = len(where_M), len(masks_N)
        if count == 0:
            return None
        last = count == total or int(where_M[0]) == total - count
        return cls(added, masks_N, slice(total - count, total) if last else where_M)

    def last(self, columns: Columns, keep: int) -> Gate | None:
        """Those of the last `keep` columns of each row, of all that `columns` says are computed."""
        masks_N = columns.last(keep, self.masks_N[:, None])[1][:, 0]
        return Gate.at(self.added, masks_N) if self.where is not None else replace(self, masks_N=masks_N)

    @property
    def others(self) -> torch.Tensor | None:
        """The numbers of the columns that are no masks; None where no value may be looked at."""
        return None if self.where is None else (~self.masks_N).nonzero()[:, 0]

    def product(self, layer: int, product: int, linear: Linear, x_NI: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Product `product` of a layer [N, O], of type `dtype`: `linear`, at masks with what the adapter adds."""
        added = self.added[layer][product]
        if isinstance(added, _Widened):
            return added(x_NI, self.masks_N).to(dtype)
        found_NO = linear(x_NI).to(dtype)
        if added is not None:
            self._add(added, found_NO, x_NI)
        return found_NO

    def add_product(self, layer: int, product: int, linear: Linear, sum_NO: torch.Tensor, x_NI: torch.Tensor) -> None:
        """Add what `product` computes to the sum, in place: the end of a residual branch."""
        added = self.added[layer][product]
        if isinstance(added, _Widened):
            sum_NO.add_(added(x_NI, self.masks_N))
            return
        linear.add_to(sum_NO, x_NI)
        if added is not None:
            self._add(added, sum_NO, x_NI)

    def _add(self, pair: _Pair, sum_NO: torch.Tensor, x_NI: torch.Tensor) -> None:
        """Add scale · B (A x) to the sum at masks, in place."""
        if isinstance(self.where, slice):
            pair.add_to(sum_NO[self.where], x_NI[self.where])
        elif self.where is not None:
            sum_MO = sum_NO.index_select(0, self.where)
            pair.add_to(sum_MO, x_NI.index_select(0, self.where))
            sum_NO.index_copy_(0, self.where, sum_MO)
        else:
            pair.add_to(sum_NO, x_NI * self.masks_N[:, None])


def _stacked(
    linear: Linear, pairs: Sequence[LowRank | None], sizes: Sequence[int], dtype: torch.dtype, steady: bool
) -> _Pair | _Widened | None:
    """The pairs of the layers, with so many outputs, that are one product; None where there are none.

    The scale is in B.
    """
    there = [pair for pair in pairs if pair is not None]
    if not there:
        return None
    a_SI = torch.cat([pair.a_SI for pair in there])
    blocks = [
        a_SI.new_zeros(size, 0) if pair is None else pair.b_OS * pair.scale
        for pair, size in zip(pairs, sizes, strict=True)
    ]
    # Where B is a block diagonal its zeros cost more than the rest, and a second copy of the base's weights is worth
    # its memory. In float32 one product is no faster than three, and its sums would be others than PEFT's.
    if len(there) > 1 and steady and linear.packed and a_SI.dtype == torch.bfloat16:
        shape = (sum(sizes), a_SI.shape[1])
        if widening_keeps_bits(shape, len(a_SI), a_SI.dtype, torch.get_num_threads()):
            return _Widened(linear, a_SI, blocks)
    return _Pair(a_SI, blocks, dtype, steady=steady)
