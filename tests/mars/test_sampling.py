"""Draws against the exact distribution, and noise against a twin in plain Python."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mars.config import DecodingSettings
from mars.sampling import FEW_TOKENS, Sampling, filtered, gumbel, pick

LOGITS = torch.tensor([1.5, 0.0, 2.0, -1.0, 0.5, 1.9, -math.inf, -3.0, 1.0, 0.2])
DRAWS = 50_000


def sampling(*rows: dict) -> Sampling:
    return Sampling.of([DecodingSettings(**row) for row in rows], "cpu")


def distribution(logits: list[float], temperature: float, top_p: float) -> list[float]:
    """What is to be drawn from, by its definition."""
    weights = [math.exp(logit / temperature) for logit in logits]
    left, kept = top_p * sum(weights), [0.0] * len(logits)
    for token in sorted(range(len(logits)), key=lambda token: -weights[token]):
        if left > 0:
            kept[token], left = weights[token], left - weights[token]
    return [weight / sum(kept) for weight in kept]


def p_value(ids: torch.Tensor, expected: list[float]) -> float:
    counts = torch.bincount(ids.flatten(), minlength=len(expected)).tolist()
    assert not any(count for count, share in zip(counts, expected, strict=True) if share == 0)
    pairs = [(count, share * ids.numel()) for count, share in zip(counts, expected, strict=True) if share]
    return stats.chisquare(*zip(*pairs, strict=True)).pvalue


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("top_p", [1.0, 0.6])
def test_draws_follow_the_softmax(temperature: float, top_p: float) -> None:
    expected = distribution(LOGITS.tolist(), temperature, top_p)
    positions = torch.arange(DRAWS)
    along = pick(
        LOGITS.expand(1, DRAWS, -1), positions[None], sampling({"temperature": temperature, "top_p": top_p, "seed": 3})
    )
    assert p_value(along, expected) > 0.001
    seeds = Sampling(
        torch.full((DRAWS,), temperature), torch.full((DRAWS,), top_p, dtype=torch.float64), positions, active=True
    )
    across = pick(LOGITS.expand(DRAWS, 1, -1), torch.zeros(DRAWS, 1, dtype=torch.int64), seeds)
    assert p_value(across, expected) > 0.001


@pytest.mark.parametrize("shift", [shift for shift in itertools.product((-1, 0, 1), repeat=3) if shift > (0, 0, 0)])
def test_neighbouring_noise_is_uncorrelated(shift: tuple[int, int, int]) -> None:
    noise = gumbel(torch.arange(64), torch.arange(64).expand(64, 64), 64)
    pairs = torch.stack([noise.flatten(), noise.roll(shift, (0, 1, 2)).flatten()])
    assert abs(torch.corrcoef(pairs)[0, 1].item()) < 4 / math.sqrt(noise.numel())


def mixed(bits: int) -> int:
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return bits ^ bits >> 31


def noise_of(seed: int, position: int, token: int) -> float:
    """`gumbel` in plain Python."""
    golden = 0x9E3779B97F4A7C15
    key = mixed((mixed((seed + golden) % 2**64) + position * golden) % 2**64)
    uniform = ((mixed((key + (token + 1) * golden) % 2**64) >> 12) + 0.5) / 2**52
    return torch.tensor(-math.log(-math.log(uniform)), dtype=torch.float32).item()


def test_noise_is_that_of_the_plain_twin() -> None:
    seeds, positions, vocab = [0, 5, 2**63 - 1], [0, 1, 4095], 40
    noise = gumbel(torch.tensor(seeds), torch.tensor([positions] * 3), vocab)
    twin = [[[noise_of(seed, at, token) for token in range(vocab)] for at in positions] for seed in seeds]
    assert noise.tolist() == twin


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_draws_are_the_same_on_the_gpu() -> None:
    rows = [{"temperature": 0.8, "top_p": 0.9, "seed": 4}, {}, {"temperature": 1.3, "seed": 5}]
    logits, positions = random_logits(3, 40, 1000), torch.arange(40).expand(3, 40)
    noise = gumbel(torch.tensor([4, 5, 6]), positions, 1000)
    assert torch.equal(gumbel(torch.tensor([4, 5, 6], device="cuda"), positions.cuda(), 1000).cpu(), noise)
    on_gpu = pick(logits.cuda(), positions.cuda(), Sampling.of([DecodingSettings(**row) for row in rows], "cuda"))
    assert torch.equal(on_gpu.cpu(), pick(logits, positions, sampling(*rows)))


def random_logits(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 3


def test_greedy_rows_take_the_first_best_token() -> None:
    logits = torch.tensor([[[0.0, 2.0, 2.0, 1.0]]]).repeat(2, 50, 1)
    positions = torch.arange(50).expand(2, 50)
    assert not sampling({}, {"top_p": 0.5}).active
    for rows in ([{}, {}], [{}, {"temperature": 1.0}], [{"top_p": 0.2}, {"temperature": 1.0, "top_p": 0.9}]):
        assert pick(logits, positions, sampling(*rows))[0].unique().tolist() == [1]


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-44, 1e-300])
def test_a_temperature_close_to_zero_is_greedy(temperature: float) -> None:
    logits = random_logits(1, 200, 100) * 100
    drawn = pick(logits, torch.arange(200)[None], sampling({"temperature": temperature}))
    assert torch.equal(drawn, logits.argmax(-1))


def kept(logits: list[float], top_p: float, temperature: float = 1.0) -> list[int]:
    left = filtered(torch.tensor([[logits]]), sampling({"temperature": temperature, "top_p": top_p}))
    return left[0, 0].isfinite().nonzero().flatten().tolist()


def test_the_nucleus_is_the_smallest_set_sufficing() -> None:
    logits = [math.log(weight) for weight in (0.125, 0.5, 0.0625, 0.25, 0.0625)]
    assert kept(logits, 0.45) == kept(logits, 0.5) == [1]
    assert kept(logits, 0.51) == kept(logits, 0.74) == [1, 3]
    assert kept(logits, 0.76) == [0, 1, 3]
    assert kept(logits, 0.90) == [0, 1, 2, 3]
    assert kept(logits, 0.95) == [0, 1, 2, 3, 4]
    assert kept(logits, 1e-9) == [1]


def test_of_equally_probable_tokens_the_lower_ids_stay() -> None:
    assert kept([1.0] * 8, 0.5) == [0, 1, 2, 3]
    assert kept([0.0, 2.0, 0.0, 2.0], 0.3) == [1]


@pytest.mark.parametrize("others", [[], [{"temperature": 1.0, "top_p": 0.5}]])
def test_top_p_1_leaves_the_logits(others: list[dict]) -> None:
    logits = torch.tensor([0.0, -200.0, -math.inf, -90.0]).expand(1 + len(others), 1, 4)
    left = filtered(logits, sampling({"temperature": 0.5, "top_p": 1.0}, *others))
    assert left[0, 0].tolist() == [0.0, -400.0, -math.inf, -180.0]


def test_looking_at_few_tokens_first_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    flat, peaked, tied = random_logits(1, 6, 2000) / 9, random_logits(1, 6, 2000) * 2, torch.zeros(1, 6, 2000)
    tied[..., ::3] = 1.0
    rows = sampling(*[{"temperature": 1.0, "top_p": 0.9}])
    quick = [filtered(logits, rows) for logits in (flat, peaked, tied)]
    sizes = [logits.isfinite().sum(-1).flatten().tolist() for logits in quick]
    assert min(sizes[0]) > FEW_TOKENS[1] > max(sizes[1])
    monkeypatch.setattr("mars.sampling.FEW_TOKENS", ())
    for logits, fast in zip((flat, peaked, tied), quick, strict=True):
        assert torch.equal(filtered(logits, rows), fast)


@settings(max_examples=60, deadline=None)
@given(
    logits=st.lists(st.integers(-30, 30) | st.just(-math.inf), min_size=1, max_size=12).filter(
        lambda logits: max(logits) > -math.inf
    ),
    temperature=st.floats(0.0, 1e4),
    top_p=st.floats(0.0, 1.0, exclude_min=True),
)
def test_the_most_probable_token_always_stays(logits: list[float], temperature: float, top_p: float) -> None:
    left = filtered(torch.tensor([[logits]]).float(), sampling({"temperature": temperature, "top_p": top_p}))[0, 0]
    assert left[logits.index(max(logits))] == 0
    assert not left.isnan().any()
    possible = {token for token, logit in enumerate(logits) if logit > -math.inf}
    assert set(left.isfinite().nonzero().flatten().tolist()) <= possible
