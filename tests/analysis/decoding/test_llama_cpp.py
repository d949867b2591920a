"""llama.cpp as a baseline: what it is asked, and what is made of its answers. A stand-in is its package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.decoding.llama_cpp import LlamaCpp

PACKAGE = '''
"""Answers as xllamacpp 2026.10 does, and writes down what it was asked."""
import json
import sys
from pathlib import Path
from types import SimpleNamespace


def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


class Server:
    def __init__(self, options):
        print("loading")
        self.said = {"threads": [options.cpuparams.n_threads, options.cpuparams_batch.n_threads],
                     "torch": "torch" in sys.modules}

    def handle_completions(self, asked):
        with Path(__file__).with_name("asked.jsonl").open("a") as file:
            file.write(json.dumps({**self.said, **asked}) + "\\n")
        if not asked["prompt"]:
            return {"error": {"code": 400, "message": "no prompt"}}
        return {
            "usage": {"completion_tokens": 5, "prompt_tokens": len(asked["prompt"])},
            "timings": {"prompt_ms": 20.0, "predicted_per_token_ms": 10.0},
        }
'''


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's file, beside the stand-in, which this process and its children find first."""
    (tmp_path / "xllamacpp.py").write_text(PACKAGE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = tmp_path / "model.gguf"
    found.write_bytes(b"GGUF")
    return found


def test_prompts_are_asked_alone_greedily_and_without_torch(file: Path) -> None:
    baseline = LlamaCpp(file, threads=2, context=64, max_new_tokens=8)
    timed = baseline.timed([[3, 4], [5]])
    asked = [json.loads(line) for line in file.with_name("asked.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [each["prompt"] for each in asked] == [[3, 4], [5]]
    assert all((each["n_predict"], each["temperature"], each["cache_prompt"]) == (8, 0.0, False) for each in asked)
    assert all(each["threads"] == [2, 2] and not each["torch"] for each in asked)
    assert (timed.tokens, timed.row_passes, timed.first_token_seconds) == (10, 10, (0.02, 0.02))
    assert timed.token_seconds == (0.01, 0.01)


def test_an_error_of_its_own_is_told(file: Path) -> None:
    with pytest.raises(RuntimeError, match="no prompt"):
        LlamaCpp(file, threads=1, context=64, max_new_tokens=8).timed([[]])


def test_what_is_missing_is_said_in_one_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"there is no GGUF file other\.gguf"):
        LlamaCpp(file.with_name("other.gguf"), threads=1, context=64, max_new_tokens=8)
    monkeypatch.setattr("analysis.decoding.llama_cpp.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -r requirements-llamacpp\.txt"):
        LlamaCpp(file, threads=1, context=64, max_new_tokens=8)
