"""The score `calibrated` of a checkpoint whose record has a calibration, and of one that has none."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mars.checkpoint import load_checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.decoding.pair import Pair
from mars.records import Proposal
from tests.mars.tiny import edit

PAIRS = ([1.5, -0.5], [0.5, 1.0])
CALIBRATED: dict[str, Any] = {"score": "calibrated", "threshold": 0.5}
PROMPT = [9, 10, 11, 12]

WriteAdapter = Callable[..., Path]


@pytest.fixture
def folder(request: pytest.FixtureRequest, write_adapter: WriteAdapter, tiny_folder: Path, tmp_path: Path) -> Path:
    """One of the two kinds of folders, its record calibrated."""
    if request.param == "adapter":
        return write_adapter(calibration={"masks": PAIRS})
    copy = shutil.copytree(tiny_folder, tmp_path / "whole")
    edit(copy / "mars.json", calibration={"masks": PAIRS})
    return copy


def first_pass(engine: Any, **settings: Any) -> list[Proposal]:
    """The proposals of the first pass: the clean one, then those of masks."""
    asked = DecodingSettings(block_size=4, max_new_tokens=8, **settings)
    record = next(found for found in DECODERS["sliding_window"](engine, [PROMPT], asked) if found.phase == "decode")
    return list(record.rows[0].proposals)


@pytest.mark.parametrize("folder", ["adapter", "whole"], indirect=True)
def test_masks_are_scored_by_the_record(folder: Path) -> None:
    engine = load_checkpoint(folder, dtype="float32", device="cpu").engine
    plain, scored = first_pass(engine, threshold=0.5), first_pass(engine, **CALIBRATED)
    assert [each.token_id for each in scored] == [each.token_id for each in plain]
    assert scored[0].score == plain[0].score, "a clean column is accepted anyway"
    assert len(scored) == 4
    for mine, its, (slope, offset) in zip(scored[1:], plain[1:], [*PAIRS, PAIRS[-1]], strict=True):
        odds = torch.logit(torch.tensor(its.score, dtype=torch.float64), 1e-7)
        assert mine.score == pytest.approx(float(torch.sigmoid(slope * odds + offset)))


@pytest.mark.parametrize("decoder", ["sliding_window", "block_cached", "speculative"])
def test_without_a_calibration_the_score_is_refused(decoder: str, write_adapter: WriteAdapter) -> None:
    engine: Any = load_checkpoint(write_adapter(), dtype="float32", device="cpu").engine
    engine = Pair(engine, engine) if decoder == "speculative" else engine
    with pytest.raises(ValueError, match="calibrated needs a checkpoint that was calibrated"):
        DECODERS[decoder](engine, [PROMPT], DecodingSettings(**CALIBRATED))
