"""The table of the decoders: complete, without torch, and true of what the decoders do."""

import json
from dataclasses import fields, replace

import pytest

from mars import decoders
from mars.config import DEFAULTS, SETTINGS, DecodingSettings
from mars.decoders import TABLE, DecoderInfo
from mars.decoding import DECODERS, METHODS
from tests.scripted import ScriptedModel

each_decoder = pytest.mark.parametrize("info", TABLE.values(), ids=TABLE)


@each_decoder
def test_what_an_entry_names_is_there(info: DecoderInfo) -> None:
    assert TABLE[info.name] is info
    assert callable(DECODERS[info.name])
    assert (info.name in METHODS) == (not info.alone)
    if info.name in METHODS:
        assert METHODS[info.name](ScriptedModel([]), DecodingSettings()).verifies == info.verifies
    assert info.line.endswith(".")
    assert {"temperature", "top_p", "seed"} <= set(info.settings)


def test_tables_of_functions_are_the_entries() -> None:
    assert list(DECODERS) == list(TABLE)
    assert "max" not in DECODERS
    with pytest.raises(KeyError):
        DECODERS["max"]


def test_a_wrong_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="fields of DecodingSettings, got 'width'"):
        replace(TABLE["jacobi"], settings=("width",))


def test_random_guesses_need_the_seed_at_any_temperature() -> None:
    assert "seed" in TABLE["jacobi"].acting(0)
    assert not {"seed", "top_p"} & set(TABLE["sliding_window"].acting(0))
    assert {"seed", "top_p"} < set(TABLE["sliding_window"].acting(0.5))


def test_what_the_page_gets_is_plain_data() -> None:
    told = json.loads(decoders.as_json())
    assert told["decoders"]["jacobi"]["needs"] == "causal"
    assert "function" not in told["decoders"]["jacobi"]
    assert "<" not in decoders.as_json()


def test_every_field_of_the_settings_is_described_once() -> None:
    assert list(SETTINGS) == [field.name for field in fields(DecodingSettings)]
    assert DecodingSettings(**DEFAULTS) == DecodingSettings()
    for name, setting in SETTINGS.items():
        assert isinstance(DEFAULTS[name], bool) or not setting.choices or DEFAULTS[name] in setting.choices
