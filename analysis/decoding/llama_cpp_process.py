"""A process that asks llama.cpp the prompts given on its standard input. It imports nothing of torch.

In one process with torch both wait for each other's idle threads: llama.cpp took twice as long for a token there.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any


def answer_all(asked: dict[str, Any]) -> dict[str, Any]:
    """The answers to `prompts`, token ids, one after the other, and the seconds of all; loading is not counted.

    Raises:
        RuntimeError: it has answered with an error.
    """
    package: Any = import_module("xllamacpp")
    options = package.CommonParams()
    options.model.path = asked["file"]
    options.n_ctx, options.n_parallel, options.n_gpu_layers, options.verbosity = asked["context"], 1, 0, -1
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = asked["threads"]
    server = package.Server(options)
    answers = []
    start = time.perf_counter()
    for prompt in asked["prompts"]:
        limit = asked["max_new_tokens"]
        answer = server.handle_completions(
            {"prompt": prompt, "n_predict": limit, "temperature": 0.0, "cache_prompt": False}
        )
        if "usage" not in answer:
            raise RuntimeError(f"llama.cpp answered with an error: {answer}")
        answers.append({"usage": answer["usage"], "timings": answer["timings"]})
    return {"answers": answers, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(answer_all(json.load(sys.stdin))) + "\n")
