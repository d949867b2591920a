"""The public endpoints, `generate` and `runs` (docs/api.md); all other events of the page are private.

An answer of `generate` is made under the same queue and limits as the page's runs.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import Field

from app.compare import stream
from app.compare.lane import Lane
from app.compare.runner import Runner
from app.compare.starting import passes, prompt_ids, start
from app.models.sentences import failure
from app.scheduling import Limits, LiveRun
from app.tabs.parts import refusing
from app.tradeoffs.run_cache import RunCache
from mars import decoders
from mars.config import DEFAULT_NEW_TOKENS, DEFAULT_THRESHOLD, DecodingSettings
from mars.schema import checked, shown, text_of

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

COLUMNS = Annotated[list[Annotated[str, Field(strict=True, max_length=100)]], Field(max_length=200)]


def register(runner: Runner, checkpoint: str, run_cache: RunCache) -> None:
    """Add both endpoints to the current Blocks; `checkpoint` is the one that `generate` uses unless told."""

    def generate(
        prompt: str,
        request: gr.Request,
        checkpoint: str = checkpoint,
        decoder: str = decoders.USUAL,
        threshold: float | None = DEFAULT_THRESHOLD,
        block_size: int | None = None,
        max_new_tokens: int = min(DEFAULT_NEW_TOKENS, runner.limits.new_tokens),
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
            draft: The name of the smaller checkpoint that drafts, for a decoder with a draft model.
            settings: Further decoding settings by name, such as temperature, top_p, score or alternatives.
        """
        given = dict(locals())  # the parameters: no other name is there yet
        with refusing():
            yield from generated(runner, str(request.session_hash), GenerateRequest.of(runner.limits, given, settings))

    def runs(columns: list[str] | None = None) -> dict[str, Any]:
        """The runs that were measured and come with the app, as a table: headers, and one row a run.

        Args:
            columns: The columns to return; null is all of them.
        """
        with refusing():
            return table(run_cache, columns)

    generate.__doc__ = str(generate.__doc__).replace("DECODERS", decoders.names())
    gr.api(generate, api_name="generate", concurrency_limit=None)
    gr.api(runs, api_name="runs", concurrency_limit=None)


def table(run_cache: RunCache, columns: object = None) -> dict[str, Any]:
    """The runs: `headers`, `data`, in `problems` what cannot be read; ValueError for an unknown column."""
    wanted = checked(COLUMNS | None, columns, "columns")

    def read() -> Any:
        return json.loads(run_cache.runs.table().to_json(orient="split", index=False, double_precision=15))

    rows = run_cache.once("all", read)
    headers, data = rows["columns"], rows["data"]
    if wanted is not None:
        if unknown := [name for name in wanted if name not in headers]:
            raise ValueError(f"columns must be among {', '.join(headers)}, got {unknown[0]!r}")
        places = [headers.index(name) for name in wanted]
        headers, data = wanted, [[row[place] for place in places] for row in data]
    return {"headers": headers, "data": data, "problems": list(run_cache.problems)}


PROGRESS_SECONDS = 1.0
NAME = text_of(200)
_log = logging.getLogger(__name__)

Answer = dict[str, Any]
"""The progress of an answer, at the end all of it (docs/api.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """A program's request, checked. Without `own_block_size` the checkpoint's is used; `trace` asks for traces."""

    prompt: str
    checkpoint: str
    decoder: str
    settings: DecodingSettings
    draft: str | None = None
    own_block_size: bool = False
    trace: bool = False

    @classmethod
    def of(cls, limits: Limits, given: Mapping[str, Any], settings: object) -> GenerateRequest:
        """From the parameters of the call, and `settings` with `trace`; ValueError says what is wrong and allowed."""
        further: dict[str, Any] = checked(dict[str, Any], {} if settings is None else settings, "settings")
        if further.get("continuation"):
            raise ValueError("settings: continuation is gone, masks behind a draft model's drafts: leave it out")
        trace = checked(bool, further.pop("trace", False), "settings: trace")
        named = {name: given[name] for name in ("threshold", "max_new_tokens", "seed")}
        named |= {} if given["block_size"] is None else {"block_size": given["block_size"]}
        if twice := sorted(named.keys() & further.keys()):
            raise ValueError(f"settings must not repeat {', '.join(twice)}: give it as a parameter")
        limits.check_length(named["max_new_tokens"])
        return cls(
            prompt=limits.check_prompt(given["prompt"]),
            checkpoint=checked(NAME, given["checkpoint"], "checkpoint"),
            decoder=checked(NAME, given["decoder"], "decoder"),
            settings=checked(DecodingSettings, {**further, **named}, "settings"),
            draft=checked(NAME | None, given["draft"], "draft"),
            own_block_size="block_size" in named,
            trace=trace,
        )


def generated(
    runner: Runner, session: str, wanted: GenerateRequest, now: Callable[[], float] = time.monotonic
) -> Iterator[Answer]:
    """Yield the progress about once a second, and last the whole answer; ValueError if no run can be made."""
    live = LiveRun(runner.queue.join(), None)  # no lane follows a slider, and τ may be that of another score
    if not runner.sessions.begin_alone(session, live):
        live.stop()
        raise ValueError("This session has a run already: wait for its end, or use another client")
    try:
        names = [wanted.checkpoint, *([wanted.draft] if wanted.draft else [])]
        status: stream.Status = stream.state("queued", "Waiting for the device.")
        for changed in _now_and_then(runner.ready(names, live), now):
            status = changed or status
            yield {"state": status["state"], "sentence": status["sentence"]}
        checkpoint, *draft = map(runner.models.get, names)
        if draft:
            from mars.checkpoint.checkpoint import paired  # late: torch

            if wanted.decoder not in decoders.TABLE or not decoders.TABLE[wanted.decoder].draft:
                allowed = decoders.names(decoders.drafted())
                raise ValueError(f"draft is for the decoder {allowed}, got {shown(wanted.decoder)}")
            checkpoint = paired(checkpoint, *draft)
        yield from _written(runner, checkpoint, wanted, live, now)
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, the caller gets a sentence
        _log.exception("a run failed")
        raise ValueError(failure(error)) from None
    finally:
        runner.sessions.end(session, live)


def _written(
    runner: Runner, checkpoint: Checkpoint, wanted: GenerateRequest, live: LiveRun, now: Callable[[], float]
) -> Iterator[Answer]:
    ids = prompt_ids(checkpoint, wanted.prompt, wanted.settings.max_new_tokens)
    settings = wanted.settings
    if checkpoint.block_size and not wanted.own_block_size:
        settings = replace(settings, block_size=checkpoint.block_size)
    lane = Lane("api", wanted.checkpoint, wanted.decoder, checkpoint, settings=settings, prompt_tokens=len(ids))
    control = live.control(settings.threshold, settings.score)
    control.trace = wanted.trace
    records = start(checkpoint, wanted.decoder, ids, settings, control, runner.queue.places)
    for _ in _now_and_then(passes(lane, records, runner.queue), now):
        yield {"state": "running", "sentence": "Writing.", "text": lane.text, "counts": _counts(lane)}
    lane.end()
    stopped = lane.finish_reason == "cancelled"
    wrote = f"{lane.tally.tokens} tokens in {lane.tally.passes} passes."
    yield {
        "state": "stopped" if stopped else "done",
        "sentence": f"Stopped: {wrote}" if stopped else f"Done: {wrote}",
        "text": lane.text,
        "finish_reason": lane.finish_reason,
        "counts": _counts(lane),
        "checkpoint": lane.title,
        "decoder": lane.decoder,
        "settings": asdict(lane.settings),
        "prompt_tokens": len(ids),
        "records": [asdict(record) for record in lane.records],
    }


def _counts(lane: Lane) -> dict[str, float]:
    names = ("tokens", "passes", "tokens_per_forward", "seconds", "tokens_per_second")
    return {name: getattr(lane.tally, name) for name in names}


def _now_and_then(events: Iterator[Any], now: Callable[[], float]) -> Iterator[Any]:
    """All events that are not None, and one None a second."""
    due = now() + PROGRESS_SECONDS
    for event in events:
        if event is not None or now() >= due:
            yield event
            due = now() + PROGRESS_SECONDS
