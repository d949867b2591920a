"""The conditional head by Triton's kernels against the one in PyTorch: on a GPU, else in Triton's interpreter."""

from __future__ import annotations

import math

import pytest
import torch

from mars.engine import conditional
from mars.engine.adapter import HeadWeights
from mars.engine.conditional import ConditionalHead

ON_GPU = torch.cuda.is_available()
triton_head = pytest.importorskip("mars.engine.triton_head", exc_type=ImportError)

pytestmark = [pytest.mark.usefixtures("one_thread"), *([pytest.mark.gpu] if ON_GPU else [])]
DEVICE = "cuda" if ON_GPU else "cpu"
ROWS, MASKS, SIZE, VOCABULARY = 3, 4, 24, 90

Group = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def heads_of(
    monkeypatch: pytest.MonkeyPatch,
    *,
    dtype: torch.dtype = torch.float32,
    width: int = 300,
    candidates: int = 20,
    biased: bool = True,
    equal: bool = False,
) -> tuple[ConditionalHead, ConditionalHead]:
    """A head with Triton's kernels, on any device, and its twin without them; `equal` tokens have one row."""
    torch.manual_seed(3)
    weights = HeadWeights(torch.randn(width, 2 * SIZE), torch.randn(SIZE, width) * 0.1)
    weights = HeadWeights(*(part.to(DEVICE, dtype) for part in (weights.up, weights.down)))
    embedding_VE, vocabulary_VE = torch.randn(2, VOCABULARY, SIZE).to(DEVICE, dtype)
    if equal:
        vocabulary_VE = vocabulary_VE[:1].repeat(VOCABULARY, 1)
    bias_V = torch.randn(VOCABULARY).to(DEVICE, dtype) if biased else None
    heads = []
    for kind in (triton_head.Tables, None):
        monkeypatch.setattr(conditional, "tables_on", lambda device, dtype, kind=kind: kind)
        heads.append(ConditionalHead(weights, embedding_VE, vocabulary_VE, bias_V, candidates))
    assert [head._tables is not None for head in heads] == [True, False]
    return heads[0], heads[1]


def group_of(seed: int = 4, *, rows: int = ROWS, masks: int = MASKS, dtype: torch.dtype = torch.float32) -> Group:
    """Logits [R, M, V], hidden states [R, M, E], and the tokens before [R]."""
    torch.manual_seed(seed)
    logits_RMV, states_RME = torch.randn(rows, masks, VOCABULARY) * 2, torch.randn(rows, masks, SIZE)
    return logits_RMV.to(DEVICE), states_RME.to(DEVICE, dtype), torch.randint(VOCABULARY, (rows,)).to(DEVICE)


def assert_alike(heads: tuple[ConditionalHead, ConditionalHead], group: Group, *, within: float = 1e-4) -> None:
    logits_RMV, states_RME, before_R = group
    found_RMV, expected_RMV = logits_RMV.clone(), logits_RMV.clone()
    ids_RM, expected_RM = (
        head.rerank_(logits, states_RME, before_R)
        for head, logits in zip(heads, (found_RMV, expected_RMV), strict=True)
    )
    assert torch.equal(ids_RM, expected_RM)
    assert not torch.equal(found_RMV, logits_RMV)
    torch.testing.assert_close(found_RMV, expected_RMV, atol=within, rtol=within)


@pytest.mark.parametrize(
    ("rows", "masks", "candidates", "width"),
    [(1, 3, 2, 64), (3, 4, 6, 40), (2, 5, 20, 300), (1, 2, 32, 256), (1, 7, 90, 130)],
)
@pytest.mark.parametrize("biased", [False, True])
def test_groups_are_ranked_as_by_torch(
    rows: int, masks: int, candidates: int, width: int, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Widths are padded to 64, 320, 256 and 192, candidates to powers of two."""
    heads = heads_of(monkeypatch, width=width, candidates=candidates, biased=biased)
    assert_alike(heads, group_of(rows=rows, masks=masks))


def test_bfloat16_differs_by_roundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states lie so far from 0 that candidates are far apart: no rounding turns two of them around."""
    logits_RMV, states_RME, before_R = group_of(dtype=torch.bfloat16)
    assert_alike(heads_of(monkeypatch, dtype=torch.bfloat16), (logits_RMV, 8 * states_RME, before_R), within=0.15)


def test_what_is_never_predicted_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    logits_RMV, states_RME, before_R = group_of()
    logits_RMV[..., 9:] = -math.inf
    assert_alike(heads_of(monkeypatch), (logits_RMV, states_RME, before_R))


def test_a_mask_without_any_candidate_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    logits_RMV, states_RME, before_R = group_of()
    logits_RMV[1, 1] = -math.inf
    head, twin = heads_of(monkeypatch)
    expected_RMV = logits_RMV.clone()
    ids_RM, expected_RM = (
        head.rerank_(logits_RMV, states_RME, before_R),
        twin.rerank_(expected_RMV, states_RME, before_R),
    )
    assert torch.equal(ids_RM, expected_RM)
    assert bool((logits_RMV[1, 1] == -math.inf).all())
    expected_RMV[1, 1] = -math.inf  # PyTorch's are no numbers
    torch.testing.assert_close(logits_RMV, expected_RMV, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("order", ["rows", "masks", "tokens"])
def test_logits_may_be_a_view(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a wider tensor, none of whose other numbers are written."""
    head, twin = heads_of(monkeypatch)
    logits_RMV, states_RME, before_R = group_of()
    axes = {"rows": (0, 1, 2), "masks": (1, 0, 2), "tokens": (2, 1, 0)}[order]
    wide = torch.full([size + 2 for size in logits_RMV.permute(axes).shape], 7.0, device=DEVICE)
    view_RMV = wide[1:-1, 1:-1, 1:-1].permute(axes)
    view_RMV.copy_(logits_RMV)
    ids_RM = head.rerank_(view_RMV, states_RME, before_R)
    assert torch.equal(ids_RM, twin.rerank_(logits_RMV, states_RME, before_R))
    torch.testing.assert_close(view_RMV, logits_RMV, atol=1e-4, rtol=1e-4)
    view_RMV.fill_(7.0)
    assert bool((wide == 7.0).all())


def test_the_first_of_equals_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    head, _ = heads_of(monkeypatch, biased=False, equal=True)
    logits_RMV, states_RME, before_R = group_of()
    assert torch.equal(head.rerank_(logits_RMV.clone(), states_RME, before_R), logits_RMV.argmax(-1))


def test_tokens_that_are_drawn_are_drawn_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    logits_RMV, states_RME, before_R = group_of()
    found = [logits_RMV.clone(), logits_RMV.clone()]
    for head, logits in zip(heads_of(monkeypatch), found, strict=True):
        head.rerank_(logits, states_RME, before_R, lambda mask, logits_RV: logits_RV.argmin(-1))
    assert torch.equal(*found)


def test_a_cpu_and_a_head_with_too_many_entries_have_no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert conditional.tables_on(torch.device("cpu"), torch.float32) is None
    monkeypatch.setattr(conditional, "_MOST_ENTRIES", VOCABULARY * 320 - 1)
    with pytest.raises(AssertionError):
        heads_of(monkeypatch)


@pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
@torch.inference_mode()
def test_a_captured_call_is_replayed_on_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = heads_of(monkeypatch)
    static = group_of()
    heads[0].rerank_(*static)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ids_RM = heads[0].rerank_(*static)
    for seed in range(3):
        group = group_of(seed)
        for kept, given in zip(static, group, strict=True):
            kept.copy_(given)
        graph.replay()
        assert torch.equal(ids_RM, heads[1].rerank_(*group))
        torch.testing.assert_close(static[0], group[0], atol=1e-4, rtol=1e-4)
