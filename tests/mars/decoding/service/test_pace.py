"""Readers of every pace: how far a row runs ahead of its reader, and who makes the passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS
from mars.decoding.service import Service
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

Run = Callable[..., list[ForwardPass]]


def test_nothing_is_computed_before_it_is_asked_for(model: ScriptedModel, usual: DecodingSettings) -> None:
    Service(model).submit("autoregressive", [3, 4], usual)
    assert model.calls == []


def test_a_stream_nobody_reads_waits_for_its_reader(model: ScriptedModel, alone: Run, usual: DecodingSettings) -> None:
    service = Service(model)
    slow = service.submit("sliding_window", [4, 5], usual)
    list(service.submit("autoregressive", [8, 5], replace(usual, max_new_tokens=60)))
    calls = len(model.calls)
    assert list(slow) == alone("sliding_window", [4, 5], usual)
    assert len(model.calls) == calls, "its passes were made by the other's reader"


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("ahead", [1, 2])
def test_a_row_waits_for_its_reader(
    prompted: type[ScriptedModel], alone: Run, usual: DecodingSettings, ahead: int, static: bool
) -> None:
    service = Service(prompted(static_shapes=static))
    slow, other = (service.submit("sliding_window", [first, 5], usual, ahead=ahead) for first in (4, 6))
    found = [next(slow)]
    for expected in alone("sliding_window", [6, 5], usual, static):
        assert next(other) == expected
        assert len(slow._member.records) <= ahead
    assert list(other) == []
    assert found + list(slow) == alone("sliding_window", [4, 5], usual, static)


def test_the_pace_of_readers_changes_no_record(tiny: Checkpoint) -> None:
    rhythms = {0: 1, 1: 2, 2: 3, 3: 5}
    kinds = ["sliding_window", "autoregressive", "self_speculative", "sliding_window"]
    settings = DecodingSettings(block_size=4, threshold=0.3, max_new_tokens=24, layout="quadratic")
    prompts = [tiny.encode("x" * (1 + 3 * number)) for number in rhythms]
    service = Service(tiny.engine)
    streams = [service.submit(*job, settings, ahead=1) for job in zip(kinds, prompts, strict=True)]
    found: list[list[ForwardPass]] = [[] for _ in streams]
    for tick in range(600):
        for number, rhythm in rhythms.items():
            if tick % rhythm == 0:
                found[number] += [record for record in [next(streams[number], None)] if record]
    for number, stream in enumerate(streams):
        expected = list(DECODERS[kinds[number]](tiny.engine, [prompts[number]], settings))
        assert output_ids(found[number]) == output_ids(expected), number
        assert [r.rows[0].accepted for r in found[number]] == [r.rows[0].accepted for r in expected]
        assert list(stream) == []


def test_a_threshold_acts_behind_the_records_that_wait(model: ScriptedModel, usual: DecodingSettings) -> None:
    service, control = Service(model), Control(None)
    slow = service.submit("sliding_window", [6, 6], usual, control, ahead=1)
    assert next(slow).phase == "prefill"
    list(service.submit("autoregressive", [8, 5], usual))
    control.threshold = 0.0
    assert [record.rows[0].threshold for record in (next(slow), next(slow))] == [None, 0.0]


def test_rows_that_rest_go_on_for_who_waits(model: ScriptedModel, alone: Run, usual: DecodingSettings) -> None:
    service = Service(model, places=2)
    slow = [service.submit("sliding_window", [first, 5], usual, ahead=1) for first in (4, 5)]
    for stream in slow:
        next(stream)
    waiting = service.submit("autoregressive", [9], usual, ahead=1)
    assert list(waiting) == alone("autoregressive", [9], usual)
    for stream, first in zip(slow, (4, 5), strict=True):
        assert output_ids(stream) == output_ids(alone("sliding_window", [first, 5], usual))
