"""How torch's own threads run a compiled function: others would wait for them, since they spin between calls."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from mars.engine.workers import libgomp

# Addresses with which the record of a call begins: functions that give the number of a thread, and how many threads
# there are, and a barrier for all of them.
THREADS = [("number", "i8"), ("count", "i8"), ("barrier", "i8")]


@dataclass(frozen=True, slots=True)
class Openmp:
    """The library of torch's threads, and the addresses of `THREADS`."""

    parallel: Any
    addresses: tuple[int, int, int]

    def run(self, function: int, record: np.ndarray[Any, Any]) -> None:
        """Have all of torch's threads run a function, which gets the address of the record.

        OpenMP may grant fewer (OMP_THREAD_LIMIT, OMP_DYNAMIC, another parallel region around this one), so the function
        must ask for their count.
        """
        for (name, _), address in zip(THREADS, self.addresses, strict=True):
            record[name] = address
        self.parallel(function, record.ctypes.data, torch.get_num_threads(), 0)


@cache
def openmp() -> Openmp | None:
    """That of torch's library of threads; None where it has another one."""
    library = libgomp()
    if library is None:
        return None
    library.GOMP_parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    functions = library.omp_get_thread_num, library.omp_get_num_threads, library.GOMP_barrier
    number, count, barrier = (int(ctypes.cast(each, ctypes.c_void_p).value or 0) for each in functions)
    return Openmp(library.GOMP_parallel, (number, count, barrier))
