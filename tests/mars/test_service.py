"""Streams that share passes: each gets what it gets alone, whoever else comes, leaves or fails."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.control import Control
from mars.decoding import DECODERS, METHODS
from mars.metrics import output_ids
from mars.records import ForwardPass
from mars.scripted import ScriptedModel, ScriptedRows
from mars.service import ALONE, Service
from mars.stream import Stream

STOP = 2
SETTINGS = DecodingSettings(block_size=4, threshold=0.6, max_new_tokens=20, temperature=1.0, layout="quadratic")


class Prompted(ScriptedModel):
    """Its script is told the first token of the prompt in place of the row's number, so that rows may come anyhow."""

    def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> ScriptedRows:
        return PromptedRows(self, rows, capacity)


class PromptedRows(ScriptedRows):
    def _predict(self, row: object, visible: list[bool], position: int) -> list[float]:
        row.number = row.tokens[1][0]
        return super()._predict(row, visible, position)


def script(first: int, position: int, masks: int) -> tuple[int, float]:
    """Texts of 8 to 17 tokens that differ by prompt, less sure of what reads more masks."""
    if position == 7 + first % 10:
        return STOP, 0.9
    return 3 + (first * 7 + position * position) % 27, (0.95, 0.8, 0.7, 0.5, 0.4, 0.4, 0.4)[min(masks, 6)]


def alone(decoder: str, prompt: list[int], settings: DecodingSettings, static: bool = False) -> list[ForwardPass]:
    return list(DECODERS[decoder](Prompted(script, static_shapes=static), [prompt], settings))


def same(found: list[ForwardPass], expected: list[ForwardPass]) -> bool:
    """Equal but for the seconds."""
    return [replace(record, seconds=0.0) for record in found] == [replace(record, seconds=0.0) for record in expected]


@pytest.fixture
def model() -> Prompted:
    return Prompted(script)


def test_a_stream_is_what_its_decoder_yields_alone(model: Prompted) -> None:
    service = Service(model)
    for decoder in METHODS:
        assert same(list(service.submit(decoder, [5, 6, 7], SETTINGS)), alone(decoder, [5, 6, 7], SETTINGS))


@pytest.mark.parametrize("static", [False, True])
def test_threads_in_parallel_get_exactly_what_they_get_alone(static: bool) -> None:
    model = Prompted(script, static_shapes=static)
    service = Service(model, places=5)
    found: dict[int, list[ForwardPass]] = {}
    kinds = [(list(METHODS)[number % len(METHODS)], [3 + number] * (1 + number % 6)) for number in range(18)]
    start = threading.Barrier(6)

    def person(which: int) -> None:
        start.wait()
        for number in range(which, len(kinds), 6):
            decoder, prompt = kinds[number]
            found[number] = list(service.submit(decoder, prompt, replace(SETTINGS, seed=number)))

    people = [threading.Thread(target=person, args=(which,)) for which in range(6)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join(timeout=60)
    assert len(found) == len(kinds)
    for number, (decoder, prompt) in enumerate(kinds):
        assert same(found[number], alone(decoder, prompt, replace(SETTINGS, seed=number), static)), number
    assert len(model.calls) < sum(map(len, found.values())), "passes were shared"


def test_joining_in_the_middle_changes_nothing_for_anyone(model: Prompted) -> None:
    service = Service(model)
    first = service.submit("sliding_window", [3, 4, 5, 6], SETTINGS)
    begun = [next(first), next(first)]
    second = service.submit("self_speculative", [9, 8], SETTINGS)
    assert same(list(second), alone("self_speculative", [9, 8], SETTINGS))
    assert same(begun + list(first), alone("sliding_window", [3, 4, 5, 6], SETTINGS))


def test_a_stream_nobody_reads_waits_for_its_reader(model: Prompted) -> None:
    service = Service(model)
    slow = service.submit("sliding_window", [4, 5], SETTINGS)
    list(service.submit("autoregressive", [8, 5], replace(SETTINGS, max_new_tokens=60)))
    calls = len(model.calls)
    assert same(list(slow), alone("sliding_window", [4, 5], SETTINGS))
    assert len(model.calls) == calls, "its passes were made by the other's reader"


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("ahead", [1, 2])
def test_a_row_that_may_not_run_ahead_waits_for_its_reader(ahead: int, static: bool) -> None:
    service = Service(Prompted(script, static_shapes=static))
    slow, other = (service.submit("sliding_window", [first, 5], SETTINGS, ahead=ahead) for first in (4, 6))
    found = [next(slow)]
    for expected in alone("sliding_window", [6, 5], SETTINGS, static):
        assert same([next(other)], [expected])
        assert len(slow._member.records) <= ahead
    assert list(other) == []
    assert same(found + list(slow), alone("sliding_window", [4, 5], SETTINGS, static))


def test_readers_of_every_pace_get_what_they_get_alone(tiny: Checkpoint) -> None:
    rhythms = {0: 1, 1: 2, 2: 3, 3: 5}
    kinds = ["sliding_window", "autoregressive", "self_speculative", "sliding_window"]
    settings = DecodingSettings(block_size=4, threshold=0.3, max_new_tokens=24, layout="quadratic")
    prompts = [tiny.encode("x" * (1 + 3 * number)) for number in rhythms]
    service = Service(tiny.engine)
    streams = [service.submit(*job, settings, ahead=1) for job in zip(kinds, prompts, strict=True)]
    found: list[list[ForwardPass]] = [[] for _ in streams]
    for beat in range(600):
        for number, rhythm in rhythms.items():
            if beat % rhythm == 0:
                found[number] += [record for record in [next(streams[number], None)] if record]
    for number, stream in enumerate(streams):
        expected = list(DECODERS[kinds[number]](tiny.engine, [prompts[number]], settings))
        assert output_ids(found[number]) == output_ids(expected), number
        assert [r.rows[0].accepted for r in found[number]] == [r.rows[0].accepted for r in expected]
        assert list(stream) == []


def test_a_threshold_acts_on_what_comes_after_the_records_that_wait(model: Prompted) -> None:
    service, control = Service(model), Control(None)
    slow = service.submit("sliding_window", [6, 6], SETTINGS, control, ahead=1)
    assert next(slow).phase == "prefill"
    list(service.submit("autoregressive", [8, 5], SETTINGS))
    control.threshold = 0.0
    assert [record.rows[0].threshold for record in (next(slow), next(slow))] == [None, 0.0]


def test_rows_that_rest_go_on_where_a_reader_waits_for_a_place(model: Prompted) -> None:
    service = Service(model, places=2)
    slow = [service.submit("sliding_window", [first, 5], SETTINGS, ahead=1) for first in (4, 5)]
    for stream in slow:
        next(stream)
    waiting = service.submit("autoregressive", [9], SETTINGS, ahead=1)
    assert same(list(waiting), alone("autoregressive", [9], SETTINGS))
    for stream, first in zip(slow, (4, 5), strict=True):
        assert output_ids(stream) == output_ids(alone("sliding_window", [first, 5], SETTINGS))


def test_a_stream_says_whether_its_passes_were_shared(model: Prompted) -> None:
    service = Service(model)
    first = service.submit("sliding_window", [4], SETTINGS)
    next(first)
    assert not first.shared
    list(service.submit("autoregressive", [8], SETTINGS))
    assert first.shared


def test_a_newcomer_gets_its_first_token_within_a_few_passes(model: Prompted) -> None:
    service = Service(model, places=4)
    running = [service.submit("autoregressive", [first] * 3, SETTINGS) for first in (10, 11, 12)]
    for stream in running:
        next(stream)
        next(stream)
    calls = len(model.calls)
    newcomer = service.submit("sliding_window", [7] * 600, SETTINGS)
    while not next(newcomer).rows[0].accepted:
        pass
    assert len(model.calls) - calls <= 5, "two chunks of the prompt, by turns with the others, and a pass"
    assert len(output_ids(running[0])) > 2, "the others went on meanwhile"


def test_settings_are_those_of_the_row(model: Prompted) -> None:
    service = Service(model)
    kinds = [
        replace(SETTINGS, block_size=2, threshold=0.0),
        replace(SETTINGS, block_size=6, threshold=None),
        replace(SETTINGS, temperature=0.0, max_new_tokens=3),
        replace(SETTINGS, score="margin", threshold=0.2, alternatives=3),
    ]
    streams = [service.submit("sliding_window", [5, 5], settings) for settings in kinds]
    for stream, settings in zip(streams, kinds, strict=True):
        assert same(list(stream), alone("sliding_window", [5, 5], settings))


def test_each_stream_has_a_threshold_of_its_own_to_change(model: Prompted) -> None:
    service, control = Service(model), Control(None)
    steered = service.submit("sliding_window", [6, 6], SETTINGS, control)
    other = service.submit("sliding_window", [6, 6], SETTINGS)
    assert [next(steered).rows[0].accepted for _ in range(3)] == [0, 1, 1]
    control.threshold = 0.0
    assert next(steered).rows[0].accepted == 4
    assert same(list(other), alone("sliding_window", [6, 6], SETTINGS))


def leave_by_closing(stream: Stream) -> None:
    stream.close()
    assert list(stream) == []


def leave_by_stopping(stream: Stream) -> None:
    stream.control.stop()
    assert list(stream) == []


@pytest.mark.parametrize("leave", [leave_by_closing, leave_by_stopping])
def test_a_stream_that_leaves_takes_part_in_no_later_pass(model: Prompted, leave: Callable[[Stream], None]) -> None:
    service = Service(model)
    going, staying = (service.submit("sliding_window", [first] * 2, SETTINGS) for first in (4, 5))
    begun = [next(going)]
    leave(going)
    rest = list(staying)
    assert same(rest, alone("sliding_window", [5, 5], SETTINGS))
    assert begun[0].phase == "prefill"
    assert [len(call.ids) for call in model.calls] == [2] + [1] * (len(rest) - 1)


def test_a_stream_that_is_dropped_leaves(model: Prompted) -> None:
    service = Service(model)
    control = Control(0.5)
    going, staying = (service.submit("autoregressive", [8] * 2, SETTINGS, how) for how in (control, None))
    next(going)
    del going
    gc.collect()
    assert control.stopped
    list(staying)
    assert len(model.calls[-1].ids) == 1


def test_the_end_of_a_stream_stops_no_control(model: Prompted) -> None:
    control = Control(0.5)
    with Service(model).submit("autoregressive", [8], SETTINGS, control) as stream:
        assert output_ids(stream)
    assert not control.stopped


def test_a_place_that_is_free_again_is_taken(model: Prompted) -> None:
    service = Service(model, places=1)
    first, second = (service.submit("sliding_window", [first] * 2, SETTINGS) for first in (4, 5))
    next(first)
    first.close()
    assert same(list(second), alone("sliding_window", [5, 5], SETTINGS))


class Failing(Prompted):
    """Fails where the prompt that begins with 30 reaches its seventh token, and where a prompt with a 29 is read."""

    wrong: BaseException = ValueError("no memory left")

    def record(self, call: object) -> None:
        super().record(call)
        if call.keep == 0 and any(29 in ids for ids in call.ids):
            raise self.wrong

    def logits(self, row: int, position: int, masks_read: int) -> list[float]:
        if row == 30 and position == 6:
            raise self.wrong
        return super().logits(row, position, masks_read)


def test_an_error_reaches_everyone_in_the_pass_and_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(Failing(script), places=2)
    bad, beside, waiting = (service.submit("sliding_window", [first], SETTINGS) for first in (30, 4, 5))
    with pytest.raises(ValueError, match="no memory left"):
        list(bad)
    assert "a pass failed: no memory left" in caplog.text
    begun = [next(beside)]
    assert begun[0].rows[0].accepted
    with pytest.raises(ValueError, match="no memory left"):
        list(beside)
    assert list(bad) == list(beside) == []
    assert same(list(waiting), alone("sliding_window", [5], SETTINGS))
    assert same(list(service.submit("autoregressive", [6], SETTINGS)), alone("autoregressive", [6], SETTINGS))


def test_an_error_in_reading_a_prompt_leaves_those_who_write_alone() -> None:
    service = Service(Failing(script))
    writing = service.submit("sliding_window", [4, 3], SETTINGS)
    begun = [next(writing), next(writing)]
    bad = service.submit("sliding_window", [29] * 3, SETTINGS)
    short = service.submit("sliding_window", [5], SETTINGS)
    with pytest.raises(ValueError, match="no memory left"):
        list(bad)
    assert same(begun + list(writing), alone("sliding_window", [4, 3], SETTINGS))
    assert same(list(short), alone("sliding_window", [5], SETTINGS))


def test_an_error_before_the_pass_reaches_everyone() -> None:
    class Full(Prompted):
        full = True

        def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> ScriptedRows:
            if self.full:
                raise RuntimeError("the cache does not fit")
            return super().open(rows, capacity)

    model = Full(script)
    service = Service(model)
    streams = [service.submit("autoregressive", [first], SETTINGS) for first in (4, 5)]
    for stream in streams:
        with pytest.raises(RuntimeError, match="does not fit"):
            next(stream)
    model.full = False
    assert same(list(service.submit("autoregressive", [6], SETTINGS)), alone("autoregressive", [6], SETTINGS))


def test_an_interrupted_pass_is_an_error_for_the_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    model = Failing(script)
    model.wrong = KeyboardInterrupt()
    service = Service(model)
    bad, beside = (service.submit("autoregressive", [first], SETTINGS) for first in (30, 4))
    with pytest.raises(KeyboardInterrupt):
        list(bad)
    with pytest.raises(RuntimeError, match="interrupted: submit the prompt again"):
        list(beside)


@pytest.mark.parametrize(
    ("decoder", "prompt", "options", "sentence"),
    [
        ("magic", [3], {}, "decoder must be one of autoregressive, sliding_window, self_speculative.*got 'magic'"),
        ("sliding_window", [], {}, "is empty: it needs at least one token"),
        ("sliding_window", [3] * 50, {}, "the prompt has 50 tokens, at most 44 fit with max_new_tokens=20"),
        ("sliding_window", [3] * 30, {}, "30 tokens, max_new_tokens is 20 .* that is 54 slots, but .* has 40"),
        ("sliding_window", [3], {"use_cache": False}, "use_cache=False cannot share passes"),
        ("self_speculative", [3], {"block_size": 1}, "needs block_size >= 2"),
        *((name, [3], {}, f"{name} cannot share passes with others: {reason}") for name, reason in ALONE.items()),
    ],
)
def test_what_cannot_join_is_refused_at_the_call(
    decoder: str, prompt: list[int], options: dict[str, object], sentence: str
) -> None:
    service = Service(Prompted(script, context_length=64), capacity=40)
    with pytest.raises(ValueError, match=sentence):
        service.submit(decoder, prompt, replace(SETTINGS, **options))


def test_people_share_the_passes_of_a_real_model(tiny: Checkpoint) -> None:
    texts = ["Tom has 3 apples.", "x", "Write a function that adds two numbers.", "How many has he?"]
    kinds = [("sliding_window", 0.3, 0.0), ("self_speculative", 0.95, 0.0), ("autoregressive", None, 0.9)]
    jobs = [
        (tiny.encode(text), decoder, DecodingSettings(block_size=4, threshold=t, temperature=warm, max_new_tokens=24))
        for text in texts
        for decoder, t, warm in kinds
    ]
    found: dict[int, list[int]] = {}

    def person(number: int) -> None:
        prompt, decoder, settings = jobs[number]
        found[number] = output_ids(tiny.engine.submit(prompt, settings, decoder=decoder))

    people = [threading.Thread(target=person, args=(number,)) for number in range(len(jobs))]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join(timeout=60)
    alone = [output_ids(DECODERS[decoder](tiny.engine, [prompt], settings)) for prompt, decoder, settings in jobs]
    assert [found[number] for number in range(len(jobs))] == alone


def test_nothing_is_computed_before_it_is_asked_for(model: Prompted) -> None:
    Service(model).submit("autoregressive", [3, 4], SETTINGS)
    assert model.calls == []


def test_a_service_needs_a_place_and_a_reader_a_record(model: Prompted) -> None:
    with pytest.raises(ValueError, match="places must be >= 1, got 0"):
        Service(model, places=0)
    with pytest.raises(ValueError, match="ahead must be >= 1, got 0"):
        Service(model).submit("autoregressive", [3], SETTINGS, ahead=0)
