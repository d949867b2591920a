"""`python -m analysis bench` on a tiny checkpoint with random weights: output, JSON, refusals. No time is asserted."""

import json
from pathlib import Path

import pytest

from analysis.__main__ import main

SMALL = ["--problems", "1", "--max-new-tokens", "4", "--device", "cpu", "--dtype", "float32", "--batch-sizes", "6"]
FIGURES = """tokens_per_second tokens_per_forward seconds_per_pass ttft_seconds tpot_seconds outside_model
    speedup_over_autoregressive speedup_over_generate""".split()


def words(folder: Path, *more: str) -> list[str]:
    return ["bench", "--checkpoint", str(folder), *SMALL, *more]


def test_questions_of_a_file_are_asked(tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "questions.jsonl"
    lines = [{"question_id": number, "category": "qa", "turns": [f"Why {number}?"]} for number in range(3)]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    chosen = ["--questions", str(file), "--limit", "2", "--decoders", "sliding_window", "--json"]
    assert main([*words(tiny_folder, *chosen), "--batch-sizes", "2"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["n"], found["questions"]) == (2, str(file))


def test_json_is_the_last_line(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = "--decoders sliding_window@none --decoders sliding_window@0.3/b2 --json".split()
    assert main(words(tiny_folder, *chosen)) == 0
    output = capsys.readouterr()
    *table, last = output.out.splitlines()
    assert table[0] == "batch size 6"
    found = json.loads(last)
    labels = ["generate", "autoregressive", "sliding_window@none", "sliding_window@0.3/b2"]
    assert [result["contestant"] for result in found["results"]] == labels
    assert [line.split("  ")[0] for line in table[2:6]] == labels
    for result in found["results"]:
        assert set(result) >= {*FIGURES}
        assert len(result["rounds"]) == 5
        assert result["tokens_per_second"]["low"] > 0
    generate, baseline, one_token, several = found["results"]
    assert generate["outside_model"] is None
    assert baseline["speedup_over_autoregressive"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert one_token["lossless"] is True
    assert one_token["identical"] == 6
    assert several["tokens_per_forward"]["median"] >= 1
    assert found["contestants"]["sliding_window@0.3/b2"] == {"threshold": 0.3, "block_size": 2}
    assert found["settings"]["block_size"] == 4  # from the training record
    assert (found["n"], found["repeats"], found["seed"], found["batch_sizes"]) == (6, 5, 0, [6])
    assert (found["dtype"], found["device"]) == ("float32", "cpu")
    assert {"threads", "hardware", "commit", "command", "torch", "date"} <= set(found)
    assert "24/24" in output.err


def test_speculative_runs_on_the_pair(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--draft", str(tiny_folder), "--decoders", "speculative/k2", "--json"]
    assert main(words(tiny_folder, *chosen)) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["results"][-1]["contestant"], found["draft"]) == ("speculative/k2", str(tiny_folder))
    assert found["lossless_identical"] is True
