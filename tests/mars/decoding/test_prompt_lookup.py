"""Prompt lookup against its rule in plain Python, and against the autoregressive text."""

import random
from typing import Any

import pytest

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.trees import PRICE, Copies, Expectation, Follower
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ReadingModel

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


def test_tokens_of_the_template_are_no_drafts() -> None:
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


@pytest.mark.parametrize("seed", range(0, 12, 3))
@pytest.mark.parametrize("most", [1, 4, 12])
def test_passes_follow_the_rule(seed: int, most: int) -> None:
    prompt = REPEATS[: 3 + seed]
    records = run(model(seed), [prompt], draft_tokens=most)
    passes = [(len(part.proposals) - 1, part.accepted) for record in records[1:] for part in record.rows]
    assert passes == by_the_rules(model(seed), prompt, most, 40)
