"""Starts decoders on a prompt; each has the clock of its own passes, and the one behind makes the next pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from app.compare.lane import Lane
from app.models.placement import on
from app.runs.run import Turn
from app.scheduling import AdmissionQueue
from mars import decoders
from mars.config import DecodingSettings
from mars.control import Control
from mars.records import ForwardPass
from mars.schema import shown

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

MOST_ROWS = 16
SHARED = " Other runs shared some passes, so these seconds count their work too."
AHEAD = 1  # who looks on slowly decides about the pass after the next


def prompt_ids(
    checkpoint: Checkpoint, prompt: str, max_new_tokens: int, earlier: Sequence[Turn] = (), answer_prefix: str = ""
) -> list[int]:
    """Token ids of earlier turns, the prompt and the beginning of the answer; ValueError if they are too many."""
    messages = [
        message
        for turn in earlier
        for message in ({"role": "user", "content": turn.prompt}, {"role": "assistant", "content": turn.answer})
    ]
    ids = checkpoint.encode_chat([*messages, {"role": "user", "content": prompt}])
    ids += checkpoint.encode_text(answer_prefix) if answer_prefix else []
    room = checkpoint.engine.context_length - max_new_tokens
    if len(ids) > room:
        what, instead = ("conversation", "Press Run to start afresh") if earlier else ("prompt", "Shorten it")
        raise ValueError(
            f"The {what} is {len(ids):,} tokens long for {checkpoint.name}; with {max_new_tokens} new tokens at most "
            f"{max(0, room):,} fit its context. {instead} or lower the length limit."
        )
    return ids


def start(
    checkpoint: Checkpoint,
    decoder: str,
    ids: list[int],
    settings: DecodingSettings,
    control: Control,
    places: int,
    number: int = 0,
) -> Iterator[ForwardPass]:
    """The records of this run, each computed on demand or one pass earlier; ValueError if the decoder cannot run so.

    Runs on the same checkpoint share their passes where the decoder can; `places` is the most runs at once. `number`
    counts the lanes of one run on this checkpoint: these share its weights but no pass, since each has its own clock.
    """
    from mars.decoding import DECODERS, METHODS  # late: they read torch, and the page is up before that
    from mars.decoding.service import MOST_TOKENS, service_of
    from mars.engine.workers import computed
    from mars.serve.remote import RemoteCheckpoint, records

    if decoder not in decoders.TABLE:
        raise ValueError(f"The decoder must be one of {decoders.names()}, got {shown(decoder)}.")
    if isinstance(checkpoint, RemoteCheckpoint):
        return records(checkpoint, decoder, ids, settings, control)
    if decoder in METHODS and len(ids) + settings.max_new_tokens <= MOST_TOKENS:
        service = service_of(checkpoint.engine, min(places, MOST_ROWS), number)
        return service.submit(decoder, ids, settings, control, AHEAD)
    return computed(checkpoint.engine.device, DECODERS[decoder](checkpoint.engine, [ids], settings, control))


def is_shared(records: Iterator[ForwardPass]) -> bool:
    """True if another run took part in any pass of this one so far: its seconds then count that run's work too."""
    return bool(getattr(records, "shared", False))


@contextmanager
def device_lock(checkpoint: Checkpoint, queue: AdmissionQueue) -> Iterator[None]:
    """A context that holds the device of this checkpoint for one pass; runs get it in turn. One elsewhere has none."""
    from mars.serve.remote import RemoteCheckpoint

    where = checkpoint.place
    with nullcontext() if isinstance(checkpoint, RemoteCheckpoint) else queue.lock(where), on(checkpoint.engine.device):
        yield


def race(
    lanes: Mapping[str, Iterator[ForwardPass]], turn: Callable[[str], AbstractContextManager[object]] = nullcontext
) -> Iterator[tuple[str, ForwardPass | None, float]]:
    """Step the decoders of these lanes so that all lanes stay at about the same model time; ties go to the first lane.

    Yields a lane, its pass or None at its end, and its own model time, this pass included.

    Each step runs in the context `turn(lane)`, the lock of its device, so that several races share it pass by pass.
    All decoders are closed when the race ends, fails, or is abandoned.
    """
    clocks = dict.fromkeys(lanes, 0.0)
    try:
        while clocks:
            lane = min(clocks, key=clocks.__getitem__)
            with turn(lane):
                record = next(lanes[lane], None)
            clocks[lane] += record.seconds if record else 0.0
            yield lane, record, clocks[lane]
            if record is None:
                del clocks[lane]
    finally:
        for records in lanes.values():
            if close := getattr(records, "close", None):  # a generator's, or that of a stream of a service
                close()


def passes(lane: Lane, records: Iterator[ForwardPass], queue: AdmissionQueue) -> Iterator[None]:
    """Run the lane to its end and yield None after each pass; closing this generator ends it early."""
    for _, record, _ in race({lane.key: records}, lambda _: device_lock(lane.checkpoint, queue)):
        if record is not None:
            lane.add(record)
            yield None
