"""Block-cached decoding against its rules in plain Python: what is accepted, who waits, when a block is committed."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.records import ForwardPass
from tests.readers import MASK, STOPS, VOCAB, Chance
from tests.scripted import ReadingModel, ScriptedModel

Timeline = list[tuple[str, list[tuple[int, int, list[int], int, str | None]]]]


reader_of = partial(Chance, scores=(0.3, 0.6, 0.9, 1.0))


def model_of(reader: Chance) -> ReadingModel:
    return ReadingModel(reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=frozenset(STOPS))


def run(model: ScriptedModel, prompts: list[list[int]], options: DecodingSettings) -> list[ForwardPass]:
    return list(DECODERS["block_cached"](model, prompts, options))


def by_the_rules(reader: Chance, prompts: list[list[int]], options: DecodingSettings) -> Timeline:
    """Phase, and (row, start, proposals, accepted, finish reason) of each row that takes part, pass by pass."""
    texts: dict[int, list[int]] = {row: [] for row in range(len(prompts))}
    timeline: Timeline = []
    end = options.cache_block_size
    while texts:
        active = [row for row in texts if len(texts[row]) < end]
        if not active:
            timeline.append(("commit", [(row, end, [], 0, None) for row in texts]))
            end += options.cache_block_size
            continue
        parts = [one_pass(reader, row, prompts[row], texts[row], end, options) for row in active]
        timeline.append(("decode", parts))
        for row, _, proposals, accepted, reason in parts:
            texts[row] += proposals[:accepted]
            if reason is not None:
                del texts[row]
    return timeline


def one_pass(
    reader: Chance, row: int, prompt: list[int], text: list[int], end: int, options: DecodingSettings
) -> tuple[int, int, list[int], int, str | None]:
    start = len(text)
    width = min(options.block_size + options.extra_proposal, end - start, options.max_new_tokens - start)
    if options.threshold is None:
        width = 1
    proposals = [reader((*prompt, *text), masks) for masks in range(width)]
    accepted = 1
    while (
        accepted < width
        and proposals[accepted - 1][0] not in STOPS
        and options.threshold is not None
        and proposals[accepted][1] >= options.threshold
    ):
        accepted += 1
    full = start + accepted == options.max_new_tokens
    reason = "stop" if proposals[accepted - 1][0] in STOPS else "length" if full else None
    return row, start, [token for token, _ in proposals], accepted, reason


def seen(records: list[ForwardPass]) -> Timeline:
    return [
        (
            record.phase,
            [
                (part.row, part.start, [one.token_id for one in part.proposals], part.accepted, part.finish_reason)
                for part in record.rows
            ],
        )
        for record in records
        if record.phase != "prefill"
    ]


readers = st.builds(reader_of, seed=st.integers(0, 10**6), stop_share=st.sampled_from((0.0, 0.05, 0.2)))
prompts_of_tests = st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=5), min_size=1, max_size=4)
options_of_tests = st.builds(
    DecodingSettings,
    block_size=st.integers(1, 5),
    cache_block_size=st.integers(1, 9),
    threshold=st.sampled_from((None, 0.0, 0.5, 0.8, 1.0)),
    max_new_tokens=st.integers(1, 14),
    extra_proposal=st.booleans(),
    use_cache=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(reader=readers, prompts=prompts_of_tests, options=options_of_tests, static=st.booleans())
def test_every_pass_of_every_batch_follows_the_rules(
    reader: Chance, prompts: list[list[int]], options: DecodingSettings, static: bool
) -> None:
    model = model_of(reader)
    model.static_shapes = static
    records = run(model, prompts, options)
    assert seen(records) == by_the_rules(reader, prompts, options)
    assert len(records) == len(model.calls)
    assert [record.index for record in records] == list(range(len(records)))
