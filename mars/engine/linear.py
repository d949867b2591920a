"""Matrix products with a model's weights, the short way for every number of rows, or one way for all of them.

Shapes: T rows, I and O the input and output features, C candidates, V vocabulary.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec

import torch
from torch.nn import functional

from mars.engine.projection import Projection

# Measured on two Zen 4 cores: below this many multiplications oneDNN's call costs more than its kernel saves, and one
# row is a matrix-vector product, which MKL does best while the weights are in a cache. Above, oneDNN is 2 to 4 times as
# fast, for MKL knows no AVX-512 on AMD.
_WORTH_ONEDNN = 500_000
_LEAST_ROWS_UNPACKED = 8
_BEYOND_CACHES = 2**20

# A steady product is cut into pieces of at most so many rows.
_MOST_ROWS = 64
_REFERENCE_ROWS = 32
_COMPARED_ROWS = 16  # at least, of each number of rows
_QUICK_TO_CHECK = 2**22
_SAMPLED_ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 25, 31, 32, 33, 48, 63, 64)

# The most probable tokens of a bfloat16 vocabulary get their logits from a float32 sum.
CANDIDATES = 32
# Blocks of the vocabulary whose largest logits say which ones are worth a look; see `most_probable`.
_BLOCK = 64

_COARSE = (torch.bfloat16, torch.float16)
_PROBED = (1536, 576)

Product = Callable[[torch.Tensor], torch.Tensor]
_bounds: dict[tuple[object, ...], tuple[int, int]] = {}


class Linear(Projection):
    """y = x Wᵀ + b for x [T, I], W [O, I] and b [O] or None.

    `pack` keeps a second copy of the weights in the layout of oneDNN (on the CPU only); without it oneDNN reorders them
    in each call, which pays from a few rows on. A packed copy does not follow later changes of `weight`. `steady` gives
    a row the same bits whatever other rows share the call.
    """

    def __init__(
        self,
        weight_OI: torch.Tensor,
        bias_O: torch.Tensor | None = None,
        *,
        pack: bool = False,
        steady: bool = False,
    ):
        super().__init__(weight_OI)
        self._transposed: torch.Tensor | None = weight_OI.t()
        self.bias = bias_O
        self._onednn_weight = weight_OI
        self._onednn_rows: float = math.inf
        self.packed = pack and _has_onednn(weight_OI)
        if self.packed:
            self._onednn_weight = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
            self._onednn_rows = _least_packed_rows(weight_OI)
        elif _has_onednn(weight_OI) and weight_OI.dtype == torch.float32:  # other types go there by themselves
            self._onednn_rows = _LEAST_ROWS_UNPACKED
        # A steady product has one kernel for all numbers of rows.
        self._one_way: Product | None = None
        if steady:
            self._one_way = self._fixed()
            key = (tuple(weight_OI.shape), weight_OI.dtype, self.packed, torch.get_num_threads())
            if key not in _bounds:
                _bounds[key] = steady_rows(
                    lambda weight: Linear(weight, pack=self.packed)._fixed(), weight_OI.shape, weight_OI.dtype
                )
            self._least, self._most = _bounds[key]

    def __call__(self, x_TI: torch.Tensor) -> torch.Tensor:
        if self._one_way is not None:
            return self._steadily(self._one_way, x_TI)
        return self._onednn(x_TI) if x_TI.shape[0] >= self._onednn_rows else self._plain(x_TI)

    def add_to(self, sum_TO: torch.Tensor, x_TI: torch.Tensor) -> None:
        one_kernel = self._one_way is None and sum_TO.dtype == x_TI.dtype and x_TI.shape[0] < self._onednn_rows
        if not one_kernel or self._transposed is None:
            super().add_to(sum_TO, x_TI)
            return
        sum_TO.addmm_(x_TI, self._transposed)
        if self.bias is not None:
            sum_TO.add_(self.bias)

    def wide(self, x_TI: torch.Tensor) -> torch.Tensor:
        if x_TI.dtype not in _COARSE or x_TI.device.type != "cuda":
            return super().wide(x_TI)
        found_TO = torch.mm(x_TI, self.plain_weight().t(), out_dtype=torch.float32)
        return found_TO if self.bias is None else found_TO.add_(self.bias)

    def shed(self) -> None:
        super().shed()
        if self.packed:
            self._transposed = None
            self._onednn_rows = 1

    def unpacked(self) -> torch.Tensor:
        return self._onednn_weight.to_dense()

    def _steadily(self, product: Product, x_TI: torch.Tensor) -> torch.Tensor:
        rows = x_TI.shape[0]
        if rows > self._most:
            return torch.cat([self._steadily(product, piece) for piece in x_TI.split(self._most)])
        if rows < self._least:
            return product(functional.pad(x_TI, (0, 0, 0, self._least - rows)))[:rows]
        return product(x_TI)

    def _fixed(self) -> Product:
        return self._onednn if self.packed else self._plain

    def _plain(self, x_TI: torch.Tensor) -> torch.Tensor:
        return functional.linear(x_TI, self.plain_weight(), self.bias)

    def _onednn(self, x_TI: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x_TI, self._onednn_weight, self.bias, "none", [], "")
        return product


def projection(
    weight_OI: torch.Tensor,
    bias_O: torch.Tensor | None = None,
    *,
    pack: bool,
    steady: bool,
) -> Projection:
    """The fastest product of these kinds: by our own kernels if it is steady and the CPU has them; or `Linear`."""
    if (steady or not _has_onednn(weight_OI)) and (own := own_product(weight_OI, bias_O)) is not None:
        return own
    return Linear(weight_OI, bias_O, pack=pack, steady=steady)


def own_product(weight_OI: torch.Tensor, bias_O: torch.Tensor | None = None) -> Projection | None:
    """The product by kernels of our own; None where there are none for this CPU or these weights."""
    if weight_OI.dtype != torch.bfloat16 or weight_OI.device.type != "cpu" or find_spec("numba") is None:
        return None
    from mars.engine.tile_layout import fits  # numba takes half a second to import
    from mars.engine.tiles import Tiled, kind_of_products

    if not fits(weight_OI) or kind_of_products() is None:
        return None
    return Tiled(weight_OI, bias_O)


def steady_rows(
    product_of: Callable[[torch.Tensor], Product], shape: Sequence[int], dtype: torch.dtype
) -> tuple[int, int]:
    """The fewest and the most rows between which a product with weights [O, I] gives a row the same bits.

    Kernels change with the number of rows, at other numbers on other machines: bits are compared. Should nothing be
    steady, both numbers are the same: every piece is padded to so many rows.
    """
    weight_OI, x_TI = _cancelling(shape, dtype)
    product = product_of(weight_OI)
    counts = _SAMPLED_ROWS if weight_OI.numel() > _QUICK_TO_CHECK else range(1, _MOST_ROWS + 1)
    with torch.inference_mode():
        reference_TO = torch.cat([product(part_TI) for part_TI in x_TI.split(_REFERENCE_ROWS)])

        def same(rows: int) -> bool:
            most = max(rows, _COMPARED_ROWS // rows * rows)
            found_TO = torch.cat([product(part_TI) for part_TI in x_TI[-most:].split(rows)])
            return torch.equal(found_TO, reference_TO[-most:]) and torch.equal(
                product(x_TI[:rows]), reference_TO[:rows]
            )

        least = most = _REFERENCE_ROWS
        for rows in sorted((rows for rows in counts if rows < _REFERENCE_ROWS), reverse=True):
            if not same(rows):
                break
            least = rows
        for rows in sorted(rows for rows in counts if rows > _REFERENCE_ROWS):
            if not same(rows):
                break
            most = rows
    return least, most


def _cancelling(shape: Sequence[int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights [O, I] and rows whose products nearly cancel, the second half of each sum taking back the first.

    Rounding to bfloat16 would hide most sums that are taken in another order, not these.
    """
    outputs, inputs = shape
    generator = torch.Generator().manual_seed(0)
    half_OI = torch.randn(outputs, (inputs + 1) // 2, generator=generator)
    half_TI = torch.randn(_MOST_ROWS, (inputs + 1) // 2, generator=generator).to(dtype).float()
    weight_OI = torch.cat((half_OI, half_OI), 1)[:, :inputs].to(dtype).contiguous()
    x_TI = torch.cat((half_TI, half_TI * -(1 + 2**-7)), 1)[:, :inputs].to(dtype).contiguous()
    return weight_OI, x_TI


class Head:
    """The vocabulary projection, x [T, I] to float32 logits [T, O], whatever the weights' dtype.

    Logits of bfloat16 stand up to 1/8 apart: rounded so coarsely, tokens that are nearly equally probable are tied. The
    product is therefore summed to float32: with a float32 copy of the weights where they are few (`copy`), else where
    the device or our own kernels can do it. oneDNN's bfloat16 kernels round what they write, and a float32 copy of a
    large vocabulary takes twice as long to read. There the CANDIDATES most probable tokens get logits
    from a second, float32 sum of the same weights; the logits of all others stay rounded to bfloat16, half a step off
    at most. Rounding keeps the order, so the most probable token is among the candidates unless more than CANDIDATES
    tokens round to the highest logit.
    `pack` and `steady` are those of `Linear`; what is refined is always packed.
    """

    def __init__(
        self,
        weight_OI: torch.Tensor,
        bias_O: torch.Tensor | None,
        *,
        copy: bool,
        pack: bool = False,
        steady: bool = False,
    ):
        coarse = weight_OI.dtype in _COARSE
        on_cpu = weight_OI.device.type == "cpu"
        self._refines = coarse and on_cpu and not copy
        self._wide = coarse and weight_OI.device.type == "cuda"
        self._plain_OI = weight_OI
        self._bias = bias_O.float() if coarse and bias_O is not None else bias_O
        self._product: Projection | None = None
        self._sums: Product | None = None
        if self._refines:
            self._product = projection(weight_OI, None, pack=True, steady=steady)
            self._sums = self._product.sums
        elif not coarse or on_cpu:
            self._plain_OI = weight_OI.float() if coarse else weight_OI
            self._product = Linear(self._plain_OI, self._bias, pack=pack, steady=steady)

    @property
    def refines(self) -> bool:
        """Whether there is a second sum."""
        return self._refines and self._sums is None

    def __call__(self, x_TI: torch.Tensor, refined: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [T, O], float32; `refined` are the rows whose candidates are worth a second sum, None for all."""
        if self._sums is not None:
            logits_TO = self._sums(x_TI)
            return logits_TO if self._bias is None else logits_TO.add_(self._bias)
        if self._refines and self._product is not None:
            logits_TO = self._product(x_TI).float()
            if self._bias is not None:
                logits_TO.add_(self._bias)
            if refined is None:
                return self._refined(logits_TO, x_TI)
            return logits_TO.index_copy_(0, refined, self._refined(logits_TO[refined], x_TI[refined]))
        if self._product is not None:
            return self._product(x_TI.to(self._plain_OI.dtype)).float()
        if self._wide:
            logits_TO = torch.mm(x_TI, self._plain_OI.t(), out_dtype=torch.float32)
        else:
            logits_TO = torch.mm(x_TI, self._plain_OI.t()).float()
        return logits_TO if self._bias is None else logits_TO.add_(self._bias)

    def _refined(self, logits_TO: torch.Tensor, x_TI: torch.Tensor) -> torch.Tensor:
        """The logits with those of the candidates replaced, in place."""
        _, ids_TC = most_probable(logits_TO, min(CANDIDATES, logits_TO.shape[1]))
        weights_TCI = self._plain_OI.index_select(0, ids_TC.flatten()).view(*ids_TC.shape, -1)
        sums_TC = torch.mul(weights_TCI, x_TI.float()[:, None]).sum(-1)
        if self._bias is not None:
            sums_TC.add_(self._bias[ids_TC])
        return logits_TO.scatter_(1, ids_TC, sums_TC)


def most_probable(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest `count` logits of [..., V] and their tokens [..., count], the most probable first.

    They lie in the `count` blocks with the largest maxima: to look for them there takes a third of the time that it
    takes in the whole vocabulary, which must be a multiple of the block's size.
    """
    vocabulary = logits.shape[-1]
    if vocabulary % _BLOCK or vocabulary // _BLOCK <= 2 * count:
        found = logits.topk(count)
        return found.values, found.indices
    blocks = logits.reshape(*logits.shape[:-1], -1, _BLOCK)
    best = blocks.amax(-1).topk(count).indices
    within = blocks.gather(-2, best[..., None].expand(*best.shape, _BLOCK)).flatten(-2)
    values, places = within.topk(count)
    return values, best.gather(-1, places // _BLOCK) * _BLOCK + places % _BLOCK


@cache
def bfloat16_is_faster(threads: int, *, whole: bool = True) -> bool:
    """Whether products with packed weights take less time in bfloat16 than in float32 here, for one row and for nine.

    Measured once for each number of threads, which is torch's own: on eight matrices in turn, so that they are read
    from memory. In bfloat16 they are those of invariant passes where this CPU has kernels of our own. Where it has none
    and oneDNN refuses bfloat16, many rows take several times as long, which nobody needs to measure on a busy machine.
    `whole` says that a model's weights fill tiles, without which they have no such kernels.
    """
    has_own = whole and own_product(torch.zeros(_PROBED, dtype=torch.bfloat16)) is not None
    if not has_own and not _onednn_knows_bfloat16():
        return False
    generator = torch.Generator().manual_seed(0)
    weights_OI = [torch.randn(_PROBED, generator=generator) for _ in range(8)]
    inputs_TI = torch.randn(9, _PROBED[1], generator=generator)
    products: dict[torch.dtype, list[Projection]] = {
        torch.float32: [Linear(weight_OI, pack=True) for weight_OI in weights_OI],
        torch.bfloat16: [
            (own_product(weight_OI.bfloat16()) if has_own else None) or Linear(weight_OI.bfloat16(), pack=True)
            for weight_OI in weights_OI
        ],
    }
    seconds = dict.fromkeys(products, math.inf)
    with torch.inference_mode():
        for _ in range(7):
            for dtype, linears in products.items():
                both = inputs_TI[:1].to(dtype), inputs_TI.to(dtype)
                start = time.perf_counter()
                for linear in linears:
                    for x_TI in both:
                        linear(x_TI)
                seconds[dtype] = min(seconds[dtype], time.perf_counter() - start)
    return seconds[torch.bfloat16] < seconds[torch.float32]


def _least_packed_rows(weight: torch.Tensor) -> float:
    if weight.dtype == torch.bfloat16 or weight.numel() >= _BEYOND_CACHES:
        return 1
    return max(2, _WORTH_ONEDNN / weight.numel())


def _has_onednn(weight: torch.Tensor) -> bool:
    """Whether oneDNN can be called on these weights."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    # Operators that torch.compile emits: there, but not promised.
    if not all(hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")):
        return False
    # In bfloat16 oneDNN refuses to work on a CPU without AVX-512.
    return weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and _onednn_knows_bfloat16())


def _onednn_knows_bfloat16() -> bool:
    known: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return known
