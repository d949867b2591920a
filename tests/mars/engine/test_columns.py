"""Passes without the padding columns against the same with them, and against the modules."""

import random
from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from mars.engine import window as under_test
from mars.engine.memory import Memory
from mars.engine.network import Network
from mars.engine.transformer import Transformer
from mars.engine.window import Columns, Window, columns_of, merge
from tests.mars.tiny import sizes

ROWS, SLOTS, VOCABULARY = 4, 64, 60


@pytest.fixture(params=[4, 2, 1], ids=["no groups", "groups", "one key-value head"])
def model(request: pytest.FixtureRequest, one_thread: None) -> PreTrainedModel:
    torch.manual_seed(0)
    config = Qwen2Config(**sizes(vocab_size=VOCABULARY, num_hidden_layers=3, num_key_value_heads=request.param))
    return Qwen2ForCausalLM(config).double().eval()


def window(chance: random.Random, starts: list[int], counts: list[int], keep: int, *, tree: bool) -> Window:
    """Random tokens behind so many slots of each row; a column of a tree sees random ones of those before it."""
    width = max(counts)
    slots = [
        [0] * (width - count) + [start + 1 + step for step in range(count)]
        for start, count in zip(starts, counts, strict=True)
    ]
    slots_RQ = torch.tensor(slots)
    ids = [[chance.randrange(VOCABULARY) for _ in range(width)] for _ in counts]
    plain = Window(ids_RQ=torch.tensor(ids), slots_RQ=slots_RQ, extent=int(slots_RQ.max()) + 1, keep=keep)
    if not tree:
        return plain
    sees = [[[a == b or (b < a and chance.random() < 0.6) for b in range(width)] for a in range(width)] for _ in counts]
    back_RQ = torch.tensor([[chance.randrange(2) for _ in range(width)] for _ in counts])
    return replace(plain, sees_RQQ=torch.tensor(sees), positions_RQ=(plain.positions - back_RQ).clamp_min(0))


def random_windows(seed: int, *, merged: bool) -> list[Window]:
    """Windows that read four rows on, each row at its own pace; now and then a row is all padding."""
    chance, cursors, windows = random.Random(seed), [0] * ROWS, []
    for number in range(8):
        counts = [chance.randrange(0, 6) for _ in range(ROWS)]
        counts[number % ROWS] = 6
        if merged:
            some, others = ([0, 3], [1, 2]) if number % 2 else ([2], [0, 1, 3])
            counts[some[0]] = counts[others[0]] = 4
            parts = []
            for places, keep, tree in ((some, chance.randrange(1, 5), number % 3 > 0), (others, 2, False)):
                starts, read = [cursors[row] for row in places], [counts[row] for row in places]
                parts.append((places, window(chance, starts, read, keep, tree=tree)))
            windows.append(merge(parts))
        else:
            windows.append(window(chance, cursors, counts, chance.randrange(0, 7), tree=number % 2 == 0))
        cursors = [at + chance.randrange(count + 1) for at, count in zip(cursors, counts, strict=True)]
    return windows


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("seed", range(2))
@torch.inference_mode()
def test_padding_left_out_changes_nothing(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch, seed: int, merged: bool
) -> None:
    monkeypatch.setattr(under_test, "_WORTH_LEAVING_OUT", 0)
    network = Network(model, 3)
    ragged, padded, modules = (Memory(reader, ROWS, SLOTS) for reader in (network, network, Transformer(model, 3)))
    for each in random_windows(seed, merged=merged):
        assert columns_of(each, static=False).real_N is not None
        found = ragged.forward(each)
        assert found.shape == (ROWS, each.keep, VOCABULARY)
        assert (found[..., 3] == -torch.inf).all()
        assert found[..., 4:].isfinite().all()
        real = each.slots_RQ[:, each.columns - each.keep :] > 0
        torch.testing.assert_close(found[real], padded.forward(each, static=True)[real], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(found[real], modules.forward(each)[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ragged._tensor[:, :, :, 1:], padded._tensor[:, :, :, 1:])
    assert not ragged._tensor[:, :, :, 0].any()


def test_only_padding_worth_it_is_left_out() -> None:
    half = window(random.Random(0), [0, 0], [8, 2], 1, tree=False)
    real_N = columns_of(half, static=False).real_N
    assert real_N is not None
    assert real_N.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 14, 15]
    on_device = replace(half, slots_RQ=half.slots_RQ.to("meta"), ids_RQ=half.ids_RQ.to("meta"))
    nothing = replace(half, slots_RQ=torch.zeros_like(half.slots_RQ))
    one_row = replace(half, slots_RQ=half.slots_RQ[1:], ids_RQ=half.ids_RQ[1:])
    little, none = (window(random.Random(0), [0, 0], [8, count], 1, tree=False) for count in (7, 8))
    for other in (on_device, nothing, one_row, little, none):
        assert columns_of(other, static=False) == Columns(other.rows, other.columns)
    assert columns_of(half, static=True) == Columns(2, 8)
