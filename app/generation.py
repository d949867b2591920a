"""One answer of one checkpoint, for programs: the same places, turns and limits as the page's runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from app import stream
from app.device import Device
from app.lane import Lane
from app.limits import Limits
from app.race import LanePass, race
from app.runner import Runner
from app.runs.checks import mapping, shown, text
from app.runs.lane_records import lane_settings
from app.sentences import failure
from app.sessions import LiveRun
from app.starting import prompt_ids, start, turn
from mars.config import DecodingSettings
from mars.records import ForwardPass

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

PROGRESS_SECONDS = 1.0
LONGEST_NAME = 200
_log = logging.getLogger(__name__)

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a program asks for, checked. Without `own_block_size` the block size is the one of the checkpoint."""

    prompt: str
    checkpoint: str
    decoder: str
    settings: DecodingSettings
    draft: str | None = None
    own_block_size: bool = False

    @classmethod
    def of(cls, limits: Limits, given: Mapping[str, Any], settings: object) -> Wanted:
        """From the parameters of the call and the further `settings`, which name fields of `DecodingSettings`.

        Raises:
            ValueError: one sentence that names what is wrong and what is allowed.
        """
        further = mapping({} if settings is None else settings, "settings")
        named = {name: given[name] for name in ("threshold", "max_new_tokens", "seed")}
        named |= {} if given["block_size"] is None else {"block_size": given["block_size"]}
        if twice := sorted(named.keys() & further.keys()):
            raise ValueError(f"settings must not repeat {', '.join(twice)}: give it as a parameter")
        limits.check_length(named["max_new_tokens"])
        checked = lane_settings({**further, **named}, "settings")
        draft = given["draft"]
        return cls(
            prompt=limits.check_prompt(given["prompt"]),
            checkpoint=text(given["checkpoint"], "checkpoint", LONGEST_NAME),
            decoder=text(given["decoder"], "decoder", LONGEST_NAME),
            settings=checked,
            draft=None if draft is None else text(draft, "draft", LONGEST_NAME),
            own_block_size="block_size" in named,
        )


def generate(
    runner: Runner,
    session: str,
    wanted: Wanted,
    now: Callable[[], float] = time.monotonic,
    finish: Callable[[Lane], Answer] | None = None,
) -> Iterator[Answer]:
    """What is known of the answer about once a second, so that a caller who has gone is noticed; last, the whole.

    `finish` makes something else of the lane that is over than the whole answer.

    Raises:
        ValueError: one sentence: the line is full, the session has a run already, or the run cannot be made.
    """
    settings = wanted.settings
    live = LiveRun(runner.device.join(), settings.threshold)
    if not runner.sessions.begin_alone(session, live):
        live.stop()
        raise ValueError("This session has a run already: wait for its end, or use another client")
    try:
        names = [wanted.checkpoint, *([wanted.draft] if wanted.draft else [])]
        told: stream.Message = stream.state("queued", "Waiting for the device.")
        for news in _now_and_then(runner.ready(names, live), now):
            told = news or told
            yield {"state": told["state"], "sentence": told["sentence"]}
        with ExitStack() as stack:
            checkpoint, *draft = [stack.enter_context(runner.models.use(name)) for name in names]
            lane = yield from _write(runner, _paired(wanted.decoder, checkpoint, *draft), wanted, live, now)
            yield (finish or _whole)(lane)
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, the caller gets a sentence
        _log.exception("a run failed")
        raise ValueError(failure(error)) from None
    finally:
        runner.sessions.end(session, live)


def _write(
    runner: Runner, checkpoint: Checkpoint, wanted: Wanted, live: LiveRun, now: Callable[[], float]
) -> Generator[Answer, None, Lane]:
    ids = prompt_ids(checkpoint, wanted.prompt, wanted.settings.max_new_tokens)
    settings = wanted.settings
    if checkpoint.block_size and not wanted.own_block_size:
        settings = replace(settings, block_size=checkpoint.block_size)
    lane = Lane("api", wanted.checkpoint, wanted.decoder, checkpoint, settings=settings, prompt_tokens=len(ids))
    control = live.control(settings.threshold, settings.score)
    records = start(checkpoint, wanted.decoder, ids, settings, control, runner.device.places)

    for _ in _now_and_then(_passes(lane, records, runner.device), now):
        yield {"state": "running", "sentence": "Writing.", "text": lane.text, "counts": _counts(lane)}
    lane.end()
    return lane


def _passes(lane: Lane, records: Iterator[ForwardPass], device: Device) -> Iterator[None]:
    """Run the lane to its end, one pass for each None; leaves in the middle when it is closed."""
    for event in race({lane.key: records}, lambda _: turn(lane.checkpoint, device)):
        if isinstance(event, LanePass):
            lane.add(event.record)
            yield None


def _whole(lane: Lane) -> Answer:
    stopped = lane.finish_reason == "cancelled"
    wrote = f"{lane.tally.tokens} tokens in {lane.tally.passes} passes."
    return {
        "state": "stopped" if stopped else "done",
        "sentence": f"Stopped: {wrote}" if stopped else f"Done: {wrote}",
        "text": lane.text,
        "finish_reason": lane.finish_reason,
        "counts": _counts(lane),
        "checkpoint": lane.title,
        "decoder": lane.decoder,
        "settings": asdict(lane.settings),
        "prompt_tokens": lane.prompt_tokens,
        "records": [asdict(record) for record in lane.records],
    }


def _counts(lane: Lane) -> Answer:
    tally = lane.tally
    return {
        "tokens": tally.tokens,
        "passes": tally.passes,
        "tokens_per_forward": tally.tokens_per_forward,
        "seconds": tally.seconds,
        "tokens_per_second": tally.tokens_per_second,
    }


def _paired(decoder: str, target: Checkpoint, draft: Checkpoint | None = None) -> Checkpoint:
    if draft is None:
        return target
    from mars.loading import DRAFTED, paired

    if decoder != DRAFTED:
        raise ValueError(f"draft is for the decoder {DRAFTED}, got {shown(decoder)}")
    return paired(target, draft)


def _now_and_then(events: Iterator[Any], now: Callable[[], float]) -> Iterator[Any]:
    """The events that say something, and of the others one a second."""
    due = now() + PROGRESS_SECONDS
    for event in events:
        if event is not None or now() >= due:
            yield event
            due = now() + PROGRESS_SECONDS
