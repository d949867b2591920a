from collections.abc import Callable

import pytest
from torch import Tensor

from mars.engine.masks import block_diffusion_mask, training_mask, verification_tree

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


@pytest.mark.parametrize(("pending", "drafts", "masks"), [(1, 0, 0), (1, 3, 0), (2, 0, 2), (1, 1, 1), (3, 2, 4)])
def test_a_group_of_masks_reads_its_prefix_and_itself(pending: int, drafts: int, masks: int) -> None:
    """Each column spelled out: the real tokens and drafts that it reads by depth, then the masks of its own group."""
    chain = list(range(1 - pending, drafts + 1))
    columns = [(-1, depth) for depth in chain]
    columns += [(group, group + step) for group in range(drafts + 1) for step in range(1, masks + 1)]

    def reads(query: tuple[int, int], key: tuple[int, int]) -> bool:
        if key[0] < 0:
            return key[1] <= (query[1] if query[0] < 0 else query[0])
        return key[0] == query[0] and key[1] <= query[1]

    depths, sees = verification_tree(pending, (masks,) * (drafts + 1))
    assert depths.tolist() == [depth for _, depth in columns]
    assert sees.tolist() == [[reads(query, key) for key in columns] for query in columns]
