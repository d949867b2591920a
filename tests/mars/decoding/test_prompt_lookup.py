"""Prompt lookup against its rule in plain Python, and against the autoregressive text."""

from __future__ import annotations

import random
from typing import Any

import pytest
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.trees import PRICE, Copies, Expectation, Follower
from mars.engine import ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ReadingModel

STOP, MASK, VOCAB = 2, 11, 12
REPEATS = [3, 4, 5, 6, 7] * 3


def model(seed: int, *, static: bool = False) -> ReadingModel:
    """The next token depends on the last two, so that texts soon repeat themselves."""

    def reader(tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        assert not masks
        chance = random.Random(f"{seed} {tokens[-2:]}")
        return (STOP if chance.random() < 0.02 else chance.randrange(3, MASK)), 0.9

    return ReadingModel(
        reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=frozenset({STOP}), static_shapes=static
    )


def run(engine: Any, prompts: list[list[int]], **options: Any) -> list[ForwardPass]:
    return list(DECODERS["prompt_lookup"](engine, prompts, DecodingSettings(**{"max_new_tokens": 40, **options})))


def test_tokens_of_the_template_are_no_drafts_and_the_text_stays() -> None:
    prompt, most = [3, 10, 4, 3, 10, 5, 3], 4
    drafts = []
    for template in (frozenset[int](), frozenset({10})):
        engine = model(0)
        engine.template_ids = template
        records = run(engine, [prompt], draft_tokens=most)
        assert output_ids(records) == output_ids(run(model(0), [prompt], draft_tokens=most))
        drafts.append([len(record.rows[0].proposals) - 1 for record in records[1:]])
    assert drafts[1] != drafts[0]


def by_the_rules(engine: ReadingModel, prompt: list[int], most: int, limit: int) -> list[tuple[int, int]]:
    """(drafts, accepted) of each pass: copies while all of them are right often enough, then the model's own tokens."""
    text, found = list(prompt), []
    while len(text) < len(prompt) + limit and text[-1] != STOP:
        copies = Copies()
        copies.read(text)
        follower, odds, drafts = Follower(copies), 1.0, []
        room = limit - (len(text) - len(prompt))
        while follower.token is not None and len(drafts) < min(most, room - 1):
            odds *= Expectation(0).copy(follower.token, follower.length).odds
            if odds < PRICE:
                break
            drafts.append(follower.token)
            follower.read(follower.token)
        accepted = 0
        for draft in (*drafts, None):
            token = engine._reader(tuple(text), 0)[0]
            text.append(token)
            accepted += 1
            if token in (STOP,) or token != draft:
                break
        found.append((len(drafts), accepted))
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [1, 4, 12])
def test_passes_follow_the_rule(seed: int, most: int) -> None:
    prompt = REPEATS[: 3 + seed]
    records = run(model(seed), [prompt], draft_tokens=most)
    passes = [(len(part.proposals) - 1, part.accepted) for record in records[1:] for part in record.rows]
    assert passes == by_the_rules(model(seed), prompt, most, 40)


def test_a_loop_takes_a_fraction_of_the_passes() -> None:
    def reader(tokens: tuple[int, ...], _masks: int) -> tuple[int, float]:
        return 3 + (tokens[-1] - 2) % 5, 0.9

    engine = ReadingModel(reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=frozenset({STOP}))
    records = run(engine, [[3]], draft_tokens=9, max_new_tokens=100)
    assert len(records) < 25
    assert max(part.accepted for record in records for part in record.rows) == 10


def test_where_nothing_repeats_a_pass_has_one_column() -> None:
    def reader(tokens: tuple[int, ...], _masks: int) -> tuple[int, float]:
        return 3 + len(tokens), 0.9

    engine = ReadingModel(reader, vocab_size=200, mask_token_id=199, stop_token_ids=frozenset({STOP}))
    records = run(engine, [[3]])
    assert {record.query_tokens for record in records} == {1}
    assert {part.proposals[0].source for record in records for part in record.rows} == {"clean"}


def test_with_static_shapes_every_pass_is_as_wide_as_it_may_get() -> None:
    engine = model(1, static=True)
    run(engine, [REPEATS], draft_tokens=5)
    assert {len(call.ids[0]) for call in engine.calls if call.keep} == {6}


def test_a_real_model_needs_no_masks(tiny_model: PreTrainedModel) -> None:
    engine = ModelEngine(tiny_model, stop_token_ids=frozenset({STOP}))
    prompts = [[3, 4, 5] * 4, [6, 7]]
    settings = DecodingSettings(max_new_tokens=30)
    expected = list(DECODERS["autoregressive"](engine, prompts, settings))
    found = run(engine, prompts, max_new_tokens=30)
    assert [output_ids(found, row) for row in (0, 1)] == [output_ids(expected, row) for row in (0, 1)]
    assert max(len(part.proposals) for record in found for part in record.rows) > 1, "something was copied"
