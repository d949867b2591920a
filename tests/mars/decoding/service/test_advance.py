"""One thread that makes the passes itself and then gives each reader what came for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mars.config import DecodingSettings
from mars.decoding.service import Service
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

Run = Callable[..., list[ForwardPass]]


def test_every_stream_gets_what_it_gets_alone(model: ScriptedModel, alone: Run, usual: DecodingSettings) -> None:
    service = Service(model, places=2)
    jobs = [("sliding_window", [4, 5]), ("autoregressive", [6, 5]), ("self_speculative", [8, 5])]
    streams = [service.submit(*job, usual) for job in jobs]
    found: list[list[ForwardPass]] = [[] for _ in streams]
    passes = 0
    while service.advance() is not None:
        passes += 1
        for stream, records in zip(streams, found, strict=True):
            records.extend(stream.ready())
    assert passes == len(model.calls)
    assert all(stream.ended for stream in streams)
    assert found == [alone(*job, usual) for job in jobs]


def test_rows_are_counted_by_layout(model: ScriptedModel, usual: DecodingSettings) -> None:
    service = Service(model)
    assert service.layouts == {}
    streams = [service.submit(name, [4, 5], usual) for name in ("autoregressive", "self_speculative", "autoregressive")]
    service.advance()
    assert service.layouts == {}, "it read prompts"
    service.advance()
    assert service.layouts == {"decode": 2, "quadratic": 1}
    assert [len(stream.ready()) for stream in streams] == [2, 2, 2]


def test_an_error_ends_the_stream_of_its_reader(model: ScriptedModel, usual: DecodingSettings) -> None:
    service = Service(model)
    stream = service.submit("autoregressive", [4, 5], usual)
    service.advance()
    model.vocab_size = -1  # its next logits cannot be made
    assert service.advance() is None
    assert len(stream.ready()) == 1
    assert not stream.ended
    with pytest.raises(ValueError):
        stream.ready()
    assert stream.ended
    assert stream.ready() == []
