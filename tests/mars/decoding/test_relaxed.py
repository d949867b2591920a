"""Relaxed verification: exact without a threshold, and with one no token is less probable than τ allows."""

import copy
import math
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.decoders import TABLE
from mars.decoding import DECODERS, METHODS
from mars.engine import ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ScriptedModel

pytestmark = pytest.mark.usefixtures("one_thread")

LAYOUTS = ("linear", "quadratic", "tree", "lookup", "auto")
PROMPTS = [[5, 6, 7, 5, 6, 7, 5, 6], [9, 8, 10], [11, 12, 11, 12, 11]]
TIES = 1e-9  # of log probabilities in double precision


class Undecided(ScriptedModel):
    """Recites 5, 6, 7, …; at position 4 masks say `near`, which the model finds 0.6 times as probable as its 9."""

    def __init__(self, near: int = 20, **options: Any):
        super().__init__((), **options)
        self._near = near

    def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
        own = 5 + position if position < 7 else 2
        if position != 4:
            return self.spread(own, 0.9)
        if masks_read:
            return self.spread(self._near, 0.9)
        logits = self.spread(own, 0.5)
        logits[self._near] = math.log(0.3)
        return logits


@pytest.fixture
def engines(tiny_model: PreTrainedModel) -> Iterator[Any]:
    """An engine by whether its shapes are static, in double precision, so that rounding changes no token."""
    model = copy.deepcopy(tiny_model).double()
    return lambda static: ModelEngine(model, stop_token_ids=frozenset({7}), mask_token_id=3, graphs=static)


def texts(engine: Any, decoder: str, **options: Any) -> tuple[dict[int, list[int]], list[ForwardPass]]:
    settings = DecodingSettings(**{"block_size": 4, "max_new_tokens": 24, **options})
    records = list(DECODERS[decoder](engine, PROMPTS, settings))
    return {row: output_ids(records, row) for row in range(len(PROMPTS))}, records


@pytest.mark.parametrize("layout", ["linear", "quadratic"])
@pytest.mark.parametrize("static", [False, True])
def test_a_nearly_as_probable_draft_stays(layout: str, static: bool) -> None:
    def text(threshold: float | None) -> tuple[list[int], list[ForwardPass]]:
        settings = DecodingSettings(block_size=3, max_new_tokens=12, layout=layout, threshold=threshold)
        records = list(DECODERS["relaxed"](Undecided(static_shapes=static), [[3, 4]], settings))
        return output_ids(records), records

    exact = [5, 6, 7, 8, 9, 10, 11, 2]
    assert text(None)[0] == text(0.61)[0] == exact
    found, records = text(0.59)
    assert found == [5, 6, 7, 8, 20, 10, 11, 2]
    [near] = [
        one for record in records for row in record.rows for one in row.proposals[: row.accepted] if one.token_id == 20
    ]
    assert near.score == pytest.approx(0.3 / (1 + 0.3 - 0.5 / 30)), "its own probability"
    assert {row.threshold for record in records[1:] for row in record.rows} == {0.59}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("static", [False, True])
def test_tokens_are_as_probable_as_the_threshold_asks(
    engines: Any, layout: str, static: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer is read again in one pass, which is the slow twin; random weights are sure of nothing."""
    monkeypatch.setattr(import_module("mars.decoding.self_speculative"), "SURE", 0.0)
    if static and layout in ("tree", "lookup"):
        pytest.skip("static shapes have no trees")
    engine = engines(static)
    exact, _ = texts(engine, "autoregressive")
    passes = {}
    for threshold in (None, 1.0, 0.7, 0.2):
        found, records = texts(engine, "relaxed", layout=layout, threshold=threshold)
        passes[threshold] = sum(row.accepted > 0 for record in records for row in record.rows) / sum(
            map(len, found.values())
        )
        losses = [loss for row, prompt in enumerate(PROMPTS) for loss in losses_of(engine, prompt, found[row])]
        assert max(losses) <= -math.log(threshold or 1.0) + TIES
        if threshold in (None, 1.0):
            assert found == exact
    assert layout == "auto" or passes[0.2] < passes[None], "near misses are frequent here, so this must gain"


@pytest.mark.parametrize("layout", ["tree", "lookup"])
def test_company_changes_no_relaxed_text(engines: Any, layout: str) -> None:
    """What a row has learnt of its drafts is its own."""
    engine = engines(False)
    settings = DecodingSettings(block_size=4, max_new_tokens=24, layout=layout, threshold=0.2)
    together = list(DECODERS["relaxed"](engine, PROMPTS, settings))
    for row, prompt in enumerate(PROMPTS):
        assert output_ids(together, row) == output_ids(DECODERS["relaxed"](engine, [prompt], settings))


def losses_of(engine: ModelEngine, prompt: list[int], answer: list[int]) -> list[float]:
    """How far each token of the answer is below the most probable one, in nats."""
    ids = torch.tensor([[*prompt, *answer]])
    with torch.no_grad():
        logits_PV = engine.model(ids).logits[0, len(prompt) - 1 : -1]
    logits_PV[:, 3] = -math.inf
    return (logits_PV.amax(-1) - logits_PV.gather(1, ids[0, len(prompt) :, None])[:, 0]).tolist()


@pytest.mark.parametrize("layout", ["linear", "quadratic", "lookup"])
def test_drawn_tokens_are_compared_with_the_best(engines: Any, layout: str) -> None:
    engine = engines(False)
    drawing = {"temperature": 0.9, "seed": 5}
    assert (
        texts(engine, "relaxed", layout=layout, threshold=None, **drawing)[0]
        == (texts(engine, "autoregressive", **drawing)[0])
    )
    found, _ = texts(engine, "relaxed", layout=layout, threshold=0.05, **drawing)
    assert all(found.values())


def test_table_and_methods_agree_on_who_verifies() -> None:
    settings = DecodingSettings(block_size=3)
    methods = {name: METHODS[name](Undecided(), settings) for name in METHODS}
    assert {name for name, method in methods.items() if method.verifies} == {"relaxed"}
    assert {info.name for info in TABLE.values() if info.verifies} == {"relaxed"}
