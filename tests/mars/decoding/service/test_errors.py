"""Whom a pass that fails reaches, and what is refused before there is one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from mars.config import DecodingSettings
from mars.decoders import TABLE
from mars.decoding.service import Service
from mars.records import ForwardPass
from mars.scripted import ScriptedModel, ScriptedRows

Run = Callable[..., list[ForwardPass]]


@pytest.fixture
def failing(prompted: type[ScriptedModel]) -> ScriptedModel:
    """Fails where the prompt that begins with 30 reaches its seventh token, and where a prompt with a 29 is read."""

    class Failing(prompted):
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


def test_an_error_reaches_those_in_the_pass(
    failing: ScriptedModel, alone: Run, usual: DecodingSettings, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(failing, places=2)
    bad, beside, waiting = (service.submit("sliding_window", [first], usual) for first in (30, 4, 5))
    with pytest.raises(ValueError, match="no memory left"):
        list(bad)
    assert "a pass failed: no memory left" in caplog.text
    begun = [next(beside)]
    assert begun[0].rows[0].accepted
    with pytest.raises(ValueError, match="no memory left"):
        list(beside)
    assert list(bad) == list(beside) == []
    assert list(waiting) == alone("sliding_window", [5], usual)
    assert list(service.submit("autoregressive", [6], usual)) == alone("autoregressive", [6], usual)


def test_an_error_in_a_prompt_spares_who_writes(failing: ScriptedModel, alone: Run, usual: DecodingSettings) -> None:
    service = Service(failing)
    writing = service.submit("sliding_window", [4, 3], usual)
    begun = [next(writing), next(writing)]
    bad = service.submit("sliding_window", [29] * 3, usual)
    short = service.submit("sliding_window", [5], usual)
    with pytest.raises(ValueError, match="no memory left"):
        list(bad)
    assert begun + list(writing) == alone("sliding_window", [4, 3], usual)
    assert list(short) == alone("sliding_window", [5], usual)


def test_an_error_before_the_pass_reaches_everyone(
    prompted: type[ScriptedModel], alone: Run, usual: DecodingSettings
) -> None:
    class Full(prompted):
        full = True

        def open(self, rows: int, capacity: int, *, use_cache: bool = True) -> ScriptedRows:
            if self.full:
                raise RuntimeError("the cache does not fit")
            return super().open(rows, capacity)

    model = Full()
    service = Service(model)
    streams = [service.submit("autoregressive", [first], usual) for first in (4, 5)]
    for stream in streams:
        with pytest.raises(RuntimeError, match="does not fit"):
            next(stream)
    model.full = False
    assert list(service.submit("autoregressive", [6], usual)) == alone("autoregressive", [6], usual)


def test_an_interrupted_pass_fails_the_others(
    failing: ScriptedModel, usual: DecodingSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    failing.wrong = KeyboardInterrupt()
    service = Service(failing)
    bad, beside = (service.submit("autoregressive", [first], usual) for first in (30, 4))
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
        *(
            (info.name, [3], {}, f"{info.name} cannot share passes with others: {info.alone}")
            for info in TABLE.values()
            if info.alone
        ),
    ],
)
def test_what_cannot_join_is_refused_at_the_call(
    prompted: type[ScriptedModel],
    usual: DecodingSettings,
    decoder: str,
    prompt: list[int],
    options: dict[str, object],
    sentence: str,
) -> None:
    service = Service(prompted(context_length=64), capacity=40)
    with pytest.raises(ValueError, match=sentence):
        service.submit(decoder, prompt, replace(usual, **options))


def test_places_and_records_ahead_are_at_least_one(model: ScriptedModel, usual: DecodingSettings) -> None:
    with pytest.raises(ValueError, match="places must be >= 1, got 0"):
        Service(model, places=0)
    with pytest.raises(ValueError, match="ahead must be >= 1, got 0"):
        Service(model).submit("autoregressive", [3], usual, ahead=0)
