"""llama.cpp on a GGUF file, on the wall-clock: the baseline from outside that people run on a CPU.

Its weights stay quantised, so its texts are another model's; only its speed is compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from analysis.decoding import llama_cpp_process
from analysis.decoding.timed import Timed
from mars.decoding.base import Prompts

LLAMA_CPP = "llama.cpp"
_UNTOLD = -1
"""Stands for a token whose id its answers do not tell."""


class LlamaCpp:
    """Greedy, one sequence at a time, without what it remembers of earlier prompts.

    A process of its own for each round loads it, off the clock (llama_cpp_process.py).
    """

    def __init__(self, file: Path, threads: int, context: int, max_new_tokens: int):
        """Of this file, with so many threads and slots.

        Raises:
            ValueError: one sentence: the package is not installed, or the file is not there.
        """
        if find_spec("xllamacpp") is None:
            raise ValueError("llama.cpp is not installed: run pip install -r requirements-llamacpp.txt")
        if not file.is_file():
            raise ValueError(f"there is no GGUF file {file.name}")
        self._options = {
            "file": str(file),
            "threads": threads,
            "context": context,
            "max_new_tokens": max_new_tokens,
        }

    def timed(self, prompts: Prompts) -> Timed:
        """Each prompt once. Of its passes only their number is known, and its own clock says when the first token came.

        Raises:
            RuntimeError: it has answered with an error.
        """
        found = self._ask([list(prompt) for prompt in prompts])
        written = [answer["usage"]["completion_tokens"] for answer in found["answers"]]
        times = [answer["timings"] for answer in found["answers"]]
        return Timed(
            outputs=tuple((_UNTOLD,) * count for count in written),
            seconds=found["seconds"],
            first_token_seconds=tuple(time["prompt_ms"] / 1000 for time in times),
            token_seconds=tuple(time["predicted_per_token_ms"] / 1000 for time in times),
            model_seconds=None,
            pass_seconds=(),
            row_passes=sum(written),
        )

    def _ask(self, prompts: list[list[int]]) -> dict[str, Any]:
        """The answer of the process, without the lines that llama.cpp prints before it."""
        asked = json.dumps({**self._options, "prompts": prompts})
        command = [sys.executable, str(llama_cpp_process.__file__)]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["llama.cpp ended without a word"])[-1])
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found
