"""Jacobi decoding against the iteration in plain Python, and against the autoregressive text."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.jacobi import method_of
from mars.records import ForwardPass
from tests.scripted import ReadingModel, parts

STOP, MASK, VOCAB = 2, 11, 12
SETTINGS = DecodingSettings(draft_tokens=4, max_new_tokens=12)


def short_memory(seed: int, memory: int = 2, stop_share: float = 0.05) -> ReadingModel:
    """The next token depends on the last `memory` tokens, so that guesses settle from the left."""

    def reader(tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        chance = random.Random(f"{seed} {tokens[-memory:]} {masks}")
        token = STOP if chance.random() < stop_share else chance.randrange(3, MASK)
        return token, chance.choice((0.3, 0.6, 0.9))

    return ReadingModel(reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=frozenset({STOP}))


def run(model: ReadingModel, prompts: list[list[int]], options: DecodingSettings = SETTINGS) -> list[ForwardPass]:
    return list(DECODERS["jacobi"](model, prompts, options))


def by_the_rules(model: ReadingModel, prompt: list[int], options: DecodingSettings) -> list[tuple[object, ...]]:
    """(start, proposed tokens, sources, accepted) of each pass: the whole text is read again and again."""
    fresh = method_of(model, options).fresh(options.seed, options.max_new_tokens + options.draft_tokens)
    text: list[int] = []
    settled: dict[int, int] = {}  # what the pass before predicted at a position
    expected = []
    while len(text) < options.max_new_tokens and STOP not in text:
        start = len(text)
        places = range(start, start + min(options.draft_tokens, options.max_new_tokens - start - 1))
        guesses = [settled.get(place, fresh[place]) for place in places]
        whole = (*prompt, *text, *guesses)
        proposals = [model._reader(whole[: len(prompt) + start + count], 0)[0] for count in range(len(guesses) + 1)]
        accepted = 1
        while accepted <= len(guesses) and proposals[accepted - 1] == guesses[accepted - 1] != STOP:
            accepted += 1
        sources = ["clean", *("draft" if place in settled else "random" for place in places)]
        expected.append((start, proposals, sources, accepted))
        settled = {start + offset: token for offset, token in enumerate(proposals)}
        text += proposals[:accepted]
    return expected


prompts_of_tests = st.lists(st.lists(st.integers(3, 10), min_size=1, max_size=5), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prompts=prompts_of_tests,
    options=st.builds(
        DecodingSettings, draft_tokens=st.integers(1, 6), max_new_tokens=st.integers(1, 12), seed=st.integers(0, 99)
    ),
)
def test_every_pass_is_one_jacobi_iteration(seed: int, prompts: list[list[int]], options: DecodingSettings) -> None:
    model = short_memory(seed)
    records = run(model, prompts, options)
    assert len(records) == len(model.calls)
    for row, prompt in enumerate(prompts):
        found = [
            (
                part.start,
                [one.token_id for one in part.proposals],
                [one.source for one in part.proposals],
                part.accepted,
            )
            for part in parts(records, row)
        ]
        assert found == by_the_rules(model, prompt, options)


def test_fresh_guesses_depend_on_seed_and_position() -> None:
    method = method_of(short_memory(0), SETTINGS)
    assert method.fresh(5, 40) == method.fresh(5, 60)[:40] != method.fresh(6, 40)
    assert set(method.fresh(0, 500)) == set(range(VOCAB)) - {STOP, MASK}
