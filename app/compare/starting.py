"""Starts a decoder on a prompt: checks that the prompt fits, shares passes where it can, takes turns on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.models.placement import on
from app.runs.run import Turn
from app.scheduling.admission import AdmissionQueue
from mars import decoders
from mars.config import DecodingSettings
from mars.control import Control
from mars.records import ForwardPass
from mars.schema import shown

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint


MOST_ROWS = 16
AHEAD = 1  # who looks on slowly decides about the pass after the next


def prompt_ids(checkpoint: Checkpoint, prompt: str, max_new_tokens: int, earlier: Sequence[Turn] = ()) -> list[int]:
    """Token ids of the prompt with the turns before it.

    Raises:
        ValueError: with the numbers, when prompt and answer do not fit the context.
    """
    messages = [
        message
        for turn in earlier
        for message in ({"role": "user", "content": turn.prompt}, {"role": "assistant", "content": turn.answer})
    ]
    ids = checkpoint.encode_chat([*messages, {"role": "user", "content": prompt}])
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
    """The records of this run, each computed when the caller asks for it, or one pass earlier.

    Runs on the same checkpoint share their passes where the decoder can; `places` is the most runs at once. `number`
    counts the lanes of one run on this checkpoint: these share its weights but no pass, since each has its own clock.

    Raises:
        ValueError: one sentence: there is no such decoder, or it cannot run so.
    """
    from mars.decoding import DECODERS, METHODS  # late: they read torch, and the page is up before that
    from mars.decoding.service import LONGEST, service_of
    from mars.engine.workers import computed
    from mars.serve.remote import RemoteCheckpoint, records

    if decoder not in decoders.TABLE:
        raise ValueError(f"The decoder must be one of {decoders.names()}, got {shown(decoder)}.")
    if isinstance(checkpoint, RemoteCheckpoint):
        return records(checkpoint, decoder, ids, settings, control)
    if decoder in METHODS and settings.use_cache and len(ids) + settings.max_new_tokens <= LONGEST:
        service = service_of(checkpoint.engine, min(places, MOST_ROWS), number)
        return service.submit(decoder, ids, settings, control, AHEAD)
    return computed(checkpoint.engine.device, DECODERS[decoder](checkpoint.engine, [ids], settings, control))


def is_shared(records: Iterator[ForwardPass]) -> bool:
    """True if another run took part in any pass of this one so far: its seconds then count that run's work too."""
    return bool(getattr(records, "shared", False))


@contextmanager
def device_lock(checkpoint: Checkpoint, queue: AdmissionQueue) -> Iterator[None]:
    """A context that holds the device of this checkpoint for one pass; runs get it in turn."""
    where = checkpoint.place
    with queue.lock(where), on(where):
        yield
