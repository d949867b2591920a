"""Rows whose policy changes its mind all the time: their texts are those of autoregressive decoding."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, policy
from mars.decoding.method import Row
from mars.decoding.policy import Policy
from mars.decoding.service import Service, Stream
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ReadingModel

STOP = 2


def written(tokens: tuple[int, ...]) -> int:
    """Texts that depend on what was read."""
    return STOP if len(tokens) % 23 == 0 else 3 + (sum(tokens[-4:]) * 7 + len(tokens)) % 25


def answer(tokens: tuple[int, ...], masks: int) -> tuple[int, float]:
    """Behind masks every third guess is wrong, and none of those is sure."""
    doubtful = masks and (tokens[-1] + masks) % 3 == 0
    for _ in range(masks):
        tokens = (*tokens, written(tokens))
    return (3 + (written(tokens) + 1) % 25, 0.4) if doubtful else (written(tokens), 0.9)


class Restless(Policy):
    """Lets other rows spend something else in each pass."""

    dice = random.Random(3)

    def plan(self, rows: Sequence[Row], **load: int) -> None:  # type: ignore[override]
        super().plan(rows, **load)
        for row in rows:
            row.price = self.dice.choice((0.001, 0.05, 0.5))
            row.masks = self.dice.choice((0, row.own.most_masks)) if row.own.adapts else 0
            row.method = row.own.spending(self.dice.choice(row.own.mask_counts or (row.masks,)))


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(
    ("decoder", "temperature"), [("self_speculative", 0.0), ("self_speculative", 1.0), ("sliding_window", 0.0)]
)
def test_any_change_at_any_time_leaves_the_text(decoder: str, static: bool, temperature: float) -> None:
    """The model is sure of nothing wrong, and strict about what it is given to read."""
    settings = DecodingSettings(
        block_size=8, max_new_tokens=20, temperature=temperature, layout="auto", window="auto", threshold=0.6
    )
    engine = ReadingModel(answer)
    engine.static_shapes = static
    service = Service(engine, places=3, beside=True, policy=Restless(engine))
    prompts = [[3 + number] * (1 + number % 5) for number in range(20)]
    streams = [service.submit(decoder, prompt, settings) for prompt in prompts]
    found: list[list[ForwardPass]] = [[] for _ in prompts]
    kinds: Counter[str] = Counter()
    while service.advance() is not None:
        kinds.update(service.layouts)
        for stream, records in zip(streams, found, strict=True):
            records.extend(stream.ready())
    for prompt, records in zip(prompts, found, strict=True):
        alone = list(DECODERS["autoregressive"](ReadingModel(answer), [prompt], settings))
        assert output_ids(records) == output_ids(alone)
    assert len(kinds) == (1 if decoder == "sliding_window" else 3)


@pytest.mark.parametrize("leave", [False, True])
def test_who_comes_after_a_burst_is_decoded_exactly(leave: bool) -> None:
    """However it ended: passes in which nobody waits are too few to raise the threshold."""
    engine = ReadingModel(answer)
    knob = Policy(engine, (0.9, 0.6))
    service = Service(engine, places=1, beside=True, policy=knob)
    settings = DecodingSettings(block_size=8, max_new_tokens=20)

    def submit() -> Stream:
        return service.submit("relaxed", [3], settings, Control(0.95, free=True))

    burst = [submit() for _ in range(40)]
    while knob.threshold != 0.6:
        service.advance()
    for stream in burst:
        if leave:
            stream.close()
        else:
            list(stream)
    assert knob.threshold == 0.6
    alone = list(submit())
    assert knob.threshold is None
    assert {row.threshold for record in alone for row in record.rows} == {None}


def test_requests_that_are_refused_count_as_waiting() -> None:
    """With a queue of none nobody ever waits."""
    engine = ReadingModel(lambda tokens, masks: (5, 0.9))
    knob = Policy(engine, (0.9,))
    service = Service(engine, places=1, beside=True, policy=knob)
    settings = DecodingSettings(block_size=8, max_new_tokens=400)
    with service.submit("relaxed", [3], settings, Control(0.95, free=True)):
        service.advance()
        for _ in range(policy.PATIENCE - 1):
            service.refuse()
            service.advance()
        assert knob.threshold is None
        service.refuse()
        service.advance()
        assert knob.threshold == 0.9
