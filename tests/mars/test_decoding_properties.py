"""Random acceptance patterns against a statement of the rules in plain Python, one row at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import Tally, output_ids
from mars.scripted import ScriptedModel

STOPS = frozenset({2, 3})
VOCAB, MASK = 12, 11
PROBABILITIES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
THRESHOLDS = (None, 0.0, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class Script:
    """A random but fixed answer to every question."""

    seed: int
    stop_share: float

    def __call__(self, row: int, position: int, masks: int) -> tuple[int, float]:
        chance = random.Random(f"{self.seed} {row} {position} {masks}")
        token = chance.choice((2, 3)) if chance.random() < self.stop_share else chance.randrange(4, MASK)
        return token, chance.choice(PROBABILITIES)


Expected = list[tuple[int, list[int], int, str | None]]


def by_the_rules(script: Script, row: int, options: DecodingSettings) -> Expected:
    """(start, proposals, accepted, finish reason) of each pass of one row."""
    expected: Expected = []
    start = 0
    while not expected or expected[-1][3] is None:
        room = options.max_new_tokens - start
        width = 1 if options.threshold is None else min(options.block_size + options.extra_proposal, room)
        proposals = [script(row, start + masks, masks) for masks in range(width)]
        accepted = 1
        while (
            accepted < width
            and proposals[accepted - 1][0] not in STOPS
            and options.threshold is not None
            and proposals[accepted][1] >= options.threshold
        ):
            accepted += 1
        reason = "stop" if proposals[accepted - 1][0] in STOPS else "length" if accepted == room else None
        expected.append((start, [token for token, _ in proposals], accepted, reason))
        start += accepted
    return expected


decoding_settings = st.builds(
    DecodingSettings,
    block_size=st.integers(1, 6),
    threshold=st.sampled_from(THRESHOLDS),
    max_new_tokens=st.integers(1, 14),
    extra_proposal=st.booleans(),
    alternatives=st.sampled_from((0, 0, 2)),
    use_cache=st.booleans(),
)
scripts = st.builds(Script, seed=st.integers(0, 10**6), stop_share=st.sampled_from((0.0, 0.05, 0.3)))
prompts = st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=5), min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(script=scripts, prompts=prompts, options=decoding_settings)
def test_every_row_of_every_batch_follows_the_rules(
    script: Script, prompts: list[list[int]], options: DecodingSettings
) -> None:
    model = ScriptedModel(script, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=STOPS)
    records = list(DECODERS["sliding_window"](model, prompts, options))
    tally = Tally.of(records)
    for row in range(len(prompts)):
        expected = by_the_rules(script, row, options)
        parts = [part for record in records for part in record.rows if part.row == row and record.phase == "decode"]
        assert [
            (part.start, [proposal.token_id for proposal in part.proposals], part.accepted, part.finish_reason)
            for part in parts
        ] == expected
        written = [token for _, tokens, accepted, _ in expected for token in tokens[:accepted]]
        assert output_ids(records, row) == written
        assert (tally.rows[row].tokens, tally.rows[row].passes) == (len(written), len(expected))
    assert len(records) == len(model.calls) == tally.model_calls


@settings(max_examples=60, deadline=None)
@given(script=scripts, prompts=prompts, options=decoding_settings)
def test_autoregressive_is_one_token_mode(script: Script, prompts: list[list[int]], options: DecodingSettings) -> None:
    model = ScriptedModel(script, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=STOPS)
    records = list(DECODERS["autoregressive"](model, prompts, options))
    for row in range(len(prompts)):
        tokens = output_ids(records, row)
        assert tokens == [script(row, position, 0)[0] for position in range(len(tokens))]
        assert tokens[-1] in STOPS or len(tokens) == options.max_new_tokens
        assert not STOPS & set(tokens[:-1])
