"""Drawing tokens with noise that is a function of the row's seed, the position and the token, and of nothing else.

Gumbel-max: the token with the largest logit / T + noise is a draw from the softmax. The noise is hashed, not taken from
a generator's state, so the token that a row writes at a position depends on the distribution there and on the seed,
never on the batch, the decoder or the number of passes. A decoder that checks drafts against these draws therefore
writes exactly what one-token mode writes with the same seed.

Shapes: R rows, W positions a row, V vocabulary, N rows selected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mars.config import DecodingSettings

# splitmix64 (Steele, Lea and Flood, 2014) in two's complement: torch has no unsigned 64-bit arithmetic.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
STEPS = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64), (31, 1))
UNIFORM_BITS = 52  # so that the middle of every one of the equal parts of (0, 1) is a double


@dataclass(frozen=True, slots=True)
class Sampling:
    """How each row draws its tokens, one entry a row, on the device.

    `temperature_R` is float32, 0 where the row is greedy; `top_p_R` float64 in (0, 1]; `seed_R` int64. `active` False:
    every row is greedy. `nucleus` False: no row that draws has a top-p below 1. Both only save work when False.
    """

    temperature_R: torch.Tensor
    top_p_R: torch.Tensor
    seed_R: torch.Tensor
    active: bool
    nucleus: bool = True

    @classmethod
    def of(cls, settings: Sequence[DecodingSettings], device: torch.device | str) -> Sampling:
        """The sampling of rows that run under `settings`, one entry a row."""
        drawing = [row for row in settings if row.temperature > 0]
        return cls(
            torch.tensor([row.temperature for row in settings], dtype=torch.float32, device=device),
            torch.tensor([row.top_p for row in settings], dtype=torch.float64, device=device),
            torch.tensor([row.seed for row in settings], dtype=torch.int64, device=device),
            active=bool(drawing),
            nucleus=any(row.top_p < 1 for row in drawing),
        )

    def select(self, rows_N: torch.Tensor) -> Sampling:
        """The rows numbered `rows_N`, in that order: keeps, moves or repeats rows."""
        return Sampling(
            self.temperature_R[rows_N], self.top_p_R[rows_N], self.seed_R[rows_N], self.active, self.nucleus
        )

    def append(self, other: Sampling) -> Sampling:
        """These rows and then those of `other`."""
        return Sampling(
            torch.cat([self.temperature_R, other.temperature_R]),
            torch.cat([self.top_p_R, other.top_p_R]),
            torch.cat([self.seed_R, other.seed_R]),
            self.active or other.active,
            self.nucleus or other.nucleus,
        )


def pick(logits_RWV: torch.Tensor, positions_RW: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The token of each position, ids [R, W]: the most probable one in greedy rows, a draw in the others.

    `positions_RW` counts from the first token of the response, 0. A token whose logit is -inf is never drawn.
    """
    if not sampling.active:
        return logits_RWV.argmax(-1)
    noise_RWV = gumbel(sampling.seed_R, positions_RW, logits_RWV.shape[-1])
    return filtered(logits_RWV, sampling).add(noise_RWV).argmax(-1)


def filtered(logits_RWV: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Logits [R, W, V] of the distribution that is drawn from: divided by the temperature, -inf outside the nucleus.

    The nucleus is the smallest set of most probable tokens whose mass at that temperature reaches top-p (of equally
    probable ones the lower ids), at least one token; in greedy rows it is the most probable token. The largest logit
    becomes 0, so that no temperature is too small to divide by.
    """
    greedy_R11 = (sampling.temperature_R == 0)[:, None, None]
    shifted_RWV = logits_RWV - logits_RWV.amax(-1, keepdim=True)
    scaled_RWV = shifted_RWV / sampling.temperature_R[:, None, None].masked_fill(greedy_R11, 1.0)
    others_RWV = torch.ones_like(scaled_RWV, dtype=torch.bool).scatter_(-1, logits_RWV.argmax(-1, keepdim=True), 0)
    outside_RWV = others_RWV & greedy_R11
    if sampling.nucleus:
        outside_RWV |= others_RWV & _beyond(scaled_RWV, sampling.top_p_R[:, None, None])
    return scaled_RWV.masked_fill_(outside_RWV, -math.inf)


def _beyond(scaled_RWV: torch.Tensor, top_p_R11: torch.Tensor) -> torch.Tensor:
    """Which tokens [R, W, V] the more probable ones make superfluous: their mass already reaches top-p."""
    sorted_RWV, order_RWV = scaled_RWV.sort(dim=-1, descending=True, stable=True)
    probabilities_RWV = sorted_RWV.double().softmax(-1)
    before_RWV = probabilities_RWV.cumsum(-1).roll(1, -1)
    before_RWV[..., 0] = 0.0
    beyond_RWV = (before_RWV >= top_p_R11) & (top_p_R11 < 1)
    return torch.empty_like(beyond_RWV).scatter_(-1, order_RWV, beyond_RWV)


def gumbel(seed_R: torch.Tensor, positions_RW: torch.Tensor, vocab: int) -> torch.Tensor:
    """Standard Gumbel noise [R, W, V], float32: of a seed, a position and a token id, on every device the same.

    The hash is integer arithmetic; the logarithms are taken in double precision, whose last bits, in which devices may
    differ, the rounding to float32 drops.
    """
    key_RW = _mixed(_mixed(seed_R[:, None] + GOLDEN) + positions_RW * GOLDEN)
    tokens_V = torch.arange(1, vocab + 1, device=key_RW.device) * GOLDEN
    bits_RWV = _mixed(key_RW[..., None] + tokens_V)
    uniform_RWV = _shifted(bits_RWV, 64 - UNIFORM_BITS).double().add_(0.5).mul_(2.0**-UNIFORM_BITS)
    return uniform_RWV.log_().neg_().log_().neg_().float()


def _mixed(bits: torch.Tensor) -> torch.Tensor:
    """The finaliser of splitmix64: every bit of the argument changes every bit of the result half of the time."""
    for shift, factor in STEPS:
        bits = bits ^ _shifted(bits, shift)
        if factor != 1:
            bits.mul_(factor)
    return bits


def _shifted(bits: torch.Tensor, places: int) -> torch.Tensor:
    """`bits` moved right, with zeros coming in: `>>` alone brings in copies of the sign."""
    return (bits >> places).bitwise_and_((1 << (64 - places)) - 1)
