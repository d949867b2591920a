"""docs/extending.md is true: its decoder, its entry and its test are run as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mars import decoding
from mars.config import DecodingSettings
from mars.metrics import output_ids
from mars.scripted import ScriptedModel
from mars.service import Service

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
NAME = "mars.decoding.joint_window"


@pytest.fixture
def blocks() -> list[str]:
    """The page's Python, block by block: the decoder's file, its entry, its test."""
    found = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(found) == 3
    return found


@pytest.fixture
def decoder(blocks: list[str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The decoder's file as a module, entered in the tables as the page says."""
    module = ModuleType(NAME)
    monkeypatch.setitem(sys.modules, NAME, module)
    exec(compile(blocks[0], f"{PAGE.name}: decoder", "exec"), vars(module))
    tables = {"DECODERS": dict(decoding.DECODERS), "METHODS": dict(decoding.METHODS)}
    exec(compile(blocks[1], f"{PAGE.name}: entry", "exec"), {**vars(module), **tables})
    for table, entries in tables.items():
        monkeypatch.setitem(getattr(decoding, table), "joint_window", entries["joint_window"])
    return module


def test_its_test_passes(decoder: ModuleType, blocks: list[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(blocks[2], f"{PAGE.name}: test", "exec"), names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    test()


def test_one_token_mode_and_the_end_of_sequence(decoder: ModuleType) -> None:
    settings = DecodingSettings(block_size=4, threshold=None)
    assert output_ids(decoding.DECODERS["joint_window"](ScriptedModel([[5, 6, 2]]), [[3]], settings)) == [5, 6, 2]
    settings = DecodingSettings(block_size=4, threshold=0.9)
    [record] = decoding.DECODERS["joint_window"](ScriptedModel([[5, 6, 2]]), [[3]], settings)
    assert (record.rows[0].accepted, record.rows[0].finish_reason) == (3, "stop")


def test_it_shares_passes_with_others(decoder: ModuleType) -> None:
    service = Service(ScriptedModel([[5, 6, 7, 2]] * 2))
    streams = [service.submit(name, [3], DecodingSettings(block_size=4)) for name in ("joint_window", "sliding_window")]
    assert [output_ids(stream) for stream in streams] == [[5, 6, 7, 2]] * 2


def test_it_says_what_it_cannot_do(decoder: ModuleType) -> None:
    with pytest.raises(ValueError, match="score must be probability, got entropy"):
        decoder.joint_window(ScriptedModel([[5]]), [[3]], DecodingSettings(score="entropy"))


def test_the_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:mars|tests)/[\w/]+\.py)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) >= 6
    made_here = {"mars/decoding/joint_window.py"}
    assert not [name for name in sorted(named - made_here) if not (PAGE.parent.parent / name).is_file()]
