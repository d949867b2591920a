"""What is timed of one batch: by a decoder on a fake clock, and by `generate` on a tiny model."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import pytest
import torch
from transformers import PreTrainedModel

from analysis.decoding.timed import Generate, Stopwatch, decode_timed
from mars.records import ForwardPass, Phase, Proposal, RowPass


@dataclass
class FakeTime:
    """Seconds that pass when told so; `waits` counts synchronisations, each of which takes 0.25 seconds."""

    seconds: float = 100.0
    waits: int = 0

    def now(self) -> float:
        return self.seconds

    def synchronize(self) -> None:
        self.waits += 1
        self.seconds += 0.25


def row(number: int, start: int, *ids: int, accepted: int | None = None) -> RowPass:
    proposals = tuple(Proposal(token, 1.0, "clean") for token in ids)
    return RowPass(number, start, proposals, len(ids) if accepted is None else accepted, None)


PASSES: list[tuple[Phase, float, int, tuple[RowPass, ...]]] = [
    ("prefill", 1.0, 7, (row(0, 0), row(1, 0))),
    ("decode", 2.0, 6, (row(0, 0, 5, 6, 7, accepted=2), row(1, 0, 8, accepted=1))),
    ("draft", 0.5, 1, (row(0, 2),)),
    ("verify", 4.0, 3, (row(0, 2, 9, 9, 2, accepted=3),)),
]


def test_a_decoder_on_a_fake_clock() -> None:
    """Each pass takes its seconds, and one more outside of the model."""
    time = FakeTime()

    def decode(*_: object) -> Iterator[ForwardPass]:
        for index, (phase, seconds, queries, rows) in enumerate(PASSES):
            time.seconds += seconds + 1
            yield ForwardPass(index, phase, seconds, queries, rows)

    timed = decode_timed(decode, [[3] * 4, [3] * 5], Stopwatch(time.synchronize, time.now))
    assert timed.outputs == ((5, 6, 9, 9, 2), (8,))
    assert timed.tokens == 6
    assert timed.seconds == 7.5 + 4 + 0.25  # the wait at the start is not part of it
    assert time.waits == 2
    assert timed.first_token_seconds == (5.0, 5.0)  # prefill, first pass, and a second after each
    assert timed.token_seconds == ((11.5 - 5.0) / 4,)  # row 1 wrote one token only
    assert timed.model_seconds == 7.5
    assert (timed.pass_seconds, timed.row_passes) == ((2.0, 4.0), 3), "of decode and verify"


def test_waiting_for_a_place_is_no_ttft() -> None:
    """Row 1 is read from second 3 on, row 2, whose prompt is one token, from second 6 on."""
    time = FakeTime()
    passes: list[tuple[Phase, tuple[RowPass, ...]]] = [
        ("prefill", (row(0, 0),)),
        ("decode", (row(0, 0, 5),)),
        ("decode", (row(0, 1, 2),)),
        ("prefill", (row(1, 0),)),
        ("prefill", (row(1, 0),)),
        ("decode", (row(1, 0, 2),)),
        ("decode", (row(2, 0, 2),)),
    ]

    def decode(_: object) -> Iterator[ForwardPass]:
        for index, (phase, rows) in enumerate(passes):
            time.seconds += 1
            yield ForwardPass(index, phase, 0.5, 1, rows)

    timed = decode_timed(decode, [[3, 3], [3, 3], [3]], Stopwatch(None, time.now))
    assert timed.first_token_seconds == (2.0, 3.0, 1.0)


def argmax_alone(model: PreTrainedModel, prompt: Sequence[int], stops: frozenset[int], limit: int) -> tuple[int, ...]:
    """Greedy decoding without cache and batch: the slow twin."""
    ids = list(prompt)
    while len(ids) - len(prompt) < limit:
        with torch.inference_mode():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] in stops:
            break
    return tuple(ids[len(prompt) :])


PROMPTS = [[5, 6, 7, 8, 9, 10], [40, 41], [7]]


def test_generate_is_greedy_and_stops(tiny_model: PreTrainedModel) -> None:
    model = deepcopy(tiny_model)
    model.generation_config.repetition_penalty = 5.0  # what a checkpoint brings along must not matter
    stops = frozenset({argmax_alone(model, PROMPTS[1], frozenset(), 8)[3], 1})
    timed = Generate(model, stops, 8).timed(PROMPTS, 3, Stopwatch())
    assert timed.outputs == tuple(argmax_alone(model, prompt, stops, 8) for prompt in PROMPTS)
    assert len(timed.outputs[1]) <= 4
    assert timed.row_passes == timed.tokens


def test_generate_has_no_records_but_steps(tiny_model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    time = FakeTime()
    generate = Generate(deepcopy(tiny_model), frozenset({2}), 4)

    def written(prompts: Sequence[Sequence[int]], limit: int) -> list[list[int]]:
        time.seconds += 1 + 2 * limit
        return [[7, 7, 2, 0], [7, 2, 0, 0]][: len(prompts)]

    monkeypatch.setattr(generate, "_generate", written)
    timed = generate.timed([[1] * 3, [1] * 5], 2, Stopwatch(None, time.now))
    assert timed.outputs == ((7, 7, 2), (7, 2))
    assert (timed.seconds, timed.first_token_seconds, timed.model_seconds) == (9.0, (3.0, 3.0), None)
    assert timed.pass_seconds == timed.token_seconds == (3.0, 3.0)
    assert timed.row_passes == 5
