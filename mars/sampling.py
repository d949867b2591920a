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
FEW_TOKENS = (64, 512)  # how many of the most probable tokens the search for the nucleus looks at first
UNIFORM_BITS = 52  # so that the middle of every one of the equal parts of (0, 1) is a double


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling parameters of each row, one entry a row, on the device.

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

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What is on the device."""
        return self.temperature_R, self.top_p_R, self.seed_R

    def select(self, rows_N: torch.Tensor | slice) -> Sampling:
        """The rows numbered `rows_N`, in that order: keeps, moves or repeats rows. With a slice they are views."""
        return Sampling(
            self.temperature_R[rows_N], self.top_p_R[rows_N], self.seed_R[rows_N], self.active, self.nucleus
        )

    def put(self, row: int, settings: DecodingSettings) -> None:
        """Give a row other parameters, in place; `active` and `nucleus` are the caller's to say."""
        self.temperature_R[row], self.top_p_R[row], self.seed_R[row] = (
            settings.temperature,
            settings.top_p,
            settings.seed,
        )


def pick(logits_RWV: torch.Tensor, positions_RW: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The token of each position, ids [R, W]: the most probable one in greedy rows, a draw in the others.

    `positions_RW` counts from the first token of the response, 0. A token whose logit is -inf is never drawn.
    """
    if not sampling.active:
        return most_probable(logits_RWV)
    if logits_RWV.device.type == "cpu":  # elsewhere the number of rows that draw is not known without waiting for it
        drawing_N = (sampling.temperature_R > 0).nonzero()[:, 0]
        if len(drawing_N) < len(logits_RWV):
            drawn_NW = pick(logits_RWV[drawing_N], positions_RW[drawing_N], sampling.select(drawing_N))
            return most_probable(logits_RWV).index_copy_(0, drawing_N, drawn_NW)
    noise_RWV = gumbel(sampling.seed_R, positions_RW, logits_RWV.shape[-1])
    return filtered(logits_RWV, sampling).add(noise_RWV).argmax(-1)


def most_probable(logits_RWV: torch.Tensor) -> torch.Tensor:
    """The token with the largest logit of each position, ids [R, W]; the lowest of those with equal logits.

    On a CPU, torch's own `argmax` takes about seven times as long as numpy's.
    """
    if logits_RWV.device.type == "cpu" and logits_RWV.dtype == torch.float32:
        return torch.from_numpy(logits_RWV.numpy(force=True).argmax(-1))
    return logits_RWV.argmax(-1)


def filtered(logits_RWV: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Logits [R, W, V] of the distribution that is drawn from: divided by the temperature, -inf outside the nucleus.

    The nucleus is the smallest set of most probable tokens whose mass at that temperature reaches top-p (of equally
    probable ones the lower ids), at least one token; in greedy rows it is the most probable token. The largest logit
    becomes 0, so that no temperature is too small to divide by.
    """
    greedy_R11 = (sampling.temperature_R == 0)[:, None, None]
    shifted_RWV = logits_RWV - logits_RWV.amax(-1, keepdim=True)
    scaled_RWV = shifted_RWV.div_(sampling.temperature_R[:, None, None].masked_fill(greedy_R11, 1.0))
    if sampling.nucleus:
        top_p_R11 = sampling.top_p_R[:, None, None].masked_fill(greedy_R11, 1.0)
        scaled_RWV = scaled_RWV.masked_fill(_outside(scaled_RWV, top_p_R11), -math.inf)
    best_RW1 = logits_RWV.argmax(-1, keepdim=True)
    others_RWV = greedy_R11.expand_as(scaled_RWV).scatter(-1, best_RW1, False)
    return scaled_RWV.masked_fill_(others_RWV, -math.inf)


def _outside(scaled_RWV: torch.Tensor, top_p_R11: torch.Tensor) -> torch.Tensor:
    """Which tokens [R, W, V] the nucleus leaves out; the largest logit must be 0."""
    needed_RW1 = scaled_RWV.double().exp_().sum(-1, keepdim=True) * top_p_R11
    best_RWK, mass_RWK = _most_probable(scaled_RWV, needed_RW1, top_p_R11)
    size_RW1 = ((mass_RWK < needed_RW1).sum(-1, keepdim=True) + 1).clamp_(max=best_RWK.shape[-1])
    last_RW1 = best_RWK.gather(-1, size_RW1 - 1)
    ties_RW1 = size_RW1 - (best_RWK > last_RW1).sum(-1, keepdim=True)
    tied_RWV = scaled_RWV == last_RW1
    inside_RWV = (scaled_RWV > last_RW1) | (tied_RWV & (tied_RWV.cumsum(-1) <= ties_RW1))
    return ~inside_RWV & (top_p_R11 < 1)


def _most_probable(
    scaled_RWV: torch.Tensor, needed_RW1: torch.Tensor, top_p_R11: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of as many tokens, the most probable first, as all nuclei need, and their summed weights.

    A full sort takes far longer than the few most probable tokens, which are nearly always enough. Whether they are
    is asked on the CPU only: the answer would make another device wait.
    """
    vocab = scaled_RWV.shape[-1]
    for count in FEW_TOKENS if scaled_RWV.device.type == "cpu" else ():
        if count < vocab:
            best_RWK = scaled_RWV.topk(count).values
            mass_RWK = best_RWK.double().exp_().cumsum(-1)
            if bool(((mass_RWK[..., -1:] >= needed_RW1) | (top_p_R11 == 1)).all()):
                return best_RWK, mass_RWK
    best_RWV = scaled_RWV.sort(-1, descending=True).values
    return best_RWV, best_RWV.double().exp_().cumsum(-1)


def gumbel(seed_R: torch.Tensor, positions_RW: torch.Tensor, vocab: int) -> torch.Tensor:
    """Standard Gumbel noise [R, W, V], float32: of a seed, a position and a token id, on every device the same.

    The hash is integer arithmetic; the logarithms are taken in double precision, whose last bits, in which devices may
    differ, the rounding to float32 drops.
    """
    key_RW = _mix_(_mix_(seed_R[:, None] + GOLDEN) + positions_RW * GOLDEN)
    tokens_V = torch.arange(1, vocab + 1, device=key_RW.device) * GOLDEN
    bits_RWV = _mix_(key_RW[..., None] + tokens_V)
    uniform_RWV = _shifted(bits_RWV, 64 - UNIFORM_BITS).double().add_(0.5).mul_(2.0**-UNIFORM_BITS)
    return uniform_RWV.log_().neg_().log_().neg_().float()


def _mix_(bits: torch.Tensor) -> torch.Tensor:
    """The finaliser of splitmix64, in place: a change of one bit changes every bit of the result half of the time."""
    scratch = torch.empty_like(bits)
    for places, factor in STEPS:
        bits.bitwise_xor_(_shifted(bits, places, out=scratch)).mul_(factor)
    return bits


def _shifted(bits: torch.Tensor, places: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """`bits` moved right, with zeros coming in: `>>` alone brings in copies of the sign."""
    return torch.bitwise_right_shift(bits, places, out=out).bitwise_and_((1 << (64 - places)) - 1)
