"""llama.cpp on a GGUF file, on the wall-clock: the baseline from outside that people run on a CPU.

Its weights stay quantised, so its texts are another model's; only its speed is compared.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from analysis.decoding.timed import Stopwatch, Timed
from mars.decoding.base import Prompts

LLAMA_CPP = "llama.cpp"
_UNTOLD = -1
"""Stands for a token whose id its answers do not tell."""


class LlamaCpp:
    """Greedy, one sequence at a time, without what it remembers of earlier prompts.

    It is loaded anew for each round, off the clock: as long as it is there, idle, torch takes twice as long for a pass.
    """

    def __init__(self, file: Path, threads: int, context: int, max_new_tokens: int):
        """Of this file, with so many threads and slots.

        Raises:
            ValueError: one sentence: the package is not installed, or the file is not there.
        """
        try:
            package: Any = import_module("xllamacpp")
        except ImportError as error:
            raise ValueError("llama.cpp is not installed: run pip install -r requirements-llamacpp.txt") from error
        if not file.is_file():
            raise ValueError(f"there is no GGUF file {file.name}")
        options = package.CommonParams()
        options.model.path = str(file)
        options.n_ctx, options.n_parallel, options.n_gpu_layers, options.verbosity = context, 1, 0, -1
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
        self._load: Callable[[], Any] = lambda: package.Server(options)
        self._max_new_tokens = max_new_tokens

    def timed(self, prompts: Prompts, watch: Stopwatch) -> Timed:
        """Each prompt once. Of its passes only their number is known, and its own clock says when the first token came.

        Raises:
            RuntimeError: it has answered with an error.
        """
        server = self._load()
        start = watch.settled()
        answers = [self._answer(server, list(prompt)) for prompt in prompts]
        seconds = watch.settled() - start
        del server
        gc.collect()
        written = [answer["usage"]["completion_tokens"] for answer in answers]
        times = [answer["timings"] for answer in answers]
        return Timed(
            outputs=tuple((_UNTOLD,) * count for count in written),
            seconds=seconds,
            first_token_seconds=tuple(time["prompt_ms"] / 1000 for time in times),
            token_seconds=tuple(time["predicted_per_token_ms"] / 1000 for time in times),
            model_seconds=None,
            passes=sum(written),
            pass_seconds=(),
            row_passes=sum(written),
            query_tokens=sum(written),
            read_positions=0,
        )

    def _answer(self, server: Any, prompt: list[int]) -> dict[str, Any]:
        asked = {"prompt": prompt, "n_predict": self._max_new_tokens, "temperature": 0.0, "cache_prompt": False}
        answer: dict[str, Any] = server.handle_completions(asked)
        if "usage" not in answer:
            raise RuntimeError(f"llama.cpp answered with an error: {answer}")
        return answer
