"""Runs on a ZeroGPU Space: each in a function that `spaces.GPU` calls in a process that has a GPU for so long.

That process has copies of all arguments. Through memory that both share it reads what a visitor changes meanwhile: τ,
*Stop*, and how many steps the page has taken. It waits for the page, or τ would act on a text that is written already,
but no longer than the GPU was asked for.
"""

import math
import threading
import time
from collections.abc import Iterator
from functools import cache
from multiprocessing.sharedctypes import RawArray
from queue import SimpleQueue
from typing import Any

import gradio as gr
import spaces

from app.compare.event_stream import Step
from app.compare.runner import Keep, Runner, Write, explained
from app.models.manager import Models
from app.models.placement import Loader, read_libraries
from app.runs.run import Run
from app.scheduling import AdmissionQueue, LiveRun, Sessions

START_SECONDS, PASS_SECONDS, MOST_SECONDS = 30.0, 0.02, 120.0
"""An estimate of what a run costs: to load and warm up its models, and for a pass; and the most that is asked for."""
SPARE_SECONDS = 5.0
AHEAD = 2
POLL_SECONDS = 0.002
TAU, STOPPED, TAKEN = range(3)
_shared = [RawArray("d", 3) for _ in range(64)]  # made before any process is forked, which then has it too
_free: SimpleQueue[int] = SimpleQueue()
for _place in range(len(_shared)):
    _free.put(_place)


def seconds_of(place: int, most_passes: int, *_: object) -> int:
    """The seconds that a GPU is asked for; the arguments are those of `written`."""
    return math.ceil(min(START_SECONDS + PASS_SECONDS * most_passes, MOST_SECONDS))


@spaces.GPU(duration=seconds_of)
def written(
    place: int, most_passes: int, sources: tuple[tuple[str, str], ...], write: Write, keep: Keep | None, identity: str
) -> Iterator[Step | Run | None]:
    """The steps of a run, and last the run that `keep` makes."""
    shared, over = _shared[place], threading.Event()
    until = time.monotonic() + seconds_of(place, most_passes) - SPARE_SECONDS
    runner = _runner(sources)
    live = LiveRun(runner.queue.join(), _tau(shared[TAU]))

    def follow() -> None:
        while not over.wait(POLL_SECONDS):
            live.slider.threshold = _tau(shared[TAU])
            if shared[STOPPED]:
                live.stop()

    threading.Thread(target=follow, daemon=True).start()
    try:
        for number, step in enumerate(explained(write(runner, identity, live))):
            yield step
            while number - shared[TAKEN] > AHEAD and not shared[STOPPED] and time.monotonic() < until:
                time.sleep(POLL_SECONDS)
        yield keep(identity) if keep else None
    finally:
        over.set()
        live.stop()


@cache
def _runner(sources: tuple[tuple[str, str], ...]) -> Runner:
    """The runner of the process with the GPU; its models stay loaded, since later runs may get the same process."""
    return Runner(Models(dict(sources), Loader("auto", 1)), AdmissionQueue(), Sessions())


def _tau(value: float) -> float | None:
    return None if math.isnan(value) else value


class ZeroRunner(Runner):
    """A runner without models: every run is written by `written`. It must be started in an event of Gradio's queue."""

    elsewhere = True

    def __init__(self, *parts: Any) -> None:
        read_libraries()  # before any process is forked
        super().__init__(*parts)

    def begin(self, session: str, live: LiveRun, write: Write, most_passes: int, keep: Keep | None = None) -> str:
        """As in a runner with models, but `write` and `keep` are called where the GPU is."""
        runs = list[Run | None]()

        def steps(runner: Runner, identity: str, live: LiveRun) -> Iterator[Step]:
            place, over = _free.get(), threading.Event()
            shared = _shared[place]
            shared[:] = [math.nan, 0, 0]

            def tell() -> None:
                tau = live.slider.threshold
                shared[TAU], shared[STOPPED] = math.nan if tau is None else tau, live.stopped

            def follow() -> None:
                while not over.wait(POLL_SECONDS):
                    tell()

            tell()
            following = threading.Thread(target=follow, daemon=True)
            following.start()
            try:
                sources = tuple(self.models.sources.items())
                for item in written(place, most_passes, sources, write, keep, identity):
                    if isinstance(item, Step):
                        shared[TAKEN] += 1
                        yield item
                    else:
                        runs.append(item)
            except gr.Error as error:  # no GPU, or no quota left: for the visitor
                raise ValueError(str(error.message)) from None
            finally:
                over.set()
                following.join()
                _free.put(place)

        return super().begin(session, live, steps, most_passes, lambda _: runs[0] if runs else None)
