"""What a task asks of an answer becomes settings of ours, and what cannot be followed is refused."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="requirements-eval.txt is not installed")

from analysis.harness.model import DEFAULT_TOKENS, read_request
from mars.config import DecodingSettings

BASE = DecodingSettings(block_size=4, threshold=0.7, max_new_tokens=5, seed=3, temperature=0.4)


@pytest.mark.parametrize(
    ("kwargs", "until"),
    [
        ({}, ("<end>",)),
        ({"until": "Q:"}, ("Q:", "<end>")),
        ({"until": ["\n\n", "<end>"]}, ("\n\n", "<end>")),
        ({"until": []}, ("<end>",)),
    ],
)
def test_stop_strings_and_the_end_of_sequence(kwargs: dict[str, Any], until: tuple[str, ...]) -> None:
    assert read_request(kwargs, BASE, "<end>").until == until


@pytest.mark.parametrize("word", ["max_gen_toks", "max_new_tokens", "max_tokens"])
def test_length(word: str) -> None:
    assert read_request({word: 17}, BASE, "<end>").settings.max_new_tokens == 17
    assert read_request({}, BASE, "<end>").settings.max_new_tokens == DEFAULT_TOKENS


@pytest.mark.parametrize(
    ("kwargs", "temperature", "top_p"),
    [
        ({}, 0.0, 1.0),
        ({"do_sample": False, "temperature": 0.0}, 0.0, 1.0),
        ({"do_sample": False, "temperature": 0.8, "top_p": 0.5, "top_k": 3}, 0.0, 1.0),
        ({"temperature": 0.8}, 0.8, 1.0),
        ({"do_sample": True, "temperature": 0.8, "top_p": 0.5}, 0.8, 0.5),
    ],
)
def test_drawing(kwargs: dict[str, Any], temperature: float, top_p: float) -> None:
    settings = read_request(kwargs, BASE, "<end>").settings
    assert (settings.temperature, settings.top_p) == (temperature, top_p)
    assert (settings.block_size, settings.threshold, settings.seed) == (4, 0.7, 3), "the rest is ours"


def test_what_a_task_asked_is_unchanged() -> None:
    kwargs = {"until": ["Q:"], "max_gen_toks": 3, "num_beams": 1}
    read_request(kwargs, BASE, "<end>")
    assert kwargs == {"until": ["Q:"], "max_gen_toks": 3, "num_beams": 1}


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_beams": 4}, "num_beams=4 is not supported"),
        ({"max_length": 99}, "max_length=99 is not supported"),
        ({"do_sample": True, "temperature": 0.8, "top_k": 3}, "top_k=3 is not supported"),
        ({"do_sample": True}, "do_sample needs a temperature above 0"),
        ({"max_gen_toks": 0}, "max_new_tokens must be >= 1"),
    ],
)
def test_what_cannot_be_followed(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_request(kwargs, BASE, "<end>")
