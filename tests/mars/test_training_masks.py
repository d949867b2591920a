from collections.abc import Callable

import pytest
from torch import Tensor

from mars.training.objective import block_diffusion_mask, training_mask

each_mask = pytest.mark.parametrize("mask_of", [training_mask, block_diffusion_mask])


def allowed(query: int, key: int, length: int, block_size: int) -> bool:
    """Section 3.2, word by word, for streams of 1-based positions t with block index ceil(t / B)."""
    query_noisy, key_noisy = query >= length, key >= length
    i, j = query % length + 1, key % length + 1
    block_i, block_j = -(-i // block_size), -(-j // block_size)
    if not query_noisy and not key_noisy:
        return j <= i
    if query_noisy and key_noisy:
        return block_i == block_j and j <= i
    return query_noisy and block_j < block_i


@pytest.mark.parametrize(("length", "block_size"), [(1, 1), (6, 1), (8, 2), (12, 3), (12, 4), (16, 8), (16, 16)])
def test_mask_equals_the_three_rules(length: int, block_size: int) -> None:
    mask = training_mask(length, block_size)
    expected = [[allowed(q, k, length, block_size) for k in range(2 * length)] for q in range(2 * length)]
    assert mask.tolist() == expected


def diffusion_allows(query: int, key: int, length: int, block_size: int) -> bool:
    """BD3-LM, word by word: block-diagonal among the noisy, offset block-causal to the clean, block-causal there."""
    query_noisy, key_noisy = query >= length, key >= length
    block_i, block_j = query % length // block_size, key % length // block_size
    if query_noisy and key_noisy:
        return block_i == block_j
    if query_noisy:
        return block_j < block_i
    return not key_noisy and block_j <= block_i


@pytest.mark.parametrize(("length", "block_size"), [(1, 1), (6, 1), (8, 2), (12, 3), (12, 4), (16, 8), (16, 16)])
def test_mask_of_block_diffusion_equals_its_rules(length: int, block_size: int) -> None:
    columns = range(2 * length)
    expected = [[diffusion_allows(q, k, length, block_size) for k in columns] for q in columns]
    assert block_diffusion_mask(length, block_size).tolist() == expected


@each_mask
@pytest.mark.parametrize(("length", "block_size", "start"), [(12, 4, 4), (12, 4, 8), (10, 2, 6)])
def test_dropped_noisy_blocks_change_nothing_for_the_rest(
    mask_of: Callable[..., Tensor], length: int, block_size: int, start: int
) -> None:
    keep = [*range(length), *range(length + start, 2 * length)]
    full = mask_of(length, block_size)[keep][:, keep]
    assert mask_of(length, block_size, start).equal(full)
    assert not mask_of(length, block_size)[keep][:, length : length + start].any()


@each_mask
@pytest.mark.parametrize(
    ("length", "block_size", "start", "named"),
    [
        (8, 0, 0, "block_size"),
        (9, 4, 0, "length"),
        (0, 4, 0, "length"),
        (8, 4, 2, "noisy_start"),
        (8, 4, 8, "noisy_start"),
    ],
)
def test_bad_sizes_are_refused_by_name(
    mask_of: Callable[..., Tensor], length: int, block_size: int, start: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        mask_of(length, block_size, start)
