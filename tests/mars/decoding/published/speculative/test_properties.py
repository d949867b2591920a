"""Whatever the pair, the prompts and the settings: the target's text, by the rules, and no row minds the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.metrics import output_ids
from mars.records import ForwardPass

STOPS = frozenset({2, 3})
Reader = Callable[[tuple[int, ...], int], tuple[int, float]]
Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]

prompts_of_tests = st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=5), min_size=1, max_size=4)
options_of_tests = st.builds(
    DecodingSettings,
    draft_tokens=st.integers(1, 5),
    block_size=st.integers(2, 5),
    threshold=st.sampled_from((None, 0.0, 0.5, 0.8)),
    max_new_tokens=st.integers(1, 12),
    temperature=st.sampled_from((0.0, 0.7, 1.5)),
    top_p=st.sampled_from((0.9, 1.0)),
    seed=st.integers(0, 99),
    use_cache=st.booleans(),
)


def parts(records: list[ForwardPass], row: int) -> list[tuple[object, ...]]:
    return [
        (record.phase, part.start, part.proposals, part.accepted, part.threshold, part.finish_reason)
        for record in records
        for part in record.rows
        if part.row == row and record.phase != "prefill"
    ]


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prompts=prompts_of_tests,
    options=options_of_tests,
    apart=st.sampled_from((0.0, 0.3, 1.0)),
    kinds=st.tuples(st.booleans(), st.booleans()),
    static=st.booleans(),
)
def test_the_text_is_the_targets_own(
    reader_of: Make,
    model_of: Make,
    run: Run,
    calls: Callable[[Pair], int],
    seed: int,
    prompts: list[list[int]],
    options: DecodingSettings,
    apart: float,
    kinds: tuple[bool, bool],
    static: bool,
) -> None:
    target, draft = model_of(reader_of(seed), kinds[0]), model_of(reader_of(seed, apart=apart), kinds[1])
    target.static_shapes = draft.static_shapes = static
    pair = Pair(target, draft)
    records = run(pair, prompts, options)
    assert len(records) == calls(pair)
    expected = list(DECODERS["autoregressive"](model_of(reader_of(seed), kinds[0]), prompts, options))
    for row in range(len(prompts)):
        assert output_ids(records, row) == output_ids(expected, row)
        assert parts(records, row)[-1][-1] == parts(expected, row)[-1][-1]
    assert all(part.accepted == 0 for record in records for part in record.rows if record.phase == "draft")
    assert all(part.accepted >= 1 for record in records for part in record.rows if record.phase == "verify")


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prompts=prompts_of_tests,
    options=options_of_tests,
    draft_masks=st.booleans(),
    continuation=st.booleans(),
)
def test_company_changes_no_row(
    pair_of: Make,
    run: Run,
    seed: int,
    prompts: list[list[int]],
    options: DecodingSettings,
    draft_masks: bool,
    continuation: bool,
) -> None:
    options = replace(options, continuation=continuation)
    together = run(pair_of(seed, draft_masks=draft_masks), prompts, options)
    for row, prompt in enumerate(prompts):
        assert parts(together, row) == parts(run(pair_of(seed, draft_masks=draft_masks), [prompt], options), 0)


def by_the_rules(
    target: Reader, draft: Reader, draft_masks: bool, prompt: list[int], options: DecodingSettings
) -> list[tuple[str, int, list[int], int]]:
    """(phase, start, proposed tokens, accepted) of each pass of one row, greedy, with a continuation."""
    text: list[int] = []
    expected = []
    while len(text) < options.max_new_tokens and not STOPS & set(text):
        most = min(options.draft_tokens, options.max_new_tokens - len(text) - 1)
        drafts: list[int] = []
        while len(drafts) < most and not STOPS & set(drafts):
            width = most - len(drafts)
            width = min(options.block_size, width) if draft_masks and options.threshold is not None else 1
            width = min(width, most - len(drafts))
            found = [draft((*prompt, *text, *drafts), masks) for masks in range(width)]
            expected.append(("draft", len(text) + len(drafts), [token for token, _ in found], 0))
            drafts += [token for token, _ in found[: accepted_of(found, 1, options)]]
        chain = [target((*prompt, *text, *drafts[:count]), 0) for count in range(len(drafts) + 1)]
        own = 1
        while own <= len(drafts) and chain[own - 1][0] == drafts[own - 1] and chain[own - 1][0] not in STOPS:
            own += 1
        path = chain
        accepted = own
        if options.continuation and options.threshold is not None:
            real = (*prompt, *text, *drafts[: own - 1])
            path = chain[:own] + [target(real, masks) for masks in range(1, options.block_size)]
            path = path[: options.max_new_tokens - len(text)]
            accepted = accepted_of(path, own, options)
        expected.append(("verify", len(text), [token for token, _ in path], accepted))
        text += [token for token, _ in path[:accepted]]
    return expected


def accepted_of(found: list[tuple[int, float]], sure: int, options: DecodingSettings) -> int:
    """The first `sure` ones, then those that meet the threshold, up to a stop token."""
    accepted = 1
    while (
        accepted < len(found)
        and found[accepted - 1][0] not in STOPS
        and (accepted < sure or (options.threshold is not None and found[accepted][1] >= options.threshold))
    ):
        accepted += 1
    return accepted


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prompts=prompts_of_tests,
    options=options_of_tests,
    apart=st.sampled_from((0.0, 0.3, 1.0)),
    draft_masks=st.booleans(),
    continuation=st.booleans(),
)
def test_every_pass_follows_the_rules(
    reader_of: Make,
    pair_of: Make,
    run: Run,
    seed: int,
    prompts: list[list[int]],
    options: DecodingSettings,
    apart: float,
    draft_masks: bool,
    continuation: bool,
) -> None:
    options = replace(options, continuation=continuation, temperature=0.0)
    records = run(pair_of(seed, apart, draft_masks=draft_masks), prompts, options)
    for row, prompt in enumerate(prompts):
        found = [
            (phase, start, [one.token_id for one in proposals], accepted)
            for phase, start, proposals, accepted, _, _ in parts(records, row)
        ]
        assert found == by_the_rules(reader_of(seed), reader_of(seed, apart=apart), draft_masks, prompt, options)
