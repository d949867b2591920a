"""The public endpoints, `generate` and `runs` (docs/api.md); all other events of the page are private."""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import gradio as gr
from pydantic import Field

from analysis.runs import read_runs
from app.compare.generation import GenerateRequest
from app.compare.generation import generate as generated
from app.compare.runner import Runner
from app.models.sentences import without_paths
from app.tabs.parts import refusing
from app.tradeoffs.run_cache import RUNS
from mars import decoders
from mars.config import DEFAULT_NEW_TOKENS, DEFAULT_THRESHOLD
from mars.schema import checked

Header = Annotated[str, Field(strict=True, max_length=100)]
COLUMNS = Annotated[list[Header], Field(max_length=200)]
_one_at_a_time = Lock()


def register(runner: Runner, checkpoint: str, folder: Path = RUNS) -> None:
    """Add both endpoints to the current Blocks; `checkpoint` is the one that `generate` uses unless told."""

    def generate(
        prompt: str,
        request: gr.Request,
        checkpoint: str = checkpoint,
        decoder: str = decoders.USUAL,
        threshold: float | None = DEFAULT_THRESHOLD,
        block_size: int | None = None,
        max_new_tokens: int = DEFAULT_NEW_TOKENS,
        seed: int = 0,
        draft: str | None = None,
        settings: dict[str, Any] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Let a checkpoint answer a prompt; the text, and a record of every forward pass.

        Args:
            prompt: What the person says.
            checkpoint: A name that the app offers.
            decoder: One of DECODERS.
            threshold: Proposals after the first are accepted while their score meets it; null is one token a pass.
            block_size: How many tokens a pass proposes; null is the block size that the checkpoint was trained with.
            max_new_tokens: The longest answer.
            seed: For temperatures above 0: the same seed draws the same text.
            draft: The name of the smaller checkpoint that drafts, for DRAFTED.
            settings: Further decoding settings by name, such as temperature, top_p, score or alternatives.
        """
        given = dict(locals())
        with refusing():
            yield from generated(runner, str(request.session_hash), GenerateRequest.of(runner.limits, given, settings))

    def runs(columns: list[str] | None = None) -> dict[str, Any]:
        """The runs that were measured and come with the app, as a table: headers, and one row a run.

        Args:
            columns: The columns to return; null is all of them.
        """
        with refusing():
            return table(folder, columns)

    generate.__doc__ = _named(str(generate.__doc__))
    gr.api(generate, api_name="generate", concurrency_limit=None)
    gr.api(runs, api_name="runs", concurrency_limit=None)


def _named(text: str) -> str:
    """The description of an endpoint with the names of the decoders in it."""
    return text.replace("DECODERS", decoders.names()).replace("DRAFTED", decoders.names(decoders.drafted()))


def table(folder: Path, columns: object = None) -> dict[str, Any]:
    """The runs of a folder: `headers`, `data`, in `problems` what cannot be read; ValueError for an unknown column."""
    with _one_at_a_time:  # reading takes seconds: who asks meanwhile gets the same table
        found = _read(folder)
    if columns is None:
        return found
    wanted = checked(COLUMNS, columns, "columns")
    headers: list[str] = found["headers"]
    if unknown := [name for name in wanted if name not in headers]:
        raise ValueError(f"columns must be among {', '.join(headers)}, got {unknown[0]!r}")
    places = [headers.index(name) for name in wanted]
    return {**found, "headers": wanted, "data": [[row[place] for place in places] for row in found["data"]]}


@lru_cache(maxsize=1)
def _read(folder: Path) -> dict[str, Any]:
    """The table as JSON."""
    store = read_runs(folder)
    rows = json.loads(store.table().to_json(orient="split", index=False, double_precision=15))
    problems = [without_paths(problem) for problem in store.problems]
    return {"headers": rows["columns"], "data": rows["data"], "problems": problems}
