"""`python -m analysis calibrate`, on a copy of the shipped checkpoint."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.commands.calibrate import collect
from mars.checkpoint import Checkpoint, load_checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import output_ids

SHIPPED = Path(__file__).parents[3] / "assets" / "checkpoints" / "mars-b8"


def test_the_fit_is_kept_with_the_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(SHIPPED, tmp_path / "mars-b8")
    path = folder / "mars.json"
    before = {name: value for name, value in json.loads(path.read_text()).items() if name != "calibration"}
    prompts = tmp_path / "asked.jsonl"
    prompts.write_text('{"prompt": "How many shells are 12 and 29?"}\n')
    command = ["calibrate", "--checkpoint", str(folder), "--problems", "1", "--max-new-tokens", "24"]
    found = []
    for _ in range(2):
        assert not main([*command, "--prompts", str(prompts)])
        record = json.loads(path.read_text())
        found.append(record.pop("calibration"))
        assert record == before
    for each in found:
        del each["date"]
    assert found[0] == found[1], "the same prompts and seed give the same fit"
    calibration = found[0]
    assert calibration["prompts"] == 7
    for bins in calibration["bins"].values():
        assert sum(each["n"] for each in bins) == calibration["proposals"] > 0
    assert f"{calibration['error']['calibrated']:.4f}" in capsys.readouterr().out
    engine = load_checkpoint(folder, dtype="float32", device="cpu").engine
    assert engine.calibration is not None
    assert engine.calibration.T.tolist() == calibration["masks"]


@pytest.mark.parametrize(("name", "sentence"), [("", "mars.json is missing"), ("ar-sft", "not trained to fill masks")])
def test_what_has_no_masks_is_refused(name: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--checkpoint", str(SHIPPED.parent / name)]) == 2
    assert sentence in capsys.readouterr().err


def test_depths_are_the_masks_read(tiny: Checkpoint) -> None:
    """Each is what a sliding window from the same prefix proposes at the same place, that has read as many masks."""
    asked = ["Sort 3, 1 and 2.", "Is snow white?", "Add 2 and 2."]
    shown = []
    for number, text in enumerate(asked):
        prompt = [tiny.encode(text)]
        strict = DecodingSettings(block_size=4, threshold=1.0, max_new_tokens=12)  # one token a pass, masks read
        windows = {
            record.rows[0].start: record.rows[0].proposals
            for record in DECODERS["sliding_window"](tiny.engine, prompt, strict)
            if record.phase == "decode"
        }
        exact = DecodingSettings(block_size=4, threshold=None, max_new_tokens=12, layout="quadratic")
        records = list(DECODERS["self_speculative"](tiny.engine, prompt, exact))
        output = output_ids(records)
        for part in (part for record in records if record.phase == "verify" for part in record.rows):
            start = part.start + part.accepted - 1
            for depth in range(1, 4):
                if start + depth < len(output):
                    proposal = windows[start][depth]
                    agrees = proposal.token_id == output[start + depth]
                    shown.append((number, depth, pytest.approx(proposal.score, abs=1e-5), agrees))
    found = collect(tiny, asked, 12, 2).sort_values("prompt", kind="stable")
    assert shown
    assert list(found.itertuples(index=False, name=None)) == shown
