"""Decoding settings: what is refused, and with which words; and the options that make them."""

import argparse

import pytest

from mars.config import DEFAULT_THRESHOLD, DecodingSettings
from mars.decoders import TABLE
from mars.options import DEFAULT_ENTROPY, add_decoding_options, decoding_settings
from mars.schema import checked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 0}, "block_size must be between 1 and 64, got 0"),
        ({"score": "logit"}, "score must be one of probability, margin, entropy, calibrated, got 'logit'"),
        ({"max_new_tokens": 0}, "max_new_tokens must be >= 1, got 0"),
        ({"alternatives": 21}, "alternatives must be between 0 and 20, got 21"),
        ({"threshold": 1.5}, "threshold must be between 0 and 1 for probability, or none for one-token mode, got 1.5"),
        ({"threshold": "x"}, "threshold must be between 0 and 1 for probability, or none for one-token mode, got 'x'"),
        ({"temperature": -0.1}, "temperature must be a finite number >= 0, got -0.1"),
        ({"temperature": float("nan")}, "temperature must be a finite number >= 0, got nan"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, got 0.0"),
        ({"top_p": float("nan")}, "top_p must be above 0 and at most 1, got nan"),
        ({"seed": -1}, f"seed must be between 0 and {2**63 - 1}, got -1"),
        ({"seed": 2**63}, f"seed must be between 0 and {2**63 - 1}, got {2**63}"),
        ({"layout": "cubic"}, "layout must be one of auto, linear, quadratic, tree, lookup, got 'cubic'"),
        ({"cache_block_size": 0}, "cache_block_size must be between 1 and 1024, got 0"),
        ({"draft_tokens": 0}, "draft_tokens must be between 1 and 64, got 0"),
    ],
)
def test_a_setting_out_of_range_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        DecodingSettings(**options)
    assert str(refused.value) == message


def test_the_ends_of_the_ranges_are_allowed() -> None:
    DecodingSettings(top_p=1.0, seed=2**63 - 1, cache_block_size=1, draft_tokens=1)
    DecodingSettings(top_p=1e-9, seed=0, cache_block_size=1024, draft_tokens=64, temperature=100.0)


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_decoding_options(parser)
    return parser.parse_args(["--checkpoint", "somewhere", "--decoder", "autoregressive", *arguments])


def test_without_options_the_settings_are_the_defaults() -> None:
    assert decoding_settings(parsed(), None) == DecodingSettings()
    assert parsed().draft is None
    found = {name: decoding_settings(parsed("--decoder", name, "--score", "entropy"), None).threshold for name in TABLE}
    assert (found["sliding_window"], found["relaxed"]) == (DEFAULT_ENTROPY, DEFAULT_THRESHOLD), "if it heeds the score"


def test_every_option_reaches_its_setting() -> None:
    line = (
        "--threshold none --score entropy --block-size 4 --extra-proposal --max-new-tokens 9 --temperature 0.7 "
        "--top-p 0.9 --sampling-seed 5 --layout linear --cache-block-size 16 --draft-tokens 6"
    )
    assert decoding_settings(parsed(*line.split()), 8) == DecodingSettings(
        threshold=None,
        score="entropy",
        block_size=4,
        extra_proposal=True,
        max_new_tokens=9,
        temperature=0.7,
        top_p=0.9,
        seed=5,
        layout="linear",
        cache_block_size=16,
        draft_tokens=6,
    )


def test_continuation_of_earlier_versions_is_left_out() -> None:
    assert checked(DecodingSettings, {"continuation": True, "seed": 3}) == DecodingSettings(seed=3)
    with pytest.raises(ValueError, match="continuations is unknown"):
        checked(DecodingSettings, {"continuations": True})
    with pytest.raises(TypeError):
        DecodingSettings(continuation=True)


def test_runs_without_a_cache_are_still_read() -> None:
    assert not checked(DecodingSettings, {"use_cache": False}).use_cache
