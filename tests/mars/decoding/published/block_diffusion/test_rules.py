"""Block diffusion against its rules in plain Python, whatever the answers, the prompts and the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mars.config import DecodingSettings
from mars.records import ForwardPass
from tests.readers import STOPS, Chance

Part = tuple[int, int, list[tuple[int, str]], int, str | None]
Timeline = list[tuple[str, list[Part]]]
Run = Callable[..., list[ForwardPass]]
Make = Callable[..., Any]


class Block:
    """A row's block in plain Python: `text` is all tokens so far, None where a mask is."""

    def __init__(self, prompt: list[int], first: int, size: int):
        self.text: list[int | None] = [*prompt, *[None] * (first + size - len(prompt))]
        self.start = max(first, len(prompt))
        self.shown: list[tuple[int, str]] = []

    def one_pass(self, reader: Chance, threshold: float | None) -> None:
        real = self.text.index(None)
        prefix = tuple(token for token in self.text[:real] if token is not None)
        open_ = [place for place in range(real, len(self.text)) if self.text[place] is None]
        said = {place: reader(prefix, place - real) for place in open_}
        surest = max(open_, key=lambda place: said[place][1])
        self.shown = [
            (said[place][0], "mask") if place in said else (token or 0, "draft")
            for place, token in enumerate(self.text)
            if place >= self.start
        ]
        for place, (token, score) in said.items():
            if place == surest or (threshold is not None and score >= threshold):
                self.text[place] = token


def by_the_rules(reader: Chance, prompts: list[list[int]], options: DecodingSettings) -> Timeline:
    """Phase, and (row, start, proposals with their sources, accepted, finish reason), pass by pass."""
    size, limit = options.block_size, options.max_new_tokens
    texts = dict(enumerate(prompts))
    firsts = {row: len(prompt) // size * size for row, prompt in texts.items()}
    timeline: Timeline = []
    while texts:
        blocks = {row: Block(texts[row], firsts[row], size) for row in texts}
        while active := [row for row in blocks if None in blocks[row].text]:
            parts = []
            for row in active:
                blocks[row].one_pass(reader, options.threshold)
                start = len(texts[row]) - len(prompts[row])
                shown = blocks[row].shown[: limit - start]
                if None in blocks[row].text:
                    parts.append((row, start, shown, 0, None))
                    continue
                stops = [token in STOPS for token, _ in shown]
                accepted = stops.index(True) + 1 if any(stops) else len(shown)
                reason = "stop" if any(stops) else "length" if start + accepted == limit else None
                parts.append((row, start, shown, accepted, reason))
                texts[row] = [*texts[row], *(token for token, _ in shown[:accepted])]
                if reason is not None:
                    del texts[row]
            timeline.append(("denoise", parts))
        firsts = {row: firsts[row] + size for row in texts}
    return timeline


def seen(records: list[ForwardPass]) -> Timeline:
    return [
        (
            record.phase,
            [
                (
                    part.row,
                    part.start,
                    [(p.token_id, p.source) for p in part.proposals],
                    part.accepted,
                    part.finish_reason,
                )
                for part in record.rows
            ],
        )
        for record in records
        if record.phase != "prefill"
    ]


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    stop_share=st.sampled_from((0.0, 0.05, 0.2)),
    prompts=st.lists(st.lists(st.integers(4, 10), min_size=1, max_size=9), min_size=1, max_size=4),
    options=st.builds(
        DecodingSettings,
        block_size=st.integers(1, 5),
        threshold=st.sampled_from((None, 0.0, 0.5, 0.8, 1.0)),
        max_new_tokens=st.integers(1, 14),
        use_cache=st.booleans(),
    ),
    static=st.booleans(),
)
def test_every_pass_of_every_batch_follows_the_rules(
    engine_of: Make,
    run: Run,
    seed: int,
    stop_share: float,
    prompts: list[list[int]],
    options: DecodingSettings,
    static: bool,
) -> None:
    reader = Chance(seed, stop_share)
    engine = engine_of(reader, options.block_size, static)
    records = run(engine, prompts, options)
    assert seen(records) == by_the_rules(reader, prompts, options)
    assert len(records) == len(engine.model.calls)
    assert [record.index for record in records] == list(range(len(records)))


def test_long_prompts_are_read_in_whole_blocks(engine_of: Make, run: Run) -> None:
    prompts = [[4 + number % 7 for number in range(length)] for length in (700, 4, 1)]
    options = DecodingSettings(block_size=3, threshold=0.5, max_new_tokens=7)
    records = run(engine_of(Chance(2), 3), prompts, options)
    assert [(record.phase, record.query_tokens) for record in records[:2]] == [("prefill", 510), ("prefill", 189 + 3)]
    assert [[part.row for part in record.rows] for record in records[:2]] == [[0], [0, 1]]
    assert seen(records) == by_the_rules(Chance(2), prompts, options)
