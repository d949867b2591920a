"""Where exact decoding gains its tokens: the counts against a slow twin, and the command on a tiny checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.benchmarks.breakdown import ENTROPIES, POSITIONS, breakdown
from analysis.benchmarks.questions import Question
from analysis.figures import breakdown_points
from mars.checkpoint import Checkpoint
from mars.config import DecodingSettings
from mars.decoding import DECODERS
from mars.metrics import COUNTED, output_ids


def test_the_counts_are_those_of_each_answer_alone(tiny: Checkpoint, questions: list[Question]) -> None:
    told: list[int] = []
    found = breakdown(tiny, questions, [2, 4], max_new_tokens=20, places=3, progress=told.append)
    assert sum(told) == 3 * len(questions)
    assert [result["block_size"] for result in found] == [2, 4]
    for result in found:
        for question, counts in zip(questions, result["questions"], strict=True):
            prompt = tiny.encode(question.turns[0])
            plain = DecodingSettings(threshold=None, max_new_tokens=20, score="entropy")
            records = list(DECODERS["autoregressive"](tiny.engine, [prompt], plain))
            ids = output_ids(records)
            assert (counts["number"], counts["same"], counts["tokens"]) == (question.number, True, len(ids))
            assert sum(tokens for tokens, _ in counts["position"]) == len(ids)
            assert counts["position"][0][0] == min(len(ids), POSITIONS[1])
            assert sum(passes for _, passes in counts["position"]) == counts["passes"] <= len(ids)
            entropies = [record.rows[0].proposals[0].score for record in records if record.phase in COUNTED]
            unsure = sum(entropy >= ENTROPIES[-1] for entropy in entropies)
            assert counts["entropy"][-1][0] == unsure
            assert sum(tokens for tokens, _ in counts["entropy"]) == len(ids)
            assert sum(passes for _, passes in counts["entropy"]) == counts["passes"]


def test_the_command_writes_what_the_report_draws(
    tiny_folder: Path, question_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs" / "breakdown-tiny.json"
    given = ["--questions", str(question_file), "--max-new-tokens", "12", "--block-sizes", "2,3", "--batch", "2"]
    command = ["breakdown", "--checkpoint", str(tiny_folder), "--output", str(file), "--dtype", "float32", *given]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "8 of 8 texts are those of AR." in out
    found = json.loads(file.read_text())
    assert {"command", "commit", "hardware", "date", "threads", "model", "questions"} <= found.keys()
    points = breakdown_points(found)
    assert points.loc[points["by"] == "masks", "label"].tolist() == ["1", "2"]
    assert (points["tokens_per_forward"] >= 1).all()
    assert main(["report", "--runs", str(file.parent), "--out", str(tmp_path / "page")]) == 0
    assert (tmp_path / "page" / "breakdown.csv").is_file()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--block-sizes", "1,2"], "block sizes must be >= 2, for a block of 1 has no mask, got 1"),
        (["--batch", "0"], "batch must be >= 1, got 0"),
    ],
)
def test_bad_input_is_one_sentence(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["breakdown", "--checkpoint", "nowhere", "--output", str(tmp_path / "x.json"), *options]) == 2
    assert sentence in capsys.readouterr().err


def test_a_model_without_masks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["breakdown", "--checkpoint", "assets/checkpoints/draft-ar", "--output", str(tmp_path / "x.json")]
    assert main(command) == 2
    assert "draft-ar was not trained to fill masks" in capsys.readouterr().err
