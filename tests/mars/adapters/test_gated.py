"""A gated adapter on our own network against the same through PEFT, and against the untouched base."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch
from mars.phrases import Next, Phrases
from transformers import PreTrainedModel

from mars.checkpoint.adapter import load_adapter
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS
from mars.decoding.method import Row
from mars.decoding.pair import Pair
from mars.decoding.policy import Policy
from mars.decoding.pool import Pool
from mars.decoding.service import Service
from mars.engine import gated
from mars.engine.engine import Clock, Engine, ModelEngine
from mars.engine.gated import Pairs
from mars.engine.window import Window
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.in_turn import in_turn
from tests.mars_kernels.capture import as_in_captures

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPTS = [[9, 10, 11, 12, 13], [14], [15] * 30, [20, 30, 40, 50, 7, 8]]
SAMPLED = {"temperature": 0.8, "top_p": 0.9, "seed": 11}
RUNS = {
    "sliding window": ("sliding_window", {"threshold": 0.2}),
    "sliding window, sampled": ("sliding_window", {"threshold": 0.2, **SAMPLED}),
    "sliding window, all masks": ("sliding_window", {"threshold": 0.0, "extra_proposal": True, "block_size": 6}),
    "linear": ("self_speculative", {"layout": "linear"}),
    "in turn": ("self_speculative", {"layout": "auto", "block_size": 6}),
    "quadratic": ("self_speculative", {"layout": "quadratic"}),
    "quadratic, sampled": ("self_speculative", {"layout": "quadratic", **SAMPLED}),
    "tree": ("self_speculative", {"layout": "tree", "block_size": 6}),
    "tree, sampled": ("self_speculative", {"layout": "tree", **SAMPLED}),
    "lookup": ("self_speculative", {"layout": "lookup", "block_size": 6}),
    "lookup, sampled": ("self_speculative", {"layout": "lookup", **SAMPLED}),
    "auto": ("self_speculative", {"layout": "auto"}),
    "block cached": ("block_cached", {"threshold": 0.2}),
    "continuation": ("speculative", {"threshold": 0.2, "continuation": True}),
}

# Every run with four rows and a head; some with one row or without.
SOME = ("sliding window", "quadratic", "lookup")
SHAPES = [
    *((name, 4, True) for name in RUNS),
    *((name, 1, True) for name in SOME),
    *((name, 4, False) for name in SOME),
]
TURNS = {"in turn": ["linear", "none", "quadratic", "linear", "quadratic"]}


@pytest.fixture(autouse=True)
def sure_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights are sure of nothing: without this, the linear layout would have no drafts."""
    monkeypatch.setattr(import_module("mars.decoding.self_speculative"), "SURE", 0.0)


def run(engine: Engine, prompts: list[list[int]], name: str, **changes: Any) -> list[ForwardPass]:
    """Records of an engine that has learned nothing yet, in passes of a second: its choices are the same each time."""
    decoder, options = RUNS[name]
    seconds = itertools.count()
    engine.clock = lambda: Clock(now=lambda: float(next(seconds)))  # type: ignore[method-assign]
    settings = DecodingSettings(**{"max_new_tokens": 16, "block_size": 4, **options, **changes})  # type: ignore[arg-type]
    engine = Pair(engine, engine) if decoder == "speculative" else engine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mars.decoding.policy._TIMES", WeakKeyDictionary())  # the twin is shared between tests
        if name in TURNS:
            turns = itertools.cycle(TURNS[name])
            patch.setattr(Policy, "plan", in_turn(lambda: next(turns)))
        return list(DECODERS[decoder](engine, prompts, settings))


def assert_same(found: list[ForwardPass], expected: list[ForwardPass]) -> None:
    """The same passes, proposals and acceptance; scores up to rounding."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.phase, one.query_tokens) == (other.phase, other.query_tokens)
        for row, wanted in zip(one.rows, other.rows, strict=True):
            ids, wanted_ids = ([each.token_id for each in part.proposals] for part in (row, wanted))
            assert (row.row, row.start, row.accepted, ids) == (wanted.row, wanted.start, wanted.accepted, wanted_ids)
            scores, wanted_scores = ([each.score for each in part.proposals] for part in (row, wanted))
            assert scores == pytest.approx(wanted_scores, abs=2e-4)


@pytest.mark.parametrize(("name", "rows", "head"), SHAPES)
def test_proposals_are_those_of_peft(
    engine_of: Callable[..., ModelEngine], twin_of: Callable[..., Engine], name: str, rows: int, head: bool
) -> None:
    engine, twin = engine_of(head=head), twin_of(head=head)
    assert_same(run(engine, PROMPTS[:rows], name), run(twin, PROMPTS[:rows], name))


@pytest.mark.parametrize(("name", "rows"), [(name, rows) for name, rows, head in SHAPES if head and name != "auto"])
def test_static_shapes_propose_the_same(engine_of: Callable[..., ModelEngine], name: str, rows: int) -> None:
    plain, static = (run(engine_of(head=True, graphs=graphs), PROMPTS[:rows], name) for graphs in (False, True))
    for row in range(rows):
        assert output_ids(static, row) == output_ids(plain, row)
    if name == "quadratic":  # others forward more columns, so that all passes have as many
        assert_same(static, plain)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", ["sliding window", "linear", "quadratic", "tree"])
def test_one_product_for_two_proposes_the_same(
    engine_of: Callable[..., ModelEngine], name: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where the adapter is small."""
    plain = run(engine_of(head=True, graphs=True), PROMPTS[:rows], name)
    monkeypatch.setattr(gated, "Pairs", lambda *arguments, joined: Pairs(*arguments, joined=True))
    engine = engine_of(head=True, graphs=True)
    assert_same(run(engine, PROMPTS[:rows], name), plain)


@pytest.mark.parametrize("name", ["sliding window", "linear", "quadratic", "lookup"])
def test_graphs_can_hold_what_is_captured(
    engine_of: Callable[..., ModelEngine], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = as_in_captures(monkeypatch)
    run(engine_of(head=True, graphs=True), PROMPTS, name, max_new_tokens=40)
    assert captured


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral"])
@pytest.mark.parametrize("name", ["sliding window", "quadratic", "linear"])
def test_every_model_runs_on_its_modules_too(
    engine_of: Callable[..., ModelEngine], twin_of: Callable[..., Engine], kind: str, name: str
) -> None:
    engine, twin = engine_of(kind, head=True), twin_of(kind, head=True)
    expected = run(twin, PROMPTS, name, max_new_tokens=8)
    assert_same(run(engine, PROMPTS, name, max_new_tokens=8), expected)
    recomputed = run(engine, PROMPTS, name, max_new_tokens=8, use_cache=False)
    for row in range(len(PROMPTS)):
        assert output_ids(recomputed, row) == output_ids(expected, row)


@pytest.mark.parametrize("targets", [("q_proj",), ("v_proj", "down_proj"), ("o_proj", "up_proj")], ids=str)
def test_any_subset_of_layers_may_be_adapted(
    engine_of: Callable[..., ModelEngine], twin_of: Callable[..., Engine], targets: tuple[str, ...]
) -> None:
    engine, twin = engine_of(targets=targets), twin_of(targets=targets)
    assert_same(run(engine, PROMPTS, "quadratic"), run(twin, PROMPTS, "quadratic"))


@pytest.mark.parametrize("sampling", [{}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ["linear", "in turn", "quadratic", "auto"])
@pytest.mark.parametrize("head", [False, True], ids=["masks", "head"])
def test_exact_decoding_writes_the_text_of_the_base(
    base: Callable[..., PreTrainedModel],
    engine_of: Callable[..., ModelEngine],
    name: str,
    sampling: dict[str, Any],
    head: bool,
) -> None:
    plain = ModelEngine(base(), stop_token_ids=frozenset())
    settings = DecodingSettings(max_new_tokens=16, **sampling)
    expected = list(DECODERS["autoregressive"](plain, PROMPTS, settings))
    found = run(engine_of(head=head), PROMPTS, name, **sampling)
    for row in range(len(PROMPTS)):
        assert output_ids(found, row) == output_ids(expected, row)


def windows(mask: int) -> dict[str, Window]:
    """Windows behind four cached tokens: masks at the end, in a tree, and in rows of several lengths."""
    ids = torch.tensor([[5, 6, mask, mask, mask]])
    slots = torch.tensor([[5, 6, 7, 8, 9]])
    several = torch.tensor([[7, mask, mask, mask, mask]])
    sees = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]]).bool()
    line = Window(ids_RQ=ids, slots_RQ=slots, extent=10, keep=5)
    return {
        "line": line,
        "kept": replace(line, keep=4),
        "tree": replace(line, sees_RQQ=sees[None], positions_RQ=torch.tensor([[4, 5, 5, 6, 7]])),
        "rows": replace(line, ids_RQ=torch.cat((ids, several)), slots_RQ=slots.repeat(2, 1)),
        "padded": replace(
            line,
            ids_RQ=torch.tensor([[5, 6, mask, mask, mask], [0, 0, 7, mask, mask]]),
            slots_RQ=torch.tensor([[5, 6, 7, 8, 9], [0, 0, 5, 6, 7]]),
        ),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "static"])
@pytest.mark.parametrize("name", ["line", "kept", "tree", "rows", "padded"])
def test_real_columns_have_bits_of_the_base(
    base: Callable[..., PreTrainedModel], saved: Callable[..., Path], name: str, graphs: bool, dtype: torch.dtype
) -> None:
    plain = ModelEngine(base().to(dtype), stop_token_ids=frozenset(), graphs=graphs)
    adapted = plain.with_adapter(load_adapter(saved(head=True)))
    outcomes = []
    for engine, mask in ((plain, 3), (adapted, adapted.mask_token_id)):
        assert mask is not None
        window = windows(mask)[name]
        rows = engine.open(window.rows, 20)
        slots_RQ = torch.arange(1, 5).repeat(window.rows, 1)
        rows.forward(Window(ids_RQ=slots_RQ + 20, slots_RQ=slots_RQ, extent=5, keep=0))
        outcomes.append((window, rows.forward(window).clone()))
    (_, expected), (window, found) = outcomes
    real = (window.ids_RQ != adapted.mask_token_id)[:, window.columns - window.keep :]
    real &= (window.slots_RQ != 0)[:, window.columns - window.keep :]
    assert real.any()
    assert torch.equal(found[real].view(torch.int32), expected[real].view(torch.int32))
    assert not torch.equal(found[~real], expected[~real])
    assert found.isfinite().all()


def test_engines_on_one_base_share_its_weights(
    base: Callable[..., PreTrainedModel], saved: Callable[..., Path]
) -> None:
    plain = ModelEngine(base(), stop_token_ids=frozenset({2}))
    adapted = plain.with_adapter(load_adapter(saved()))
    again = adapted.with_adapter(load_adapter(saved(head=True)))
    assert plain.mask_token_id is None
    assert plain.adapter is None
    assert adapted.mask_token_id == again.mask_token_id == plain.vocab_size
    for engine in (adapted, again):
        assert engine.model is plain.model
        assert engine._model._held is plain._model._held  # type: ignore[attr-defined]
        assert engine._model._head is plain._model._head  # type: ignore[attr-defined]
        assert engine.stop_token_ids == {2}


def test_an_adapter_needs_its_base(
    base: Callable[..., PreTrainedModel], saved: Callable[..., Path], tiny_model: PreTrainedModel
) -> None:
    adapter = load_adapter(saved())
    with pytest.raises(ValueError, match=r"the adapter tiny has weights for layer 2, but the base has 2 layers: take"):
        ModelEngine(tiny_model, stop_token_ids=frozenset(), adapter=adapter)
    with pytest.raises(ValueError, match=r"the adapter tiny brings masks of its own, but this model was trained with"):
        ModelEngine(base(), stop_token_ids=frozenset(), mask_token_id=3, adapter=adapter)
    with pytest.raises(ValueError, match=r"the adapter tiny is a merged one: add it to the base's weights"):
        ModelEngine(base(), stop_token_ids=frozenset(), adapter=replace(adapter, record={"mode": "merged"}))
    narrow = replace(adapter, mask_embeddings=adapter.mask_embeddings[:, :16])
    with pytest.raises(ValueError, match=r"mask embeddings of size 16, but the base's hidden size is 32"):
        ModelEngine(base(), stop_token_ids=frozenset(), adapter=narrow)
    told = replace(adapter, phrases=Phrases({(5,): Next(60, 1.0, 9)}))
    with pytest.raises(ValueError, match=r"has phrases with the token 60, but the base has 60 tokens: take the base"):
        ModelEngine(base(), stop_token_ids=frozenset(), adapter=told)


@pytest.mark.parametrize("wrong", [torch.inf, torch.nan])
@pytest.mark.parametrize("part", ["b_OS", "scale", "mask_embeddings"])
def test_weights_that_are_not_finite_are_refused(
    base: Callable[..., PreTrainedModel], saved: Callable[..., Path], wrong: float, part: str
) -> None:
    adapter = load_adapter(saved())
    if part == "mask_embeddings":
        adapter = replace(adapter, mask_embeddings=adapter.mask_embeddings * wrong)
    else:
        name, pair = next(iter(adapter.layers[1].items()))
        changed = replace(pair, **{part: getattr(pair, part) * wrong})
        adapter = replace(adapter, layers=(adapter.layers[0], {**adapter.layers[1], name: changed}))
    with pytest.raises(ValueError, match=r"the adapter tiny has weights that are infinite or NaN: train it anew"):
        ModelEngine(base(), stop_token_ids=frozenset(), adapter=adapter)


def test_streams_of_all_methods_share_passes(engine_of: Callable[..., ModelEngine]) -> None:
    """Rows with masks, with drafts and with neither, in one pass."""
    engine = engine_of(head=True)
    service = Service(engine, places=4)
    asked = [
        ("sliding_window", {"threshold": 0.2}),
        ("self_speculative", {"layout": "quadratic"}),
        ("autoregressive", {}),
        ("sliding_window", {"threshold": 0.2, **SAMPLED}),
    ]
    streams = []
    for prompt, (decoder, options) in zip(PROMPTS, asked, strict=True):
        settings = DecodingSettings(**{"max_new_tokens": 24, "block_size": 4, **options})  # type: ignore[arg-type]
        alone = output_ids(list(DECODERS[decoder](engine, [prompt], settings)))
        streams.append((service.submit(decoder, prompt, settings), alone))
    for stream, alone in streams:
        assert output_ids(list(stream)) == alone


def test_a_draft_may_have_an_adapter(
    base: Callable[..., PreTrainedModel], engine_of: Callable[..., ModelEngine], tiny_model: PreTrainedModel
) -> None:
    """Its mask is no token, although the target, whose vocabulary is larger, has one with that id."""
    target = ModelEngine(tiny_model, stop_token_ids=frozenset())
    assert target.vocab_size > engine_of().vocab_size
    pair = Pair(target, engine_of(head=True), same_tokens=True)
    settings = DecodingSettings(max_new_tokens=20, threshold=0.0)
    expected = list(DECODERS["autoregressive"](target, PROMPTS, settings))
    found = list(DECODERS["speculative"](pair, PROMPTS, settings))
    for row in range(len(PROMPTS)):
        assert output_ids(found, row) == output_ids(expected, row)


def test_places_without_row_harm_no_whole_passes(engine_of: Callable[..., ModelEngine]) -> None:
    """Three rows in a pass of four: the fourth place has no room, and no token before its masks."""
    engine = engine_of(head=True, graphs=True)
    settings = DecodingSettings(max_new_tokens=20, block_size=4, layout="quadratic")
    pool = Pool(engine, 4, 80)
    control = Control(settings.threshold, settings.score)
    method = METHODS["self_speculative"](engine, settings)
    prompts = [[9, 10, 11], [12], [13, 14]]
    for number, prompt in enumerate(prompts):
        pool.join(Row(number=number, prompt=prompt, method=method, settings=settings, control=control))
    found = []
    while (record := pool.step()) is not None:
        found.append(record)
    expected = list(DECODERS["autoregressive"](engine_of(head=True, graphs=False), prompts, settings))
    for number in range(len(prompts)):
        assert output_ids(found, number) == output_ids(expected, number)
