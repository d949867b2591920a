"""Whole passes against the same in single steps, and what a CUDA graph asks of them. Capture itself needs a GPU."""

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS
from mars.decoding.method import Row
from mars.decoding.policy import Policy
from mars.decoding.pool import Pool
from mars.decoding.service import Service
from mars.engine import ModelEngine
from mars.engine.backends import WARM_UPS
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars_kernels.cuda.graphs import Runner
from mars_kernels.cuda.whole_pass import WholePasses
from tests.mars_kernels.capture import as_in_captures

pytestmark = pytest.mark.usefixtures("one_thread")

CAPACITY = 140
CAPTURABLE = {
    "autoregressive": {},
    "jacobi": {"draft_tokens": 3},
    "sliding_window": {"threshold": 0.01},
    "self_speculative": {"layout": "linear"},
    "self_speculative quadratic": {"layout": "quadratic"},
    "self_speculative auto": {"layout": "auto"},
    "relaxed": {"layout": "linear", "threshold": 0.3},
    "relaxed quadratic": {"layout": "quadratic", "threshold": 0.3},
}


@pytest.fixture(autouse=True)
def sure_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights are sure of nothing: without this, the linear layout would have no drafts."""
    monkeypatch.setattr(import_module("mars.decoding.self_speculative"), "SURE", 0.0)


@pytest.fixture
def engine(tiny_model: PreTrainedModel) -> ModelEngine:
    """In double precision, so that rounding changes no token."""
    model = copy.deepcopy(tiny_model).double()
    return ModelEngine(model, stop_token_ids=frozenset({7}), mask_token_id=3, graphs=True)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each pass that was to be whole was."""
    found: list[bool] = []
    take = WholePasses.take

    def noted(self: WholePasses, places: list[int]) -> Any:
        result = take(self, places)
        found.append(result is not None)
        return result

    monkeypatch.setattr(WholePasses, "take", noted)
    return found


def rows_of(engine: ModelEngine, seed: int) -> Iterator[Row]:
    """Rows of any lengths and settings; every third seed mixes methods, and no graph holds a pass of several."""
    chance = random.Random(seed)
    mixed = seed % 3 == 2
    names = list(METHODS) if mixed else [chance.choice(["sliding_window", "self_speculative", "jacobi"])]
    for number in range(9):
        name = chance.choice(names)
        settings = DecodingSettings(
            block_size=chance.choice((2, 4)) if mixed else 4,
            threshold=chance.choice((None, 0.0, 0.01)),
            max_new_tokens=chance.choice((1, 3, 12, 24)),
            layout=("linear", "quadratic")[seed % 2],
            temperature=chance.choice((0.0, 0.8)),
            top_p=chance.choice((1.0, 0.9)) if mixed else 1.0,
            alternatives=seed % 4,
            seed=number,
        )
        prompt = [chance.randrange(8, 300) for _ in range(chance.choice((1, 2, 9, 40)))]
        control = Control(settings.threshold, settings.score)
        yield Row(
            number=number, prompt=prompt, method=METHODS[name](engine, settings), settings=settings, control=control
        )


def drain(engine: ModelEngine, seed: int, *, beside: bool) -> list[ForwardPass]:
    """The passes of rows that come while others write; the controls of some are turned, and one is stopped."""
    running = Pool(engine, 3 + seed % 3, CAPACITY, beside=beside)
    coming = list(rows_of(engine, seed))
    rows = list(coming)
    records = []
    while coming or running.rows:
        for row in coming[:2]:
            running.join(row)
        del coming[:2]
        record = running.step()
        if record is not None:
            records.append(record)
        rows[len(records) % len(rows)].control.threshold = (None, 0.0, 0.02)[len(records) % 3]
        if len(records) == 5:
            rows[1].control.stop()
    return records


@pytest.mark.parametrize(("seed", "beside"), [(0, False), (1, True), (2, True), (3, True), (4, False), (5, False)])
def test_whole_passes_write_what_single_steps_write(
    engine: ModelEngine, made: list[bool], seed: int, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = drain(engine, seed, beside=beside)
    again = drain(engine, seed, beside=beside)
    assert any(made) or seed % 3 == 2
    monkeypatch.setattr(WholePasses, "take", lambda self, places: None)
    expected = drain(engine, seed, beside=beside)
    for one, other, wanted in zip(found, again, expected, strict=True):
        assert (one.phase, one.query_tokens) == (wanted.phase, wanted.query_tokens)
        assert one.rows == other.rows, "rows before left something behind"
        for row, part in zip(one.rows, wanted.rows, strict=True):
            assert replace(row, proposals=()) == replace(part, proposals=())
            for proposal, same in zip(row.proposals, part.proposals, strict=True):
                assert (proposal.token_id, proposal.source) == (same.token_id, same.source)
                assert proposal.score == pytest.approx(same.score, abs=1e-5)
                assert [token for token, _ in proposal.alternatives] == [token for token, _ in same.alternatives]


@pytest.mark.parametrize("name", CAPTURABLE)
def test_a_whole_pass_looks_at_no_value(
    engine: ModelEngine, made: list[bool], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = as_in_captures(monkeypatch)
    settings = DecodingSettings(max_new_tokens=32, block_size=4, alternatives=2, **CAPTURABLE[name])  # type: ignore[arg-type]
    list(DECODERS[name.split()[0]](engine, [[9, 10, 11, 12, 13], [14]], settings))
    assert captured
    assert all(made)


def test_traces_and_nuclei_take_single_steps(engine: ModelEngine, made: list[bool]) -> None:
    settings = DecodingSettings(max_new_tokens=6, temperature=1.0, top_p=0.9)
    list(DECODERS["autoregressive"](engine, [[9, 10]], settings))
    control = Control(None, trace=True)
    records = list(DECODERS["autoregressive"](engine, [[9, 10]], DecodingSettings(max_new_tokens=6), control))
    assert made
    assert not any(made)
    assert records[-1].rows[0].trace is not None


@pytest.mark.parametrize("decoder", ["autoregressive", "self_speculative", "relaxed"])
def test_after_preparing_no_shape_is_new(engine: ModelEngine, decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of passes that write, whatever the policy chooses, nor of prompts; texts are as without it."""
    monkeypatch.setattr(Runner, "captures", True)
    settings = DecodingSettings(block_size=4, max_new_tokens=20, layout="auto")
    prompts = [[8 + number, *range(9, 9 + 5 * number)] for number in range(9)]

    def served(*, prepare: bool) -> tuple[Pool, set[Any], list[list[int]]]:
        policy = Policy(engine, (0.5,)) if decoder == "relaxed" else None
        service = Service(engine, 3, CAPACITY, beside=True, policy=policy)
        if prepare:
            service.prepare(decoder, settings)
        pool = service._joined(())
        before = set(pool._cache.runner._uses) if prepare else set()
        assert pool.rows == 0
        streams = [service.submit(decoder, prompt, settings, Control(0.9)) for prompt in prompts]
        while service.advance() is not None:
            pass
        return pool, before, [output_ids(list(stream)) for stream in streams]

    pool, before, texts = served(prepare=True)
    runner = pool._cache.runner
    assert set(runner._uses) == before
    assert min(runner._uses.values()) > WARM_UPS
    assert texts == served(prepare=False)[2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", CAPTURABLE)
def test_graphs_of_whole_passes_write_the_same(tiny_model: PreTrainedModel, made: list[bool], name: str) -> None:
    texts = []
    prompts = [[9, 10, 11, 12, 13], [14], [15] * 40]
    settings = DecodingSettings(max_new_tokens=48, block_size=4, **CAPTURABLE[name])  # type: ignore[arg-type]
    for graphs in (False, True):
        model = copy.deepcopy(tiny_model).cuda()
        engine = ModelEngine(model, stop_token_ids=frozenset(), mask_token_id=3, graphs=graphs)
        for _ in range(3):
            records = list(DECODERS[name.split()[0]](engine, prompts, settings))
            texts.append([output_ids(records, row) for row in range(len(prompts))])
        if graphs:
            assert any(runner._replays for _, runner in engine._memories._idle)
            assert all(made)
    assert all(text == texts[0] for text in texts)
