"""Random acceptance patterns against statements of the rules in plain Python, one row at a time.

Together more than 10,000 patterns, that is rows x passes; each test counts its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import repeat, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.policy import Policy
from mars.decoding.self_speculative import SURE
from mars.metrics import COUNTED, Tally, output_ids
from mars.records import ForwardPass
from mars.scripted import ReadingModel, ScriptedModel
from tests.in_turn import in_turn

STOPS = frozenset({2, 3})
VOCAB, MASK = 12, 11
PROBABILITIES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
SURENESS = (0.3, 0.49, 0.51, 0.8, 0.9, 0.99, 1.0, 1.0)  # on both sides of SURE
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


@dataclass(frozen=True)
class Reader:
    """A random but fixed continuation of every text, which masks foresee with a chance of `foresight` out of 8.

    What is sampled is not what they foresee: such drafts are right by luck.
    """

    seed: int
    foresight: int
    stops: int

    @cache  # noqa: B019 - a few texts
    def __call__(self, tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
        if masks and hash((self.seed, tokens, masks)) // 64 % 8 < self.foresight:
            for _ in range(masks):
                tokens = (*tokens, self(tokens, 0)[0])
            return self(tokens, 0)
        number = hash((self.seed, tokens, masks)) // 8
        token = 2 + number % 2 if number // 2 % 64 < self.stops else 4 + number // 128 % 7
        return token, SURENESS[number // 1024 % len(SURENESS)]


Pass = tuple[int, list[int], int, str | None]
"""(start, proposals, accepted, finish reason) of one pass of one row."""


def by_the_rules(script: Script, row: int, options: DecodingSettings) -> list[Pass]:
    """Sliding window: the passes of one row."""
    expected: list[Pass] = []
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


def exactly(
    reader: Reader, prompt: list[int], options: DecodingSettings, layouts: Iterable[str], static: bool
) -> list[Pass]:
    """Exact decoding: the passes of one row. Drafts that follow the model's own predictions count, and one token more.

    New drafts are what masks say that have read exactly what was accepted: all of it in the quadratic layout; in the
    linear one, where such masks are only behind the last draft, as much as is sure, or all of it where passes have one
    shape. One-token mode ignores drafts and leaves none.
    """
    most = options.block_size - (not options.extra_proposal)
    text, drafts = tuple(prompt), ()
    expected: list[Pass] = []
    start = 0
    for layout in layouts:
        room = options.max_new_tokens - start
        count = 0 if layout == "none" else most
        drafts = drafts[:count]
        heard = [reader(text + drafts[:read], 0)[0] for read in range(len(drafts) + 1)]
        accepted = 1
        for draft, token in zip(drafts, heard, strict=False):
            if draft != token or token in STOPS or accepted == room:
                break
            accepted += 1
        said = [reader(text + drafts[: accepted - 1], masks) for masks in range(1, count + 1)]
        shown = [token for token, _ in said]
        if layout == "quadratic":
            drafts = tuple(shown)
        elif accepted <= len(drafts):
            shown, drafts = heard[accepted:], ()
        else:
            drafts = tuple(token for token, _ in takewhile(lambda answer: static or answer[1] >= SURE, said))
        text += tuple(heard[:accepted])
        last = heard[accepted - 1]
        reason = "stop" if last in STOPS else "length" if accepted == room else None
        expected.append((start, [*heard[:accepted], *shown][:room], accepted, reason))
        start += accepted
        if reason:
            break
    return expected


def passes(records: list[ForwardPass], row: int) -> list[Pass]:
    """What the records say of one row."""
    return [
        (part.start, [proposal.token_id for proposal in part.proposals], part.accepted, part.finish_reason)
        for record in records
        if record.phase in COUNTED
        for part in record.rows
        if part.row == row
    ]


def patterns_of(check: Callable[..., int], examples: int, **drawn: st.SearchStrategy) -> int:
    """Run `check` on `examples` random examples; the sum of what it returns."""
    total = 0

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None)
    @given(**drawn)
    def every(**values: object) -> None:
        nonlocal total
        total += check(**values)

    every()
    return total


decoding_settings = st.builds(
    DecodingSettings,
    block_size=st.integers(1, 6),
    threshold=st.sampled_from(THRESHOLDS),
    max_new_tokens=st.sampled_from((1, 2, 5, 14, 40, 60)),
    extra_proposal=st.booleans(),
    alternatives=st.sampled_from((0, 0, 2)),
    use_cache=st.booleans(),
)
exact_settings = st.builds(
    DecodingSettings,
    score=st.sampled_from(("probability", "margin", "entropy")),
    alternatives=st.sampled_from((0, 0, 2)),
    block_size=st.sampled_from((5, 4, 3, 2)),
    max_new_tokens=st.sampled_from((70, 70, 40, 7, 1)),
    extra_proposal=st.booleans(),
    use_cache=st.sampled_from((True, True, False)),
)
scripts = st.builds(Script, seed=st.integers(0, 10**6), stop_share=st.sampled_from((0.0, 0.02, 0.2)))
readers = st.builds(
    Reader, seed=st.integers(0, 10**6), foresight=st.sampled_from((4, 7, 1, 6, 8)), stops=st.sampled_from((0, 0, 1, 8))
)
prompts = st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=5), min_size=1, max_size=5)


def scripted(script: Script, static: bool) -> ScriptedModel:
    return ScriptedModel(script, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=STOPS, static_shapes=static)


def reading(reader: Reader, static: bool = False) -> ReadingModel:
    return ReadingModel(reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=STOPS, static_shapes=static)


def test_every_row_of_every_sliding_window_follows_the_rules() -> None:
    def check(script: Script, prompts: list[list[int]], options: DecodingSettings, static: bool) -> int:
        model = scripted(script, static)
        records = list(DECODERS["sliding_window"](model, prompts, options))
        tally = Tally.of(records)
        for row in range(len(prompts)):
            expected = by_the_rules(script, row, options)
            assert passes(records, row) == expected
            written = [token for _, tokens, accepted, _ in expected for token in tokens[:accepted]]
            assert output_ids(records, row) == written
            assert (tally.rows[row].tokens, tally.rows[row].passes) == (len(written), len(expected))
        assert len(records) == len(model.calls)
        return tally.passes

    drawn = {"script": scripts, "prompts": prompts, "options": decoding_settings, "static": st.booleans()}
    assert patterns_of(check, 220, **drawn) > 4500


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "examples", "floor"), [("linear", 60, 2400), ("quadratic", 40, 1000)])
def test_every_row_of_exact_decoding_follows_the_rules(layout: str, examples: int, floor: int) -> None:
    def check(reader: Reader, prompts: list[list[int]], options: DecodingSettings, static: bool) -> int:
        options = replace(options, layout=layout)
        model = reading(reader, static)
        records = list(DECODERS["self_speculative"](model, prompts, options))
        plain = list(DECODERS["autoregressive"](reading(reader), prompts, options))
        for row, prompt in enumerate(prompts):
            assert passes(records, row) == exactly(reader, prompt, options, repeat(layout), static)
            assert output_ids(records, row) == output_ids(plain, row)
        assert len(records) == len(model.calls)
        lengths.update(Tally.of(records).acceptance_lengths)
        return Tally.of(records).passes

    lengths: Counter[int] = Counter()
    drawn = {"reader": readers, "prompts": prompts, "options": exact_settings, "static": st.booleans()}
    assert patterns_of(check, examples, **drawn) > floor
    assert min(lengths[length] for length in range(1, 6)) > 10, lengths


def test_exact_decoding_writes_what_one_token_mode_samples() -> None:
    def check(reader: Reader, prompts: list[list[int]], options: DecodingSettings, seed: int, layout: str) -> int:
        options = replace(options, temperature=0.7, top_p=0.9, seed=seed, layout=layout)
        records = list(DECODERS["self_speculative"](reading(reader), prompts, options))
        plain = list(DECODERS["autoregressive"](reading(reader), prompts, options))
        for row in range(len(prompts)):
            assert output_ids(records, row) == output_ids(plain, row)
        return Tally.of(records).passes

    layouts = st.sampled_from(("auto", "linear", "quadratic", "tree", "lookup"))
    drawn = {"reader": readers, "prompts": prompts, "options": exact_settings, "seed": st.integers(0, 99)}
    assert patterns_of(check, 25, layout=layouts, **drawn) > 400


@pytest.mark.slow
def test_auto_changes_no_text_whatever_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes of all layouts by turns: each goes on from what the one before has left."""

    def check(reader: Reader, prompts: list[list[int]], options: DecodingSettings, static: bool, seed: int) -> int:
        chance = random.Random(seed)
        said: list[str] = []

        def choose() -> str:
            said.append(chance.choice(("none", "linear", "linear", "quadratic")))
            return said[-1]

        monkeypatch.setattr(Policy, "plan", in_turn(choose))
        records = list(DECODERS["self_speculative"](reading(reader, static), prompts, options))
        for row, prompt in enumerate(prompts):
            assert passes(records, row) == exactly(reader, prompt, options, said, static)
        sampled = replace(options, temperature=0.7, top_p=0.9, seed=seed)
        for either in (options, sampled):
            records = list(DECODERS["self_speculative"](reading(reader, static), prompts, either))
            plain = list(DECODERS["autoregressive"](reading(reader), prompts, either))
            for row in range(len(prompts)):
                assert output_ids(records, row) == output_ids(plain, row)
        layouts.update(said)
        return len(prompts) * len(said)

    layouts: Counter[str] = Counter()
    wide = st.builds(replace, exact_settings, block_size=st.sampled_from((9, 8, 5, 4, 3)))
    drawn = {"reader": readers, "prompts": prompts, "options": wide, "static": st.booleans()}
    assert patterns_of(check, 25, seed=st.integers(0, 10**6), **drawn) > 1000
    assert min(layouts.values()) > 100, layouts


@settings(max_examples=60, deadline=None)
@given(script=scripts, prompts=prompts, options=decoding_settings)
def test_autoregressive_is_one_token_mode(script: Script, prompts: list[list[int]], options: DecodingSettings) -> None:
    records = list(DECODERS["autoregressive"](scripted(script, static=False), prompts, options))
    for row in range(len(prompts)):
        tokens = output_ids(records, row)
        assert tokens == [script(row, position, 0)[0] for position in range(len(tokens))]
        assert tokens[-1] in STOPS or len(tokens) == options.max_new_tokens
        assert not STOPS & set(tokens[:-1])
