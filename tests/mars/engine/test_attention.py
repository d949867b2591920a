"""Attention by either kernel against itself written out head by head."""

import pytest
import torch
from torch.nn import functional

from mars.engine import attention as under_test
from mars.engine.attention import attend, attention_mask, share_mask
from mars.engine.window import Window, verification_tree
from tests.scripted import visible

SIZE, SLOTS, HEADS = 8, 40, 4


def causal(starts: list[int], columns: int) -> Window:
    """Rows behind so many slots; one that starts below 0 has padding."""
    slots_RQ = torch.tensor([[max(start + 1 + step, 0) for step in range(columns)] for start in starts])
    return Window(ids_RQ=slots_RQ, slots_RQ=slots_RQ, extent=int(slots_RQ.max()) + 1, keep=columns)


def tree(starts: list[int]) -> Window:
    """Two drafts, two masks behind each prefix; a row that starts below 0 is nothing but padding."""
    depths_Q, sees_QQ = verification_tree(1, (2, 2, 2))
    steps_Q = torch.arange(1, len(depths_Q) + 1)
    slots_RQ = torch.stack([start + steps_Q if start >= 0 else torch.zeros_like(steps_Q) for start in starts])
    return Window(
        ids_RQ=slots_RQ,
        slots_RQ=slots_RQ,
        extent=int(slots_RQ.max()) + 1,
        keep=len(depths_Q),
        positions_RQ=(torch.tensor(starts)[:, None] + depths_Q).clamp_min(0),
        sees_RQQ=sees_QQ[None],
    )


WINDOWS = {
    "one column": causal([6, 3, 20, 11], 1),
    "columns": causal([6, 3, 20], 5),
    "padding": causal([6, -2, 20, -9], 5),
    "tree": tree([3, 17]),
    "tree and padding": tree([3, -1, 17]),
}


def read(window: Window, shared: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values of a pass, strided as they are there: parts of a product, and of a memory."""
    torch.manual_seed(0)
    product = torch.randn(window.rows * window.columns, HEADS + 2 * shared, SIZE, dtype=dtype)
    memory = torch.randn(2, window.rows + 1, shared, SLOTS, SIZE, dtype=dtype)[:, 1:, :, 1 : window.extent]
    return product[:, :HEADS].unflatten(0, (window.rows, window.columns)), *memory.unbind()


def written_out(
    queries_RQHD: torch.Tensor, keys_RHKD: torch.Tensor, values_RHKD: torch.Tensor, hidden_RQK: torch.Tensor
) -> torch.Tensor:
    rows, columns, heads, size = queries_RQHD.shape
    found = torch.zeros(rows, columns, heads, size, dtype=torch.double)
    for row in range(rows):
        for head in range(heads):
            keys_KD, values_KD = (part[row, head * keys_RHKD.shape[1] // heads] for part in (keys_RHKD, values_RHKD))
            scores_QK = queries_RQHD[row, :, head].double() @ keys_KD.double().T / size**0.5
            found[row, :, head] = (scores_QK + hidden_RQK[row]).softmax(-1) @ values_KD.double()
    return found.flatten(2).flatten(0, 1)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were called."""
    names: list[str] = []
    for owner, name in ((under_test, "multiplied"), (functional, "scaled_dot_product_attention")):
        kernel = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, name=name, kernel=kernel: names.append(name) or kernel(*given))
    return names


@pytest.mark.parametrize("most", [0, under_test._MOST_SCORES], ids=["fused", "multiplied"])
@pytest.mark.parametrize("shared", [4, 2, 1])
@pytest.mark.parametrize("name", WINDOWS)
def test_either_kernel_computes_attention(
    name: str, shared: int, most: int, monkeypatch: pytest.MonkeyPatch, used: list[str]
) -> None:
    monkeypatch.setattr(under_test, "_MOST_SCORES", most)
    window = WINDOWS[name]
    mask = attention_mask(window, torch.arange(SLOTS), torch.float32)
    given = read(window, shared, torch.float32)
    found = attend(*given, share_mask(mask, HEADS // shared))
    assert used == ["multiplied" if most else "scaled_dot_product_attention"]
    assert found.isfinite().all(), "padding columns, too"
    seen = visible(window, torch.arange(window.extent))[..., 1:]
    seeing = seen.any(-1).flatten()
    expected = written_out(*given, torch.zeros(seen.shape).masked_fill(~seen, -torch.inf))
    torch.testing.assert_close(found[seeing].double(), expected[seeing], atol=1e-5, rtol=1e-5)
    expected = written_out(*given, torch.zeros(seen.shape))
    torch.testing.assert_close(attend(*given, None).double(), expected, atol=1e-5, rtol=1e-5)


def test_heads_of_a_group_share_a_mask() -> None:
    mask = torch.arange(12.0).view(2, 1, 2, 3)
    shared = share_mask(mask, 2)
    assert shared is not None
    assert shared.tolist() == torch.cat((mask, mask), 2).tolist()
    assert share_mask(None, 2) is None
    part = share_mask(mask[:1, :, 1:2], 2)
    assert part is not None
    assert part.is_contiguous(), "of one query, too: kernels for GPUs take a view to be aligned"
