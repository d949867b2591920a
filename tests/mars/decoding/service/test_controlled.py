"""Rows whose controller changes its mind all the time: their texts are those of autoregressive decoding."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, controller
from mars.decoding.controller import Controller
from mars.decoding.experience import EXACT, WINDOWS, Choice, Goodput
from mars.decoding.method import Row
from mars.decoding.service import Service, Stream
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ReadingModel

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


class Restless(Controller):
    """Chooses something else in each pass, for other rows."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__((0.6,))
        self._step = 1
        self._choices = choices
        self._dice = random.Random(3)

    def _choose(self, rows: Sequence[Row], others: int, *, hurry: bool) -> Goodput:
        self.choice = self._dice.choice(self._choices)
        return Goodput(0.0, 0.0, {row.number for row in rows if self._dice.random() < 0.7})

    def observe(self, *_: object) -> None:
        """Nothing is learned."""

    def _watch(self, waiting: int, taken: int, places: int) -> bool:
        return False

    def restart(self) -> None:
        """The threshold stays."""


@pytest.mark.parametrize(
    ("choices", "temperature"),
    [(EXACT, 0.0), (EXACT, 1.0), ((*EXACT, *WINDOWS), 0.0)],
    ids=["exact", "exact, sampled", "knob"],
)
def test_any_change_at_any_time_leaves_the_text(
    choices: Sequence[Choice], temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is sure of nothing wrong, and strict about what it is given to read."""
    monkeypatch.setattr(controller, "REVIEW", 1)
    settings = DecodingSettings(block_size=8, max_new_tokens=20, temperature=temperature)
    service = Service(ReadingModel(answer), places=3, beside=True, controller=Restless(choices))
    prompts = [[3 + number] * (1 + number % 5) for number in range(20)]
    streams = [service.submit("self_speculative", prompt, settings, Control(None, free=True)) for prompt in prompts]
    found: list[list[ForwardPass]] = [[] for _ in prompts]
    kinds: Counter[str] = Counter()
    while service.advance() is not None:
        kinds.update(service.layouts)
        for stream, records in zip(streams, found, strict=True):
            records.extend(stream.ready())
    for prompt, records in zip(prompts, found, strict=True):
        alone = list(DECODERS["autoregressive"](ReadingModel(answer), [prompt], settings))
        assert output_ids(records) == output_ids(alone)
    assert len(kinds) == len(EXACT) + (len(choices) > len(EXACT))


@pytest.mark.parametrize("leave", [False, True])
def test_who_comes_after_a_burst_is_decoded_exactly(leave: bool) -> None:
    """However it ended: passes in which nobody waits are too few to raise the threshold."""
    policy = Controller((0.9, 0.6))
    service = Service(ReadingModel(answer), places=1, beside=True, controller=policy)
    settings = DecodingSettings(block_size=8, max_new_tokens=20)

    def submit() -> Stream:
        return service.submit("self_speculative", [3], settings, Control(0.95, free=True))

    burst = [submit() for _ in range(40)]
    while policy.threshold != 0.6:
        service.advance()
    for stream in burst:
        if leave:
            stream.close()
        else:
            list(stream)
    assert policy.threshold == 0.6
    alone = list(submit())
    assert policy.threshold is None
    assert {row.threshold for record in alone for row in record.rows} == {None}


def test_requests_that_are_refused_count_as_waiting() -> None:
    """With a queue of none nobody ever waits."""
    policy = Controller((0.9,))
    service = Service(ReadingModel(lambda tokens, masks: (5, 0.9)), places=1, beside=True, controller=policy)
    settings = DecodingSettings(block_size=8, max_new_tokens=400)
    with service.submit("self_speculative", [3], settings, Control(0.95, free=True)):
        service.advance()
        for _ in range(controller.PATIENCE - 1):
            service.refuse()
            service.advance()
        assert policy.threshold is None
        service.refuse()
        service.advance()
        assert policy.threshold == 0.9


def test_texts_of_a_real_model_under_the_exact_policy(tiny: Checkpoint) -> None:
    policy = Controller()
    service = Service(tiny.engine, places=4, beside=True, controller=policy)
    settings = DecodingSettings(block_size=4, max_new_tokens=32)
    prompts = [tiny.encode(text * repeat) for text in ("Tom has 3 apples. ", "x", "Write!") for repeat in (1, 2, 9)]
    streams = [service.submit("self_speculative", prompt, settings) for prompt in prompts]
    found: list[list[ForwardPass]] = [[] for _ in prompts]
    while service.advance() is not None:
        for stream, records in zip(streams, found, strict=True):
            records.extend(stream.ready())
    for prompt, records in zip(prompts, found, strict=True):
        assert output_ids(records) == output_ids(DECODERS["autoregressive"](tiny.engine, [prompt], settings))
    assert len(policy._seen.known) > 1
