"""Prompts that are read beside rows that write: small chunks, no waiting for the longest, shared beginnings."""

import copy
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS, pool
from mars.decoding.method import Row
from mars.decoding.pool import Beginnings, Pool
from mars.engine import Engine, ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars_kernels.cuda.graphs import Bucket
from tests.scripted import ReadingModel

SETTINGS = DecodingSettings(block_size=4, threshold=0.5, max_new_tokens=30)
CAPACITY = 400


def model() -> ReadingModel:
    return ReadingModel(lambda ids, masks: (3 + (sum(ids[-3:]) + masks) % 7, 0.9), vocab_size=12, mask_token_id=11)


def running(engine: Engine, places: int = 4) -> Pool:
    return Pool(engine, places, CAPACITY, beside=True)


def join(found: Pool, engine: Engine, number: int, prompt: Sequence[int], decoder: str = "autoregressive") -> Row:
    method = METHODS[decoder](engine, SETTINGS)
    row = Row(number=number, prompt=prompt, method=method, settings=SETTINGS, control=Control(SETTINGS.threshold))
    found.join(row)
    return row


def drain(found: Pool) -> list[ForwardPass]:
    return list(iter(found.step, None))


def test_long_prompts_are_read_in_small_chunks() -> None:
    engine = model()
    found = running(engine)
    join(found, engine, 0, [3, 4])
    first = [found.step() for _ in range(3)]
    join(found, engine, 1, [5] * 200)
    records = [*first, *drain(found)]
    reading = [record for record in records[2:] if record and record.phase == "prefill"]
    assert [record.query_tokens for record in reading] == [64, 64, 64, 7]
    between = [record.phase for record in records if record][3:11]
    assert between == ["prefill", "decode"] * 4


def test_chunks_grow_with_what_rows_that_write_spend() -> None:
    engine = model()
    found = running(engine)
    join(found, engine, 0, [3, 4], "sliding_window")
    records = [found.step() for _ in range(2)]
    join(found, engine, 1, [5] * 200)
    records += drain(found)
    pairs = [
        (before.query_tokens, record.query_tokens)
        for before, record in pairwise(records)
        if before and record and record.phase == "prefill" and before.phase != "prefill"
    ]
    *whole, (_, last) = pairs
    assert len(whole) >= 2
    assert all(chunk == 64 + columns - 1 > 64 for columns, chunk in whole)
    assert sum(chunk for _, chunk in whole) + last == 199


def test_short_prompts_need_not_await_long_ones() -> None:
    engine = model()
    found = running(engine)
    join(found, engine, 0, [3, 4])
    records = [found.step(), found.step()]
    join(found, engine, 1, [5] * 300)
    records += [found.step(), found.step()]
    join(found, engine, 2, [6] * 20)
    records += drain(found)
    wrote = [i for i, record in enumerate(records) if record.phase == "decode" and record.rows[-1].row == 2]
    ended = max(i for i, record in enumerate(records) if record.phase == "prefill")
    assert wrote[0] < ended
    for number, prompt in enumerate(([3, 4], [5] * 300, [6] * 20)):
        assert output_ids(records, number) == output_ids(DECODERS["autoregressive"](model(), [prompt], SETTINGS))


def test_a_beginning_that_is_cached_is_not_read() -> None:
    engine = model()
    found = running(engine)
    system = [3 + number % 7 for number in range(100)]
    join(found, engine, 0, [*system, 4, 5])
    records = [found.step(), found.step()]
    join(found, engine, 1, [*system, 8, 9, 8])
    records += drain(found)
    join(found, engine, 2, [*system, 10])  # the others have left
    records += drain(found)
    read = {row.row: record.query_tokens for record in records if record.phase == "prefill" for row in record.rows}
    assert read == {0: 101, 1: 2}
    for number, end in enumerate(([4, 5], [8, 9, 8], [10])):
        prompt = [*system, *end]
        assert output_ids(records, number) == output_ids(DECODERS["autoregressive"](model(), [prompt], SETTINGS))


# Prompts of several chunks, some of which begin alike; the last two are short.
SYSTEM = [9 + number * 7 % 200 for number in range(60)]
PROMPTS = [[*SYSTEM, *range(20, 60)], [*range(8, 90)], [*SYSTEM[:50], *range(100, 140)], [11, 12], [13]]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PREFILL_CHUNK", 20)


def engine_of(model: PreTrainedModel, device: str = "cpu", *, static: bool = True) -> ModelEngine:
    """On a CPU in double precision, so that rounding changes no token."""
    own = copy.deepcopy(model).to(device)
    return ModelEngine(
        own.double() if device == "cpu" else own, stop_token_ids=frozenset(), mask_token_id=3, graphs=static
    )


def buckets(found: Pool) -> list[Bucket]:
    """The shapes in which this pool has read prompts."""
    runner = found._runner
    return [] if runner is None else [bucket for bucket in runner._stages if bucket.keep == 0]


def texts(records: Sequence[ForwardPass]) -> list[Sequence[int]]:
    return [output_ids(records, number) for number in range(len(PROMPTS))]


@pytest.mark.usefixtures("small_chunks")
def test_static_shapes_read_prompts_in_one_row(tiny_model: PreTrainedModel) -> None:
    engine = engine_of(tiny_model)
    found = running(engine)
    for number in (0, 1):
        join(found, engine, number, PROMPTS[number])
    records = drain(found)
    read = [(record.rows[0].row, record.query_tokens) for record in records if record.phase == "prefill"]
    assert read == [(0, 20)] * 4 + [(0, 19)] + [(1, 20)] * 4 + [(1, 1)]
    phases = [record.phase for record in records[:15]]
    assert phases == ["prefill"] * 5 + ["decode", "prefill"] * 5
    assert {(bucket.first, bucket.rows, bucket.columns) for bucket in buckets(found)} == {(8, 1, 32), (8, 1, 16)}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("decoder", ["autoregressive", "sliding_window", "self_speculative"])
def test_static_shapes_of_prompts_change_no_text(tiny_model: PreTrainedModel, decoder: str) -> None:
    """They come while others are read, or write; two begin like the first; there are fewer places than rows."""
    found = []
    for static in (False, True, True):
        engine = engine_of(tiny_model, static=static)
        beside = running(engine, places=3)
        records: list[ForwardPass] = []
        for number, prompt in enumerate(PROMPTS):
            join(beside, engine, number, prompt, decoder)
            records += [record for record in (beside.step() for _ in range(4)) if record]
        records += drain(beside)
        assert bool(buckets(beside)) == static
        found.append(texts(records))
    assert found[0] == found[1] == found[2]
    alone = DECODERS[decoder](engine_of(tiny_model, static=False), [PROMPTS[2]], SETTINGS)
    assert found[0][2] == output_ids(list(alone))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("leaving", [0, 1, 2])
def test_a_prompt_that_is_cancelled_disturbs_nobody(tiny_model: PreTrainedModel, leaving: int) -> None:
    """Others move into its place; the numbers of rows here are not in the order in which the rows came."""
    found = []
    for static in (False, True):
        engine = engine_of(tiny_model, static=static)
        beside = running(engine)
        rows = [join(beside, engine, number, PROMPTS[number]) for number in (3, 1, 2, 0)]
        records = [record for record in (beside.step() for _ in range(4)) if record]
        next(row for row in rows if row.number == leaving).control.stop()
        records += drain(beside)
        found.append([output_ids(records, row.number) for row in rows if row.number != leaving])
    assert found[0] == found[1]
    assert all(len(text) == 30 for text in found[1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.usefixtures("small_chunks")
def test_graphs_of_prompts_write_the_same(tiny_model: PreTrainedModel) -> None:
    found = []
    for static in (False, True):
        engine = engine_of(tiny_model, "cuda", static=static)
        for _ in range(2):
            beside = running(engine, places=3)
            for number, prompt in enumerate(PROMPTS):
                join(beside, engine, number, prompt)
            found.append(texts(drain(beside)))
        if static:
            runner = beside._runner
            assert runner is not None
            captured = [key for key in runner._replays if isinstance(key, Bucket) and key.keep == 0]
            assert captured
            assert {key.first for key in captured} == {3 + pool.KEPT}
        del beside
    assert all(each == found[0] for each in found)


def test_the_least_used_beginning_goes_first() -> None:
    kept = Beginnings([7, 8])
    first, second, third = ([number] * 40 for number in (3, 4, 5))
    assert [kept.place(prompt) for prompt in (first, second)] == [7, 8]
    assert kept.longest([*first, 9], []) == (7, 40)
    assert kept.place(third) == 8
    assert kept.longest(second, []) == (None, 0)
    assert kept.longest([*third[:35], 9], [(0, [5] * 33)]) == (8, 35)
    assert kept.longest([*third[:35], 9], [(0, [5] * 36)]) == (0, 35)
