"""Loads each checkpoint and warms it up."""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from mars.garbage import gc_frozen

if TYPE_CHECKING:
    from mars.checkpoint import Checkpoint

WARM_UP_PROMPT, WARM_UP_TOKENS = "What makes a good story?", 8
_one_at_a_time = threading.Lock()
_whole = threading.Event()


def read_libraries() -> None:
    """Import torch, transformers and what is built on them; waits while another thread does so.

    Two threads that import them at once can find them half imported: transformers replaces its own module meanwhile. A
    thread that may run before any checkpoint is loaded must call this before its first late import.
    """
    with _one_at_a_time:
        if _whole.is_set():
            return
        with gc_frozen():
            import mars.checkpoint.checkpoint
            import mars.decoding.service
            import mars.provenance
            import mars.serve.remote  # noqa: F401
            from mars import decoders

            for decoder in decoders.TABLE.values():
                decoders.load(decoder.function)
        _whole.set()


class Loader:
    """Loads a checkpoint and warms it up; without `threads` a core is left to the page. The rest is for adapters."""

    def __init__(
        self, device: str, threads: int | None = None, *, base: str | None = None, allow_other_base: bool = False
    ) -> None:
        self._device = device
        self._threads = threads
        self._base: dict[str, Any] = {"base": base, "allow_other_base": allow_other_base}
        self._told: dict[str, str] = {}

    def __call__(self, source: str) -> Checkpoint:
        """The checkpoint of this source; CheckpointError with one sentence if it cannot be loaded."""
        read_libraries()
        import torch

        from mars.checkpoint import load_checkpoint
        from mars.serve import remote

        if remote.is_address(source):
            return remote.connect(source)
        torch.set_num_threads(self._threads or spare_threads(torch.get_num_threads()))
        try:
            tell = partial(self._tell, source)
            checkpoint = load_checkpoint(source, device=self._device, progress=tell, **self._base)
        finally:
            self._told.pop(source, None)
        with on(self._device):
            _warm_up(checkpoint)
        return checkpoint

    def told(self, source: str) -> str:
        """The current step of loading this source and its progress; nothing while its weights are loaded."""
        return self._told.get(source, "")

    def _tell(self, source: str, sentence: str, share: float) -> None:
        self._told[source] = f"{sentence}, {int(share * 20) * 5} %" if share < 1 else ""


def spare_threads(usual: int) -> int:
    """The number of threads that leaves one core to the page and its server; `usual` if `OMP_NUM_THREADS` is set.

    The threads of a pass wait for one another: if a browser draws on the core of one, all of them wait.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return usual if "OMP_NUM_THREADS" in os.environ else max(1, min(usual, cores - 1))


def on(device: object) -> AbstractContextManager[object]:
    """A context in which work for this torch device is timed and captured there; for the CPU it does nothing."""
    if not str(device).startswith("cuda"):
        return nullcontext()
    import torch

    return torch.cuda.device(torch.device(str(device)))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device, or this machine, has no room left."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in said or "can't allocate memory" in said


def release() -> None:
    """Free the memory of the devices that is no longer in use."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _warm_up(checkpoint: Checkpoint) -> None:
    """Decode a little, so that no lane has the slow first calls; `auto` times the first passes, which have no masks."""
    from mars.config import DecodingSettings
    from mars.decoders import BASELINE, EXACT, USUAL
    from mars.decoding import DECODERS
    from mars.engine.workers import computed

    prompt = checkpoint.encode(WARM_UP_PROMPT)
    room = max(1, min(WARM_UP_TOKENS, checkpoint.engine.context_length - len(prompt)))
    settings = DecodingSettings(block_size=max(2, checkpoint.usual_block_size), max_new_tokens=room, window="auto")
    for name in (BASELINE, USUAL, EXACT) if checkpoint.supports_masks else (BASELINE,):
        for _ in computed(checkpoint.engine.device, DECODERS[name](checkpoint.engine, [prompt], settings)):
            pass
