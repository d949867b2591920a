"""docs/extending.md is true: its decoder, its entry and its test are run as they stand there, and nothing else changes.

The app is in tests/app/test_extending.py.
"""

import re
from pathlib import Path
from types import ModuleType

import pytest

from analysis.decoding.decoder_specs import default_decoder_specs, parse_decoder_specs
from analysis.figures.words import decoder_words, heeds_threshold, threshold_words
from analysis.runs.baseline import writes_one_token
from analysis.sweeps.jobs import turns_of
from analysis.sweeps.plan import Group, SweepPlan
from mars import decoders, decoding
from mars.config import DEFAULTS, DecodingSettings
from mars.decoding.service import Service
from mars.generate import main
from mars.metrics import output_ids
from tests import extending
from tests.scripted import ScriptedModel

ROOT = Path(__file__).parents[1]


def test_its_test_passes(joint_window: ModuleType) -> None:
    names: dict[str, object] = {}
    exec(compile(extending.blocks()[2], "extending.md: test", "exec"), names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    test()  # type: ignore[operator]


def test_one_token_mode_and_the_end_of_sequence(joint_window: ModuleType) -> None:
    settings = DecodingSettings(block_size=4, threshold=None)
    assert output_ids(decoding.DECODERS["joint_window"](ScriptedModel([[5, 6, 2]]), [[3]], settings)) == [5, 6, 2]
    settings = DecodingSettings(block_size=4, threshold=0.9)
    [record] = decoding.DECODERS["joint_window"](ScriptedModel([[5, 6, 2]]), [[3]], settings)
    assert (record.rows[0].accepted, record.rows[0].finish_reason) == (3, "stop")


def test_it_shares_passes_with_others(joint_window: ModuleType) -> None:
    service = Service(ScriptedModel([[5, 6, 7, 2]] * 2))
    streams = [service.submit(name, [3], DecodingSettings(block_size=4)) for name in ("joint_window", "sliding_window")]
    assert [output_ids(stream) for stream in streams] == [[5, 6, 7, 2]] * 2


def test_the_command_line_helps_and_runs_it(
    joint_window: ModuleType, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    helped = " ".join(capsys.readouterr().out.split())
    names = ", ".join(name for name, info in decoders.TABLE.items() if info.needs == "masks")
    assert "joint_window" in names
    assert f"for a MARS checkpoint: {names};" in helped
    given = ["--checkpoint", str(tiny_folder), *"--decoder joint_window --prompt Hello --max-new-tokens 8".split()]
    assert main([*given, "--device", "cpu"]) == 0
    assert "tokens/forward" in capsys.readouterr().err
    assert main([*given, "--device", "cpu", "--score", "margin"]) == 2
    assert "joint_window multiplies probabilities" in capsys.readouterr().err


def test_benchmarks_and_sweeps_take_it(joint_window: ModuleType, tiny_folder: Path) -> None:
    assert "joint_window@0.9" in {found.label for found in default_decoder_specs(0.9, masks=True)}
    assert "joint_window@0.9" not in {found.label for found in default_decoder_specs(0.9, masks=False)}
    [*_, spec] = parse_decoder_specs("joint_window@0.8/b4", 0.9)
    assert dict(spec.changes) == {"threshold": 0.8, "block_size": 4}
    assert (spec.lossless, "joint_window" in decoding.METHODS) == (False, True)
    group = Group(
        name="joint",
        checkpoints=(str(tiny_folder),),
        decoders=("joint_window",),
        thresholds=(0.8, 0.9),
        problems=1,
        seed=0,
    )
    [[first], [second]] = turns_of(SweepPlan(name="plan", groups=(group,)))
    assert [job.settings.threshold for job in (first, second)] == [0.8, 0.9]


def test_trade_offs_has_words_for_it(joint_window: ModuleType) -> None:
    row = {f"settings.{name}": value for name, value in DEFAULTS.items()}
    row |= {"decoder": "joint_window", "source": "measured", "model.block_size": 8, "settings.block_size": 4}
    assert decoder_words(row) == "joint_window · B 4"  # not the layout or the draft tokens, which it does not read
    assert (heeds_threshold(row), threshold_words(row)) == (True, "τ 0.95")
    assert writes_one_token("joint_window", None)


def test_every_decoder_has_a_chapter() -> None:
    """docs/decoders.md describes those of the table, and no others."""
    page = (ROOT / "docs/decoders.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## `(\w+)`$", page, re.MULTILINE)) == set(decoders.TABLE)
    assert not [name for name in decoders.TABLE if f"| [`{name}`](#{name}) |" not in page]


def test_the_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:mars|tests)/[\w/]+\.py)`", extending.PAGE.read_text(encoding="utf-8")))
    assert len(named) >= 6
    made_here = {"mars/decoding/joint_window.py"}
    assert not [name for name in sorted(named - made_here) if not (ROOT / name).is_file()]
