"""Streams that share passes: each gets what it gets alone, at its own pace, whoever comes, leaves or fails."""

import gc
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from mars.config import DecodingSettings
from mars.control import Control
from mars.decoders import TABLE
from mars.decoding import DECODERS, METHODS
from mars.decoding.service import Service, Stream
from mars.metrics import output_ids
from mars.records import ForwardPass
from tests.scripted import ScriptedModel, ScriptedRows

STOP = 2
USUAL = DecodingSettings(block_size=4, threshold=0.6, max_new_tokens=20, temperature=1.0, layout="quadratic")
"""Sampled texts of up to 20 tokens, up to four a pass."""


def script(first: int, position: int, masks: int) -> tuple[int, float]:
    """Texts of 8 to 17 tokens that differ by prompt, less sure of what reads more masks."""
    if position == 7 + first % 10:
        return STOP, 0.9
    return 3 + (first * 7 + position * position) % 27, (0.95, 0.8, 0.7, 0.5, 0.4, 0.4, 0.4)[min(masks, 6)]


class Prompted(ScriptedModel):
    """Its script is told the first token of the prompt in place of the row's number.

    Its passes take no time, so that the records of a stream that shared them equal those of one that did not.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(script, seconds_per_pass=0.0, **options)

    def open(self, rows: int, capacity: int) -> ScriptedRows:
        return PromptedRows(self, rows, capacity)


class PromptedRows(ScriptedRows):
    def _predict(self, row: object, visible: list[bool], position: int) -> list[float]:
        row.number = row.tokens[1][0]
        return super()._predict(row, visible, position)


@pytest.fixture
def model() -> ScriptedModel:
    return Prompted()


def alone(decoder: str, prompt: list[int], settings: DecodingSettings, static: bool = False) -> list[ForwardPass]:
    """The records of a run of its own."""
    return list(DECODERS[decoder](Prompted(static_shapes=static), [prompt], settings))


@pytest.mark.parametrize("static", [False, True])
def test_threads_get_what_they_get_alone(static: bool) -> None:
    model = Prompted(static_shapes=static)
    service = Service(model, places=5)
    found: dict[int, list[ForwardPass]] = {}
    kinds = [(list(METHODS)[number % len(METHODS)], [3 + number] * (1 + number % 6)) for number in range(18)]
    start = threading.Barrier(6)

    def person(which: int) -> None:
        start.wait()
        for number in range(which, len(kinds), 6):
            decoder, prompt = kinds[number]
            found[number] = list(service.submit(decoder, prompt, replace(USUAL, seed=number)))

    people = [threading.Thread(target=person, args=(which,)) for which in range(6)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join(timeout=60)
    assert len(found) == len(kinds)
    for number, (decoder, prompt) in enumerate(kinds):
        assert found[number] == alone(decoder, prompt, replace(USUAL, seed=number), static), number
    assert len(model.calls) < sum(map(len, found.values())), "passes were shared"


def test_a_newcomer_writes_within_a_few_passes(model: ScriptedModel) -> None:
    service = Service(model, places=4)
    running = [service.submit("autoregressive", [first] * 3, USUAL) for first in (10, 11, 12)]
    for stream in running:
        next(stream)
        next(stream)
    calls = len(model.calls)
    newcomer = service.submit("sliding_window", [7] * 600, USUAL)
    while not next(newcomer).rows[0].accepted:
        pass
    assert len(model.calls) - calls <= 5, "two chunks of the prompt, by turns with the others, and a pass"
    assert len(output_ids(running[0])) > 2, "the others went on meanwhile"


def test_nothing_is_computed_before_it_is_asked_for(model: ScriptedModel) -> None:
    Service(model).submit("autoregressive", [3, 4], USUAL)
    assert model.calls == []


def test_a_stream_nobody_reads_waits_for_its_reader(model: ScriptedModel) -> None:
    service = Service(model)
    slow = service.submit("sliding_window", [4, 5], USUAL)
    list(service.submit("autoregressive", [8, 5], replace(USUAL, max_new_tokens=60)))
    calls = len(model.calls)
    assert list(slow) == alone("sliding_window", [4, 5], USUAL)
    assert len(model.calls) == calls, "its passes were made by the other's reader"


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("ahead", [1, 2])
def test_a_row_waits_for_its_reader(ahead: int, static: bool) -> None:
    service = Service(Prompted(static_shapes=static))
    slow, other = (service.submit("sliding_window", [first, 5], USUAL, ahead=ahead) for first in (4, 6))
    found = [next(slow)]
    for expected in alone("sliding_window", [6, 5], USUAL, static):
        assert next(other) == expected
        assert len(slow._member.records) <= ahead
    assert list(other) == []
    assert found + list(slow) == alone("sliding_window", [4, 5], USUAL, static)


def test_a_threshold_acts_behind_the_records_that_wait(model: ScriptedModel) -> None:
    service, control = Service(model), Control(None)
    slow = service.submit("sliding_window", [6, 6], USUAL, control, ahead=1)
    assert next(slow).phase == "prefill"
    list(service.submit("autoregressive", [8, 5], USUAL))
    control.threshold = 0.0
    assert [record.rows[0].threshold for record in (next(slow), next(slow))] == [None, 0.0]


def test_rows_that_rest_go_on_for_who_waits(model: ScriptedModel) -> None:
    service = Service(model, places=2)
    slow = [service.submit("sliding_window", [first, 5], USUAL, ahead=1) for first in (4, 5)]
    for stream in slow:
        next(stream)
    waiting = service.submit("autoregressive", [9], USUAL, ahead=1)
    assert list(waiting) == alone("autoregressive", [9], USUAL)
    for stream, first in zip(slow, (4, 5), strict=True):
        assert output_ids(stream) == output_ids(alone("sliding_window", [first, 5], USUAL))


def test_rows_rest_while_a_long_prompt_is_read(model: ScriptedModel) -> None:
    service = Service(model)
    slow = service.submit("autoregressive", [4, 5], USUAL, ahead=1)
    next(slow)
    other = service.submit("autoregressive", [6] * 1500, USUAL)
    assert [next(other).phase for _ in range(3)] == ["prefill"] * 3
    assert len(slow._member.records) == 1


def test_an_error_ends_the_stream_of_its_reader(model: ScriptedModel) -> None:
    service = Service(model)
    stream = service.submit("autoregressive", [4, 5], USUAL)
    service.advance()
    model.vocab_size = -1  # its next logits cannot be made
    assert service.advance() is None
    assert len(stream.ready()) == 1
    assert not stream.ended
    with pytest.raises(ValueError):
        stream.ready()
    assert stream.ended
    assert stream.ready() == []


def leave_by_closing(stream: Stream) -> None:
    stream.close()
    assert list(stream) == []


def leave_by_stopping(stream: Stream) -> None:
    stream.control.stop()
    assert list(stream) == []


@pytest.mark.parametrize("leave", [leave_by_closing, leave_by_stopping])
def test_a_stream_that_left_takes_no_part(model: ScriptedModel, leave: Callable[[Stream], None]) -> None:
    service = Service(model)
    going, staying = (service.submit("sliding_window", [first] * 2, USUAL) for first in (4, 5))
    begun = [next(going)]
    leave(going)
    rest = list(staying)
    assert rest == alone("sliding_window", [5, 5], USUAL)
    assert begun[0].phase == "prefill"
    assert [len(call.ids) for call in model.calls] == [2] + [1] * (len(rest) - 1)


def test_a_stream_that_is_dropped_leaves(model: ScriptedModel) -> None:
    service = Service(model)
    control = Control(0.5)
    going, staying = (service.submit("autoregressive", [8] * 2, USUAL, how) for how in (control, None))
    next(going)
    del going
    gc.collect()
    assert control.stopped
    list(staying)
    assert len(model.calls[-1].ids) == 1


def test_the_end_of_a_stream_stops_no_control(model: ScriptedModel) -> None:
    control = Control(0.5)
    with Service(model).submit("autoregressive", [8], USUAL, control) as stream:
        assert output_ids(stream)
    assert not control.stopped


@pytest.fixture
def failing() -> ScriptedModel:
    """Fails where the prompt that begins with 30 reaches its seventh token, and where a prompt with a 29 is read."""

    class Failing(Prompted):
        wrong: BaseException = ValueError("no memory left")

        def record(self, call: object) -> None:
            super().record(call)
            if call.keep == 0 and any(29 in ids for ids in call.ids):
                raise self.wrong

        def predict(self, row: int, position: int, tokens: tuple[int, ...], masks_read: int) -> list[float]:
            if row == 30 and position == 6:
                raise self.wrong
            return super().predict(row, position, tokens, masks_read)

    return Failing()


def test_an_error_reaches_those_in_the_pass(failing: ScriptedModel, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(failing, places=2)
    bad, beside, waiting = (service.submit("sliding_window", [first], USUAL) for first in (30, 4, 5))
    with pytest.raises(ValueError, match="no memory left"):
        list(bad)
    assert "a pass failed: no memory left" in caplog.text
    begun = [next(beside)]
    assert begun[0].rows[0].accepted
    with pytest.raises(ValueError, match="no memory left"):
        list(beside)
    assert list(bad) == list(beside) == []
    assert list(waiting) == alone("sliding_window", [5], USUAL)
    assert list(service.submit("autoregressive", [6], USUAL)) == alone("autoregressive", [6], USUAL)


def test_an_error_in_a_prompt_spares_who_writes(failing: ScriptedModel) -> None:
    service = Service(failing)
    writing = service.submit("sliding_window", [4, 3], USUAL)
    begun = [next(writing), next(writing)]
    bad = service.submit("sliding_window", [29] * 3, USUAL)
    short = service.submit("sliding_window", [5], USUAL)
    with pytest.raises(ValueError, match="no memory left"):
        list(bad)
    assert begun + list(writing) == alone("sliding_window", [4, 3], USUAL)
    assert list(short) == alone("sliding_window", [5], USUAL)


def test_an_error_before_the_pass_reaches_everyone() -> None:
    class Full(Prompted):
        full = True

        def open(self, rows: int, capacity: int) -> ScriptedRows:
            if self.full:
                raise RuntimeError("the cache does not fit")
            return super().open(rows, capacity)

    model = Full()
    service = Service(model)
    streams = [service.submit("autoregressive", [first], USUAL) for first in (4, 5)]
    for stream in streams:
        with pytest.raises(RuntimeError, match="does not fit"):
            next(stream)
    model.full = False
    assert list(service.submit("autoregressive", [6], USUAL)) == alone("autoregressive", [6], USUAL)


def test_an_interrupted_pass_fails_the_others(failing: ScriptedModel, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    failing.wrong = KeyboardInterrupt()
    service = Service(failing)
    bad, beside = (service.submit("autoregressive", [first], USUAL) for first in (30, 4))
    with pytest.raises(KeyboardInterrupt):
        list(bad)
    with pytest.raises(RuntimeError, match="interrupted: submit the prompt again"):
        list(beside)


def test_an_interrupt_before_the_pass_leaves_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(Prompted())
    list(service.submit("autoregressive", [4], USUAL))
    waiting = service.submit("autoregressive", [5], USUAL)
    monkeypatch.setattr("mars.decoding.service.compute", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        next(waiting)
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="interrupted"):
        next(waiting)
    assert list(service.submit("autoregressive", [6], USUAL)) == alone("autoregressive", [6], USUAL)


@pytest.mark.parametrize(
    ("decoder", "prompt", "options", "sentence"),
    [
        ("magic", [3], {}, "decoder must be one of autoregressive, sliding_window, self_speculative.*got 'magic'"),
        ("sliding_window", [], {}, "is empty: it needs at least one token"),
        ("sliding_window", [3] * 50, {}, "the prompt has 50 tokens, at most 44 fit with max_new_tokens=20"),
        ("sliding_window", [3] * 30, {}, "30 tokens, max_new_tokens is 20 .* that is 54 slots, but .* has 40"),
        ("self_speculative", [3], {"block_size": 1}, "needs block_size >= 2"),
        *(
            (info.name, [3], {}, f"{info.name} cannot share passes with others: {info.alone}")
            for info in TABLE.values()
            if info.alone
        ),
    ],
)
def test_what_cannot_join_is_refused_at_the_call(
    decoder: str, prompt: list[int], options: dict[str, object], sentence: str
) -> None:
    service = Service(Prompted(context_length=64), capacity=40)
    with pytest.raises(ValueError, match=sentence):
        service.submit(decoder, prompt, replace(USUAL, **options))


def test_places_and_records_ahead_are_at_least_one(model: ScriptedModel) -> None:
    with pytest.raises(ValueError, match="places must be >= 1, got 0"):
        Service(model, places=0)
    with pytest.raises(ValueError, match="ahead must be >= 1, got 0"):
        Service(model).submit("autoregressive", [3], USUAL, ahead=0)
