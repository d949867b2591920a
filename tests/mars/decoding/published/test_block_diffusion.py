"""Block diffusion: its rules in plain Python, a real model beside its twin, stops, thresholds, what a pass reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedModel

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.published.block_diffusion import choose
from mars.engine import Engine, ModelEngine
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.readers import MASK, STOPS, VOCAB, Chance
from tests.scripted import Diffusing, ReadingModel, ScriptedModel

DIFFUSION = DECODERS["block_diffusion"]


def engine_of(reader: Chance, size: int, static: bool = False) -> Diffusing:
    """An engine with these answers for blocks of this size."""
    stops = frozenset(STOPS)
    model = ReadingModel(reader, vocab_size=VOCAB, mask_token_id=MASK, stop_token_ids=stops, static_shapes=static)
    return Diffusing(model, size)


def run(engine: Engine, prompts: list[list[int]], options: DecodingSettings) -> list[ForwardPass]:
    return list(DIFFUSION(engine, prompts, options))


def test_the_surest_is_that_of_the_lowest_entropy() -> None:
    scores, free = torch.tensor([[0.1, 0.5, 2.0, 0.4]]), torch.tensor([[False, True, True, True]])
    for score, threshold, expected in (
        ("entropy", float("-inf"), [False, False, False, True]),
        ("entropy", 0.5, [False, True, False, True]),
        ("margin", float("inf"), [False, False, True, False]),
        ("margin", 0.45, [False, True, True, False]),
    ):
        limits = torch.tensor([threshold], dtype=torch.float64)
        assert choose(scores, free, limits, score).tolist() == [expected]  # type: ignore[arg-type]
    assert not choose(scores, free & False, torch.zeros(1, dtype=torch.float64), "margin").any()


def test_a_full_block_is_read_once_more() -> None:
    engine = Diffusing(ScriptedModel([[5, 6, 7, 8, 9, 2]]), 2)
    records = run(engine, [[3, 4, 3]], DecodingSettings(block_size=2, threshold=0.5, max_new_tokens=9))
    assert [call.ids[0] for call in engine.model.calls] == [
        [3, 4],
        [3, 31],
        [3, 5, 31, 31],
        [6, 7, 31, 31],
        [8, 9, 31, 31],
    ]
    assert [call.slots[0] for call in engine.model.calls][1:3] == [[3, 4], [3, 4, 5, 6]]
    assert [record.query_tokens for record in records] == [2, 2, 4, 4, 4]
    assert [part.accepted for record in records for part in record.rows] == [0, 1, 2, 2, 1]


def test_a_new_threshold_acts_from_the_next_pass() -> None:
    control = Control(None)
    engine = Diffusing(ScriptedModel(lambda row, position, masks: (5, 0.6)), 4)
    stream = DIFFUSION(engine, [[3] * 4], DecodingSettings(block_size=4), control)
    next(stream)
    first = next(stream)
    control.threshold = 0.5
    second = next(stream)
    assert [(record.rows[0].threshold, record.rows[0].accepted) for record in (first, second)] == [(None, 0), (0.5, 4)]


@pytest.mark.parametrize("passes", [0, 1, 2, 5])
def test_stop_ends_the_run_before_the_next_call(passes: int) -> None:
    engine, control = engine_of(Chance(1), 4), Control(None)
    stream = DIFFUSION(engine, [[4] * 5], DecodingSettings(block_size=4), control)
    for _ in range(passes):
        next(stream)
    control.stop()
    assert list(stream) == []
    assert len(engine.model.calls) == passes


@pytest.mark.parametrize(
    ("call", "threshold", "reasons"),
    [
        (1, 0.5, ["cancelled", "cancelled"]),
        (2, 0.5, ["stop", "cancelled"]),
        (2, None, ["cancelled", "cancelled"]),
    ],
)
def test_stop_during_a_pass_cancels_unfinished_rows(call: int, threshold: float | None, reasons: list[str]) -> None:
    class Stopping(ScriptedModel):
        def record(self, call_: object) -> None:
            super().record(call_)  # type: ignore[arg-type]
            if len(self.calls) == call:
                control.stop()

    control, model = Control(threshold), Stopping([[5, 2], [6, 7, 8]])
    records = list(DIFFUSION(Diffusing(model, 2), [[3], [3]], DecodingSettings(block_size=2), control))
    assert len(records) == len(model.calls) == call
    assert [part.finish_reason for part in records[-1].rows] == reasons


def test_a_causal_model_is_refused() -> None:
    with pytest.raises(ValueError, match="was not trained by block diffusion"):
        DIFFUSION(ScriptedModel([[5]]), [[3]], DecodingSettings())


def twin(
    model: PreTrainedModel, prompt: list[int], size: int, threshold: float | None, count: int
) -> Iterator[list[tuple[int, float]]]:
    """Token and probability of each position of the next block when it is full, everything recomputed in every pass."""
    mask, text = 3, list(prompt)
    while len(text) - len(prompt) < count:
        start = len(text)
        end = (start // size + 1) * size
        text += [mask] * (end - start)
        block = torch.arange(end) // size
        sees = block[None] <= block[:, None]
        kept: dict[int, tuple[int, float]] = {}
        while len(kept) < end - start:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([text]), attention_mask=sees[None, None]).logits[0]
            logits[:, mask] = -torch.inf
            best = logits.softmax(-1).max(-1)
            said = {place: float(best.values[place]) for place in range(start, end) if place not in kept}
            surest = max(said, key=lambda place: said[place])
            for place, score in said.items():
                if place == surest or (threshold is not None and score >= threshold):
                    text[place] = int(best.indices[place])
                    kept[place] = (text[place], score)
        yield [kept[place] for place in sorted(kept)]


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize(("size", "threshold"), [(4, None), (4, 0.3), (1, None), (7, 0.2)])
def test_a_real_model_writes_what_the_twin_does(
    tiny_model: PreTrainedModel, size: int, threshold: float | None, graphs: bool
) -> None:
    engine = ModelEngine(tiny_model, stop_token_ids=frozenset(), diffusion_mask_id=3, graphs=graphs)
    prompts = [[9, 10, 11, 12, 13], [14], [15] * 30, [16, 17, 18, 19]]
    options = {"threshold": threshold, "block_size": size, "max_new_tokens": 21}
    cached, recomputed = (run(engine, prompts, DecodingSettings(**options, use_cache=kept)) for kept in (True, False))
    assert "prefill" not in {record.phase for record in recomputed}
    for row, prompt in enumerate(prompts):
        blocks = twin(tiny_model, prompt, size, threshold, 21)
        expected = [pair for block in blocks for pair in block][:21]
        alone = run(engine, [prompt], DecodingSettings(**options))
        for records, number in ((cached, row), (recomputed, row), (alone, 0)):
            found = [
                (proposal.token_id, proposal.score)
                for record in records
                for part in record.rows
                if part.row == number
                for proposal in part.proposals[: part.accepted]
            ]
            assert [token for token, _ in found] == [token for token, _ in expected] == output_ids(records, number)
            assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-3)


Part = tuple[int, int, list[tuple[int, str]], int, str | None]


Timeline = list[tuple[str, list[Part]]]


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


@settings(max_examples=60, deadline=None)
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
    seed: int, stop_share: float, prompts: list[list[int]], options: DecodingSettings, static: bool
) -> None:
    reader = Chance(seed, stop_share)
    engine = engine_of(reader, options.block_size, static)
    records = run(engine, prompts, options)
    assert seen(records) == by_the_rules(reader, prompts, options)
    assert len(records) == len(engine.model.calls)
    assert [record.index for record in records] == list(range(len(records)))


def test_long_prompts_are_read_in_whole_blocks() -> None:
    prompts = [[4 + number % 7 for number in range(length)] for length in (700, 4, 1)]
    options = DecodingSettings(block_size=3, threshold=0.5, max_new_tokens=7)
    records = run(engine_of(Chance(2), 3), prompts, options)
    assert [(record.phase, record.query_tokens) for record in records[:2]] == [("prefill", 510), ("prefill", 189 + 3)]
    assert [[part.row for part in record.rows] for record in records[:2]] == [[0], [0, 1]]
    assert seen(records) == by_the_rules(Chance(2), prompts, options)
