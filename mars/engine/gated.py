"""The masks of one pass, and what a gated adapter (mars/engine/adapter.py) adds in their columns; others stay as is.

Masks have the id `vocab_size`, for which the vocabulary has no row. Shapes: R rows, Q columns, N of all rows that are
computed, M of them are masks, E hidden size, I and O input and output features, S summed ranks, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from mars.engine.adapter import Adapter, LowRank
from mars.engine.linear import Linear
from mars.engine.projection import Projection
from mars.engine.window import Columns, Window

if TYPE_CHECKING:
    from mars.engine.compiled import CompiledPair

# The linear layers that read the same and are computed in one product, in the order of their outputs.
PRODUCTS = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))

# A GPU holds B A of at most so many adapted weights, half a gigabyte in bfloat16, and for Triton's kernels W above it:
# to read them takes less time than to start one more product.
MOST_JOINED = 250_000_000


def is_mask(ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Which ids are masks of an adapter, bool."""
    return ids >= vocab_size


def mask_numbers(masks_RQ: torch.Tensor, seen_RQQ: torch.Tensor) -> torch.Tensor:
    """Which mask of its group each column is [R, Q], counted from 0: so many masks of the window it sees before it."""
    return (seen_RQQ & masks_RQ[:, None]).sum(-1).sub_(1).clamp_min_(0)


class _Pair:
    """A and B of linear layers that are one product: the As one below the other, the Bs `blocks` of a block diagonal.

    They are held in the type of the hidden states; with `joined`, B A is held instead, so that one product is computed,
    not two. The slow twin of `compiled.CompiledPair`, and what GPUs run.
    """

    def __init__(self, a_SI: torch.Tensor, blocks: Sequence[torch.Tensor], dtype: torch.dtype, *, joined: bool):
        b_OS = torch.block_diag(*blocks)
        self._dtype = dtype
        factors = [b_OS.float() @ a_SI.float()] if joined else [a_SI, b_OS]
        *self._inner, self._last = (factor.to(dtype).t().contiguous() for factor in factors)

    def behind(self, linear: Projection) -> Linear:
        """[W; B A], where B A is held: the product, and behind it what is added to it."""
        weight_OI = linear.plain_weight()
        bias_O = linear.bias
        whole_OI = torch.cat((weight_OI, self._last.t().to(weight_OI.dtype)))
        return Linear(whole_OI, None if bias_O is None else functional.pad(bias_O, (0, len(bias_O))))

    def add_to(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        """Add B (A x) to the sum, in place."""
        x_TI = x_TI.to(self._dtype)
        for factor in self._inner:
            x_TI = x_TI.mm(factor)
        if sum_TO.dtype == self._dtype:
            sum_TO.addmm_(x_TI, self._last)
        else:
            sum_TO.add_(x_TI.mm(self._last))

    def add_to_last(self, sum_NO: torch.Tensor, x_NI: torch.Tensor, rows: int, count: int) -> None:
        """The same for the last `count` columns of each row."""
        if rows == 1:
            self.add_to(sum_NO[-count:], x_NI[-count:])
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


class Gated:
    """An adapter in the layout of a `Network` of so many layers.

    `outputs` are those of the linear layers of each product of `PRODUCTS`, `dtype` is the type of the hidden states. A
    `compiled` network adds to the products in the type of the weights instead; a `fused` one does so by itself. With
    `beside`, the products of each layer, [W; B A] is held for each: the network can compute that in its place.
    """

    def __init__(
        self,
        adapter: Adapter,
        layers: int,
        outputs: Sequence[Sequence[int]],
        dtype: torch.dtype,
        vocab_size: int,
        *,
        compiled: bool = False,
        fused: bool = False,
        beside: Sequence[Sequence[Projection]] = (),
    ):
        self._embeddings = adapter.mask_embeddings
        self._vocab_size = vocab_size
        empty: list[dict[str, LowRank]] = [{}] * (layers - len(adapter.layers))
        joined = _joins(adapter)
        self._compiled = compiled
        self._added: list[list[_Pair | CompiledPair | None]] = []
        self._both: list[list[Linear | None]] = []
        if fused:
            return
        self._added = [
            [
                _stacked([pairs.get(name) for name in names], sizes, dtype, compiled=compiled, joined=joined)
                for names, sizes in zip(PRODUCTS, outputs, strict=True)
            ]
            for pairs in (*adapter.layers, *empty)
        ]
        if joined and beside:
            self._both = [
                [
                    pair.behind(linear) if isinstance(pair, _Pair) else None
                    for pair, linear in zip(pairs, linears, strict=True)
                ]
                for pairs, linears in zip(self._added, beside, strict=True)
            ]
            self._added = [[None] * len(pairs) for pairs in self._added]  # B A is not held twice

    def open(
        self, window: Window, columns: Columns, embedding_VE: torch.Tensor, *, static: bool
    ) -> tuple[torch.Tensor, Gate | None]:
        """The hidden states [N, E] that a pass begins with, and its masks; None where it has none.

        `static` looks at no value on the device: all windows but those without `masks` have a gate then. A compiled
        network looks.
        """
        if window.masks == 0:
            return embedding_VE.index_select(0, columns.pick(window.ids_RQ.flatten())), None
        masks_RQ = is_mask(window.ids_RQ, self._vocab_size)
        ids_N, masks_N = columns.pick(window.ids_RQ.flatten()), columns.pick(masks_RQ.flatten())
        if static and not self._compiled:
            last = None if window.masks is None else (window.rows, window.masks)
            gate: Gate | None = Gate(self._added, masks_N, last)
        else:
            gate = Gate.at(self._added, masks_N)
        gate = gate and replace(gate, both=self._both)
        if gate is None:
            return embedding_VE.index_select(0, ids_N), None
        numbers_N = columns.pick(mask_numbers(masks_RQ, window.seen).clamp_max_(len(self._embeddings) - 1).flatten())
        hidden_NE = embedding_VE.index_select(0, ids_N.clamp_max(self._vocab_size - 1))
        masked_NE = self._embeddings.index_select(0, numbers_N)
        return torch.where(masks_N[:, None], masked_NE, hidden_NE), gate


@dataclass(frozen=True, slots=True)
class Gate:
    """The masks of one pass. `where` are their columns: a slice where they are the last ones, numbers [M] otherwise.

    Where no value on the device may be looked at, it is the number of rows and of masks at the end of each; None, where
    that is not known, computes all columns, times 0 where `masks_N` is false. `both` are the products [W; B A] of each
    layer, where there are such.
    """

    added: Sequence[Sequence[_Pair | CompiledPair | None]]
    masks_N: torch.Tensor
    where: slice | torch.Tensor | tuple[int, int] | None
    numbers_M: torch.Tensor | None = None
    both: Sequence[Sequence[Linear | None]] = ()

    @classmethod
    def at(cls, added: Sequence[Sequence[_Pair | CompiledPair | None]], masks_N: torch.Tensor) -> Gate | None:
        """The masks of these columns; None if there are none."""
        where_M = masks_N.nonzero()[:, 0]
        count, total = len(where_M), len(masks_N)
        if count == 0:
            return None
        last = count == total or int(where_M[0]) == total - count
        return cls(added, masks_N, slice(total - count, total) if last else where_M, where_M)

    def last(self, columns: Columns, keep: int) -> Gate | None:
        """Those of the last `keep` columns of each row, of all that `columns` says are computed."""
        masks_N = columns.last(keep, self.masks_N[:, None])[1][:, 0]
        if not self._looks:
            return replace(self, masks_N=masks_N)
        gate = Gate.at(self.added, masks_N)
        return gate and replace(gate, both=self.both)

    @property
    def _looks(self) -> bool:
        """Whether values on the device may be looked at."""
        return isinstance(self.where, slice | torch.Tensor)

    @property
    def others(self) -> torch.Tensor | None:
        """The numbers of the columns that are no masks; None where no value may be looked at."""
        return (~self.masks_N).nonzero()[:, 0] if self._looks else None

    def add(self, layer: int, product: int, sum_NO: torch.Tensor, x_NI: torch.Tensor) -> None:
        """Add scale · B (A x) of product `product` (`PRODUCTS`) of a layer to the sum at masks, in place."""
        pair = self.added[layer][product]
        if pair is None:
            return
        if not isinstance(pair, _Pair):
            pair.add_to(sum_NO, x_NI, self.numbers_M)
        elif isinstance(self.where, slice):
            pair.add_to(sum_NO[self.where], x_NI[self.where])
        elif isinstance(self.where, tuple):
            pair.add_to_last(sum_NO, x_NI, *self.where)
        elif self.where is not None:
            sum_MO = sum_NO.index_select(0, self.where)
            pair.add_to(sum_MO, x_NI.index_select(0, self.where))
            sum_NO.index_copy_(0, self.where, sum_MO)
        else:
            pair.add_to(sum_NO, x_NI * self.masks_N[:, None])


def adapted_product(
    gate: Gate | None,
    layer: int,
    product: int,
    linear: Projection,
    x_NI: torch.Tensor,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The product [N, O], of type `dtype` if given, at masks with what the adapter adds."""
    found_NO = linear(x_NI) if dtype is None else linear(x_NI).to(dtype)
    if gate is not None:
        gate.add(layer, product, found_NO, x_NI)
    return found_NO


def product_and_masks(
    gate: Gate | None, layer: int, product: int, linear: Projection, x_NI: torch.Tensor, *, wide: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The product, in float32 if `wide`. With masks it is that of [W; B A] where there is one, and the masks."""
    both = gate.both[layer][product] if gate is not None and gate.both else None
    linear = linear if both is None else both
    found_NO = linear.wide(x_NI) if wide else linear(x_NI)
    if gate is None or both is not None:
        return found_NO, None if gate is None else gate.masks_N
    gate.add(layer, product, found_NO, x_NI)
    return found_NO, None


def add_product(
    gate: Gate | None, layer: int, product: int, linear: Projection, sum_NO: torch.Tensor, x_NI: torch.Tensor
) -> None:
    """Add the product to the sum, in place: the end of a residual branch."""
    linear.add_to(sum_NO, x_NI)
    if gate is not None:
        gate.add(layer, product, sum_NO, x_NI)


def _joins(adapter: Adapter) -> bool:
    """Whether B A is held, not B and A."""
    pairs = [pair for layer in adapter.layers for pair in layer.values()]
    weights = sum(pair.b_OS.shape[0] * pair.a_SI.shape[1] for pair in pairs)
    return adapter.mask_embeddings.is_cuda and weights <= MOST_JOINED


def _stacked(
    pairs: Sequence[LowRank | None], outputs: Sequence[int], dtype: torch.dtype, *, compiled: bool, joined: bool
) -> _Pair | CompiledPair | None:
    """The pairs of the layers, with so many outputs, that are one product; None where there are none.

    The scale is in B.
    """
    there = [pair for pair in pairs if pair is not None]
    if not there:
        return None
    if compiled:
        from mars.engine.compiled import CompiledPair

        return CompiledPair(pairs, outputs)
    a_SI = torch.cat([pair.a_SI for pair in there])
    blocks = [
        a_SI.new_zeros(size, 0) if pair is None else pair.b_OS * pair.scale
        for pair, size in zip(pairs, outputs, strict=True)
    ]
    return _Pair(a_SI, blocks, dtype, joined=joined)
