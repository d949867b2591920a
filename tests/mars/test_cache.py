"""Rows with their own cursors against the plain model, in double precision."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from transformers import PreTrainedModel

from mars.cache import CachedRows, RecomputedRows, Transformer

KINDS = [CachedRows, RecomputedRows]


@pytest.fixture(scope="module")
def model(tiny_model: PreTrainedModel) -> PreTrainedModel:
    return copy.deepcopy(tiny_model).double()


def plain(model: PreTrainedModel, tokens: list[int], keep: int) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0, -keep:].float()


def slots(start: int, count: int) -> list[int]:
    return list(range(start + 1, start + count + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_different_length_and_place_equal_the_plain_model(
    model: PreTrainedModel, kind: type[CachedRows]
) -> None:
    """Random texts read in random windows, padded on the left: each row as if it were alone."""
    chance = random.Random(1)
    texts = [[chance.randrange(4, 100) for _ in range(length)] for length in (30, 17, 23)]
    rows, cursors = kind(Transformer(model), 3, 40), [0, 0, 0]
    for _ in range(8):
        counts = [min(chance.randrange(1, 6), len(text) - at) for text, at in zip(texts, cursors, strict=True)]
        width = max(counts)
        ids = [
            [0] * (width - count) + text[at : at + count]
            for text, at, count in zip(texts, cursors, counts, strict=True)
        ]
        places = [[0] * (width - count) + slots(at, count) for at, count in zip(cursors, counts, strict=True)]
        logits = rows.forward(ids, places, 1)
        cursors = [at + count for at, count in zip(cursors, counts, strict=True)]
        assert logits.isfinite().all()
        for row in [row for row, count in enumerate(counts) if count]:
            text, at = texts[row], cursors[row]
            torch.testing.assert_close(logits[row], plain(model, text[:at], 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_rewound_by_writing_its_slots_again(model: PreTrainedModel, kind: type[CachedRows]) -> None:
    rows = kind(Transformer(model), 1, 20)
    rows.forward([[7, 8, 9, 3, 3, 3]], [slots(0, 6)], 4)
    logits = rows.forward([[10, 11, 3]], [slots(3, 3)], 3)
    torch.testing.assert_close(logits[0], plain(model, [7, 8, 9, 10, 11, 3], 3), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_nothing_but_padding_is_finite_and_disturbs_nobody(
    model: PreTrainedModel, kind: type[CachedRows]
) -> None:
    rows = kind(Transformer(model), 2, 20)
    logits = rows.forward([[7, 8, 9], [0, 0, 0]], [slots(0, 3), [0, 0, 0]], 3)
    assert logits.isfinite().all()
    logits = rows.forward([[5], [6]], [[4], [1]], 1)
    torch.testing.assert_close(logits[0], plain(model, [7, 8, 9, 5], 1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits[1], plain(model, [6], 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_dropped_rows_leave_the_others_as_they_are(model: PreTrainedModel, kind: type[CachedRows]) -> None:
    rows = kind(Transformer(model), 3, 20)
    rows.forward([[7, 8], [9, 10], [11, 12]], [slots(0, 2)] * 3, 0)
    rows.keep([2])
    logits = rows.forward([[13]], [[3]], 1)
    torch.testing.assert_close(logits[0], plain(model, [11, 12, 13], 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_no_prediction_is_computed_where_none_is_asked(model: PreTrainedModel, kind: type[CachedRows]) -> None:
    assert kind(Transformer(model), 1, 20).forward([[7, 8]], [[1, 2]], 0).shape == (1, 0, model.config.vocab_size)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mask_token_has_no_chance(model: PreTrainedModel, kind: type[CachedRows]) -> None:
    logits = kind(Transformer(model, 3), 1, 20).forward([[7, 8]], [[1, 2]], 2)
    assert (logits[..., 3] == -torch.inf).all()
    assert logits.dtype == torch.float32


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_beyond_the_capacity_is_refused(model: PreTrainedModel, kind: type[CachedRows]) -> None:
    with pytest.raises(ValueError, match="slots must be <= the capacity of 4, got 5"):
        kind(Transformer(model), 1, 4).forward([[7, 8]], [[4, 5]], 1)


def test_the_cache_is_written_in_place(model: PreTrainedModel) -> None:
    rows = CachedRows(Transformer(model), 1, 20)
    rows.forward([[7, 8]], [[1, 2]], 0)
    before = [layer.keys.data_ptr() for layer in rows._layers]
    rows.forward([[9, 3, 3]], [[3, 4, 5]], 3)
    rows.forward([[10, 3, 3]], [[4, 5, 6]], 3)
    assert [layer.keys.data_ptr() for layer in rows._layers] == before
