"""torch's worker threads on a CPU, which are libgomp's: a few for each thread that has computed, as long as it lives.

Once a process has more of them than cores, libgomp lets no worker spin until the next product comes: it sleeps and has
to be woken. A pass of SmolLM2 has some 200 products, and took 29 ms instead of 17. So a process that makes passes in
several threads lets one of them make all (`compute`), and a thread that only loads lets its workers go.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch

Result = TypeVar("Result")
_SOFT = 1  # omp_pause_soft
_NAME = "mars-compute"


@cache
def libgomp() -> ctypes.CDLL | None:
    """The library of torch's threads; None where torch has another one."""
    return next((ctypes.CDLL(str(path)) for path in Path(torch.__file__).parent.glob("lib/libgomp*")), None)


def release() -> None:
    """End the workers of the calling thread; its next product starts new ones."""
    library = libgomp()
    if library is not None and hasattr(library, "omp_pause_resource_all"):
        library.omp_pause_resource_all(_SOFT)


def compute(device: torch.device, function: Callable[[], Result]) -> Result:
    """The result of a function, which on a CPU one thread runs for all others but the main thread, which runs its own.

    The function must not wait for another that is to run there.
    """
    here = threading.current_thread()
    if device.type != "cpu" or here is threading.main_thread() or here.name.startswith(_NAME):
        return function()
    return _thread().submit(function).result()


def computed(device: torch.device, steps: Iterator[Result]) -> Iterator[Result]:
    """The same steps, each of them and the end made by `compute`."""
    try:
        while (result := compute(device, lambda: next(steps, None))) is not None:
            yield result
    finally:
        if isinstance(steps, Generator):
            compute(device, steps.close)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, _NAME)
