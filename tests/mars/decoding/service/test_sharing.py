"""Streams that share passes: each gets what it gets alone, whoever else comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from mars.config import DecodingSettings
from mars.decoding import METHODS
from mars.decoding.service import Service
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

Run = Callable[..., list[ForwardPass]]


def test_a_stream_is_what_its_decoder_yields_alone(model: ScriptedModel, alone: Run, usual: DecodingSettings) -> None:
    service = Service(model)
    for decoder in METHODS:
        assert list(service.submit(decoder, [5, 6, 7], usual)) == alone(decoder, [5, 6, 7], usual)


@pytest.mark.parametrize("static", [False, True])
def test_threads_get_what_they_get_alone(
    prompted: type[ScriptedModel], alone: Run, usual: DecodingSettings, static: bool
) -> None:
    model = prompted(static_shapes=static)
    service = Service(model, places=5)
    found: dict[int, list[ForwardPass]] = {}
    kinds = [(list(METHODS)[number % len(METHODS)], [3 + number] * (1 + number % 6)) for number in range(18)]
    start = threading.Barrier(6)

    def person(which: int) -> None:
        start.wait()
        for number in range(which, len(kinds), 6):
            decoder, prompt = kinds[number]
            found[number] = list(service.submit(decoder, prompt, replace(usual, seed=number)))

    people = [threading.Thread(target=person, args=(which,)) for which in range(6)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join(timeout=60)
    assert len(found) == len(kinds)
    for number, (decoder, prompt) in enumerate(kinds):
        assert found[number] == alone(decoder, prompt, replace(usual, seed=number), static), number
    assert len(model.calls) < sum(map(len, found.values())), "passes were shared"


def test_a_stream_says_whether_its_passes_were_shared(model: ScriptedModel, usual: DecodingSettings) -> None:
    service = Service(model)
    first = service.submit("sliding_window", [4], usual)
    next(first)
    assert not first.shared
    list(service.submit("autoregressive", [8], usual))
    assert first.shared


def test_a_newcomer_writes_within_a_few_passes(model: ScriptedModel, usual: DecodingSettings) -> None:
    service = Service(model, places=4)
    running = [service.submit("autoregressive", [first] * 3, usual) for first in (10, 11, 12)]
    for stream in running:
        next(stream)
        next(stream)
    calls = len(model.calls)
    newcomer = service.submit("sliding_window", [7] * 600, usual)
    while not next(newcomer).rows[0].accepted:
        pass
    assert len(model.calls) - calls <= 5, "two chunks of the prompt, by turns with the others, and a pass"
    assert len(output_ids(running[0])) > 2, "the others went on meanwhile"
