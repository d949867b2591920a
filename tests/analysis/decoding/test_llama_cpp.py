"""llama.cpp as a baseline: what it is asked, and what is made of its answers. A stand-in is its server."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from analysis.decoding.llama_cpp import LlamaCpp
from analysis.decoding.timed import Stopwatch


class Server:
    """Answers as xllamacpp 2026.10 does."""

    loaded: ClassVar[list[Any]] = []
    asked: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, options: Any) -> None:
        self.loaded.append(options)

    def handle_completions(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(asked)
        if not asked["prompt"]:
            return {"error": {"code": 400, "message": "no prompt"}}
        return {
            "usage": {"completion_tokens": 5, "prompt_tokens": len(asked["prompt"])},
            "timings": {"prompt_ms": 20.0, "predicted_per_token_ms": 10.0},
        }


def params() -> SimpleNamespace:
    parts = {"model": SimpleNamespace(), "cpuparams": SimpleNamespace(), "cpuparams_batch": SimpleNamespace()}
    return SimpleNamespace(**parts)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(sys.modules, "xllamacpp", SimpleNamespace(CommonParams=params, Server=Server))  # type: ignore[arg-type]
    Server.loaded.clear()
    Server.asked.clear()
    found = tmp_path / "model.gguf"
    found.write_bytes(b"GGUF")
    return found


def test_each_prompt_is_asked_alone_and_greedily(file: Path) -> None:
    baseline = LlamaCpp(file, threads=2, context=64, max_new_tokens=8)
    timed = baseline.timed([[3, 4], [5]], Stopwatch())
    assert [asked["prompt"] for asked in Server.asked] == [[3, 4], [5]]
    assert all(
        (asked["n_predict"], asked["temperature"], asked["cache_prompt"]) == (8, 0.0, False) for asked in Server.asked
    )
    (options,) = Server.loaded
    assert options.cpuparams.n_threads == options.cpuparams_batch.n_threads == 2
    assert (timed.tokens, timed.passes, timed.first_token_seconds) == (10, 10, (0.02, 0.02))
    assert timed.token_seconds == (0.01, 0.01)


def test_an_error_of_its_own_is_told(file: Path) -> None:
    with pytest.raises(RuntimeError, match="no prompt"):
        LlamaCpp(file, threads=1, context=64, max_new_tokens=8).timed([[]], Stopwatch())


def test_what_is_missing_is_said_in_one_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"there is no GGUF file other\.gguf"):
        LlamaCpp(file.with_name("other.gguf"), threads=1, context=64, max_new_tokens=8)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ValueError, match=r"pip install -r requirements-llamacpp\.txt"):
        LlamaCpp(file, threads=1, context=64, max_new_tokens=8)
