"""A stream that is closed, stopped or dropped takes part in no later pass and gives its place back."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding.service import Service, Stream
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel

Run = Callable[..., list[ForwardPass]]


def leave_by_closing(stream: Stream) -> None:
    stream.close()
    assert list(stream) == []


def leave_by_stopping(stream: Stream) -> None:
    stream.control.stop()
    assert list(stream) == []


@pytest.mark.parametrize("leave", [leave_by_closing, leave_by_stopping])
def test_a_stream_that_left_takes_no_part(
    model: ScriptedModel, alone: Run, usual: DecodingSettings, leave: Callable[[Stream], None]
) -> None:
    service = Service(model)
    going, staying = (service.submit("sliding_window", [first] * 2, usual) for first in (4, 5))
    begun = [next(going)]
    leave(going)
    rest = list(staying)
    assert rest == alone("sliding_window", [5, 5], usual)
    assert begun[0].phase == "prefill"
    assert [len(call.ids) for call in model.calls] == [2] + [1] * (len(rest) - 1)


def test_a_stream_that_is_dropped_leaves(model: ScriptedModel, usual: DecodingSettings) -> None:
    service = Service(model)
    control = Control(0.5)
    going, staying = (service.submit("autoregressive", [8] * 2, usual, how) for how in (control, None))
    next(going)
    del going
    gc.collect()
    assert control.stopped
    list(staying)
    assert len(model.calls[-1].ids) == 1


def test_the_end_of_a_stream_stops_no_control(model: ScriptedModel, usual: DecodingSettings) -> None:
    control = Control(0.5)
    with Service(model).submit("autoregressive", [8], usual, control) as stream:
        assert output_ids(stream)
    assert not control.stopped
